package main

import (
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"lockproxy/integration/page"
	"lockproxy/integration/rig"
)

// fault is a row of the table.
type fault struct {
	name, title string
	needs       need     // what the machine must allow
	lossy       bool     // Redis itself may lose what it has acknowledged
	proxies     bool     // it strikes proxies: go-redis is a client of theirs, too
	behind      bool     // clients come through haproxy
	again       bool     // plain clients try again once
	links       bool     // nodes are behind links
	all         bool     // it strikes all clients; else those of a shard, or of proxy 0
	promotes    bool     // it is over when a replica has taken over
	args        []string // of the nodes
	each        func(i int) []string
	upstream    func(s *scene) string
	nodeTimeout time.Duration // of the nodes; 0: the one that the command line says
	strike      func(s *scene)
	targets     func(r row) []page.Verdict
}

// faults are all of them, in the order of the table.
var faults = []fault{
	{name: "failover", title: "CLUSTER FAILOVER", promotes: true, strike: byHand("")},
	{name: "force", title: "CLUSTER FAILOVER FORCE", lossy: true, promotes: true, strike: byHand("FORCE")},
	{name: "takeover", title: "CLUSTER FAILOVER TAKEOVER", lossy: true, promotes: true,
		strike: byHand("TAKEOVER")},
	{name: "kill", title: "master killed (-9)", lossy: true, promotes: true, targets: swift(50),
		strike: kill},
	{name: "kill-2s", title: "master killed (-9), cluster-node-timeout 2s", nodeTimeout: 2 * time.Second,
		lossy: true, promotes: true, targets: swift(50), strike: kill},
	{name: "kill-full", title: "master killed (-9), cluster-require-full-coverage yes", lossy: true,
		promotes: true, args: []string{"--cluster-require-full-coverage", "yes"}, strike: kill},
	{name: "restart", title: "master killed (-9) and started again at once",
		strike: func(s *scene) { s.master.Restart(s) }},
	{name: "stop-1s", title: "master stopped (SIGSTOP) for 1 s", strike: stop(time.Second)},
	{name: "stop-5s", title: "master stopped (SIGSTOP) for 5 s", lossy: true, strike: stop(5 * time.Second)},
	{name: "stop-15s", title: "master stopped (SIGSTOP) for 15 s", lossy: true, targets: swift(100),
		strike: stop(15 * time.Second)},
	{name: "stop-15s-2s", title: "master stopped (SIGSTOP) for 15 s, cluster-node-timeout 2s",
		nodeTimeout: 2 * time.Second, lossy: true, targets: swift(100), strike: stop(15 * time.Second)},
	{name: "cut", title: "master cut off: every packet dropped, for 16 s", needs: ownNetwork, lossy: true,
		targets: swift(100), strike: cut(true)},
	{name: "bus", title: "bus of a master cut, but not the clients' port, for 16 s", needs: ownNetwork,
		lossy: true, strike: cut(false)},
	{name: "flows", title: "all connections to a master forgotten by a firewall, new ones work",
		needs: ownNetwork, strike: forget},
	{name: "sleep", title: "DEBUG SLEEP 2 at a master",
		strike: func(s *scene) { s.master.Do(s, "DEBUG", "SLEEP", "2") }},
	{name: "client-kill", title: "CLIENT KILL of all connections at all masters, 10 times in 1 s", all: true,
		strike: func(s *scene) {
			for range 10 {
				s.cluster.Each(s, "CLIENT", "KILL", "TYPE", "normal")
				time.Sleep(100 * time.Millisecond)
			}
		}},
	{name: "client-pause", title: "CLIENT PAUSE 1000 at a master", strike: func(s *scene) {
		s.master.Do(s, "CLIENT", "PAUSE", "1000", "ALL")
		time.Sleep(time.Second)
	}},
	{name: "replica", title: "a replica killed (-9)", strike: func(s *scene) { s.replica.Kill() }},
	{name: "replicas", title: "all replicas killed (-9)", all: true, strike: func(s *scene) {
		for _, n := range s.cluster.Nodes[masters:] {
			n.Kill()
		}
	}},
	{name: "overload", strike: overload, title: "a master slowed down by commands, under kept holds"},
	{name: "slots", title: "the slots of a master move away under load, and back", strike: moveSlots},
	{name: "node", title: "a node is added, gets slots, gives them back, and is removed", strike: addNode},
	{name: "rolling", title: "all six nodes restarted in turn, masters after CLUSTER FAILOVER", all: true,
		strike: rollNodes},
	{name: "names", title: "a master restarts at another address of the same host name", needs: ownNames,
		args: []string{"--cluster-preferred-endpoint-type", "hostname"}, each: named,
		upstream: namedUpstream, strike: renumber},
	{name: "disk", title: "a master that cannot save: MISCONF for 3 s", strike: fillDisk},
	{name: "loading", title: "a master that loads its data for about 3 s", strike: reload},
	{name: "slow", title: "a master whose replies come 200 ms late, for 3 s", links: true,
		strike: func(s *scene) {
			s.master.Link.Delay(100 * time.Millisecond)
			time.Sleep(3 * time.Second)
			s.master.Link.Delay(0)
		}},
	{name: "proxy-stop", title: "a proxy stopped (SIGSTOP) for 2 s", proxies: true,
		strike: func(s *scene) { halt(s.proxies[0].Process, 2*time.Second) }},
	{name: "proxy-term", title: "a proxy ended (SIGTERM) behind haproxy", proxies: true, behind: true,
		all: true, strike: func(s *scene) { s.endProxy(0) }},
	{name: "proxy-kill", title: "a proxy killed (-9) behind haproxy", proxies: true, behind: true,
		all: true, strike: func(s *scene) { s.proxies[0].Kill() }},
	{name: "proxy-rolling", proxies: true, behind: true, again: true, all: true, strike: rollProxies,
		title:   "both proxies restarted in turn behind haproxy, 6 times; plain clients try again once",
		targets: unharmed},
}

// happen has the fault happen.
func (f *fault) happen(s *scene) {
	s.struck = s.load.now()
	f.strike(s)
	if f.promotes {
		s.promotion()
	}
	s.over = s.load.now()
}

func faultNames() (names []string) {
	for _, f := range faults {
		names = append(names, f.name)
	}
	return names
}

// faultNamed is nil if there is none.
func faultNamed(name string) *fault {
	if i := slices.Index(faultNames(), name); i >= 0 {
		return &faults[i]
	}
	return nil
}

// byHand has a replica take over.
func byHand(how string) func(s *scene) {
	return func(s *scene) { s.replica.Do(s, strings.Fields("CLUSTER FAILOVER "+how)...) }
}

func kill(s *scene) { s.master.Kill() }

// stop stops the master for d: a replica may be asked for its vote, or not yet.
func stop(d time.Duration) func(s *scene) { return func(s *scene) { halt(s.master.Process, d) } }

func halt(p *rig.Process, d time.Duration) {
	p.Signal(syscall.SIGSTOP)
	time.Sleep(d)
	p.Signal(syscall.SIGCONT)
}

func (s *scene) endProxy(i int) {
	s.proxies[i].Signal(syscall.SIGTERM)
	if code := s.proxies[i].Wait(rig.Patience); code != 0 {
		s.Errorf("lockproxy ended with %d after SIGTERM: %s", code, s.proxies[i].Log.Tail())
	}
}

// rollProxies restarts both proxies in turn, each at its own addresses, one when haproxy sees the other.
func rollProxies(s *scene) {
	for i := range 6 {
		s.endProxy(i % 2)
		s.proxies[i%2] = rig.StartBinary(s, s.binary(s), s.proxies[i%2].Cmd.Args[1:]...)
		time.Sleep(time.Second) // haproxy asks every 200 ms
	}
}

// moveSlots moves the slots that are in use at a master to another one, and back.
func moveSlots(s *scene) {
	tags := s.load.tags[s.shard]
	to := s.cluster.MasterOf(s, s.load.tags[(s.shard+1)%masters][0])
	s.shift(tags, s.master, to)
	s.shift(tags, to, s.master)
}

// shift moves slots, one after the other.
func (s *scene) shift(tags []string, from, to *rig.Server) {
	for _, tag := range tags {
		s.cluster.Migrate(s, s.cluster.SlotOf(s, tag), from, to, time.Millisecond)
	}
	s.cluster.Agreed(s) // or a node that has not heard of it yet may take a slot back
}

func addNode(s *scene) {
	tags := s.load.tags[s.shard]
	// It does not become a replica by itself when it has given its last slot back.
	n := s.cluster.Join(s, "--cluster-announce-ip", "127.0.0.1", "--cluster-allow-replica-migration", "no",
		"--cluster-node-timeout", fmt.Sprint(s.nodeTimeout.Milliseconds()), "--protected-mode", "no")
	s.cluster.Agreed(s)
	s.shift(tags, s.master, n)
	s.shift(tags, n, s.master)
	s.cluster.Leave(s, n)
}

// rollNodes restarts every node: a master gives its slots to its replica before.
func rollNodes(s *scene) {
	for _, n := range slices.Concat(s.cluster.Nodes[masters:], s.cluster.Nodes[:masters]) {
		if n.Info(s, "replication", "role") == "master" {
			heir := s.replicaOf(n)
			heir.Promote(s)
			rig.Eventually(s, rig.Patience, "the former master is a replica", func() bool {
				return n.Info(s, "replication", "role") != "master"
			})
		}
		n.Signal(syscall.SIGTERM)
		if n.Wait(rig.Patience) < 0 {
			s.Errorf("redis-server at %s does not end", n.Addr)
		}
		n.Restart(s)
		rig.Eventually(s, 2*rig.Patience, "the replica is in sync again", func() bool {
			return n.Info(s, "replication", "master_link_status") == "up"
		})
		s.cluster.Whole(s, len(s.cluster.Nodes))
	}
}

// config sets one at the master that the fault strikes.
func (s *scene) config(name string, value any) {
	s.master.Do(s, "CONFIG", "SET", name, fmt.Sprint(value))
}

// fillDisk has a master fail to save, by a directory that is no more: so it refuses writes. That is what a
// full disk does.
func fillDisk(s *scene) {
	good, gone := s.master.Do(s, "CONFIG", "GET", "dir").Elems[1].Text, s.TempDir()
	s.config("save", "3600 1000000")
	s.config("dir", gone)
	if err := os.RemoveAll(gone); err != nil {
		s.Fatalf("%v", err)
	}
	save := func(outcome string) {
		s.master.Do(s, "BGSAVE")
		rig.Eventually(s, rig.Patience, "BGSAVE: "+outcome, func() bool {
			text := s.master.Do(s, "INFO", "persistence").Text
			return rig.InfoField(text, "rdb_bgsave_in_progress") == "0" &&
				rig.InfoField(text, "rdb_last_bgsave_status") == outcome
		})
	}
	save("err")
	time.Sleep(3 * time.Second)
	s.config("dir", good)
	save("ok")
}

// reload has a master read its data anew, so slowly that it takes a few seconds.
func reload(s *scene) {
	s.config("key-load-delay", max(1, 3_000_000/max(s.master.Do(s, "DBSIZE").Int(), 1)))
	s.config("loading-process-events-interval-bytes", 1024)
	s.master.Do(s, "DEBUG", "RELOAD")
	s.config("key-load-delay", 0)
}

// haproxyFile spreads clients over the proxies that say they are ready.
//
//go:embed text/haproxy.cfg
var haproxyFile string

// startHaproxy puts one before the two proxies.
func (s *scene) startHaproxy() {
	s.front = fmt.Sprint("127.0.0.1:", rig.FreePort(s))
	at := []any{s.front}
	for _, p := range s.proxies {
		at = append(at, p.Addr, p.Admin[strings.LastIndex(p.Admin, ":")+1:])
	}
	h := rig.StartProcess(s, "haproxy", "-db", "-f",
		rig.WriteFile(s, "haproxy.cfg", fmt.Sprintf(haproxyFile, at...)))
	h.Await(s, "before a proxy that is ready", func() bool {
		v, err := rig.Ask(s.front, "PING")
		return err == nil && v.Text == "PONG"
	})
}
