package proxy

import (
	"cmp"
	"maps"
	"slices"

	"lockproxy/commands"
	"lockproxy/proxy/client"
)

// clients is the clients of all loops, for a command of one of them; it implements commands.Clients.
type clients struct{ h clientsHost }

// clientsHost is the session of that command.
type clientsHost interface {
	host
	// self describes the session while its command runs.
	self() *commands.Peer
	close()
}

// listChunk is how many clients are visited before the loop serves others again.
const listChunk = 256

// visits collects what a command asks about all clients.
type visits struct {
	h       clientsHost
	tag     uint32
	self    *commands.Peer // the asking client, as it was when it asked
	visit   func(p *commands.Peer) []byte
	then    func(seen []commands.Seen) []byte
	seen    []commands.Seen
	missing int  // loops that have not answered
	leave   bool // the asking client itself must be closed
}

// Self implements commands.Clients.
func (c clients) Self() *commands.Peer { return c.h.self() }

// Connected implements commands.Clients.
func (c clients) Connected(id int64) bool {
	_, ok := c.h.worker().server.byID.Load(id)
	return ok
}

// Each implements commands.Clients.
func (c clients) Each(
	ids []int64,
	visit func(p *commands.Peer) []byte,
	then func(seen []commands.Seen) []byte,
) {
	c.h.AnswerLater(client.ByProxy)
	c.h.SetHold(client.HoldOrder)
	g := &visits{h: c.h, tag: c.h.CurrentTag(), self: c.h.self(), visit: visit, then: then}
	workers := c.h.worker().server.workers
	if ids == nil {
		g.missing = len(workers)
		for _, w := range workers {
			g.ask(w, func() []*session { return slices.Collect(maps.Keys(w.sessions)) })
		}
		return
	}
	wanted := make(map[*worker]map[int64]bool)
	for _, id := range ids {
		w := c.h.worker().server.workerOf(id)
		if wanted[w] == nil {
			wanted[w] = make(map[int64]bool)
		}
		wanted[w][id] = true
	}
	g.missing = len(wanted)
	if len(wanted) == 0 {
		g.h.Loop().Post(func() { g.arrived(nil) })
	}
	for w, ids := range wanted {
		g.ask(w, func() []*session { return w.those(ids) })
	}
}

// those returns the sessions with these ids.
func (w *worker) those(ids map[int64]bool) (all []*session) {
	for s := range w.sessions {
		if ids[s.ID] {
			all = append(all, s)
		}
	}
	return all
}

// ask visits the sessions that whom returns on the loop of w.
func (g *visits) ask(w *worker, whom func() []*session) {
	if !w.loop.Post(func() { g.some(w, whom(), nil) }) {
		g.arrived(nil) // the loop has ended, and its clients with it
	}
}

// some visits the first sessions, and posts the rest. It runs on the loop of w.
func (g *visits) some(w *worker, all []*session, seen []commands.Seen) {
	n := min(len(all), listChunk)
	var p commands.Peer
	for _, s := range all[:n] {
		if s.gone || s.conn.Over() {
			continue
		}
		asks := s.ID == g.self.ID
		if p = peerOf(s); asks {
			p = *g.self
		}
		if text := g.visit(&p); text != nil {
			seen = append(seen, commands.Seen{ID: s.ID, Text: text})
		}
		switch {
		case !p.Close:
		case asks:
			g.leave = true
		default:
			s.conn.Close()
		}
	}
	if rest := all[n:]; len(rest) > 0 {
		w.loop.Post(func() { g.some(w, rest, seen) }) // unless the loop has ended, and all clients with it
		return
	}
	g.h.Loop().Post(func() { g.arrived(seen) })
}

// arrived takes the result of one loop. The last one answers the command.
func (g *visits) arrived(seen []commands.Seen) {
	g.seen = append(g.seen, seen...)
	if g.missing--; g.missing > 0 {
		return
	}
	slices.SortFunc(g.seen, func(a, b commands.Seen) int { return cmp.Compare(a.ID, b.ID) })
	if g.leave && !g.h.Gone() {
		g.h.close()
	}
	g.h.Answer(g.tag, g.then(g.seen))
}

// onEach runs f on every loop, and after all of them then on the loop of h. Later commands of h wait.
func onEach(h host, f func(w *worker), then func()) {
	h.AnswerLater(client.ByProxy)
	h.SetHold(client.HoldOrder)
	here := h.worker()
	missing := len(here.server.workers)
	done := func() {
		if missing--; missing == 0 {
			then()
		}
	}
	for _, w := range here.server.workers {
		posted := w.loop.Post(func() {
			f(w)
			here.loop.Post(done)
		})
		if !posted { // the loop has ended
			done()
		}
	}
}
