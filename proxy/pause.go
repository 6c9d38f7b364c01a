package proxy

import (
	"cmp"
	"slices"
	"time"

	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
)

// pause is a loop's part in CLIENT PAUSE. The clients that it holds know their places themselves (paused), so
// a client that leaves leaves nothing behind.
type pause struct {
	kind  commands.Pause
	until time.Time
	timer *time.Timer
	next  uint64 // place of the next client that is held

	readers map[string]bool // functions that do not write; nil: not known
	asking  bool            // a node was asked for the functions
}

// Pause implements commands.Clients.
func (c clients) Pause(until time.Time, kind commands.Pause, reply []byte) {
	tag := c.h.CurrentTag()
	onEach(c.h, func(w *worker) { w.pauseClients(until, kind) }, func() { c.h.Answer(tag, reply) })
}

// Unpause implements commands.Clients.
func (c clients) Unpause(reply []byte) {
	tag := c.h.CurrentTag()
	onEach(c.h, (*worker).unpause, func() { c.h.Answer(tag, reply) })
}

// pauseClients begins a pause, or makes the present one longer and wider, never shorter or narrower.
func (w *worker) pauseClients(until time.Time, kind commands.Pause) {
	p := &w.pause
	p.kind = max(p.kind, kind)
	if until.After(p.until) {
		p.until = until
	}
	w.endPause()
}

// endPause ends the pause if its time is over. Otherwise it will be called again.
func (w *worker) endPause() {
	w.pause.stop()
	if left := w.pause.until.Sub(time.Now()); left > 0 {
		w.pause.timer = w.loop.After(left, w.endPause)
		w.watch()
		if w.index == 0 {
			w.server.pause.Store(&pause{kind: w.pause.kind, until: w.pause.until})
		}
		return
	}
	w.unpause()
}

func (p *pause) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
}

func (w *worker) unpause() {
	w.pause.stop()
	w.pause = pause{next: w.pause.next}
	if w.index == 0 {
		w.server.pause.Store(nil)
	}
	w.watch()
	w.release()
}

// paused is one client's part in CLIENT PAUSE.
type paused struct {
	h     host
	place uint64 // its place among the clients that are held; 0: it is not held
}

// must says that a command must wait for the end of a pause. A client that may end the pause gets through,
// also over a new connection.
func (p *paused) must(cmd *commands.Command, args [][]byte) bool {
	if cmd.Flags&(commands.EndsPause|commands.NoAuth) != 0 {
		return false
	}
	w := p.h.worker()
	if w.pause.kind != commands.PauseWrites {
		return w.pause.kind == commands.PauseAll
	}
	about := p.h.About()
	writes, ask := cmd.MayWrite(args, about.Transaction, w.server.scripts)
	if ask {
		return !w.reads(args[1], about.ID)
	}
	return writes
}

// begin makes the client wait before its next command.
func (p *paused) begin() {
	w := p.h.worker()
	w.pause.next++
	p.place = w.pause.next
	w.server.held.Add(1)
	p.h.SetHold(client.HoldPause)
}

// end makes the client read on, if it waits.
func (p *paused) end() {
	if p.place != 0 {
		p.place = 0
		p.h.worker().server.held.Add(-1)
		p.h.ClearHold(client.HoldPause)
	}
}

// release dispatches the held commands again, in the order in which they came.
func (w *worker) release() {
	var all []*paused
	for s := range w.sessions {
		if s.pause.place != 0 {
			all = append(all, &s.pause)
		}
	}
	slices.SortFunc(all, func(a, b *paused) int { return cmp.Compare(a.place, b.place) })
	w.releaseSome(all)
}

// releaseSome releases a few clients and posts the rest.
func (w *worker) releaseSome(all []*paused) {
	n := min(len(all), listChunk)
	for _, p := range all[:n] {
		p.end()
	}
	if rest := all[n:]; len(rest) > 0 {
		w.loop.Post(func() { w.releaseSome(rest) })
	}
}

// reads says that a function does not write. It is false while that is not known; once it is, the held
// commands are dispatched again.
func (w *worker) reads(name []byte, client int64) bool {
	if p := &w.pause; p.readers == nil && !p.asking {
		p.asking = true
		list := resp.AppendCommandStrings(nil, "FUNCTION", "LIST")
		w.pool.Send(&pipe.Request{
			Target: pipe.ToSlot(w.pool.SomeSlot(client)), Mode: pipe.Mode{Proto: 2}, Bytes: list,
			To: &pipe.Collector{Then: w.listed}, Resend: true,
		})
	}
	return w.pause.readers[string(name)]
}

// listed takes the reply of FUNCTION LIST. Without one, another FCALL asks again.
func (w *worker) listed(reply []byte, err error) {
	asking := w.pause.asking
	w.pause.asking = false
	if err != nil || !asking {
		return
	}
	if w.pause.readers = commands.FunctionsThatRead(reply); len(w.pause.readers) > 0 {
		w.release()
	}
}
