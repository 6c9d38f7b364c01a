package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/integration/page"
	"lockproxy/integration/rig"
)

// soak is what two proxies used while clients came and went and faults happened, for long.
type soak struct {
	seen
	Lasted float64        `json:"lasted"` // seconds
	Rounds int            `json:"rounds"`
	Faults map[string]int `json:"faults"`
	Locks  int            `json:"locks"`  // granted
	Sum    verdict        `json:"sum"`    // of the clients of lockproxy
	Beside verdict        `json:"beside"` // of go-redis straight at the cluster
	Series [][]used       `json:"series"` // by proxy
	Left   []used         `json:"left"`   // by proxy, some time after the last client has gone
	// Unfinished are faults that did not come to their end, such as a replica that did not take over.
	Unfinished []string `json:"unfinished,omitempty"`
}

// used is what a proxy uses at a time.
type used struct {
	At          float64 `json:"at"`     // seconds
	Memory      float64 `json:"memory"` // MiB, resident
	Descriptors float64 `json:"descriptors"`
	Goroutines  float64 `json:"goroutines"`
}

// soaked are the faults of a soak: those that leave the proxies alive, and after which a cluster can be whole
// again.
var soaked = []string{"failover", "force", "takeover", "kill", "restart", "stop-1s", "sleep", "client-kill",
	"client-pause", "replica", "slots", "disk", "loading", "proxy-stop"}

const (
	// sampled is how often the proxies are asked what they use.
	sampled = 5 * time.Second
	// warm is how long the proxies run before what they use counts for the slope.
	warm = time.Minute
	// idle is how long after the last client has gone they are asked for the last time.
	idle = 20 * time.Second
)

// soaking runs rounds of load, each with a fault, and judges each.
func soaking(ctx context.Context, o options) *soak {
	k := &soak{seen: o.seeCluster(), Faults: map[string]int{}, Series: make([][]used, 2)}
	l := &rig.OwnLife{}
	first := &scene{OwnLife: l, options: o, fault: &fault{}, random: rand.New(rand.NewPCG(o.seed, 1<<32))}
	begun := time.Now()
	k.attempt(l, func() {
		first.startCluster()
		first.startProxies()
		use := func(i int) used {
			u := use(l, first.proxies[i])
			u.At = time.Since(begun).Seconds()
			return u
		}
		stop := every(1, sampled, func(int, int) {
			for i := range k.Series {
				l.Attempt(func() { k.Series[i] = append(k.Series[i], use(i)) })
			}
		})
		locks := startLockers(first)
		for rest := []int{}; time.Since(begun) < o.lasts && ctx.Err() == nil; rest = rest[1:] {
			if len(rest) == 0 {
				rest = first.random.Perm(len(soaked))
			}
			k.round(first, faultNamed(soaked[rest[0]]))
			fmt.Printf("soak: %v, %d rounds, %d writes acknowledged, %d wrong\n",
				time.Since(begun).Round(time.Second), k.Rounds, k.Sum.Acked, len(k.Wrong))
		}
		k.Locks = locks()
		rig.Pause(ctx, idle)
		stop()
		for i := range k.Series {
			k.Left = append(k.Left, use(i))
			fmt.Printf("soak: %+v at the end\n", k.Left[i])
		}
	})
	k.Lasted = time.Since(begun).Seconds()
	return k
}

// round has one fault happen at the servers that first has started.
func (k *soak) round(first *scene, f *fault) {
	o := first.options
	o.calm, o.patience = time.Second, 3*time.Second
	s := &scene{OwnLife: first.OwnLife, options: o, fault: f, random: first.random, cluster: first.cluster,
		proxies: first.proxies, args: first.args}
	s.begin(fmt.Sprintf("soak%d", k.Rounds))
	time.Sleep(o.calm)
	// The clients were there also if the fault did not come to its end.
	if err := s.Attempt(func() { f.happen(s); s.settle() }); err != nil {
		k.Unfinished = append(k.Unfinished,
			fmt.Sprintf("round %d, %s: %s", k.Rounds, f.name, firstLine(err.Error())))
	}
	s.load.end()
	s.mend()
	ours := s.judge(s.load.of(0))
	k.Sum.add(ours)
	k.Beside.add(s.judge(s.load.of(1)))
	for _, wrong := range ours.violations(f.lossy) {
		k.Wrong = append(k.Wrong, fmt.Sprintf("round %d, %s: %s", k.Rounds, f.name, wrong))
	}
	s.cluster.Each(s, "FLUSHALL")
	k.Rounds++
	k.Faults[f.name]++
}

// mend starts nodes that have ended, and waits until each master has a replica that is in sync.
func (s *scene) mend() {
	for _, n := range s.cluster.Nodes {
		if n.Ended() {
			n.Restart(s)
		}
	}
	s.cluster.Whole(s, len(s.cluster.Nodes))
	rig.Eventually(s, 2*rig.Patience, "three replicas in sync", func() bool {
		synced := 0
		for _, n := range s.cluster.Nodes {
			if n.Info(s, "replication", "master_link_status") == "up" {
				synced++
			}
		}
		return synced == masters
	})
}

// every has so many tasks call f every d, each for the n-th time, until stop is called.
func every(tasks int, d time.Duration, f func(task, n int)) (stop func()) {
	quit := make(chan struct{})
	var all sync.WaitGroup
	for task := range tasks {
		all.Go(func() { paced(quit, d, func(n int) { f(task, n) }) })
	}
	return func() { close(quit); all.Wait() }
}

// use is what a proxy uses, by its metrics.
func use(l rig.Life, p *rig.Proxy) used {
	return used{Memory: p.Metric(l, "process_resident_memory_bytes") / (1 << 20),
		Descriptors: p.Metric(l, "process_open_fds"), Goroutines: p.Metric(l, "go_goroutines")}
}

// startLockers starts clients that take locks, wait for them, keep them alive, listen, and come and go. stop
// ends them and says how often they were granted one.
func startLockers(s *scene) (stop func() int) {
	var granted atomic.Int64
	end := every(16, 50*time.Millisecond, func(i, n int) {
		if c, err := rig.Dial(s.proxies[(i+n)%len(s.proxies)].Addr); err == nil {
			defer c.Close()
			random := rand.New(rand.NewPCG(s.seed, uint64(i<<32+n)))
			lockSome(c, fmt.Sprintf("%d-%d", i, n), random, &granted)
		}
	})
	return func() int {
		end()
		return int(granted.Load())
	}
}

// lockSome is the life of one connection. Now and then it leaves a lock as it is.
func lockSome(c *rig.Conn, name string, random *rand.Rand, granted *atomic.Int64) {
	if random.IntN(3) == 0 {
		c.Do("HELLO", "3")
		c.Do("SUBSCRIBE", "soak")
	}
	for n := range 20 + random.IntN(60) {
		lock, token := fmt.Sprint("soak:", random.IntN(6)), fmt.Sprintf("%s-%d", name, n)
		args := []string{"LOCK", lock, "TOKEN", token, "PX", "3000", "WAIT", "300"}
		if random.IntN(4) == 0 {
			args = append(args, "KEEPALIVE")
		}
		v, err := c.Do(args...)
		if err == nil && !v.Null && !v.IsError() {
			granted.Add(1)
			if random.IntN(20) == 0 {
				return
			}
			_, err = c.Do("UNLOCK", lock, token)
		}
		if err != nil {
			return
		}
		time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
	}
}

// slope is by how much a line rises in an hour that is fitted to points by least squares.
func slope(all [][2]float64) (perHour float64) {
	var n, x, y, xx, xy float64
	for _, p := range all {
		n, x, y, xx, xy = n+1, x+p[0], y+p[1], xx+p[0]*p[0], xy+p[0]*p[1]
	}
	if d := n*xx - x*x; n > 1 && d > 0 {
		return (n*xy - x*y) / d * 3600
	}
	return 0
}

// figure is one of those that are watched.
type figure struct {
	name, Title, file string
	of                func(used) float64
}

var watched = []figure{
	{"resident memory", "resident memory MiB", "soak-memory", func(u used) float64 { return u.Memory }},
	{"descriptors", "descriptors", "soak-descriptors", func(u used) float64 { return u.Descriptors }},
	{"goroutines", "goroutines", "soak-goroutines", func(u used) float64 { return u.Goroutines }},
}

// trend is what became of one figure of a proxy, once that was warm.
type trend struct {
	figure
	Proxy                      int
	Least, Most, Mean, PerHour float64
	Left                       float64 // 0: not known
	seen                       page.Line
}

func (k *soak) trends() (all []trend) {
	for _, f := range watched {
		for i, series := range k.Series {
			t := trend{figure: f, Proxy: i + 1, Least: math.Inf(1),
				seen: page.Line{Name: fmt.Sprint("proxy ", i+1)}}
			var points [][2]float64
			for _, u := range series {
				at := [2]float64{u.At, f.of(u)}
				t.seen.Add(at[0]/60, at[1])
				if u.At < warm.Seconds() {
					continue
				}
				points = append(points, at)
				t.Mean += at[1]
				t.Least, t.Most = min(t.Least, at[1]), max(t.Most, at[1])
			}
			if points == nil {
				continue
			}
			t.Mean /= float64(len(points))
			t.PerHour = slope(points)
			if i < len(k.Left) {
				t.Left = f.of(k.Left[i])
			}
			all = append(all, t)
		}
	}
	return all
}

// both are the sums of the clients of both ways.
func (k *soak) both() []figures {
	return []figures{{Name: "lockproxy", verdict: k.Sum}, {Name: "go-redis", verdict: k.Beside}}
}

func (k *soak) plots() (all []page.Plot) {
	if k == nil {
		return nil
	}
	for _, f := range watched {
		p := page.Plot{File: f.file, Title: "soak: " + f.name, X: "minutes", Y: f.Title}
		for _, t := range k.trends() {
			if t.file == f.file {
				p.Lines = append(p.Lines, t.seen)
			}
		}
		all = append(all, p)
	}
	return all
}
