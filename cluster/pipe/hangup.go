package pipe

import (
	"errors"
	"log/slog"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe/owned"
)

// This file ends connections.

// hangUp closes the connection from this side. Closed follows, perhaps before it returns, and knows why by
// p.why. It does nothing without a connection.
func (p *Pipe) hangUp(why error) {
	if p.conn == nil {
		return
	}
	if p.why == nil && errors.Is(why, cluster.ErrFraming) {
		p.counts.garbled.Add(1)
		p.stats.garbled.Write(p.o.Log, slog.LevelWarn, "node breaks the protocol", "node", p.addr,
			"requests", p.calls.len(), "err", why)
	}
	p.why = why
	p.conn.Close()
}

// EOF implements loop.HalfCloser: what the node has said before its end is passed on, though nothing was read
// because a client took nothing.
func (p *Pipe) EOF() bool {
	if p.Paused() {
		p.conn.Resume()
	}
	return false
}

// Closed implements loop.Handler. What is owed is settled here: a connection of one client ends with it, a
// shared one is made again when it is needed.
func (p *Pipe) Closed(err error) {
	p.conn = nil
	if p.crowded > 0 {
		p.home.crowd(p, 0)
	}
	if p.why != owned.ErrReleased && p.why != errIdle { // the node may have restarted
		p.home.restarted(p.addr)
	}
	// Only then does the next connection have to end this one at the node.
	p.self.Owed = p.calls.len() > 0
	p.counts.up.Add(-1)
	if p.why != nil {
		err = p.why
	}
	if p.Conn != nil {
		// The node has closed it, or hangs: it may be a master no more.
		if p.why == nil && !p.Ended() || p.why == errSilent {
			p.Refresh()
		}
		p.Failed(err)
		return
	}
	if err == errIdle || err == errUnfit && p.calls.len() == 0 {
		return
	}
	if !p.closed && err != owned.ErrReleased {
		if p.calls.len() > 0 {
			p.felt.Feel(p.addr, cluster.Felt{Connections: 1, Err: err})
		}
		p.o.Log.Debug("connection to node lost", "node", p.addr, "err", err, "requests", p.calls.len())
	}
	p.Refresh()
	p.home.abandonRequests(p, err)
}
