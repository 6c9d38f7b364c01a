package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/integration/rig"
	"lockproxy/integration/trace"
)

// movers is how many slots move at a time.
const movers = 3

// movingSlots are slots of a cluster that move all the time, as redis-cli moves them: IMPORTING at the
// target, MIGRATING at the source, MIGRATE of the keys, and then SETSLOT NODE.
type movingSlots struct {
	t       *testing.T
	cluster *rig.Cluster
	ids     []string // of the nodes
	tags    []string // a hash tag of each slot
	slots   []int
	at      []int                 // index of the slot's master
	busy    []chan struct{}       // a place for whoever moves the slot
	wanted  atomic.Pointer[[]int] // those of the round: indexes

	// At a time one move sends keys: two nodes that send some to each other wait until MIGRATE times out.
	// And one move ends: two nodes that take an epoch at the same time take the same one, and then one of
	// them may lose what it has got.
	sending, ending sync.Mutex

	moved, halves, keys atomic.Int64
}

// newMovingSlots finds n slots, all over the cluster.
func newMovingSlots(t *testing.T, c *rig.Cluster, n int) *movingSlots {
	m := &movingSlots{t: t, cluster: c, at: make([]int, n)}
	for _, node := range c.Nodes {
		m.ids = append(m.ids, node.Do(t, "CLUSTER", "MYID").Text)
	}
	asked, known := rig.Connect(t, c.Nodes[0].Addr), map[int]bool{}
	for i := 0; len(m.tags) < n; i++ {
		tag := fmt.Sprintf("m%d", i)
		slot := int(asked.Must(t, "CLUSTER", "KEYSLOT", tag).Int())
		if known[slot] {
			continue
		}
		known[slot] = true
		m.tags, m.slots = append(m.tags, tag), append(m.slots, slot)
		m.busy = append(m.busy, make(chan struct{}, 1))
	}
	for _, r := range asked.Must(t, "CLUSTER", "SLOTS").Elems {
		for i, slot := range m.slots {
			if int64(slot) >= r.Elems[0].Int() && int64(slot) <= r.Elems[1].Int() {
				for k, node := range c.Nodes {
					if int64(node.Port) == r.Elems[2].Elems[1].Int() {
						m.at[i] = k
					}
				}
			}
		}
	}
	return m
}

// run moves slots until ctx ends: those that are wanted in turn with the others.
func (m *movingSlots) run(ctx context.Context, seed uint64) {
	var group sync.WaitGroup
	for k := range movers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(k)))
			var nodes []*rig.Conn
			for _, n := range m.cluster.Nodes {
				nodes = append(nodes, rig.Connect(m.t, n.Addr))
			}
			defer func() {
				for _, n := range nodes {
					n.Close()
				}
			}()
			for n := k; ctx.Err() == nil; n += movers {
				i := n % len(m.slots)
				if wanted := *m.wanted.Load(); n/movers%2 == 0 {
					i = wanted[random.IntN(len(wanted))]
				}
				select {
				case m.busy[i] <- struct{}{}:
					m.move(nodes, i, random)
					<-m.busy[i]
				default:
				}
			}
		})
	}
	group.Wait()
}

// longestHalf is how long a slot stays half moved at most.
const longestHalf = 700 * time.Millisecond

// move moves slot i to another master. Now and then it stays half moved for a while.
func (m *movingSlots) move(nodes []*rig.Conn, i int, random *rand.Rand) {
	from := m.at[i]
	to := (from + 1 + random.IntN(len(nodes)-1)) % len(nodes)
	slot := strconv.Itoa(m.slots[i])
	do := func(n int, args ...string) rig.Reply {
		v, err := nodes[n].Do(args...)
		if err != nil || v.IsError() {
			m.t.Errorf("slot %s from node %d to %d: %q at %d: %s %v", slot, from, to, args, n, v, err)
		}
		return v
	}
	pause := func() { time.Sleep(time.Duration(random.ExpFloat64() * float64(3*time.Millisecond))) }
	do(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", m.ids[from])
	do(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", m.ids[to])
	half := random.IntN(4) == 0
	for {
		pause()
		keys := do(from, "CLUSTER", "GETKEYSINSLOT", slot, "1000").Strings()
		if len(keys) == 0 {
			break
		}
		random.Shuffle(len(keys), func(a, b int) { keys[a], keys[b] = keys[b], keys[a] })
		keys = keys[:1+random.IntN(len(keys))]
		if half && len(keys) > 1 { // one of them at least stays behind
			keys = keys[:len(keys)-1]
		}
		port := strconv.Itoa(m.cluster.Nodes[to].Port)
		m.sending.Lock()
		v := do(from, append([]string{"MIGRATE", "127.0.0.1", port, "", "0", "5000", "KEYS"}, keys...)...)
		m.sending.Unlock()
		if v.Text == "OK" {
			m.keys.Add(int64(len(keys)))
		}
		if half {
			half = false
			m.halves.Add(1)
			time.Sleep(between(random, 50*time.Millisecond, longestHalf))
		}
	}
	m.ending.Lock()
	defer m.ending.Unlock()
	pause()
	do(to, "CLUSTER", "SETSLOT", slot, "NODE", m.ids[to])
	pause()
	do(from, "CLUSTER", "SETSLOT", slot, "NODE", m.ids[to])
	for n := range nodes {
		if n != to && n != from {
			do(n, "CLUSTER", "SETSLOT", slot, "NODE", m.ids[to])
		}
	}
	// A node that has not heard yet with which epoch the new owner has the slot believes an old message of
	// the former one, and takes the slot from its owner, keys and all, once that one has a higher epoch.
	for agreed := false; !agreed; {
		agreed = true
		for n := range nodes {
			there, here := do(n, "CLUSTER", "NODES").Text, do(to, "CLUSTER", "NODES").Text
			agreed = agreed && epochOf(there, m.ids[to]) == epochOf(here, m.ids[to])
		}
	}
	m.at[i] = to
	m.moved.Add(1)
}

// epochOf is the epoch of a node in what CLUSTER NODES says.
func epochOf(nodes, id string) string {
	for line := range strings.Lines(nodes) {
		if fields := strings.Fields(line); len(fields) > 6 && fields[0] == id {
			return fields[6]
		}
	}
	return ""
}

// Slots that move all the time, some of which stay half here and half there for a while, are no fault for
// locks: nothing is lost, everything is as much on time and in order as in quiet, fences rise, and no verb
// ends in an error. But who asks in a slot that is half moved stands in line only once it is whole. And nodes
// stand still while they send keys and write down what moved, for longer than the shortest leases on a busy
// machine; then a LOCK says that its grant came too late. With -long 1,000 slots move. R2 R5 R8 R29
func TestMovingSlotsTraces(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(rig.On(t, *traceServer), 3, 0)
	two := startTraced(t, "--upstream", c.Addrs(), "--retry-budget", "2m") // a busy machine moves slowly
	m := newMovingSlots(t, c, rig.Dose(6, 1000))
	slacks := trace.Roomy
	slacks.Standing += longestHalf
	sum := takeTraces(t, 1, nil, func(seed uint64, n int, _ *deck) trace.Round {
		random := rand.New(rand.NewPCG(seed, 1))
		r := trace.Round{
			Seed: seed, Clients: 8, Proxies: 2, Dial: two.dial, Slacks: slacks, Timeless: two.timeless,
			For: 2500 * time.Millisecond, Think: 8 * time.Millisecond,
			Upgrades: true, Keepalive: true, Notify: true, Linger: true, AtLeast: true, Breaks: true,
			Sets: true, Guards: true, Looks: true, Probe: true, Moves: true,
		}
		var wanted []int
		fill(&r, 24)
		for k, i := range random.Perm(len(m.tags))[:min(len(m.tags), r.Clients*3/8)] {
			wanted = append(wanted, i)
			r.Keys = append(r.Keys, fmt.Sprintf("{%s}:%d-%d", m.tags[i], seed, k))
		}
		semaphore(&r)
		m.wanted.Store(&wanted)
		r.Faults = func(ctx context.Context, _ *rand.Rand, _ *trace.Running) { m.run(ctx, seed) }
		return r
	})
	fmt.Printf("%s: %d slots moved %d times, %d times half moved for a while, with %d keys\n",
		t.Name(), len(m.slots), m.moved.Load(), m.halves.Load(), m.keys.Load())
	for _, o := range sum.unanswered {
		if !o.TooLate() && !o.Overtaken() {
			t.Errorf("no answer: %v", o)
		}
	}
	if m.moved.Load() < int64(len(m.slots)) || m.halves.Load() == 0 {
		t.Error("too few slots moved: the test does not test")
	}
	asked := 0.0
	for i := range two.proxies {
		asked += two.proxy(i).Metric(t, "lockproxy_redirects_total", `kind="ask"`)
	}
	if asked == 0 {
		t.Error("no ASK was followed: the test does not test")
	}
}
