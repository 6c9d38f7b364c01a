package pipe

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/loop"
)

// This file gives up connections that something between here and their node has forgotten, as a firewall does
// that was replaced: what is sent on them is lost, nobody says so, and new connections work. Silence alone
// does not show it: a node may hold a reply back (CLIENT PAUSE, a fail-over, a module) while it answers
// others. So a fresh connection asks what the node has to do for the silent ones:
//
//	lateness.lookForLate: silent --> dial, CLIENT LIST ID ..., and again --> nothing, or the kernel
//	has sent the request again and again without an answer --> hang up
//
// All loops of a proxy ask together (inquiries), so that a node in trouble gets one connection of it more.
//
// It costs nothing while replies come. As long as a silence lasts, its node is asked again each time that it
// has doubled.

const (
	// forgottenMost is how many pipes of one loop a question is about.
	forgottenMost = 64
	// forgottenProbe is how soon the kernel gives up the other connections, which wait for nothing, or for a
	// command that blocks, if they are forgotten too.
	forgottenProbe = 3 * time.Second
)

// forgotten asks nodes about silent pipes.
type forgotten struct {
	*env
	ctx    context.Context // ends with the pool, by end
	end    context.CancelFunc
	asking map[string]bool // by address: nodes that are asked now
	mute   map[string]bool // by address: nodes that do not tell (ErrUntold), so that only the kernel can
}

func newForgotten(e *env) forgotten {
	f := forgotten{env: e, asking: make(map[string]bool), mute: make(map[string]bool)}
	f.ctx, f.end = context.WithCancel(context.Background())
	return f
}

// silent is a pipe as it was when its node was asked.
type silent struct {
	*Pipe
	conn     *loop.Conn
	progress time.Time
	id, addr string // of the connection; or "": unknown
}

// askDue says that the node of p should be asked about it. The first time it is so after SilentLong.
func (f *forgotten) askDue(p *Pipe, now time.Time) bool {
	if p.Patient() || f.asking[p.addr] || !f.owesLong(p, now) {
		return false
	}
	before := p.asked.Sub(p.progress) // when it was asked in this silence
	return before < 0 || now.Sub(p.progress) >= 2*before
}

// owesLong says that p has owed a reply for long. Where this side is at fault, because it sends or reads
// nothing, it does not.
func (f *forgotten) owesLong(p *Pipe, now time.Time) bool {
	return p.conn != nil && p.calls.Len() > 0 && now.Sub(p.progress) >= cluster.SilentLong &&
		!p.stream.starves() && !p.Paused()
}

// askAbout asks the node at addr about all its pipes that are silent.
func (f *forgotten) askAbout(addr string, now time.Time) {
	var all []silent
	var ids []string
	for _, p := range f.pipesTo(addr) {
		if !f.owesLong(p, now) || len(all) == forgottenMost {
			continue
		}
		s := silent{Pipe: p, conn: p.conn, progress: p.progress}
		if p.log.Written(p.calls.Head().size) && !f.mute[addr] {
			s.id, s.addr = nameOf(p)
		}
		switch {
		case s.id != "":
			ids = append(ids, s.id)
		case !s.conn.Unheard(): // nobody could tell
			continue
		}
		p.asked = now
		all = append(all, s)
	}
	if len(all) == 0 {
		return
	}
	f.asking[addr] = true
	l := f.loop
	f.stats.inquiries.putInquiry(f.ctx, f.control, f.o.ConnectTimeout, addr, connInquiry{ids,
		func(settled map[string]string, err error) {
			l.Post(func() { f.takeAnswer(addr, all, settled, err) })
		}})
}

// takeAnswer gives up the pipes of which the answer says that they are forgotten, if they are silent still.
// It runs on the loop. Anything that came meanwhile, and a connection that was made anew, makes the answer
// void.
func (f *forgotten) takeAnswer(addr string, all []silent, settled map[string]string, err error) {
	delete(f.asking, addr)
	if errors.Is(err, cluster.ErrUntold) {
		f.mute[addr], err = true, nil
		for _, s := range all { // from now on the kernel says when to ask
			s.asked = time.Time{}
		}
	}
	if err != nil || f.closed {
		return
	}
	n := 0
	for _, s := range all {
		at, idle := settled[s.id]
		idle = idle && (s.addr == "" || s.addr == at)
		if s.Pipe.conn == s.conn && s.Pipe.progress.Equal(s.progress) && (idle || s.conn.Unheard()) {
			s.hangUp(cluster.ErrForgotten)
			n++
		}
	}
	if n == 0 {
		return
	}
	f.o.Log.Warn("connections to a node were forgotten on the way: new ones work",
		"node", addr, "connections", n)
	for _, p := range f.pipesTo(addr) {
		if p.conn != nil {
			p.conn.Probe(forgottenProbe)
		}
	}
}

// nameOf is how the node calls the connection of p. "": that is not known. The id of a client's own
// connection comes without an address.
func nameOf(p *Pipe) (id, addr string) {
	switch {
	case p.Conn == nil:
		return p.self.ID, p.self.Addr
	case p.ClientID() != 0:
		return strconv.FormatInt(p.ClientID(), 10), ""
	}
	return "", ""
}

// pipesTo is all pipes to the node at addr.
func (f *forgotten) pipesTo(addr string) []*Pipe {
	return slices.DeleteFunc(f.pipes(), func(p *Pipe) bool { return p.addr != addr })
}
