package faults

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lockproxy/integration/rig"
	"lockproxy/integration/trace"
)

// fault is something that goes wrong during a trace. run returns when it is over, and names in e the locks
// of which it may lose something, or says that it hinders clients only.
type fault struct {
	name   string
	settle time.Duration // how long order and time may suffer afterwards
	takes  time.Duration // about how long it lasts
	resent bool          // requests may be sent again because of it
	run    func(random *rand.Rand, r *trace.Running, e *trace.Event)
}

// deck gives out faults, each kind once before any comes again.
type deck struct {
	random *rand.Rand
	all    []fault
	rest   []fault
}

func newDeck(faults []fault, random *rand.Rand) *deck {
	return &deck{random: random, all: faults}
}

// draw is what goes wrong in one round: so many faults, or one more.
func (d *deck) draw(n int) (faults hand) {
	for range n + d.random.IntN(2) {
		if len(d.rest) == 0 {
			for _, i := range d.random.Perm(len(d.all)) {
				d.rest = append(d.rest, d.all[i])
			}
		}
		faults, d.rest = append(faults, d.rest[0]), d.rest[1:]
	}
	return faults
}

// A proxy's waiters count as alive for 3 s after it was last heard, and half a second is
// reserved for one of them.
const liveness = 4 * time.Second

// between is a random time.
func between(random *rand.Rand, a, b time.Duration) time.Duration {
	return a + time.Duration(random.Int64N(int64(b-a)))
}

// stop stops a process for d.
func stop(p *rig.Process, d time.Duration) {
	p.Signal(syscall.SIGSTOP)
	time.Sleep(d)
	p.Signal(syscall.SIGCONT)
}

// closings are the causes for which a proxy closes connections.
func (two *traced) closings() []fault {
	return []fault{
		{"clients killed by the proxy", time.Second, 500 * time.Millisecond, false,
			func(random *rand.Rand, r *trace.Running, e *trace.Event) {
				e.Clean = true
				for range 6 {
					r.Cut(random.IntN(r.Clients))
					time.Sleep(between(random, 10*time.Millisecond, 100*time.Millisecond))
				}
			}},
		{"clients over their output limit", time.Second, 500 * time.Millisecond, false,
			func(random *rand.Rand, r *trace.Running, e *trace.Event) {
				e.Clean = true
				n := random.IntN(2)
				for range 3 {
					r.Shut(n, func() {
						// a grant is longer
						two.set(n, "client-output-buffer-limit", "normal 10 0 0", func() {
							time.Sleep(between(random, 5*time.Millisecond, 50*time.Millisecond))
						})
					})
					time.Sleep(between(random, 0, 100*time.Millisecond))
				}
			}},
		{"idle clients", time.Second, 3 * time.Second, false,
			func(random *rand.Rand, r *trace.Running, e *trace.Event) {
				e.Clean = true
				n := random.IntN(2)
				r.Shut(n, func() {
					two.set(n, "timeout", "1", func() {
						for range r.Clients / 2 {
							r.Rest(random.IntN(r.Clients),
								between(random, 1500*time.Millisecond, 2500*time.Millisecond))
						}
						time.Sleep(2500 * time.Millisecond)
					})
				})
			}},
	}
}

// set has a setting of proxy n be another one while f runs.
func (two *traced) set(n int, name, value string, f func()) {
	c := rig.Connect(two.t, two.proxy(n).Addr)
	defer c.Close()
	was := c.Must(two.t, "CONFIG", "GET", name).Elems[1].Text
	c.Must(two.t, "CONFIG", "SET", name, value)
	f()
	other := rig.Connect(two.t, two.proxy(n).Addr) // the first may have been closed
	defer other.Close()
	other.Must(two.t, "CONFIG", "SET", name, was)
}

// faults are those that need nothing but clients and proxies.
func (two *traced) faults() []fault {
	return append(two.closings(), []fault{
		{"clients killed", time.Second, 500 * time.Millisecond, false,
			func(random *rand.Rand, r *trace.Running, e *trace.Event) {
				e.Clean = true
				for range 6 {
					r.Kill(random.IntN(r.Clients))
					time.Sleep(between(random, 10*time.Millisecond, 100*time.Millisecond))
				}
			}},
		{"proxy killed", liveness, 2 * time.Second, false,
			func(random *rand.Rand, _ *trace.Running, _ *trace.Event) {
				n := random.IntN(2)
				two.proxy(n).Kill()
				time.Sleep(between(random, 0, time.Second))
				two.replace(n)
			}},
		{"proxy stopped", liveness, 2 * time.Second, false,
			func(random *rand.Rand, _ *trace.Running, _ *trace.Event) {
				stop(two.proxy(random.IntN(2)).Process, between(random, 100*time.Millisecond, 2*time.Second))
			}},
	}...)
}

func (tr *traceRig) faults() []fault {
	c, t := tr.cluster, tr.t
	victim := func(random *rand.Rand, r *trace.Running) (key string, master *rig.Server) {
		key = r.Keys[random.IntN(len(r.Keys))]
		return key, c.MasterOf(t, key)
	}
	failover := func(lossy bool, how ...string) func(*rand.Rand, *trace.Running, *trace.Event) {
		return func(random *rand.Rand, r *trace.Running, e *trace.Event) {
			_, master := victim(random, r)
			if lossy {
				e.Loses = tr.locksOf(r, master)
			}
			replicas := c.ReplicasOf(t, master)
			if len(replicas) == 0 {
				t.Fatalf("%s has no replica any more", master.Addr)
			}
			replicas[0].Promote(t, how...)
			tr.settled()
		}
	}
	return append(tr.traced.faults(), []fault{
		{"SCRIPT FLUSH", 500 * time.Millisecond, 0, false,
			func(random *rand.Rand, r *trace.Running, _ *trace.Event) {
				_, master := victim(random, r)
				master.Do(t, "SCRIPT", "FLUSH")
			}},
		{"subscriptions cut", time.Second, 0, false, func(*rand.Rand, *trace.Running, *trace.Event) {
			c.Each(t, "CLIENT", "KILL", "TYPE", "pubsub")
		}},
		{"Redis stopped", 2 * time.Second, time.Second, true,
			func(random *rand.Rand, r *trace.Running, _ *trace.Event) {
				_, master := victim(random, r)
				stop(master.Process, between(random, 100*time.Millisecond, 1200*time.Millisecond))
			}},
		{"Redis stopped for long", liveness, 6 * time.Second, true,
			func(random *rand.Rand, r *trace.Running, e *trace.Event) {
				_, master := victim(random, r)
				e.Loses = tr.locksOf(r, master)
				stop(master.Process, between(random, 3*time.Second, 5*time.Second))
				tr.settled()
			}},
		{"fail-over", liveness, 2 * time.Second, true, failover(false)},
		{"fail-over FORCE", liveness, 2 * time.Second, true, failover(true, "FORCE")},
		{"fail-over TAKEOVER", liveness, 2 * time.Second, true, failover(true, "TAKEOVER")},
		{"connections cut", time.Second, 500 * time.Millisecond, true,
			func(random *rand.Rand, r *trace.Running, _ *trace.Event) {
				for range 3 {
					_, master := victim(random, r)
					master.Link.Cut()
					time.Sleep(between(random, time.Millisecond, 200*time.Millisecond))
				}
			}},
		{"replies cut", time.Second, time.Second, true,
			func(random *rand.Rand, r *trace.Running, _ *trace.Event) {
				for range 5 {
					_, master := victim(random, r)
					master.Link.CutReply("EVALSHA", random.IntN(40)-1, random.IntN(40)-1)
					time.Sleep(between(random, 50*time.Millisecond, 200*time.Millisecond))
					master.Link.Disarm()
				}
			}},
		{"Redis far away", time.Second, time.Second, true,
			func(random *rand.Rand, r *trace.Running, _ *trace.Event) {
				_, master := victim(random, r)
				master.Link.Delay(between(random, 10*time.Millisecond, 200*time.Millisecond))
				time.Sleep(between(random, 300*time.Millisecond, time.Second))
				master.Link.Delay(0)
			}},
		{"half-open connections", liveness, 3 * time.Second, true,
			func(random *rand.Rand, r *trace.Running, _ *trace.Event) {
				_, master := victim(random, r)
				master.Link.HalfOpen(true)
				time.Sleep(between(random, 500*time.Millisecond, 3*time.Second))
				master.Link.HalfOpen(false)
			}},
		{"slot moved", 2 * time.Second, time.Second, true,
			func(random *rand.Rand, r *trace.Running, _ *trace.Event) {
				key, from := victim(random, r)
				slot := c.SlotOf(t, key)
				for range 1 + random.IntN(2) {
					to := from
					for to == from {
						to = c.MasterOf(t, strconv.Itoa(random.IntN(1000)))
					}
					c.Migrate(t, slot, from, to, between(random, time.Millisecond, 50*time.Millisecond))
					from = to
				}
			}},
	}...)
}

// locksOf are the locks of the round that a master serves.
func (tr *traceRig) locksOf(r *trace.Running, master *rig.Server) (keys []string) {
	for _, key := range r.Keys {
		if tr.cluster.MasterOf(tr.t, key) == master {
			keys = append(keys, key)
		}
	}
	return keys
}

// settled waits until all nodes agree on the masters and each of these has a
// replica that is in sync.
func (tr *traceRig) settled() {
	c, t := tr.cluster, tr.t
	roles := func(n *rig.Server) string {
		var masters []string
		for line := range strings.Lines(n.Do(t, "CLUSTER", "NODES").Text) {
			if f := strings.Fields(line); len(f) > 3 && strings.Contains(f[2], "master") && len(f) > 8 {
				masters = append(masters, f[0])
			}
			if strings.Contains(line, "fail") {
				return ""
			}
		}
		return strconv.Itoa(len(masters))
	}
	for _, n := range c.Nodes {
		rig.Eventually(t, 2*rig.Patience, "the cluster has settled, as "+n.Addr+" sees it", func() bool {
			return roles(n) == "3" && (n.Info(t, "replication", "role") == "master" ||
				n.Info(t, "replication", "master_link_status") == "up")
		})
	}
	replicas := 0
	for _, n := range c.Nodes {
		if n.Info(t, "replication", "role") != "master" {
			replicas++
		}
	}
	if replicas != 3 {
		rig.Eventually(t, 2*rig.Patience, "each master has a replica", func() bool {
			replicas = 0
			for _, n := range c.Nodes {
				if n.Info(t, "replication", "master_link_status") == "up" {
					replicas++
				}
			}
			return replicas == 3
		})
	}
}
