package integration

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lockproxy/integration/trace"
)

// fault is something that goes wrong during a trace. run returns when it is over, and
// names in e the locks of which it may lose something.
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
func stop(p *process, d time.Duration) {
	p.signal(syscall.SIGSTOP)
	time.Sleep(d)
	p.signal(syscall.SIGCONT)
}

func (rig *traceRig) faults() []fault {
	c, t := rig.cluster, rig.t
	victim := func(random *rand.Rand, r *trace.Running) (key string, master *server) {
		key = r.Keys[random.IntN(len(r.Keys))]
		return key, c.masterOf(t, key)
	}
	failover := func(lossy bool, how ...string) func(*rand.Rand, *trace.Running, *trace.Event) {
		return func(random *rand.Rand, r *trace.Running, e *trace.Event) {
			_, master := victim(random, r)
			if lossy {
				e.Loses = rig.locksOf(r, master)
			}
			replica := c.replicasOf(t, master)[0]
			replica.do(t, append([]string{"CLUSTER", "FAILOVER"}, how...)...)
			eventually(t, 2*patience, "the replica is master", func() bool {
				return replica.info(t, "replication", "role") == "master"
			})
			rig.settled()
		}
	}
	return []fault{
		{"SCRIPT FLUSH", 500 * time.Millisecond, 0, false, func(random *rand.Rand, r *trace.Running, _ *trace.Event) {
			_, master := victim(random, r)
			master.do(t, "SCRIPT", "FLUSH")
		}},
		{"subscriptions cut", time.Second, 0, false, func(*rand.Rand, *trace.Running, *trace.Event) {
			c.each(t, "CLIENT", "KILL", "TYPE", "pubsub")
		}},
		{"clients killed", time.Second, 500 * time.Millisecond, false, func(random *rand.Rand, r *trace.Running, _ *trace.Event) {
			for range 6 {
				r.Kill(random.IntN(r.Clients))
				time.Sleep(between(random, 10*time.Millisecond, 100*time.Millisecond))
			}
		}},
		{"clients killed by the proxy", time.Second, 500 * time.Millisecond, false, func(random *rand.Rand, r *trace.Running, _ *trace.Event) {
			for range 6 {
				r.Cut(random.IntN(r.Clients))
				time.Sleep(between(random, 10*time.Millisecond, 100*time.Millisecond))
			}
		}},
		{"proxy killed", liveness, 2 * time.Second, false, func(random *rand.Rand, _ *trace.Running, _ *trace.Event) {
			n := random.IntN(2)
			rig.proxy(n).kill()
			time.Sleep(between(random, 0, time.Second))
			rig.replace(n)
		}},
		{"proxy stopped", liveness, 2 * time.Second, false, func(random *rand.Rand, _ *trace.Running, _ *trace.Event) {
			stop(rig.proxy(random.IntN(2)).process, between(random, 100*time.Millisecond, 2*time.Second))
		}},
		{"Redis stopped", 2 * time.Second, time.Second, true, func(random *rand.Rand, r *trace.Running, _ *trace.Event) {
			_, master := victim(random, r)
			stop(master.process, between(random, 100*time.Millisecond, 1200*time.Millisecond))
		}},
		{"Redis stopped for long", liveness, 6 * time.Second, true, func(random *rand.Rand, r *trace.Running, e *trace.Event) {
			_, master := victim(random, r)
			e.Loses = rig.locksOf(r, master)
			stop(master.process, between(random, 3*time.Second, 5*time.Second))
			rig.settled()
		}},
		{"fail-over", liveness, 2 * time.Second, true, failover(false)},
		{"fail-over FORCE", liveness, 2 * time.Second, true, failover(true, "FORCE")},
		{"fail-over TAKEOVER", liveness, 2 * time.Second, true, failover(true, "TAKEOVER")},
		{"connections cut", time.Second, 500 * time.Millisecond, true, func(random *rand.Rand, r *trace.Running, _ *trace.Event) {
			for range 3 {
				_, master := victim(random, r)
				master.link.cut()
				time.Sleep(between(random, time.Millisecond, 200*time.Millisecond))
			}
		}},
		{"replies cut", time.Second, time.Second, true, func(random *rand.Rand, r *trace.Running, _ *trace.Event) {
			for range 5 {
				_, master := victim(random, r)
				master.link.cutReply("EVALSHA", random.IntN(40)-1, random.IntN(40)-1)
				time.Sleep(between(random, 50*time.Millisecond, 200*time.Millisecond))
				master.link.disarm()
			}
		}},
		{"Redis far away", time.Second, time.Second, true, func(random *rand.Rand, r *trace.Running, _ *trace.Event) {
			_, master := victim(random, r)
			master.link.delay(between(random, 10*time.Millisecond, 200*time.Millisecond))
			time.Sleep(between(random, 300*time.Millisecond, time.Second))
			master.link.delay(0)
		}},
		{"half-open connections", liveness, 3 * time.Second, true, func(random *rand.Rand, r *trace.Running, _ *trace.Event) {
			_, master := victim(random, r)
			master.link.halfOpen(true)
			time.Sleep(between(random, 500*time.Millisecond, 3*time.Second))
			master.link.halfOpen(false)
		}},
		{"slot moved", 2 * time.Second, time.Second, true, func(random *rand.Rand, r *trace.Running, _ *trace.Event) {
			key, from := victim(random, r)
			slot := c.slotOf(t, key)
			for range 1 + random.IntN(2) {
				to := from
				for to == from {
					to = c.masterOf(t, strconv.Itoa(random.IntN(1000)))
				}
				c.migrate(t, slot, from, to, between(random, time.Millisecond, 50*time.Millisecond))
				from = to
			}
		}},
	}
}

// locksOf are the locks of the round that a master serves.
func (rig *traceRig) locksOf(r *trace.Running, master *server) (keys []string) {
	for _, key := range r.Keys {
		if rig.cluster.masterOf(rig.t, key) == master {
			keys = append(keys, key)
		}
	}
	return keys
}

// settled waits until all nodes agree on the masters and each of these has a
// replica that is in sync.
func (rig *traceRig) settled() {
	c, t := rig.cluster, rig.t
	roles := func(n *server) string {
		var masters []string
		for line := range strings.Lines(n.do(t, "CLUSTER", "NODES").text) {
			if f := strings.Fields(line); len(f) > 3 && strings.Contains(f[2], "master") && len(f) > 8 {
				masters = append(masters, f[0])
			}
			if strings.Contains(line, "fail") {
				return ""
			}
		}
		return strconv.Itoa(len(masters))
	}
	for _, n := range c.nodes {
		eventually(t, 2*patience, "the cluster has settled, as "+n.addr+" sees it", func() bool {
			return roles(n) == "3" && (n.info(t, "replication", "role") == "master" || n.info(t, "replication", "master_link_status") == "up")
		})
	}
	replicas := 0
	for _, n := range c.nodes {
		if n.info(t, "replication", "role") != "master" {
			replicas++
		}
	}
	if replicas != 3 {
		eventually(t, 2*patience, "each master has a replica", func() bool {
			replicas = 0
			for _, n := range c.nodes {
				if n.info(t, "replication", "master_link_status") == "up" {
					replicas++
				}
			}
			return replicas == 3
		})
	}
}
