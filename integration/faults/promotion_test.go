package faults

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// tried is one command of a client, and how it ended.
type tried struct {
	name        string
	began, over time.Time
	err         string // "": it succeeded
	fresh       bool   // over a new connection
}

// probes are the commands of all clients of one shard.
type probes struct {
	addr, tag string // of the proxy; of the keys
	stop      chan struct{}
	group     sync.WaitGroup

	mu  sync.Mutex
	all []tried
}

// probing begins with clients that each have one command under way at a time.
func probing(addr, tag string, clients int) *probes {
	p := &probes{addr: addr, tag: tag, stop: make(chan struct{})}
	for i := range clients {
		p.client(func(c *rig.Conn) {
			for n := i; !p.ended(2 * time.Millisecond); n++ {
				p.try(c, false, p.command(n, fmt.Sprint(i))...)
			}
		})
	}
	return p
}

// blocking has further clients wait in BLPOP for what never comes.
func (p *probes) blocking(clients int) {
	for i := range clients {
		p.client(func(c *rig.Conn) {
			for !p.ended(0) {
				p.try(c, false, "BLPOP", fmt.Sprintf("{%s}:list%d", p.tag, i), "0.2")
			}
		})
	}
}

// coming has another client connect every now and then, and run one command.
func (p *probes) coming() {
	p.group.Go(func() {
		for n := 0; !p.ended(20 * time.Millisecond); n++ {
			p.client(func(c *rig.Conn) { p.try(c, true, p.command(n, "fresh")...) })
		}
	})
}

func (p *probes) client(run func(c *rig.Conn)) {
	p.group.Go(func() {
		c, err := rig.Dial(p.addr)
		if err != nil {
			p.note(tried{name: "connect", err: err.Error()})
			return
		}
		defer c.Close()
		run(c)
	})
}

// command reads and writes in turn.
func (p *probes) command(n int, key string) []string {
	key = "{" + p.tag + "}:" + key
	return [][]string{{"GET", key}, {"SET", key, "1"}, {"GET", key}, {"INCR", key + "n"}}[n%4]
}

// try runs a command.
func (p *probes) try(c *rig.Conn, fresh bool, args ...string) {
	at := tried{name: args[0], began: time.Now(), fresh: fresh}
	v, err := rig.Reply{}, c.Send(args...)
	if err == nil {
		v, err = c.Receive(2 * time.Minute)
	}
	at.over = time.Now()
	switch {
	case err != nil:
		at.err = err.Error()
	case v.IsError():
		at.err = v.Text
	}
	p.note(at)
}

func (p *probes) note(at tried) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, at)
}

// ended waits for the pause, and says that the probing is over.
func (p *probes) ended(pause time.Duration) bool {
	select {
	case <-p.stop:
		return true
	case <-time.After(pause):
		return false
	}
}

// end ends the probing and returns all commands.
func (p *probes) end() []tried {
	close(p.stop)
	p.group.Wait()
	return p.all
}

// count is how many commands have ended.
func (p *probes) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.all)
}

// struck is what clients saw of a fault of a master.
type struck struct {
	promotion         time.Duration   // after the fault
	waiting, fresh    []time.Duration // when commands that came before the promotion ended, after it
	unknown           int             // writes that may have run
	refused           map[string]int  // errors of all others, by their texts
	before, meanwhile time.Duration   // 99th percentile at another shard
}

func (s *struck) String() string {
	span := func(all []time.Duration) string {
		if len(all) == 0 {
			return "none"
		}
		return fmt.Sprintf("%v..%v (%d)", slices.Min(all).Round(time.Millisecond),
			slices.Max(all).Round(time.Millisecond), len(all))
	}
	return fmt.Sprintf("promotion after %v; then in flight %s, new connections %s; "+
		"%d writes that may have run, other errors %v; p99 elsewhere %v, before %v",
		s.promotion.Round(time.Millisecond), span(s.waiting), span(s.fresh), s.unknown,
		s.refused, s.meanwhile.Round(10*time.Microsecond), s.before.Round(10*time.Microsecond))
}

// strike has something happen to the master of a shard under load, and returns what clients of this shard and
// of another one saw until well after its replica took over.
func strike(l rig.Life, c *rig.Cluster, p *rig.Proxy, clients int, fault, heal func(*rig.Server)) *struck {
	l.Helper()
	master := c.MasterOf(l, "struck")
	replica := rig.Connect(l, c.ReplicasOf(l, master)[0].Addr)
	for _, n := range c.Nodes { // else others may be taken for dead, too, on a busy machine
		n.Do(l, "CONFIG", "SET", "cluster-replica-no-failover", "yes")
	}
	elsewhere := ""
	for i := range 100 {
		if elsewhere = fmt.Sprint("elsewhere", i); c.MasterOf(l, elsewhere) != master {
			break
		}
	}
	here, there := probing(p.Addr, "struck", clients), probing(p.Addr, elsewhere, max(2, clients/2))
	here.coming()
	here.blocking(clients / 4)
	rig.Eventually(l, 2*rig.Patience, "traffic", func() bool { return there.count() > 100*clients })
	replica.Must(l, "CONFIG", "SET", "cluster-replica-no-failover", "no")
	began := time.Now()
	fault(master)
	for replica.Must(l, "ROLE").Elems[0].Text != "master" {
		if time.Since(began) > 4*rig.Patience {
			l.Fatalf("the replica is not promoted")
		}
		time.Sleep(5 * time.Millisecond)
	}
	promoted := time.Now()
	at := here.count()
	rig.Eventually(l, 4*rig.Patience, "served again", func() bool { return here.count() > at+50*clients })
	s := &struck{promotion: promoted.Sub(began), refused: map[string]int{}}
	for _, q := range here.end() {
		switch {
		case q.name != "GET" && strings.Contains(q.err, "may or may not have run"):
			s.unknown++
		case q.err != "":
			s.refused[q.name+": "+q.err]++
		case q.over.Before(promoted), q.began.After(promoted), q.name == "BLPOP":
		case q.fresh:
			s.fresh = append(s.fresh, q.over.Sub(promoted))
		default:
			s.waiting = append(s.waiting, q.over.Sub(promoted))
		}
	}
	var before, meanwhile []time.Duration
	for _, q := range there.end() {
		switch took := q.over.Sub(q.began); {
		case q.err != "":
			s.refused[q.name+" at another shard: "+q.err]++
		case q.over.Before(began):
			before = append(before, took)
		case q.began.After(began):
			meanwhile = append(meanwhile, took)
		}
	}
	s.before, s.meanwhile = percentile(before, 99), percentile(meanwhile, 99)
	heal(master)
	return s
}

func percentile(all []time.Duration, p int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[(len(all)-1)*p/100]
}

// masterFault is how the master of a shard is away until its replica has taken over.
type masterFault struct {
	name        string
	start       func(l rig.Life, masters, replicas int, args ...string) *rig.Cluster
	whole       string // cluster-require-full-coverage
	fault, heal func(master *rig.Server)
}

var masterFaults = []masterFault{
	{"killed", rig.StartCluster, "no", (*rig.Server).Kill, func(*rig.Server) {}},
	{"killed, all shards refuse", rig.StartCluster, "yes", (*rig.Server).Kill, func(*rig.Server) {}},
	{"stopped", rig.StartCluster, "no", func(m *rig.Server) { m.Signal(syscall.SIGSTOP) },
		func(m *rig.Server) { m.Signal(syscall.SIGCONT) }},
	{"cut off", rig.StartLinkedCluster, "no",
		func(m *rig.Server) { m.Link.HalfOpen(true); m.Signal(syscall.SIGSTOP) },
		func(m *rig.Server) { m.Signal(syscall.SIGCONT); m.Link.HalfOpen(false) }},
}

// strike has the fault happen under load. The promotion takes longer than budget, the retry-budget.
func (f *masterFault) strike(t *testing.T, clients int, budget time.Duration) *struck {
	t.Helper()
	c := f.start(t, 3, 1, "--cluster-node-timeout", rig.Dose("2000", "5000"),
		"--cluster-require-full-coverage", f.whole)
	p := rig.StartProxy(t, "--upstream", c.Addrs(), "--retry-budget", budget.String(), "--max-wait", "10m")
	s := strike(t, c, p, clients, f.fault, f.heal)
	t.Log(s)
	if len(s.refused) > 0 {
		t.Errorf("errors: %v", s.refused)
	}
	if len(s.waiting)+len(s.fresh) == 0 {
		t.Error("nobody waited for the promotion")
	}
	return s
}

// A master dies, hangs, or cannot be reached any more. When its replica has taken over, clients go on,
// whether they have waited since the fault, longer than retry-budget, or came later. Nothing fails but
// writes that the old master may have run, here and at other shards. R33
func TestServedAfterPromotion(t *testing.T) {
	t.Parallel()
	for _, fault := range masterFaults {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			fault.strike(t, 4, 500*time.Millisecond)
		})
	}
}
