package clients

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
)

// pause is a loop's part in CLIENT PAUSE.
type pause struct {
	Paused
	timer *time.Timer
	held  map[*PausedClient]struct{} // the clients that it holds
	next  uint64                     // place of the next one

	// FCALL does not say whether its function writes, so a node is asked once in each pause of
	// writes.
	readers map[string]bool // functions that do not write; nil: not known
	asking  bool            // a node was asked for the functions
}

// Pause implements commands.Clients.
func (c Commands) Pause(until time.Time, kind commands.Pause, reply []byte) {
	c.On.onEach(c.Host, func(l *Loop) { l.pauseClients(until, kind) }, reply)
}

// Unpause implements commands.Clients.
func (c Commands) Unpause(reply []byte) {
	c.On.onEach(c.Host, (*Loop).unpause, reply)
}

// pauseClients begins a pause, or makes the present one longer and wider, never shorter or narrower. So it is
// at Redis, where a second CLIENT PAUSE cannot cut the first one short.
func (l *Loop) pauseClients(until time.Time, kind commands.Pause) {
	p := &l.pause
	p.Kind = max(p.Kind, kind)
	if until.After(p.Until) {
		p.Until = until
	}
	l.endPause()
}

// endPause ends the pause if its time is over. Otherwise it will be called again. A timer may come early, or
// the pause may have been made longer meanwhile: so the time is compared again.
func (l *Loop) endPause() {
	l.pause.stopTimer()
	if left := l.pause.Until.Sub(time.Now()); left > 0 {
		l.pause.timer = l.After(left, l.endPause)
		if l.index == 0 {
			now := l.pause.Paused
			l.all.paused.Store(&now)
		}
		return
	}
	l.unpause()
}

// stopTimer withdraws the next endPause. One that has been posted already does no harm.
func (p *pause) stopTimer() {
	if p.timer != nil {
		p.timer.Stop()
	}
}

// unpause lets all held clients go. Their places and the clients themselves are kept, for releaseHeld takes
// some rounds; what was known of functions is not, since these may be other ones by the next pause.
func (l *Loop) unpause() {
	l.pause.stopTimer()
	l.pause = pause{next: l.pause.next, held: l.pause.held}
	if l.index == 0 {
		l.all.paused.Store(nil)
	}
	l.releaseHeld()
}

// PausedClient is one client's part in CLIENT PAUSE.
type PausedClient struct {
	h     client.Host
	on    *Loop
	place uint64 // its place among the clients that are held; 0: it is not held
}

// NewPause is that of a client of the loop.
func NewPause(h client.Host, on *Loop) PausedClient { return PausedClient{h: h, on: on} }

// Must says that a command must wait for the end of a pause. A client that may end the pause gets through,
// also over a new connection. args may be nil for a command that writes whatever they are.
func (p *PausedClient) Must(cmd *commands.Command, args [][]byte) bool {
	if cmd.Flags&(commands.EndsPause|commands.NoAuth) != 0 {
		return false
	}
	l := p.on
	if l.pause.Kind != commands.PauseWrites {
		return l.pause.Kind == commands.PauseAll
	}
	about := p.h.About()
	writes, ask := cmd.MayWrite(args, about.Transaction, l.all.Scripts)
	if ask {
		return !l.reads(args[1], about.ID)
	}
	return writes
}

// Begin makes the client wait before its next command. The command stays in the input, and is dispatched
// again when the hold ends.
func (p *PausedClient) Begin() {
	l := p.on
	l.pause.next++
	p.place = l.pause.next
	l.pause.held[p] = struct{}{}
	l.all.Held.Add(1)
	p.h.SetHold(client.HoldPause)
}

// End makes the client read on, if it waits.
func (p *PausedClient) End() {
	if p.place != 0 {
		p.place = 0
		delete(p.on.pause.held, p)
		p.on.all.Held.Add(-1)
		p.h.ClearHold(client.HoldPause)
	}
}

// releaseHeld dispatches the held commands again, in the order in which they came. They are dispatched again
// even if a new pause has begun meanwhile: then they are held again.
func (l *Loop) releaseHeld() {
	held := slices.SortedFunc(maps.Keys(l.pause.held), func(a, b *PausedClient) int {
		return cmp.Compare(a.place, b.place)
	})
	for _, p := range held {
		l.later.Run(p.End)
	}
}

// reads says that a function does not write. It is false while that is not known; once it is, the held
// commands are dispatched again. It never blocks: while a node is asked the command counts as one that
// writes, and is held.
func (l *Loop) reads(name []byte, id int64) bool {
	if p := &l.pause; p.readers == nil && !p.asking {
		p.asking = true
		list := resp.AppendCommandStrings(nil, "FUNCTION", "LIST")
		pipe.Ask(l.pool, pipe.ToSlot(l.pool.SomeSlot(id)), pipe.Mode{Proto: 2}, list, l.learnReaders)
	}
	return l.pause.readers[string(name)]
}

// learnReaders takes the reply of FUNCTION LIST; nil: there is none, and another FCALL asks again.
func (l *Loop) learnReaders(list []byte, _ error) {
	// The pause has ended meanwhile, and what it knew has been dropped.
	if !l.pause.asking {
		return
	}
	l.pause.asking = false
	if list == nil {
		return
	}
	if l.pause.readers = commands.FunctionsThatRead(list); len(l.pause.readers) > 0 {
		l.releaseHeld()
	}
}
