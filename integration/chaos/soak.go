package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
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
	l := newLife()
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
		stop := every(sampled, func() {
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
		pause(ctx, idle)
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

// every calls f every d, until stop is called.
func every(d time.Duration, f func()) (stop func()) {
	quit := make(chan struct{})
	var task sync.WaitGroup
	task.Go(func() {
		for {
			select {
			case <-quit:
				return
			case <-time.After(d):
				f()
			}
		}
	})
	return func() { close(quit); task.Wait() }
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
	var stops []func()
	for i := range 16 {
		random := rand.New(rand.NewPCG(s.seed, uint64(i)))
		n := i
		stops = append(stops, every(0, func() {
			n++
			if c, err := rig.Dial(s.proxies[n%len(s.proxies)].Addr); err == nil {
				lockSome(c, fmt.Sprint(i), random, &granted)
				c.Close()
			} else {
				time.Sleep(50 * time.Millisecond)
			}
		}))
	}
	return func() int {
		for _, stop := range stops {
			stop()
		}
		return int(granted.Load())
	}
}

// lockSome is the life of one connection.
func lockSome(c *rig.Conn, name string, random *rand.Rand, granted *atomic.Int64) {
	if random.IntN(3) == 0 {
		if _, err := c.Do("HELLO", "3"); err != nil {
			return
		}
		c.Do("SUBSCRIBE", "soak")
	}
	for n := range 20 + random.IntN(60) {
		lock := fmt.Sprint("soak:", random.IntN(6))
		token := fmt.Sprintf("%s-%d-%d", name, n, random.Uint32())
		args := []string{"LOCK", lock, "TOKEN", token, "PX", "3000", "WAIT", "300"}
		if random.IntN(4) == 0 {
			args = append(args, "KEEPALIVE")
		}
		v, err := c.Do(args...)
		switch {
		case err != nil:
			return
		case v.Null || v.IsError():
			time.Sleep(20 * time.Millisecond)
			continue
		}
		granted.Add(1)
		if random.IntN(20) == 0 {
			return // and leaves the lock as it is
		}
		if _, err := c.Do("UNLOCK", lock, token); err != nil {
			return
		}
		time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
	}
}

// slope fits a line to points by least squares: it rises by that much in an hour, and is at its middle there.
func slope(all [][2]float64) (perHour, at0 float64) {
	var n, x, y, xx, xy float64
	for _, p := range all {
		n, x, y, xx, xy = n+1, x+p[0], y+p[1], xx+p[0]*p[0], xy+p[0]*p[1]
	}
	if d := n*xx - x*x; n > 1 && d > 0 {
		perSecond := (n*xy - x*y) / d
		return perSecond * 3600, (y - perSecond*x) / n
	}
	return 0, 0
}

// figure is one of those that are watched.
type figure struct {
	name, unit, file string
	of               func(used) float64
}

var watchedFigures = []figure{
	{"resident memory", "MiB", "soak-memory", func(u used) float64 { return u.Memory }},
	{"descriptors", "", "soak-descriptors", func(u used) float64 { return u.Descriptors }},
	{"goroutines", "", "soak-goroutines", func(u used) float64 { return u.Goroutines }},
}

func (f figure) title() string { return strings.TrimSpace(f.name + " " + f.unit) }

// points are those of a figure that count for its slope.
func (f figure) points(series []used) (all [][2]float64) {
	for _, u := range series {
		if u.At >= warm.Seconds() {
			all = append(all, [2]float64{u.At, f.of(u)})
		}
	}
	return all
}

func (k *soak) text() string {
	if k == nil {
		return ""
	}
	t := table{{"figure", "proxy", "least", "most", "mean", "slope an hour (least squares)",
		fmt.Sprintf("%v after the last client", idle)}}
	for _, f := range watchedFigures {
		for i, series := range k.Series {
			all := f.points(series)
			if len(all) == 0 {
				continue
			}
			least, most, sum := all[0][1], all[0][1], 0.0
			for _, p := range all {
				least, most, sum = min(least, p[1]), max(most, p[1]), sum+p[1]
			}
			perHour, _ := slope(all)
			left := ""
			if i < len(k.Left) {
				left = fmt.Sprintf("%.0f", f.of(k.Left[i]))
			}
			t.add(f.title(), i+1, fmt.Sprintf("%.0f", least), fmt.Sprintf("%.0f", most),
				fmt.Sprintf("%.1f", sum/float64(len(all))), fmt.Sprintf("%+.2f", perHour), left)
		}
	}
	var kinds []string
	for _, name := range slices.Sorted(maps.Keys(k.Faults)) {
		kinds = append(kinds, fmt.Sprintf("%s %d", name, k.Faults[name]))
	}
	both := []figures{{Name: "lockproxy", verdict: k.Sum}, {Name: "go-redis", verdict: k.Beside}}
	text := fmt.Sprintf("\n## Soak\n\n%s, %v, seed %d, `%s`: %d rounds of clients that come and go, each "+
		"with a fault (%s), beside 16 clients of locks, which were granted %d.\n\n%s\n%s\n",
		k.When.UTC().Format(minute), time.Duration(k.Lasted*float64(time.Second)).Round(time.Second), k.Seed,
		k.Command, k.Rounds, strings.Join(kinds, ", "), k.Locks, t, sums([]row{{Ways: both}}))
	for _, what := range k.Unfinished {
		text += fmt.Sprintf("- a fault that did not come to its end: %s\n", what)
	}
	text += wrongs("wrong", k.Wrong) + fmt.Sprintf("\n%s; %s\n", strings.Join(k.Machine, "; "), k.Busy)
	for _, p := range k.plots() {
		text += fmt.Sprintf("\n![%s](resilience/%s.svg)\n", p.Title, p.File)
	}
	return text
}

func (k *soak) plots() (all []page.Plot) {
	if k == nil {
		return nil
	}
	for _, f := range watchedFigures {
		p := page.Plot{File: f.file, Title: "soak: " + f.name, X: "minutes", Y: f.title()}
		var fits []page.Line
		for i, series := range k.Series {
			seen := page.Line{Name: fmt.Sprint("proxy ", i+1)}
			for _, u := range series {
				seen.Add(u.At/60, f.of(u))
			}
			p.Lines = append(p.Lines, seen)
			if points := f.points(series); len(points) > 1 {
				perHour, at0 := slope(points)
				fit := page.Line{Name: fmt.Sprintf("fit %d: %+.2f/h", i+1, perHour)}
				for _, at := range []float64{points[0][0], points[len(points)-1][0]} {
					fit.Add(at/60, at0+perHour*at/3600)
				}
				fits = append(fits, fit)
			}
		}
		p.Lines = append(p.Lines, fits...)
		all = append(all, p)
	}
	return all
}
