package proxy

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"lockproxy/commands"
)

const (
	// ownSlow is how many of the commands that the proxy answered its slow log keeps.
	ownSlow = 128
	// slowSeen is how many slow commands it remembers the clients of.
	slowSeen = 512
	// slowDefault is the default duration from which on a server logs a command.
	slowDefault = 10 * time.Millisecond
	// briefly is the longest that a command may take for which no node is asked: a log with a higher limit
	// has none of these.
	briefly = time.Millisecond
	// clockSlip is how far the clocks of a node and of the proxy may differ, in seconds, when the client of a
	// slow command is looked for.
	clockSlip = 2
	// slowSlip is by how many µs the durations of two commands may differ that are equally likely.
	slowSlip = 2000
	// upstreamName is the name of the proxy's connections to the nodes.
	upstreamName = "lockproxy"
)

// slowLog is the proxy's part in the slow log of the upstream; it implements
// commands.SlowLog.
type slowLog struct {
	s *Server

	mu     sync.Mutex
	lastID int64
	own    []commands.SlowEntry // the oldest first
	seen   [slowSeen]slowSeenAs // the oldest is overwritten
	next   int
}

// slowSeenAs is a slow command as the proxy saw it.
type slowSeenAs struct {
	command, addr, name string
	end                 int64 // Unix seconds
	took                int64 // µs
}

// SlowLog implements commands.Statistics.
func (v whole) SlowLog() commands.SlowLog { return &v.s.slow }

// Own implements commands.SlowLog.
func (l *slowLog) Own() []commands.SlowEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	newest := make([]commands.SlowEntry, 0, len(l.own))
	for i := len(l.own) - 1; i >= 0; i-- {
		newest = append(newest, l.own[i])
	}
	return newest
}

// Reset implements commands.SlowLog.
func (l *slowLog) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.own = nil
}

// Limits implements commands.SlowLog.
func (l *slowLog) Limits(name, value string) {
	if name != "slowlog-log-slower-than" {
		return
	}
	micros, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return
	}
	slow := time.Duration(micros) * time.Microsecond
	for _, w := range l.s.workers {
		w.loop.Post(func() { w.slow = slow })
	}
}

// Whose implements commands.SlowLog. Of the commands of that name that ended at that time and took about as
// long as the node says, it takes the newest that no other entry is about.
func (l *slowLog) Whose() func(e commands.SlowEntry) (addr, name string, ok bool) {
	l.mu.Lock()
	seen, next := l.seen, l.next
	l.mu.Unlock()
	return func(e commands.SlowEntry) (addr, name string, ok bool) {
		if e.Name != upstreamName || len(e.Args) == 0 {
			return "", "", false
		}
		least := int64(-1)
		for i := range seen {
			if s := &seen[i]; s.mayBe(e) && (least < 0 || s.took < least) {
				least = s.took
			}
		}
		for i := next + slowSeen - 1; i >= next; i-- { // the newest first
			if s := &seen[i%slowSeen]; s.mayBe(e) && s.took <= least+least/8+slowSlip {
				addr, name = s.addr, s.name
				*s = slowSeenAs{}
				return addr, name, true
			}
		}
		return "", "", false
	}
}

// mayBe says that e may be about s.
func (s *slowSeenAs) mayBe(e commands.SlowEntry) bool {
	if s.took < e.Took || max(s.end-e.Time, e.Time-s.end) > clockSlip {
		return false
	}
	command := strings.ToLower(string(e.Args[0]))
	return s.command == command ||
		len(e.Args) > 1 && s.command == command+"|"+strings.ToLower(string(e.Args[1]))
}

// note remembers the client of a slow command.
func (l *slowLog) note(s *session, a *answer, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[l.next%slowSeen] = slowSeenAs{
		a.counter.name,
		s.Addr,
		s.Name,
		s.w.loop.Now().Unix(),
		took.Microseconds(),
	}
	l.next++
}

// runLogged runs a command while the upstream would also log commands that the proxy answers itself.
func (r *router) runLogged(cmd *commands.Command, call *commands.Call) {
	s := r.s
	args, begun := call.Args, time.Now()
	s.replied = false
	cmd.Run(call)
	if took := time.Since(begun); s.replied && took >= s.w.slow {
		s.w.server.slow.add(s, cmd, args, took)
	}
}

// add logs a command that the proxy answered itself.
func (l *slowLog) add(s *session, cmd *commands.Command, args [][]byte, took time.Duration) {
	e := commands.NewSlowEntry(cmd, args)
	e.Time, e.Took, e.Addr, e.Name = s.w.loop.Now().Unix(), took.Microseconds(), s.Addr, s.Name
	l.mu.Lock()
	defer l.mu.Unlock()
	e.ID = l.lastID
	l.lastID++
	if len(l.own) >= ownSlow {
		l.own = append(l.own[:0], l.own[1:]...)
	}
	l.own = append(l.own, e)
}
