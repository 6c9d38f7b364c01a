package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"lockproxy/integration/rig"
)

// holding and held are what LOCK and LOCKCTL CHECK say of a hold.
func holding(v rig.Reply) bool { return len(v.Elems) == 4 }
func held(v rig.Reply) bool    { return len(v.Elems) == 3 }

// keeper is a proxy that keeps holds alive at nodes, of which a majority has each; the first is overloaded.
type keeper struct {
	name      string
	proxy     *rig.Proxy
	nodes     []*rig.Server
	limit     time.Duration // of an answer, whatever the lease
	all, lost int           // holds
}

// overload slows down one Redis, a master, and one of three masters of RedLock: ten clients send them slow
// commands. No hold may be told lost whose answers come in time, and each that is lost must be told.
func overload(s *scene) {
	one, three := rig.StartRedis(s), rig.StartMasters(s, 3)
	start := func(args ...string) *rig.Proxy {
		return rig.StartBinary(s, s.binary(s), append(args, "--upstream", one.Addr, "--lock-lease", "10s")...)
	}
	voting := start("--redlock", rig.Addrs(three), "--redlock-node-timeout", "250ms", "--redlock-max-lease",
		"10s", "--lock-fleet", rig.Addrs(three))
	voting.Vote(s, len(three))
	keepers := []*keeper{{"one Redis", start(), []*rig.Server{one}, time.Minute, 0, 0},
		{"a shard", s.proxies[0], []*rig.Server{s.master}, time.Minute, 0, 0},
		{"RedLock", voting, three, 250 * time.Millisecond, 0, 0}}
	for n, each := range []time.Duration{20, -60, 60, -180, 200} { // ms, as bear takes it
		var tasks sync.WaitGroup
		for _, k := range keepers {
			if k.nodes[0] == s.master && each.Abs() > s.nodeTimeout/40e6 {
				continue // a replica would take over
			}
			tasks.Go(func() {
				if err := s.Attempt(func() { k.bear(s, n, each*time.Millisecond) }); err != nil {
					s.Errorf("%v", err)
				}
			})
		}
		tasks.Wait()
	}
	for _, k := range keepers {
		s.note("%s: %d of %d holds were told lost, whose answers came too late", k.name, k.lost, k.all)
	}
}

// bear takes holds, and has each client keep their Redis busy for slow at a time; negative: for up to that.
func (k *keeper) bear(s *scene, n int, slow time.Duration) {
	const each, lasts = 10, 12 * time.Second
	leases := []time.Duration{time.Second, 3 * time.Second, 10 * time.Second}
	c := []*rig.Conn{rig.Connect(s, k.proxy.Addr)}
	defer c[0].Close()
	name := func(i, j int) string { return fmt.Sprintf("{%s}kept:%d:%d", s.load.tags[s.shard][i], n, j) }
	for i, lease := range leases {
		ask(c, each, holding, func(_, j int) string {
			return fmt.Sprintf("LOCK %s TOKEN t PX %d KEEPALIVE", name(i, j), lease.Milliseconds())
		})
	}
	busy, ears := slices.Repeat([]plain{{addr: k.nodes[0].Addr}}, 10), make([]plain, len(k.nodes))
	begun, longest := time.Now(), make([]time.Duration, len(k.nodes))
	stop := every(len(k.nodes), 20*time.Millisecond, func(i, _ int) {
		asked := time.Now()
		ears[i].addr = k.nodes[i].Addr
		ears[i].run([]string{"PING"})
		longest[i] = max(longest[i], time.Since(asked))
	})
	rest := every(len(busy), 0, func(i, _ int) {
		d := max(slow, -slow*time.Since(begun)/lasts).Seconds()
		busy[i].run([]string{"DEBUG", "SLEEP", fmt.Sprintf("%.3f", d)})
	})
	time.Sleep(lasts)
	rest()
	stop()
	for i, lease := range leases {
		lost, there, keys := 0, make([]int64, len(k.nodes)), []string{"EXISTS"}
		for j := range each {
			keys = append(keys, "lock:"+name(i, j))
		}
		rig.Eventually(s, rig.Patience, k.name+" has each hold, or says that it is lost", func() bool {
			is := func(_, j int) string { return "LOCKCTL CHECK " + name(i, j) + " t" }
			silent, _ := ask(c, each, func(v rig.Reply) bool { return held(v) || v.IsError("LOCKLOST") }, is)
			lost, _ = ask(c, each, held, is)
			for n, node := range k.nodes {
				there[n] = node.Do(s, keys...).Int()
			}
			return silent == 0 && int(middle(there)) >= each-lost
		})
		k.all, k.lost = k.all+each, k.lost+lost
		if took := middle(longest); lost > 0 && took < min(lease/2, k.limit) {
			s.Errorf("%s: %d holds of %v are lost, but no answer took over %v", k.name, lost, lease, took)
		}
	}
}

// middle is what a majority has, or more.
func middle[T cmp.Ordered](all []T) T { return slices.Sorted(slices.Values(all))[len(all)/2] }

// ask sends n commands at once over each connection, and says how many replies were not good, and one of
// them.
func ask(conns []*rig.Conn, n int, good func(rig.Reply) bool, command func(i, k int) string) (bad int,
	why string) {
	var mu sync.Mutex
	var asked sync.WaitGroup
	found := func(more int, such string) {
		mu.Lock()
		defer mu.Unlock()
		bad, why = bad+more, such
	}
	for i, conn := range conns {
		asked.Go(func() {
			var all [][]string
			for k := range n {
				all = append(all, strings.Fields(command(i, k)))
			}
			heard := 0
			err := pipeline(conn, all, func(_ int, v rig.Reply) {
				if heard++; !good(v) {
					found(1, v.String())
				}
			})
			if err != nil {
				found(n-heard, err.Error())
			}
		})
	}
	asked.Wait()
	return bad, why
}
