package proxy

import (
	"cmp"
	"slices"
	"time"

	"lockproxy/cluster"
	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// pause is what CLIENT PAUSE asks of a loop. Of the clients that it holds each knows its place
// itself (session.heldAs), so those that leave leave nothing behind.
type pause struct {
	kind  commands.Pause
	until time.Time
	timer *time.Timer
	next  uint64 // place of the next client that is held

	readers map[string]bool // functions that do not write; nil: not known yet
	asking  bool            // a node was asked for them
}

// Pause implements commands.Clients.
func (c clients) Pause(until time.Time, kind commands.Pause, reply []byte) {
	s := c.s
	tag := s.current
	s.onEach(func(w *worker) { w.pauseClients(until, kind) }, func() { s.answer(tag, reply) })
}

// Unpause implements commands.Clients.
func (c clients) Unpause(reply []byte) {
	s := c.s
	tag := s.current
	s.onEach((*worker).unpause, func() { s.answer(tag, reply) })
}

// pauseClients begins a pause, or makes the one that is there longer and wider, never shorter or narrower.
func (w *worker) pauseClients(until time.Time, kind commands.Pause) {
	p := &w.pause
	p.kind = max(p.kind, kind)
	if until.After(p.until) {
		p.until = until
	}
	w.endPause()
}

// endPause ends the pause if its time is over, and else comes back.
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

// mustPause says that a command has to wait for the end of a pause. Who may end it gets through, from a new
// connection too.
func (s *session) mustPause(cmd *commands.Command, args [][]byte) bool {
	if cmd.Flags&(commands.EndsPause|commands.NoAuth) != 0 {
		return false
	}
	if s.w.pause.kind != commands.PauseWrites {
		return s.w.pause.kind == commands.PauseAll
	}
	writes, ask := cmd.MayWrite(args, s.Transaction, s.w.server.scripts)
	if ask {
		return !s.w.reads(args[1], s.ID)
	}
	return writes
}

var refusedByDrain = commands.ErrorReply(commands.ErrDraining)

// holdBack has the session wait with the command that it is given. Nobody waits while the proxy
// drains, nor who has ended his side of the connection.
func (s *session) holdBack() (refusal []byte, wait bool) {
	switch {
	case s.draining:
		return refusedByDrain, false
	case s.eof:
		s.close()
		return nil, true
	}
	s.setHold(holdPause)
	s.w.pause.next++
	s.heldAs = s.w.pause.next
	s.w.server.held.Add(1)
	return nil, true
}

// letGo ends the hold of a session, if it is held, without having it read on.
func (s *session) letGo() {
	if s.hold&holdPause != 0 {
		s.hold &^= holdPause
		s.w.server.held.Add(-1)
	}
}

// refuseHeld answers a command that is held, and closes, since the proxy is about to end.
func (s *session) refuseHeld() {
	s.setHold(holdClosing) // first, or it would read on
	s.letGo()
	s.begin(nil)
	s.reply(refusedByDrain)
	s.closeIfAnswered()
}

// release has the commands that are held looked at again, in the order in which they came.
func (w *worker) release() {
	var all []*session
	for s := range w.sessions {
		if s.hold&holdPause != 0 {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *session) int { return cmp.Compare(a.heldAs, b.heldAs) })
	w.releaseSome(all)
}

// releaseSome releases a few sessions and posts the rest.
func (w *worker) releaseSome(all []*session) {
	n := min(len(all), censusChunk)
	for _, s := range all[:n] {
		if s.hold&holdPause != 0 {
			s.w.server.held.Add(-1)
			s.clearHold(holdPause)
		}
	}
	if rest := all[n:]; len(rest) > 0 {
		w.loop.Post(func() { w.releaseSome(rest) })
	}
}

// reads says that a function does not write. While that is not known yet it is false, and the commands
// that are held are looked at again when it is.
func (w *worker) reads(name []byte, client int64) bool {
	if p := &w.pause; p.readers == nil && !p.asking {
		p.asking = true
		list := resp.AppendCommandStrings(nil, "FUNCTION", "LIST")
		w.pipes.Send(cluster.Request{
			Target: cluster.ToSlot(w.pipes.SomeSlot(client)), Mode: cluster.Mode{Proto: 2}, Bytes: list,
			To: &functionList{w: w}, Resend: true,
		})
	}
	return w.pause.readers[string(name)]
}

// functionList takes the reply of FUNCTION LIST.
type functionList struct {
	w     *worker
	reply []byte
}

// Receive implements cluster.Receiver.
func (f *functionList) Receive(_ uint32, chunk []byte, last bool) {
	f.reply = append(f.reply, chunk...)
	if !last || !f.w.pause.asking {
		return
	}
	f.w.pause.asking = false
	if f.w.pause.readers = commands.FunctionsThatRead(f.reply); len(f.w.pause.readers) > 0 {
		f.w.release()
	}
}

// Fail implements cluster.Receiver: another FCALL asks again.
func (f *functionList) Fail(uint32, error) { f.w.pause.asking = false }

// Discard implements cluster.Receiver.
func (f *functionList) Discard(uint32) bool {
	f.reply = nil
	return true
}

// Detour implements cluster.Receiver.
func (f *functionList) Detour(uint32) {}
