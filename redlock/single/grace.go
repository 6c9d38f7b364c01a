package single

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/internal/slot"
	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

// grace holds new grants back after a fail-over, for as long as the longest lease may run that
// the new master has never heard of. Renewals and releases go on.
//
// A master is known by its replication id (INFO replication), which is another one after each
// promotion, and after a restart without memory. Acquire requests name the one that the proxy
// knows, the script compares, and so no grant slips through, however late the topology is. Safe
// for concurrent use; the zero value is off.
type grace struct {
	period  time.Duration // 0: off
	masters [slot.Count]atomic.Pointer[string]

	mu  sync.Mutex
	all map[string]master // by replication id
}

// master is a server that the proxy has met as one.
type master struct {
	met   time.Time // first
	until time.Time // it may not grant
}

// unmet stands for a replication id that the proxy does not know yet.
const unmet = "?"

func (g *grace) on() bool { return g.period > 0 }

// master is the replication id that requests for slot n name; "" when any will do.
func (g *grace) master(n int) string {
	if !g.on() {
		return ""
	}
	if id := g.masters[n].Load(); id != nil {
		return *id
	}
	return unmet
}

// met notes that the master of slot n has the replication id is, was another one's replica if it was
// promoted, and has been up for so long. It returns for how long that master may not grant. One that the
// proxy meets for the first time is free to if it has been up for the grace, has never been promoted and
// nobody else had the slot. A younger one may have come back without its memory, whenever the proxy itself
// has started, so it waits for what is left; for all others nobody knows when they became the master. One
// that was free and then takes a slot over is not for as long as it may have come in the place of the one
// before.
func (g *grace) met(n int, is, was string, up time.Duration) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all == nil {
		g.all = make(map[string]master)
	}
	m, known := g.all[is]
	if !known {
		m.met = time.Now()
		m.until = m.met.Add(g.period - up)
	}
	before := g.masters[n].Load()
	if before != nil && *before != is || !known && strings.Trim(was, "0") != "" {
		m.until = m.met.Add(g.period)
	}
	g.all[is] = m
	left := time.Until(m.until)
	if left <= 0 {
		g.masters[n].Store(&is)
	}
	return max(left, 0)
}

// otherMaster deals with the script's answer that the master is another one than expected.
func (g *grace) otherMaster(n int, said redlock.ReplyError) error {
	f := strings.Fields(string(said))
	if len(f) != 4 {
		return scripts.ErrReply
	}
	up, err := strconv.Atoi(f[3])
	if err != nil {
		return scripts.ErrReply
	}
	left := g.met(n, f[1], f[2], time.Duration(up)*time.Second)
	if left == 0 {
		return redlock.ErrAgain
	}
	return redlock.ReplyError(fmt.Sprintf("TRYAGAIN the master of this lock's shard has changed or started "+
		"anew, and locks that it has not heard of may still be held: no new grants for %d ms (lock-failover-grace)",
		(left + time.Millisecond - 1).Milliseconds()))
}
