package proxy

import (
	"unsafe"

	"lockproxy/internal/loop"
	"lockproxy/proxy/client"
)

// footprint is the memory of one session, for maxmemory-clients. It implements memory.Client. It belongs to
// the loop. The sum of all of them is in worker.memory, which has to hear of every change.
type footprint struct {
	s     *session
	bytes int // the client was last counted with
	kept  int // bytes of long commands that are not answered
}

// addBytes counts n more bytes, when nothing else has changed.
func (f *footprint) addBytes(n int) {
	if !f.s.gone {
		f.bytes += n
		f.s.w.memory.Add(n)
	}
}

const (
	// sessionSize is the least memory of a session.
	sessionSize = int(unsafe.Sizeof(session{}) + unsafe.Sizeof(loop.Conn{}))
	answerSize  = int(unsafe.Sizeof(answer{}))
)

// memoryUse is the memory of one client by kind, in bytes.
type memoryUse struct {
	fixed         int // of the session itself
	input         int // input that has not been consumed, including a command that CLIENT PAUSE holds back
	output        int // waits to be written
	replies       int // replies that came before their turn, or wait to be joined
	transaction   int // what MULTI has queued
	subscriptions int // channels and patterns
	commands      int // commands that block, wait for something, or are long
	locks         int // locks that are kept alive or waited for
}

func (u memoryUse) sum() int {
	return u.fixed + u.input + u.output + u.replies + u.transaction + u.subscriptions + u.commands + u.locks
}

// memoryUse is the memory that the session takes now. It visits nothing whose number can grow. So it may be
// called for every command.
func (f *footprint) memoryUse() memoryUse {
	s := f.s
	u := memoryUse{
		fixed:  sessionSize + len(s.Name) + len(s.LibName) + len(s.LibVersion) + s.Tracking.Size,
		input:  s.conn.InputMemory() + s.upload.stream.Memory(),
		output: s.out.buf.Cap(), replies: s.out.held, transaction: s.tx.Memory() + s.monitor.Memory(),
		locks: s.Keepalives.Memory() + s.Waits.Memory(),
	}
	// short queues are shared by the clients of the loop
	if n := len(s.answers.buf); n > manyAnswers {
		u.replies += n * answerSize
	}
	u.subscriptions = s.subscriber.Memory()
	u.commands = f.kept + s.in.long.Memory() + s.blocking.Memory()
	return u
}

// CountMemory counts the memory that the session takes now. It is called where something may have grown or
// shrunk that does not count itself.
func (f *footprint) CountMemory() {
	if !f.s.gone {
		if n := f.memoryUse().sum() - f.bytes; n != 0 {
			f.addBytes(n)
		}
	}
}

// KeepFor adds n bytes, which may be negative, to what command tag keeps in memory. What is left then is
// counted until it is answered. The command must not be answered yet.
func (f *footprint) KeepFor(tag uint32, n int) {
	if !f.s.gone {
		f.s.answers.at(tag).kept += n
		f.kept += n
		f.addBytes(n)
	}
}

// InputKept implements loop.InputCounter. While too much memory is used, clients that add to it are not read
// any further: thousands of senders are faster than the largest clients can be found and closed.
func (f *footprint) InputKept() {
	s := f.s
	f.CountMemory()
	// Input waits, so the client may be one that writes everything before it reads: its nodes must be read,
	// or neither side would ever go on.
	if s.conn.Kept() > 0 {
		s.out.holdNodes(nil)
	}
	if s.w.shared.Memory.Over() > 0 && s.conn.InputMemory() > 0 && !s.gone {
		s.SetHold(client.HoldMemory)
	}
}

// Measure implements memory.Client.
func (f *footprint) Measure() (bytes int, protected bool) {
	f.CountMemory()
	return f.bytes, f.s.NoEvict
}

// Evict implements memory.Client. The log says what its memory was for, so that the settings or the client
// can be mended.
func (f *footprint) Evict(named bool) bool {
	s := f.s
	if s.gone {
		return false
	}
	if named {
		u := f.memoryUse()
		s.w.shared.Log.Warn("client closed: maxmemory-clients", "client", s.Addr, "name", s.Name,
			"user", s.UserName(), "bytes", u.sum(), "input", u.input, "output", u.output,
			"replies", u.replies, "transaction", u.transaction, "subscriptions", u.subscriptions,
			"commands", u.commands, "locks", u.locks)
	}
	s.conn.Close()
	return true
}

// ReadOn implements memory.Client.
func (f *footprint) ReadOn() { f.s.ClearHold(client.HoldMemory) }
