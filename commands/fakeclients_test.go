package commands

import (
	"fmt"
	"slices"
	"time"

	"lockproxy/internal/resp"
)

// fakeClientsState is what a fakeSession implements Clients and Connection with: its client, and others.
type fakeClientsState struct {
	others []*Peer // besides the client itself
	closed []int64 // by visits
	pause  Pause
	until  time.Time
	reset  bool
	set    []Replies // by SetReplies
}

// fakeClients implements Clients.
type fakeClients struct{ f *fakeSession }

func (f *fakeSession) Clients() Clients { return fakeClients{f} }

func (c fakeClients) Self() *Peer {
	f := c.f
	p := &Peer{Client: &f.client, FD: 8, Command: f.call.Command.Name, Query: len(f.call.Raw)}
	for _, arg := range f.call.Args {
		p.Args += len(arg)
	}
	return p
}

func (c fakeClients) Each(ids []int64, visit func(p *Peer) []byte, then func(seen []Seen) []byte) {
	f := c.f
	all := append([]*Peer{c.Self()}, f.clients.others...)
	*f.call = Call{}
	slices.SortFunc(all, func(a, b *Peer) int { return int(a.ID - b.ID) })
	var seen []Seen
	for _, p := range all {
		if ids != nil && !slices.Contains(ids, p.ID) {
			continue
		}
		if text := visit(p); text != nil {
			seen = append(seen, Seen{p.ID, text})
		}
		if p.Close {
			f.clients.closed = append(f.clients.closed, p.ID)
		}
	}
	f.Reply(then(seen))
}

func (c fakeClients) Pause(until time.Time, kind Pause, reply []byte) {
	f := c.f
	f.clients.until, f.clients.pause = until, kind
	f.Reply(reply)
}

func (c fakeClients) Unpause(reply []byte) {
	c.f.clients.pause = PauseNone
	c.f.Reply(reply)
}

// Unblock implements Clients.
func (c fakeClients) Unblock(id int64, withError bool) {
	c.f.Reply(fmt.Appendf(nil, "+%d %t\r\n", id, withError))
}

type fakeTracker struct{ f *fakeSession }

func (f *fakeSession) Tracker() Tracker { return fakeTracker{f} }

// Track implements Tracker: the upstream tracks at once. Clients with an id below 100 are connected.
func (t fakeTracker) Track(next Tracking, prefixes []string) {
	f := t.f
	f.client.Tracking = next
	for _, req := range next.Requests(prefixes, 42) {
		f.ask(0, req)
	}
	f.Reply(resp.OK)
}

func (t fakeTracker) Untrack() { t.f.client.Tracking = Tracking{} }

func (c fakeClients) Connected(id int64) bool { return id > 0 && id < 100 }
