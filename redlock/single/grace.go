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

// grace holds back new grants after a fail-over: the new master may never have heard of some leases, and the
// longest of them must end first. Renewals and releases go on.
//
// A master is known by its replication id (INFO replication), which changes with each promotion, and with a
// restart that loses the data. Acquire requests name the id that the proxy knows and the script compares it.
// So no grant slips through, however late the topology is. Safe for concurrent use; the zero value is off.
type grace struct {
	period time.Duration // 0: off
	// By slot: the replication id of the master that may grant there; nil: none is known to. So a grant needs
	// no lock here.
	masters [slot.Count]atomic.Pointer[string]

	mu  sync.Mutex
	all map[string]master // by replication id
}

// master is a server that the proxy has met as a master. It is remembered for as long as the proxy runs:
// there are few.
type master struct {
	met   time.Time // for the first time
	until time.Time // it may not grant before
}

// unmet stands for a replication id that the proxy does not know yet, or for that of nobody.
const unmet = "?"

// on says that new masters are held back at all.
func (g *grace) on() bool { return g.period > 0 }

// master is the replication id that requests for slot n name, "" if any will do.
func (g *grace) master(n int) string {
	if !g.on() {
		return ""
	}
	if id := g.masters[n].Load(); id != nil {
		return *id
	}
	return unmet
}

// met notes that the master of slot n has the replication id is, that it was a replica of was before it was
// promoted, and that it has been up for so long. It returns how long that master may not grant.
//
// A master that the proxy meets for the first time may grant at once if it has been up for the grace period,
// was never promoted, and nobody else had the slot. A younger one may have come back without its data, so it
// waits for what is left of the period, even if the proxy has only just started. For all others nobody knows
// when they became the master: they wait for the whole period. So does a master that may grant and then takes
// over a slot, if it may have replaced the slot's earlier master.
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

// otherMaster handles the script's answer that the master is not the one that the request named. The answer
// is "MASTER <id> <id before> <seconds that it has been up>", see master.lua.
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
		"anew, and locks that it has not heard of may still be held: no new grants for %d ms "+
		"(lock-failover-grace)",
		(left + time.Millisecond - 1).Milliseconds()))
}
