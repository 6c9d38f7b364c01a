package pipe

import (
	"bytes"
	"time"

	"lockproxy/cluster/pipe/script"
	"lockproxy/internal/resp"
)

// This file is how commands get past a script that runs for long. Redis runs one command at a time. After a
// while it answers all others with BUSY, but it does not even read what is behind the script on the script's
// own connection:
//
//	client a -- EVAL --> plain pipe ---> node: busy
//	client b -- GET ---> second pipe --> node: -BUSY ...
//
// A pipe is stuck while a script is among its requests and no reply has come for scriptGrace: Redis holds
// back the replies to what it read together with the script. Requests of mode Second then go over a second
// pipe to that node. A client with requests on their way over the stuck pipe must not use that mode, or they
// would be overtaken.
//
// A pipe is crowded while long replies keep it busy: a client may ask for many of them before anybody knows
// how long they are. Others go round it in the same way, until all is answered.

const (
	// scriptGrace is how long a script may occupy a pipe.
	scriptGrace = 50 * time.Millisecond
	// crowdedFrom is how many bytes of long replies make a pipe crowded.
	crowdedFrom = 4 << 20
)

var askPing = resp.AppendCommandStrings(nil, "PING")

// stuckPipes are the shared pipes of a loop that are behind a script.
type stuckPipes struct {
	*env

	n           int       // pipes that are stuck or crowded; one that is both counts twice
	epoch, last uint64    // now, 0 while n is 0; and the latest one
	scripted    time.Time // when a script was sent last, or began or ended to keep a pipe stuck
}

// WatchScripts has it checked whether pipes are stuck until the script that is about to be sent is answered.
func (s *stuckPipes) WatchScripts() { s.scripted = s.loop.Now() }

// lookForStuck finds the pipes that are stuck now. Without a script lately it costs nothing.
func (s *stuckPipes) lookForStuck(now time.Time) {
	if s.epoch == 0 && now.Sub(s.scripted) >= s.o.Timeout {
		return
	}
	for _, pipe := range s.byNode {
		s.setStuck(pipe, pipe.conn != nil && pipe.calls.Len() > 0 && now.Sub(pipe.progress) >= scriptGrace &&
			hasScript(pipe))
	}
}

// setStuck notes whether a pipe is stuck.
func (s *stuckPipes) setStuck(pipe *Pipe, stuck bool) {
	if stuck == pipe.stuck {
		return
	}
	pipe.stuck, pipe.idleSigns = stuck, 0
	s.scripted = s.loop.Now() // there may be more behind this one
	s.stats.Stuck.Add(s.countStuck(stuck))
}

// crowd notes that n bytes of a long reply have come over pipe, or that it owes none any more: n is 0.
func (s *stuckPipes) crowd(pipe *Pipe, n int) {
	was := pipe.crowded >= crowdedFrom
	if pipe.crowded += n; n == 0 {
		pipe.crowded = 0
	}
	if is := pipe.crowded >= crowdedFrom; is != was {
		s.countStuck(is)
	}
}

// countStuck counts one pipe more that is stuck or crowded, or one less, and returns the change.
func (s *stuckPipes) countStuck(more bool) int64 {
	n := 1
	if !more {
		n = -1
	}
	s.n += n
	s.last++
	s.epoch = s.last
	if s.n == 0 {
		s.epoch = 0
	}
	return int64(n)
}

// around is m, with Second if the first pipe to addr is stuck or crowded.
func (s *stuckPipes) around(addr string, m Mode) Mode {
	m.Second = false
	first := s.byNode[nodeKey{addr, m}]
	m.Second = first != nil && (first.stuck || first.crowded >= crowdedFrom)
	return m
}

// StuckEpoch is 0 as long as no pipe is stuck or crowded. It changes whenever one gets so, or free.
func (s *stuckPipes) StuckEpoch() uint64 { return s.epoch }

// busyWith says that a script is the reason for the silence of a stuck pipe. It also asks the node for
// signs of life: while the script runs, the node says BUSY. Any other answer came after the script, whose
// reply must then be near; if it has not come at the second such answer, it never will.
func (s *stuckPipes) busyWith(p *Pipe, now time.Time) bool {
	if !p.stuck || p.idleSigns > 1 {
		return false
	}
	apart := p.mode
	apart.Second = true
	other := s.home.pipe(p.addr, apart)
	if other == p {
		return false
	}
	if other.calls.Len() == 0 {
		other.askNode(askPing, func(reply []byte, _ error) {
			if p.idleSigns++; bytes.HasPrefix(reply, []byte("-BUSY ")) {
				p.idleSigns = 0
			}
		})
	}
	return other.conn == nil || now.Sub(other.progress) <= p.o.Timeout
}

// scriptWithin is how many requests are searched for a script. Redis holds back replies to requests that it
// read in one piece with the script, 16 KiB or one long request; so no more than these stand in front of the
// script.
const scriptWithin = 4096

// hasScript says that a script is among the first requests of p.
func hasScript(p *Pipe) bool {
	size := func(i int) int { return p.calls.At(i).size }
	for req := range p.log.First(min(p.calls.Len(), scriptWithin), size) {
		if script.Is(req) {
			return true
		}
	}
	return false
}
