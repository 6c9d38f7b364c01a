package checkup

import (
	"fmt"
	"strconv"

	"lockproxy/cluster"
	"lockproxy/cmd/lockproxy/settings"
)

// nearlyFull is which percentage of maxmemory is worth a warning.
const nearlyFull = 90

// tellMemory tells whether the server may delete locks, or refuse them.
func (n *checkedNode) tellMemory(v *settings.Values, say func(l Level, about, text, remedy string)) {
	m := cluster.MemoryOf(n.info)
	const never = "CONFIG SET maxmemory-policy noeviction there, and in its redis.conf"
	used, _ := strconv.ParseInt(n.is("used_memory"), 10, 64)
	switch {
	case m.Policy == "": // INFO is forbidden, which is told
	case m.Evicts() != nil && v.Proxy.AllowEviction:
		say(Warn, "memory", fmt.Sprintf("evicts: with maxmemory-policy %s and maxmemory %d it may delete "+
			"locks that are held, which lock-allow-eviction allows", m.Policy, m.Most), never)
	case m.Evicts() != nil:
		say(Fail, "memory", fmt.Sprintf("evicts: with maxmemory-policy %s and maxmemory %d it may delete "+
			"locks that are held", m.Policy, m.Most), never)
	case m.Policy != "noeviction":
		say(Warn, "memory", "would evict locks if it had a maxmemory: maxmemory-policy is "+m.Policy, never)
	case m.Most > 0 && used*100 >= m.Most*nearlyFull:
		say(Warn, "memory", fmt.Sprintf("is nearly full: %d of %d bytes; then it refuses new locks", used,
			m.Most), "give it more maxmemory, or delete something")
	default:
		say(OK, "memory", "evicts nothing: maxmemory-policy noeviction", "")
	}
}

// durable says that the server writes each grant to its disk before it answers. With
// no-appendfsync-on-rewrite an fsync is left out while the file is rewritten: then a grant can be lost as
// with everysec.
func (n *checkedNode) durable() bool {
	return n.append["appendonly"] == "yes" && n.append["appendfsync"] == "always" &&
		n.append["no-appendfsync-on-rewrite"] != "yes"
}

// tellPersistence tells what a restart of the server would do to locks.
func (n *checkedNode) tellPersistence(v *settings.Values, say func(l Level, about, text, remedy string)) {
	// stop-writes-on-bgsave-error is yes by default, and then Redis refuses all writes
	if n.is("rdb_last_bgsave_status") == "err" || n.is("aof_last_write_status") == "err" {
		say(Fail, "persistence", "cannot write to its disk, and so may refuse all writes (MISCONF)",
			"look at its log, and make room on the disk")
	}
	on, fsync := n.append["appendonly"], n.append["appendfsync"]
	// CONFIG GET may be forbidden where INFO is not; how soon it writes stays unknown then.
	if on == "" && n.is("aof_enabled") != "" {
		on = map[string]string{"0": "no", "1": "yes"}[n.is("aof_enabled")]
	}
	after, remedy := "after a restart two clients may hold one lock", "appendonly yes and appendfsync "+
		"always there"
	if n.part == redlocked {
		after = fmt.Sprintf("after a restart it does not vote for %v (redlock-max-lease)",
			v.LongestRedlockLease())
	} else if v.Redlock == nil {
		remedy += "; or keep locks at independent masters (redlock)"
	}
	switch {
	case on == "":
		say(Warn, "persistence", "does not tell whether it keeps what it is told (CONFIG GET)",
			"allow its user +config|get, or look yourself: "+remedy)
	case on == "no":
		say(Warn, "persistence", "appendonly is no: "+after, remedy)
	case fsync == "":
		say(Warn, "persistence", "appendonly is yes; how soon that is on its disk it does not tell (CONFIG "+
			"GET)", "allow its user +config|get, or look yourself: "+remedy)
	case fsync != "always":
		say(Warn, "persistence", fmt.Sprintf("appendfsync is %s: a crash of its machine forgets the last "+
			"grants, and %s", fsync, after), remedy)
	case n.append["no-appendfsync-on-rewrite"] == "yes":
		say(Warn, "persistence", "no-appendfsync-on-rewrite is yes: a crash of its machine while it "+
			"rewrites forgets grants, and "+after, "no-appendfsync-on-rewrite no there")
	default:
		say(OK, "persistence", "writes each grant to its disk: appendonly yes, appendfsync always", "")
	}
}
