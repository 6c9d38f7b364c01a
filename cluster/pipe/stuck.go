package pipe

import (
	"bytes"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/loop"
)

// This file is how commands get round a script that runs for long. Redis runs one
// command at a time, but after a while it answers all others with BUSY; what lies behind the
// script on its own connection it does not even read:
//
//	client a -- EVAL --> plain pipe ---> node: busy
//	client b -- GET ---> second pipe --> node: -BUSY ...
//
// A pipe is stuck while there is a script among its requests and no reply has come for scriptGrace: Redis
// keeps back the replies to what it read together with the script. Requests of mode Second then go over a
// second pipe to that node. Who may have requests on its way over the stuck one must not use that mode, or
// they would be overtaken.

const (
	// scriptGrace is how long a script may keep a pipe to itself.
	scriptGrace = 50 * time.Millisecond
	// scriptTick is how often pipes are looked at while scripts are on their way.
	scriptTick = 25 * time.Millisecond
)

// stuckPipes are those of the shared pipes of a loop that are behind a script.
type stuckPipes struct {
	loop    *loop.Loop
	shared  map[nodeKey]*Pipe // all that may get stuck
	waiting *deferredList     // of which any may be a script
	timeout time.Duration     // for how long a script is waited for that has not begun
	all     *atomic.Int64     // of all loops

	n           int
	epoch, last uint64    // now, and the latest one
	watching    bool      // look will run
	scripted    time.Time // when a script was sent last, or began or ended to keep a pipe stuck
}

// watch has the pipes looked at until the script is answered that is about to be sent.
func (s *stuckPipes) watch() {
	s.scripted = s.loop.Now()
	s.lookSoon()
}

func (s *stuckPipes) lookSoon() {
	if !s.watching {
		s.watching = true
		s.loop.After(scriptTick, s.look)
	}
}

func (s *stuckPipes) look() {
	s.watching = false
	now, waiting := s.loop.Now(), len(s.waiting.all) > 0
	for _, pipe := range s.shared {
		waiting = waiting || pipe.calls.len() > 0
		s.set(pipe, pipe.conn != nil && pipe.calls.len() > 0 && now.Sub(pipe.progress) >= scriptGrace &&
			pipe.hasScript())
	}
	if s.epoch != 0 || waiting && now.Sub(s.scripted) < s.timeout {
		s.lookSoon()
	}
}

// set notes whether a pipe is stuck.
func (s *stuckPipes) set(pipe *Pipe, stuck bool) {
	if stuck == pipe.stuck {
		return
	}
	pipe.stuck, pipe.idleSigns = stuck, 0
	s.scripted = s.loop.Now() // there may be more behind this one
	n := 1
	if !stuck {
		n = -1
	}
	s.n += n
	s.all.Add(int64(n))
	s.last++
	s.epoch = s.last
	if s.n == 0 {
		s.epoch = 0
	}
}

// mode is m, without Second unless the plain pipe to addr is stuck.
func (s *stuckPipes) mode(addr string, m Mode) Mode {
	plain := m
	plain.Second = false
	if pipe := s.shared[nodeKey{addr, plain}]; m.Second && (pipe == nil || !pipe.stuck) {
		return plain
	}
	return m
}

// WatchScripts has the pipes looked at until the script is answered that is about to be sent.
func (p *Pool) WatchScripts() { p.stuck.watch() }

// StuckEpoch is 0 as long as no pipe is stuck. It changes whenever one gets stuck or free.
func (p *Pool) StuckEpoch() uint64 { return p.stuck.epoch }

// excused says that the silence of a stuck pipe is the script's. It asks the node for signs
// of life, too: one that runs a script says BUSY. Any other sign came behind the script, whose
// reply is then not far; where it is not there at the second one, it will never come.
func (p *Pipe) excused(now time.Time) bool {
	if !p.stuck || p.idleSigns > 1 {
		return false
	}
	apart := p.mode
	apart.Second = true
	other := p.pool.pipe(p.addr, apart)
	if other == p {
		return false
	}
	if other.calls.len() == 0 {
		other.append(call{to: (*probe)(p), slot: thisNode, raw: true}, askPing)
	}
	return other.conn == nil || now.Sub(other.progress) <= p.pool.o.Timeout
}

// probe is a stuck Pipe that takes the signs of life of its node. None is as bad as one
// that does not say BUSY.
type probe Pipe

func (p *probe) Receive(_ uint32, chunk []byte, _ bool) {
	if bytes.HasPrefix(chunk, []byte("-BUSY ")) {
		p.idleSigns = 0
	} else {
		p.idleSigns++
	}
}

func (p *probe) Fail(uint32, error)  { p.idleSigns++ }
func (p *probe) Discard(uint32) bool { return true }
func (p *probe) Detour(uint32)       {}

// scriptWithin is how many requests are looked at for a script. Replies that Redis keeps back are to requests
// that it read at one go, 16 KiB or one long request, so no more of them stand in front of the script.
const scriptWithin = 4096

// hasScript says that a script is among the first requests of p.
func (p *Pipe) hasScript() bool {
	part, at := 0, p.log.start
	for i := range min(p.calls.len(), scriptWithin) {
		for at == len(p.log.parts[part]) {
			part, at = part+1, 0
		}
		size := p.calls.buf[(p.calls.from+i)&(len(p.calls.buf)-1)].size
		if isScript(p.log.parts[part][at : at+size]) {
			return true
		}
		at += size
	}
	return false
}

// isScript says that req runs a script or a function.
func isScript(req []byte) bool {
	name := commandName(req)
	if len(name) > len("evalsha_ro") {
		return false
	}
	switch strings.ToLower(string(name)) {
	case "eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro":
		return true
	}
	return false
}

// commandName is the first argument of a command, nil if req is none.
func commandName(req []byte) []byte {
	// *3\r\n$4\r\nEVAL\r\n...
	for range 2 {
		i := bytes.Index(req[:min(len(req), 16)], []byte("\r\n"))
		if i < 0 {
			return nil
		}
		req = req[i+2:]
	}
	if i := bytes.Index(req[:min(len(req), 16)], []byte("\r\n")); i >= 0 {
		return req[:i]
	}
	return nil
}

// busy is the reply of a node that could not put a new connection into its mode because of a
// script, nil for other errors: it is what every request would have been told.
func busy(err error) []byte {
	var node cluster.NodeError
	if errors.As(err, &node) && strings.HasPrefix(node.Err.Error(), "BUSY ") {
		return []byte("-" + node.Err.Error() + "\r\n")
	}
	return nil
}
