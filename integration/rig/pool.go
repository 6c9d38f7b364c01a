package rig

import (
	"strings"
	"sync"
	"syscall"
)

// pool keeps clusters that a test is done with for the next one: making one takes seconds. Only a cluster
// that is as it was when it was new goes back; what a test has changed for good ends with the test.
var pool = struct {
	sync.Mutex
	free map[string][]*pooled // by the program of the servers
}{free: map[string][]*pooled{}}

// pooled is a cluster of three masters, and what it was like when it was new.
type pooled struct {
	nodes  []*Server
	wasNew []string // of each node, see features
}

// lendCluster is a cluster of three masters that l has for itself until it ends.
func lendCluster(l Life) *Cluster {
	l.Helper()
	program := serverOf(l)
	var p *pooled
	pool.Lock()
	if free := pool.free[program]; len(free) > 0 {
		p, pool.free[program] = free[len(free)-1], free[:len(free)-1]
	}
	pool.Unlock()
	if p == nil {
		var life Life = packageLife
		if program != "redis-server" {
			life = onProduct{packageLife, program}
		}
		c := formCluster(life, 3, 0, nil, func(int) *Server { return newClusterNode(life) })
		p = &pooled{nodes: c.Nodes}
		for _, n := range c.Nodes {
			Ask(n.Addr, "CONFIG", "RESETSTAT")
			p.wasNew = append(p.wasNew, n.features())
		}
	}
	lent := &Cluster{Masters: 3}
	for _, n := range p.nodes {
		own := *n // a test that starts the server again changes its own
		lent.Nodes = append(lent.Nodes, &own)
	}
	l.Cleanup(func() { p.giveBack(program, lent) })
	return lent
}

// giveBack puts the cluster back if it is as it was, or else ends it, with what its user has added to it.
func (p *pooled) giveBack(program string, lent *Cluster) {
	same := len(lent.Nodes) == len(p.nodes)
	for i := 0; same && i < len(p.nodes); i++ {
		same = lent.Nodes[i].Process == p.nodes[i].Process && p.nodes[i].clean(p.wasNew[i])
	}
	if !same {
		for _, n := range p.nodes {
			n.Kill()
		}
		return
	}
	pool.Lock()
	defer pool.Unlock()
	pool.free[program] = append(pool.free[program], p)
}

// clean empties the server and says whether it is then what it was.
func (s *Server) clean(wasNew string) bool {
	s.Signal(syscall.SIGCONT) // it may have been stopped
	if s.Ended() || wasNew == "" || s.features() != wasNew {
		return false
	}
	for _, command := range []string{"FLUSHALL", "SCRIPT FLUSH", "CLIENT UNPAUSE", "CLIENT KILL TYPE normal",
		"CLIENT KILL TYPE pubsub", "SLOWLOG RESET", "CONFIG RESETSTAT"} {
		if _, err := Ask(s.Addr, strings.Fields(command)...); err != nil {
			return false
		}
	}
	return true
}

// features is what a test may have changed of a server and not put back: settings, users, slots, libraries
// of functions. "": it cannot tell, or it was told DEBUG anything, which leaves marks that nobody can see.
func (s *Server) features() string {
	var all strings.Builder
	for _, command := range []string{"CONFIG GET *", "ACL LIST", "CLUSTER SLOTS", "FUNCTION LIST",
		"MODULE LIST"} {
		v, err := Ask(s.Addr, strings.Fields(command)...)
		if err != nil && !v.IsError() {
			return ""
		}
		all.WriteString(command + v.String() + "\n")
	}
	nodes, err := Ask(s.Addr, "CLUSTER", "NODES")
	if err != nil || strings.Contains(nodes.Text, "[") || strings.Contains(nodes.Text, "fail") {
		return "" // a slot is on its way, or a node is away
	}
	called, err := Ask(s.Addr, "INFO", "commandstats")
	if err != nil || strings.Contains(called.Text, "cmdstat_debug") {
		return ""
	}
	return all.String()
}
