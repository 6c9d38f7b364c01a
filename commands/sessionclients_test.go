package commands_test

import (
	"fmt"
	"slices"
	"time"

	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// fakeClientsState is what a Session implements Clients and Connection with: its client, and others.
type fakeClientsState struct {
	Others []*commands.Peer // besides the client itself
	Closed []int64          // by visits
	pause  commands.Pause
	until  time.Time
	reset  bool
	set    []commands.Replies // by SetReplies
}

// fakeClients implements Clients.
type fakeClients struct{ f *session }

func (f *session) Clients() commands.Clients { return fakeClients{f} }

func (c fakeClients) Self() *commands.Peer {
	f := c.f
	p := &commands.Peer{Client: &f.User, FD: 8, Query: len(f.call.Raw)}
	if f.call.Command != nil {
		p.Command = f.call.Command.Name
	}
	for _, arg := range f.call.Args {
		p.Args += len(arg)
	}
	return p
}

func (c fakeClients) Each(ids []int64, visit func(p *commands.Peer) []byte,
	then func(seen []commands.SeenClient) []byte) {
	f := c.f
	all := append([]*commands.Peer{c.Self()}, f.Peers.Others...)
	*f.call = commands.Call{}
	slices.SortFunc(all, func(a, b *commands.Peer) int { return int(a.ID - b.ID) })
	var seen []commands.SeenClient
	for _, p := range all {
		if ids != nil && !slices.Contains(ids, p.ID) {
			continue
		}
		if text := visit(p); text != nil {
			seen = append(seen, commands.SeenClient{ID: p.ID, Text: text})
		}
		if p.Close {
			f.Peers.Closed = append(f.Peers.Closed, p.ID)
		}
	}
	f.Reply(then(seen))
}

func (c fakeClients) Pause(until time.Time, kind commands.Pause, reply []byte) {
	f := c.f
	f.Peers.until, f.Peers.pause = until, kind
	f.Reply(reply)
}

func (c fakeClients) Unpause(reply []byte) {
	c.f.Peers.pause = commands.PauseNone
	c.f.Reply(reply)
}

// Unblock implements Clients.
func (c fakeClients) Unblock(id int64, withError bool) {
	c.f.Reply(fmt.Appendf(nil, "+%d %t\r\n", id, withError))
}

type fakeTracker struct{ f *session }

func (f *session) Tracker() commands.Tracker { return fakeTracker{f} }

// Track implements Tracker: the upstream tracks at once. Clients with an id below 100 are connected.
func (t fakeTracker) Track(next commands.Tracking, prefixes []string) {
	f := t.f
	f.User.Tracking = next
	for _, req := range next.Requests(prefixes, 42) {
		f.Request(0, req)
	}
	f.Reply(resp.OK)
}

func (t fakeTracker) Untrack() { t.f.User.Tracking = commands.Tracking{} }

func (c fakeClients) Connected(id int64) bool { return id > 0 && id < 100 }
