package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/rig"
	"lockproxy/integration/trace"
)

// quorumRig are two proxies whose locks three or five masters keep. These forget everything when they
// restart, and are behind links.
//
//	two proxies ---> links ---> masters
type quorumRig struct {
	*traced
	masters rig.Masters
	few     int // may be away: a majority is left

	timeout, shortest, longest time.Duration
}

// quickTimeout is for a machine that has nothing else to do.
const quickTimeout = 75 * time.Millisecond

// startQuorumRig has a master that does not answer given up after timeout, which is a twentieth of the
// shortest lease. The longest is not much longer, so that a quarantine ends soon.
func startQuorumRig(t *testing.T, n int, timeout time.Duration) *quorumRig {
	q := &quorumRig{few: n / 2, timeout: timeout, shortest: 20 * timeout,
		longest: 20*timeout + 1500*time.Millisecond}
	var links []string
	for range n {
		s := rig.StartRedis(rig.On(t, *traceServer))
		s.Link = rig.StartLink(t, s.Addr)
		q.masters, links = append(q.masters, s), append(links, s.Link.Addr())
	}
	q.traced = startTraced(t, "--upstream", rig.StartRedis(t).Addr, "--redlock", strings.Join(links, ","),
		"--redlock-node-timeout", timeout.String(), "--lock-lease", q.shortest.String(),
		"--redlock-max-lease", q.longest.String())
	q.vote()
	return q
}

// vote waits until both proxies count all masters.
func (q *quorumRig) vote() {
	q.t.Helper()
	for n := range 2 {
		rig.Eventually(q.t, 2*rig.Patience,
			fmt.Sprintf("all masters vote, as proxy %d sees it", n), func() bool {
				return q.proxy(n).Metric(q.t, "lockproxy_redlock_node_votes") == float64(len(q.masters))
			})
	}
}

// Clients of two proxies over three masters, and five, take, renew, check and free locks at random while
// masters are killed, forget, hang, or cannot be reached: fewer than half of them, and now and then
// one more. No order of their calls may need a lock that breaks its promise, and without a majority there is
// no answer at all but an error. As TestTraces with regard to order and time.
// R2 R5 R8 R14 R15 R16 R27 R31
func TestRedlockTraces(t *testing.T) {
	t.Parallel()
	timeout := 400 * time.Millisecond // for a busy machine
	if *rig.Long || *traceOps > 0 {
		timeout = quickTimeout
	}
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n, " masters"), func(t *testing.T) {
			t.Parallel()
			q := startQuorumRig(t, n, timeout)
			takeTraces(t, 4, q.faults(), q.round)
		})
	}
}

func (q *quorumRig) round(seed uint64, n int, d *deck) trace.Round {
	r := trace.Round{
		Seed: seed, Clients: 8, Proxies: 2, For: 1500 * time.Millisecond, Think: 10 * time.Millisecond,
		Slacks:    trace.Slacks{Standing: 400 * time.Millisecond, Wakeup: 5 * time.Second, Late: time.Second},
		Timeless:  q.timeless,
		Dial:      q.dial,
		Upgrades:  true,
		Keepalive: true,
		Notify:    true,
		Linger:    true,
		AtLeast:   true,
		Breaks:    true,
		Sets:      true,
		Looks:     true,
		Probe:     true,
		Quorum:    true,
		Shortest:  q.shortest,
		Stall:     q.timeout / 2,
	}
	few := n%5 == 4 // meet, so that it can be seen who is refused for no reason
	if !few {
		fill(&r, 10) // five masters are asked by each
	}
	for i := range r.Clients * 3 / 8 {
		r.Keys = append(r.Keys, fmt.Sprintf("quorum-%d-%d", r.Seed, i))
	}
	if few {
		r.Clients, r.Think = 3, 50*time.Millisecond
		return r
	}
	d.draw(1).into(&r)
	return r
}

// harm is what happens to one master. It is over when the master could vote again, or is in quarantine.
type harm struct {
	name string
	run  func(random *rand.Rand, s *rig.Server)
}

func (q *quorumRig) harms() []harm {
	return []harm{
		{"killed", func(random *rand.Rand, s *rig.Server) {
			s.Kill()
			time.Sleep(between(random, 0, 300*time.Millisecond))
			s.Restart(q.t)
		}},
		{"stopped", func(random *rand.Rand, s *rig.Server) {
			stop(s.Process, between(random, 30*time.Millisecond, 2*time.Second))
		}},
		{"half-open", func(random *rand.Rand, s *rig.Server) {
			s.Link.HalfOpen(true)
			time.Sleep(between(random, 100*time.Millisecond, 2*time.Second))
			s.Link.HalfOpen(false)
		}},
		{"far away", func(random *rand.Rand, s *rig.Server) {
			s.Link.Delay(between(random, 5*time.Millisecond, 200*time.Millisecond))
			time.Sleep(between(random, 300*time.Millisecond, 2*time.Second))
			s.Link.Delay(0)
		}},
		{"cut", func(random *rand.Rand, s *rig.Server) {
			for range 4 {
				s.Link.Cut()
				time.Sleep(between(random, time.Millisecond, 300*time.Millisecond))
			}
		}},
		{"replies cut", func(random *rand.Rand, s *rig.Server) {
			for range 6 {
				s.Link.CutReply("EVALSHA", random.IntN(40)-1, random.IntN(40)-1)
				time.Sleep(between(random, 50*time.Millisecond, 200*time.Millisecond))
				s.Link.Disarm()
			}
		}},
	}
}

// faults are each harm to one master, of five also to two, and others. Each lasts until all masters vote
// again.
func (q *quorumRig) faults() []fault {
	some := func(random *rand.Rand, n int) (all rig.Masters) {
		for _, i := range random.Perm(len(q.masters))[:n] {
			all = append(all, q.masters[i])
		}
		return all
	}
	all := q.closings()
	add := func(name string, takes time.Duration, run func(random *rand.Rand, r *trace.Running)) {
		all = append(all, fault{name, 1500 * time.Millisecond, takes, false,
			func(random *rand.Rand, r *trace.Running, _ *trace.Event) {
				run(random, r)
				q.vote()
			}})
	}
	harms := q.harms()
	for i, h := range harms {
		takes := 2 * time.Second
		if h.name == "killed" {
			takes += q.longest
		}
		add("one "+h.name, takes,
			func(random *rand.Rand, _ *trace.Running) { h.run(random, some(random, 1)[0]) })
		for _, g := range harms[i:] {
			if q.few < 2 {
				break
			}
			add(h.name+" + "+g.name, takes, func(random *rand.Rand, _ *trace.Running) {
				two := some(random, 2)
				pause := between(random, 0, time.Second)
				first := rand.New(rand.NewPCG(random.Uint64(), 1))
				second := rand.New(rand.NewPCG(random.Uint64(), 2))
				var both sync.WaitGroup
				both.Go(func() { h.run(first, two[0]) })
				both.Go(func() { time.Sleep(pause); g.run(second, two[1]) })
				both.Wait()
			})
		}
	}
	add("SCRIPT FLUSH", 0, func(random *rand.Rand, _ *trace.Running) {
		for _, s := range some(random, 1+random.IntN(len(q.masters))) {
			s.Do(q.t, "SCRIPT", "FLUSH")
		}
	})
	add("clients killed", 500*time.Millisecond, func(random *rand.Rand, r *trace.Running) {
		for range 6 {
			r.Kill(random.IntN(r.Clients))
			time.Sleep(between(random, 10*time.Millisecond, 100*time.Millisecond))
		}
	})
	add("proxy killed", 2*time.Second, func(random *rand.Rand, _ *trace.Running) {
		n := random.IntN(2)
		q.proxy(n).Kill()
		time.Sleep(between(random, 0, time.Second))
		q.replace(n)
	})
	add("proxy killed, and a master", 2*time.Second+q.longest, func(random *rand.Rand, _ *trace.Running) {
		s := some(random, 1)[0]
		s.Restart(q.t)
		n := random.IntN(2)
		q.proxy(n).Kill()
		time.Sleep(between(random, 0, time.Second))
		q.replace(n)
	})
	add("proxy stopped", 2*time.Second, func(random *rand.Rand, _ *trace.Running) {
		stop(q.proxy(random.IntN(2)).Process, between(random, 100*time.Millisecond, 2*time.Second))
	})
	for name, away := range map[string]struct{ go_, back func(s *rig.Server) }{
		"too many stopped": {func(s *rig.Server) { s.Signal(syscall.SIGSTOP) },
			func(s *rig.Server) { s.Signal(syscall.SIGCONT) }},
		"too many half-open": {func(s *rig.Server) { s.Link.HalfOpen(true) },
			func(s *rig.Server) { s.Link.HalfOpen(false) }},
		"too many killed": {func(s *rig.Server) { s.Kill() }, func(s *rig.Server) { s.Restart(q.t) }},
		"too many cut off": {func(s *rig.Server) { s.Link.Refuse(true); s.Link.Cut() },
			func(s *rig.Server) { s.Link.Refuse(false) }},
	} {
		add(name, 2*time.Second, func(random *rand.Rand, r *trace.Running) {
			many := some(random, q.few+1)
			for _, s := range many {
				away.go_(s)
				time.Sleep(between(random, 0, 100*time.Millisecond))
			}
			time.Sleep(50 * time.Millisecond) // what is on its way arrives
			e := trace.Event{Name: "no majority", Start: r.Now(), Barren: true}
			time.Sleep(between(random, 500*time.Millisecond, 2*time.Second))
			e.End = r.Now()
			r.Note(e)
			for _, s := range many {
				away.back(s)
				time.Sleep(between(random, 0, 100*time.Millisecond))
			}
		})
	}
	// the same for each seed
	slices.SortFunc(all, func(a, b fault) int { return strings.Compare(a.name, b.name) })
	return all
}
