package main

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockproxy/integration/page"
	"lockproxy/integration/rig"
)

// soak is what two proxies used while clients came and went and faults happened, for long.
type soak struct {
	When    time.Time      `json:"when"`
	Seed    uint64         `json:"seed"`
	Command string         `json:"command"`
	Machine []string       `json:"machine"`
	Busy    string         `json:"busy"`
	Lasted  float64        `json:"lasted"` // seconds
	Rounds  int            `json:"rounds"`
	Faults  map[string]int `json:"faults"`
	Locks   int            `json:"locks"`  // granted
	Sum     verdict        `json:"sum"`    // of the clients of lockproxy
	Beside  verdict        `json:"beside"` // of go-redis straight at the cluster
	Series  [][]used       `json:"series"` // by proxy
	Left    []used         `json:"left"`   // by proxy, some time after the last client has gone
	Wrong   []string       `json:"wrong,omitempty"`
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
	k := &soak{When: time.Now().Truncate(time.Second), Seed: o.seed, Command: o.command,
		Faults: map[string]int{}}
	k.Machine = append(page.Machine(), page.First("redis-server", "--version"),
		fmt.Sprintf("cluster-node-timeout %v", o.nodeTimeout))
	l, before := &life{}, page.UsageNow(0)
	first := &scene{life: l, options: o, fault: &fault{}, random: rand.New(rand.NewPCG(o.seed, 1<<32))}
	begun := time.Now()
	err := l.attempt(func() {
		first.startCluster()
		first.startProxies()
		stop := k.sample(first.proxies, begun)
		locks := startLockers(first)
		var rest []string
		for time.Since(begun) < o.lasts && ctx.Err() == nil {
			if len(rest) == 0 {
				for _, i := range first.random.Perm(len(soaked)) {
					rest = append(rest, soaked[i])
				}
			}
			k.round(first, faultNamed(rest[0]))
			rest = rest[1:]
			fmt.Printf("soak: %v, %d rounds, %s\n", time.Since(begun).Round(time.Second), k.Rounds,
				k.latest())
		}
		k.Locks = locks()
		pause(ctx, idle)
		stop()
		for _, p := range first.proxies {
			u, err := use(p)
			if err != nil {
				l.Fatalf("%v", err)
			}
			u.At = time.Since(begun).Seconds()
			k.Left = append(k.Left, u)
		}
	})
	k.Lasted = time.Since(begun).Seconds()
	if err != nil {
		k.Wrong = append(k.Wrong, "it did not get to its end: "+err.Error())
	}
	k.Wrong = append(k.Wrong, l.end()...)
	k.Busy = before.Until(page.UsageNow(0))
	return k
}

func faultNamed(name string) *fault {
	for i := range faults {
		if faults[i].name == name {
			return &faults[i]
		}
	}
	return nil
}

// round has one fault happen at the servers that first has started.
func (k *soak) round(first *scene, f *fault) {
	o := first.options
	o.calm, o.patience = time.Second, 3*time.Second
	s := &scene{life: first.life, options: o, fault: f, random: first.random, cluster: first.cluster,
		proxies: first.proxies, args: first.args}
	s.begin(fmt.Sprintf("soak%d", k.Rounds))
	time.Sleep(o.calm)
	// The clients were there also if the fault did not come to its end.
	if err := s.attempt(func() { f.strike(s); s.settle() }); err != nil {
		k.Unfinished = append(k.Unfinished,
			fmt.Sprintf("round %d, %s: %s", k.Rounds, f.name, firstLine(err.Error())))
	}
	s.end()
	s.mend()
	for w, of := range []*verdict{&k.Sum, &k.Beside} {
		var own []op
		for _, o := range s.load.ops {
			if o.way == w {
				own = append(own, o)
			}
		}
		v := judge(own, s.read(own), f.lossy)
		of.add(v)
		if w == 0 {
			for _, wrong := range v.violations(f.lossy) {
				k.Wrong = append(k.Wrong, fmt.Sprintf("round %d, %s: %s", k.Rounds, f.name, wrong))
			}
		}
	}
	for _, n := range s.cluster.Nodes {
		if n.Info(s, "replication", "role") == "master" {
			n.Do(s, "FLUSHALL")
		}
	}
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

// sample asks the proxies what they use, until stop is called.
func (k *soak) sample(proxies []*rig.Proxy, begun time.Time) (stop func()) {
	quit := make(chan struct{})
	var tasks sync.WaitGroup
	k.Series = make([][]used, len(proxies))
	for i, p := range proxies {
		tasks.Go(func() {
			for {
				select {
				case <-quit:
					return
				case <-time.After(sampled):
				}
				if u, err := use(p); err == nil {
					u.At = time.Since(begun).Seconds()
					k.Series[i] = append(k.Series[i], u)
				}
			}
		})
	}
	return func() { close(quit); tasks.Wait() }
}

// use is what a proxy uses, by its metrics.
func use(p *rig.Proxy) (u used, err error) {
	_, body, err := p.Get("/metrics")
	if err != nil {
		return u, err
	}
	found := 0
	lines := bufio.NewScanner(strings.NewReader(body))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		f, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		switch name {
		case "process_resident_memory_bytes":
			u.Memory = f / (1 << 20)
		case "process_open_fds":
			u.Descriptors = f
		case "go_goroutines":
			u.Goroutines = f
		default:
			continue
		}
		found++
	}
	if found != 3 {
		err = fmt.Errorf("/metrics has %d of 3 figures", found)
	}
	return u, err
}

func (k *soak) latest() string {
	var all []string
	for _, s := range k.Series {
		if len(s) > 0 {
			u := s[len(s)-1]
			all = append(all, fmt.Sprintf("%.0f MiB, %.0f descriptors, %.0f goroutines", u.Memory,
				u.Descriptors,
				u.Goroutines))
		}
	}
	return fmt.Sprintf("%d writes acknowledged, %d wrong; %s", k.Sum.Acked, len(k.Wrong), strings.Join(all,
		"; "))
}

// startLockers starts clients that take locks, wait for them, keep them alive, listen, and come and go. stop
// ends them and says how often they were granted one.
func startLockers(s *scene) (stop func() int) {
	quit := make(chan struct{})
	var tasks sync.WaitGroup
	var mu sync.Mutex
	granted := 0
	for i := range 16 {
		tasks.Go(func() {
			random := rand.New(rand.NewPCG(s.seed, uint64(i)))
			for n := 0; ; n++ {
				select {
				case <-quit:
					return
				default:
				}
				got := lockSome(s.proxies[(i+n)%len(s.proxies)].Addr, i, random)
				mu.Lock()
				granted += got
				mu.Unlock()
			}
		})
	}
	return func() int { close(quit); tasks.Wait(); return granted }
}

// lockSome is the life of one connection.
func lockSome(addr string, i int, random *rand.Rand) (granted int) {
	c, err := rig.Dial(addr)
	if err != nil {
		time.Sleep(50 * time.Millisecond)
		return 0
	}
	defer c.Close()
	if random.IntN(3) == 0 {
		if _, err := c.Do("HELLO", "3"); err != nil {
			return 0
		}
		c.Send("SUBSCRIBE", "soak")
		c.Receive(rig.Patience)
	}
	for n := range 20 + random.IntN(60) {
		name, token := fmt.Sprintf("soak:%d", random.IntN(6)), fmt.Sprintf("%d-%d-%d", i, n, random.Uint32())
		args := []string{"LOCK", name, "TOKEN", token, "PX", "3000", "WAIT", "300"}
		if random.IntN(4) == 0 {
			args = append(args, "KEEPALIVE")
		}
		v, err := c.Do(args...)
		if err != nil {
			return granted
		}
		if v.Null || v.IsError() {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		granted++
		if random.IntN(20) == 0 {
			return granted // and leaves the lock as it is
		}
		if _, err := c.Do("UNLOCK", name, token); err != nil {
			return granted
		}
		time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
	}
	return granted
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
	t := page.Table{{"figure", "proxy", "least", "most", "mean", "slope an hour (least squares)",
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
			t = append(t, []string{strings.TrimSpace(f.name + " " + f.unit), fmt.Sprint(i + 1),
				fmt.Sprintf("%.0f", least), fmt.Sprintf("%.0f", most),
				fmt.Sprintf("%.1f", sum/float64(len(all))), fmt.Sprintf("%+.2f", perHour), left})
		}
	}
	var kinds []string
	for _, name := range slices.Sorted(maps.Keys(k.Faults)) {
		kinds = append(kinds, fmt.Sprintf("%s %d", name, k.Faults[name]))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n## Soak\n\n%s, %v, seed %d, `%s`: %d rounds of clients that come and go, each with "+
		"a fault "+
		"(%s), beside 16 clients of locks, which were granted %d.\n\n", k.When.UTC().Format("2006-01-02 "+
		"15:04 UTC"),
		time.Duration(k.Lasted*float64(time.Second)).Round(time.Second), k.Seed, k.Command, k.Rounds,
		strings.Join(kinds, ", "), k.Locks)
	fmt.Fprintf(&b, "%s\n%s\n", t, sums([]row{{Ways: []figures{{Name: "lockproxy", verdict: k.Sum},
		{Name: "go-redis", verdict: k.Beside}}}}))
	for _, what := range k.Unfinished {
		fmt.Fprintf(&b, "- a fault that did not come to its end: %s\n", what)
	}
	for _, wrong := range k.Wrong {
		fmt.Fprintf(&b, "- **wrong**: %s\n", wrong)
	}
	fmt.Fprintf(&b, "\n%s; %s\n", strings.Join(k.Machine, "; "), k.Busy)
	for _, p := range k.plots() {
		fmt.Fprintf(&b, "\n![%s](resilience/%s.svg)\n", p.Title, p.File)
	}
	return b.String()
}

func (k *soak) plots() (all []page.Plot) {
	if k == nil {
		return nil
	}
	for _, f := range watchedFigures {
		p := page.Plot{File: f.file, Title: "soak: " + f.name, X: "minutes",
			Y: strings.TrimSpace(f.name + " " + f.unit)}
		for i, series := range k.Series {
			seen := page.Line{Name: fmt.Sprint("proxy ", i+1)}
			for _, u := range series {
				seen.Add(u.At/60, f.of(u))
			}
			p.Lines = append(p.Lines, seen)
		}
		for i, series := range k.Series {
			points := f.points(series)
			if len(points) < 2 {
				continue
			}
			perHour, at0 := slope(points)
			fit := page.Line{Name: fmt.Sprintf("fit %d: %+.2f/h", i+1, perHour)}
			for _, at := range []float64{points[0][0], points[len(points)-1][0]} {
				fit.Add(at/60, at0+perHour*at/3600)
			}
			p.Lines = append(p.Lines, fit)
		}
		all = append(all, p)
	}
	return all
}
