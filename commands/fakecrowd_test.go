package commands

import (
	"slices"
	"time"
)

// fakeCrowd is what a fakeSession implements Crowd with: its client, and others.
type fakeCrowd struct {
	others []*Peer // besides the client itself
	closed []int64 // by visits
	pause  Pause
	until  time.Time
	reset  bool
	set    []Replies // by SetReplies
}

func (f *fakeSession) Self() *Peer {
	p := &Peer{Client: &f.client, FD: 8, Command: f.call.Command.Name, Query: len(f.call.Raw)}
	for _, arg := range f.call.Args {
		p.Args += len(arg)
	}
	return p
}

func (f *fakeSession) Everybody(ids []int64, visit func(p *Peer) []byte, then func(seen []Seen) []byte) {
	all := append([]*Peer{f.Self()}, f.crowd.others...)
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
			f.crowd.closed = append(f.crowd.closed, p.ID)
		}
	}
	f.Reply(then(seen))
}

func (f *fakeSession) PauseClients(until time.Time, kind Pause, reply []byte) {
	f.crowd.until, f.crowd.pause = until, kind
	f.Reply(reply)
}

func (f *fakeSession) UnpauseClients(reply []byte) {
	f.crowd.pause = PauseNone
	f.Reply(reply)
}

func (f *fakeSession) StartMonitor(reply []byte) {
	f.client.Monitoring = true
	f.Reply(reply)
}

func (f *fakeSession) SetReplies(r Replies) { f.crowd.set = append(f.crowd.set, r) }
func (f *fakeSession) ResetState()          { f.crowd.reset = true }
