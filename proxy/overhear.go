package proxy

import (
	"bufio"
	"bytes"
	"context"
	"hash/maphash"
	"net"
	"strings"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
)

// This file is what MONITOR shows of the insides of scripts. Only the node knows what a script calls, so while
// anybody is in MONITOR here the proxy is in MONITOR at each master, and picks out of that:
//
//	observe --> expect (this script was shown) --+
//	node: "EVAL" ..., [0 lua] "SET" ... --> ear --> heard --> passFeed --> tell
//
// The calls of a script are shown if the line of the script itself was, so those of the lock verbs, of other
// proxies and of who is connected to the node directly are not.

const (
	earTick     = 500 * time.Millisecond // between two looks at which masters there are
	earPatience = time.Second            // how long MONITOR waits for the nodes
	earBuffer   = 16 << 10
	maxExpected = 4096 // scripts that were shown and not heard of yet
)

// ears is what the first loop knows of the connections in MONITOR at the nodes. Only that loop touches it.
type ears struct {
	users    int // clients in MONITOR, and about to be
	end      context.CancelFunc
	ready    bool
	waiting  []func() // for ready
	expected map[uint64]int
}

// overhear calls then, on some loop, when the nodes tell what scripts call. Each call is followed by one of overheard.
func (s *Server) overhear(then func()) {
	w := s.workers[0]
	posted := w.loop.Post(func() {
		e := &w.monitors.ears
		if e.users++; e.users == 1 {
			var ctx context.Context
			ctx, e.end = context.WithCancel(s.ctx)
			e.ready, e.expected = false, make(map[uint64]int)
			go s.keepEars(ctx) // ends when ctx does
		}
		if e.ready {
			then()
			return
		}
		e.waiting = append(e.waiting, then)
	})
	if !posted {
		then()
	}
}

// overheard ends the use of what overhear began.
func (s *Server) overheard() {
	w := s.workers[0]
	w.loop.Post(func() {
		e := &w.monitors.ears
		if e.users--; e.users == 0 {
			e.end()
			e.expected = nil
		}
	})
}

// earsReady has those go on who wait for the nodes.
func (s *Server) earsReady() {
	e := &s.workers[0].monitors.ears
	waiting := e.waiting
	e.ready, e.waiting = true, nil
	for _, then := range waiting {
		then()
	}
}

// keepEars has an ear at each master until ctx ends.
func (s *Server) keepEars(ctx context.Context) {
	all := make(map[string]context.CancelFunc)
	tick := time.NewTicker(earTick)
	defer tick.Stop()
	patience, enough := context.WithTimeout(ctx, earPatience)
	defer enough()
	for first := true; ; first = false {
		now := make(map[string]bool)
		var started []*ear
		for _, master := range s.upstream.Topology().Masters {
			now[master.Addr] = true
			if all[master.Addr] == nil {
				var here context.Context
				here, all[master.Addr] = context.WithCancel(ctx)
				e := &ear{s: s, addr: master.Addr, up: make(chan bool)}
				started = append(started, e)
				go e.keep(here) // ends when here does
			}
		}
		for addr, end := range all {
			if !now[addr] {
				end()
				delete(all, addr)
			}
		}
		if first {
			for _, e := range started {
				select {
				case <-e.up:
				case <-patience.Done():
				}
			}
			s.workers[0].loop.Post(s.earsReady)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			for _, end := range all {
				end()
			}
			return
		}
	}
}

// ear is a connection in MONITOR.
type ear struct {
	s       *Server
	addr    string
	up      chan bool // closed when the node has answered, or cannot be reached
	told    bool      // up is closed
	showing bool      // of the first loop: what the script calls that was heard last
}

func (e *ear) tell() {
	if !e.told {
		e.told = true
		close(e.up)
	}
}

// keep connects, again and again, until ctx ends or the node refuses.
func (e *ear) keep(ctx context.Context) {
	defer e.tell()
	for ctx.Err() == nil {
		conn, err := e.s.upstream.Dial(ctx, e.addr, cluster.Mode{Proto: 2}, nil)
		if err == nil {
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			refused := e.listen(ctx, conn)
			stop()
			conn.Close()
			if refused {
				return
			}
		}
		e.tell()
		select {
		case <-time.After(earTick):
		case <-ctx.Done():
		}
	}
}

var monitorCommand = resp.AppendCommandStrings(nil, "MONITOR")

// listen reads what the node says until the connection ends. refused: the node does not know MONITOR, or does not allow
// it, so that it is no use to ask again.
func (e *ear) listen(ctx context.Context, conn net.Conn) (refused bool) {
	if _, err := conn.Write(monitorCommand); err != nil {
		return false
	}
	r := bufio.NewReaderSize(conn, earBuffer)
	line, err := r.ReadSlice('\n')
	if err != nil {
		return false
	}
	switch {
	case line[0] == '+':
	case bytes.HasPrefix(line, []byte("-BUSY")), bytes.HasPrefix(line, []byte("-LOADING")):
		return false
	default:
		e.s.o.Log.Warn("MONITOR will not show what scripts call", "node", e.addr, "err", strings.TrimSpace(string(line)))
		return true
	}
	e.tell()
	var batch []heard
	for size := 0; ; {
		h, err := hear(r)
		if err != nil {
			return false
		}
		if h.fresh || h.lines != nil {
			batch = append(batch, h)
			size += len(h.lines)
		}
		if len(batch) == 0 || r.Buffered() > 0 && size < maxFeed && len(batch) < censusChunk {
			continue
		}
		done := make(chan bool)
		posted := e.s.workers[0].loop.Post(func() {
			e.s.workers[0].heard(e, batch)
			close(done)
		})
		if !posted {
			return true
		}
		select {
		case <-done: // or who reads slowly would have no bounds
		case <-ctx.Done():
			return true
		}
		batch, size = nil, 0
	}
}

// heard is one line of a node: that of a script, or of what it calls.
type heard struct {
	fresh  bool   // a script begins
	script uint64 // which
	lines  []byte // a call of the script before
}

// hear reads a line. Of those that matter to nobody it returns nothing.
func hear(r *bufio.Reader) (h heard, err error) {
	part, err := r.ReadSlice('\n')
	if err != nil && err != bufio.ErrBufferFull {
		return h, err
	}
	head, call := cutCall(part)
	calls, script := bytes.HasSuffix(head, []byte(" lua]")), isScriptCall(call)
	var sum maphash.Hash
	sum.SetSeed(scriptSeed)
	for {
		switch {
		case calls && len(h.lines) <= maxFeed:
			h.lines = append(h.lines, part...)
		case script:
			sum.Write(call)
		}
		if err == nil {
			break
		}
		if part, err = r.ReadSlice('\n'); err != nil && err != bufio.ErrBufferFull {
			return h, err
		}
		call = part
	}
	switch {
	case calls && len(h.lines) > maxFeed:
		h.lines = nil
	case script && !calls:
		h.fresh, h.script = true, sum.Sum64()
	}
	return h, nil
}

var scriptSeed = maphash.MakeSeed()

// cutCall cuts a line of MONITOR, or the beginning of one, into who calls, up to the bracket, and what.
func cutCall(line []byte) (head, call []byte) {
	if i := bytes.Index(line, []byte(`] "`)); i >= 0 {
		return line[:i+1], line[i+2:]
	}
	return line, nil
}

// isScriptCall says that call, `"name" "argument"...`, runs a script or a function.
func isScriptCall(call []byte) bool {
	if len(call) == 0 {
		return false
	}
	name, _, ok := bytes.Cut(call[1:min(len(call), len(`"evalsha_ro"`))], []byte(`"`))
	if !ok {
		return false
	}
	switch strings.ToLower(string(name)) {
	case "eval", "eval_ro", "evalsha", "evalsha_ro", "fcall", "fcall_ro":
		return true
	}
	return false
}

// heard shows what the scripts call that were shown.
func (w *worker) heard(e *ear, batch []heard) {
	m := &w.monitors
	for _, h := range batch {
		if h.fresh {
			n := m.ears.expected[h.script]
			if e.showing = n > 0; n > 1 {
				m.ears.expected[h.script] = n - 1
			} else {
				delete(m.ears.expected, h.script)
			}
		}
		if e.showing {
			m.feed = append(m.feed, h.lines...)
		}
	}
	w.passFeed()
}

// expect shows the lines so far and, if the last of them is about a script, that of call, has what it calls shown too.
func (w *worker) expect(call []byte) {
	_, call = cutCall(call)
	if !isScriptCall(call) {
		return
	}
	w.passFeed() // ahead of what it calls
	times := 1
	if call[len(`"eval`)]|0x20 == 's' {
		times = 2 // a node that has lost the script is asked once more
	}
	script := maphash.Bytes(scriptSeed, call)
	first := w.server.workers[0]
	first.loop.Post(func() {
		expected := first.monitors.ears.expected
		if len(expected) >= maxExpected {
			clear(expected)
		}
		if expected != nil {
			expected[script] += times
		}
	})
}
