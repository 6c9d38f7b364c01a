package adminpage

import (
	"cmp"
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"time"

	"lockproxy/cluster"
	"lockproxy/cmd/lockproxy/settings"
	"lockproxy/proxy"
	"lockproxy/proxy/stats"
	"lockproxy/redlock/locks"
	"lockproxy/redlock/totals"
)

const (
	// window is over how many looks rates and latencies are taken.
	window = 5
	// mostPoints is how many looks are kept for the curves.
	mostPoints = 120
	// mostCommands and mostBusiest are how many of them are shown.
	mostCommands = 10
	mostBusiest  = 10
	// busiestShare is how much longer than it takes to find the busiest locks they are not looked for again.
	// Finding them goes through all counted names, so it takes one part in 50 of the time at most.
	busiestShare = 50
)

// status is what viewers see of the counters. Times are in ms, rates in 1/s, latencies in µs. The script of
// the page reads it by these names. Numbers are of this proxy alone, but for what the upstream and Proxies
// say.
type status struct {
	At         int64    `json:"at"`
	NotReady   []string `json:"notReady"` // why; empty: it is ready
	Version    string   `json:"version"`
	Go         string   `json:"go"`
	Proxy      string   `json:"proxy"`
	Up         int64    `json:"up"`
	Kind       string   `json:"kind"` // of the upstream; "": not known yet
	Dev        bool     `json:"dev"`
	Everywhere bool     `json:"everywhere"` // events are those of all proxies
	Clients    int      `json:"clients"`
	Memory     int64    `json:"memory"`
	Kept       uint64   `json:"kept"`
	Waiting    uint64   `json:"waiting"`
	Rate       point    `json:"rate"`
	durations
	lockCounts
	Nodes    []nodeRow          `json:"nodes"`
	NoMaster string             `json:"noMaster"` // slots without one, as ranges
	Masters  []redMaster        `json:"masters"`  // of RedLock
	Proxies  []otherProxy       `json:"proxies"`
	Commands []commandRow       `json:"commands"`
	Busiest  []busy             `json:"busiest"`
	Settings []settings.Changed `json:"settings"`
}

// durations are how long commands, and LOCKs that were granted, have taken lately, in µs.
type durations struct {
	P50     int64 `json:"p50"`
	P99     int64 `json:"p99"`
	LockP50 int64 `json:"lockP50"`
	LockP99 int64 `json:"lockP99"`
}

// lockCounts are how many holds were asked for, and how these requests and holds have ended, since the start.
type lockCounts struct {
	Granted  uint64 `json:"granted"`
	Refused  uint64 `json:"refused"`
	TimedOut uint64 `json:"timedOut"`
	Lost     uint64 `json:"lost"`
}

// point is one moment of the curves. At is Unix time in ms; Commands, Errors and Grants are per second.
type point struct {
	At       int64   `json:"at"`
	Commands float64 `json:"commands"`
	Errors   float64 `json:"errors"`
	Grants   float64 `json:"grants"`
	Waiting  uint64  `json:"waiting"`
}

// nodeRow is one server of the upstream. Rate is requests per second, Errors is error replies per second;
// Since is for how many ms it cannot be reached.
type nodeRow struct {
	Addr        string  `json:"addr"`
	Master      bool    `json:"master"`
	Follows     string  `json:"follows"`
	Slots       string  `json:"slots"` // ranges
	Rate        float64 `json:"rate"`
	Errors      float64 `json:"errors"`
	Connections int64   `json:"connections"`
	Down        string  `json:"down"` // why; "": it is not
	Since       int64   `json:"since"`
	Evicts      bool    `json:"evicts"`
	Fit         string  `json:"fit"` // of a replica: may it be read from, yes or no; "": it is not asked
}

// redMaster is one master of RedLock. Until is in how many ms it votes again, 0: not known or it votes;
// Offset is that of its clock, in ms.
type redMaster struct {
	Addr   string `json:"addr"`
	Up     bool   `json:"up"`
	Votes  bool   `json:"votes"`
	Why    string `json:"why"`
	Until  int64  `json:"until"`
	Offset int64  `json:"offset"`
}

// otherProxy is a proxy of the same upstream that has to do with locks.
type otherProxy struct {
	ID     string `json:"id"`
	Self   bool   `json:"self"`
	Silent bool   `json:"silent"` // it has not answered
}

// commandRow is one command: calls and errors per second, durations in µs.
type commandRow struct {
	Name   string  `json:"name"`
	Rate   float64 `json:"rate"`
	Errors float64 `json:"errors"`
	P50    int64   `json:"p50"`
	P99    int64   `json:"p99"`
}

// busy is one of the locks that were asked for most.
type busy struct {
	Name     string `json:"name"`
	Grants   uint64 `json:"grants"`
	Refusals uint64 `json:"refusals"`
	Waits    uint64 `json:"waits"`
}

// gauge makes a status of the counters, look by look. It belongs to one goroutine.
type gauge struct {
	o       Options
	samples []sample // the oldest first
	// ranges of slots by the address of their master; "": those without one
	slots   map[string]string
	version uint64 // of the topology that slots are of
	busiest []busy
	due     time.Time // when busiest is too old
}

// sample is the counters at one time.
type sample struct {
	at       time.Time
	commands map[string]stats.CommandCount
	nodes    map[string]nodeCounts
	grants   uint64
}

// nodeCounts are the replies of a node, those of them that were errors, and its connections.
type nodeCounts struct {
	requests, errors uint64
	connections      int64
}

func newGauge(o Options) *gauge { return &gauge{o: o} }

// lockVerbs are those whose latency is shown as that of locks.
var lockVerbs = []string{"lock", "wlock", "rlock", "semlock", "mlock", "unlock", "munlock", "renew", "mrenew"}

// takeStatus makes the status of now. It does not block.
func (g *gauge) takeStatus(now time.Time, others totals.Sum) (*status, []byte) {
	stats := g.o.Stats()
	held := &stats.Locks
	next := sampleOf(now, &stats)
	// The oldest sample that is kept: rates are those of the last few seconds. The first look has nothing
	// before it, and shows 0.
	before := next
	if len(g.samples) > 0 {
		before = g.samples[0]
	}
	g.samples = append(g.samples, next)
	g.samples = g.samples[max(0, len(g.samples)-window):]
	s := &status{At: now.UnixMilli(), NotReady: []string{}, Version: g.o.Version, Go: runtime.Version(),
		Dev: g.o.Values().Dev, Clients: stats.Clients, Memory: stats.Memory, Kept: held[locks.Kept],
		Waiting: held[locks.Waiters], Nodes: []nodeRow{}, Masters: []redMaster{}, Proxies: []otherProxy{},
		lockCounts: lockCounts{next.grants, held.Refused(), held[locks.TimedOut], held.Lost()},
		Settings:   g.o.Values().Changed()}
	if err := g.o.Ready(); err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			s.NotReady = append(s.NotReady, printable(line, mostReason))
		}
	}
	g.rates(s, &before, &next)
	if source := g.o.Source(); source != nil {
		g.upstream(s, source, &stats, &before, &next)
		s.Proxy, s.Up, s.Everywhere = source.ID(), now.Sub(source.Started()).Milliseconds(),
			source.Everywhere()
		s.Proxies = proxiesOf(s.Proxy, others)
		s.Busiest = g.busy(now, source)
	}
	for _, m := range stats.Masters {
		one := redMaster{Addr: m.Addr, Up: m.Up, Votes: m.Votes, Why: printable(m.Why, mostReason),
			Offset: m.ClockOffset.Milliseconds()}
		if !m.Until.IsZero() {
			one.Until = max(m.Until.Sub(now).Milliseconds(), 0)
		}
		s.Masters = append(s.Masters, one)
	}
	text, _ := json.Marshal(s) // it has texts and numbers
	return s, text
}

// sampleOf keeps what rates are made of, and leaves out commands that were never used.
func sampleOf(now time.Time, counts *proxy.Stats) sample {
	s := sample{at: now, commands: make(map[string]stats.CommandCount), nodes: make(map[string]nodeCounts),
		grants: counts.Locks.Granted()}
	for _, c := range counts.Commands {
		if c.Calls > 0 {
			s.commands[c.Name] = c
		}
	}
	for _, n := range counts.Nodes {
		s.nodes[n.Addr] = nodeCounts{n.Requests, n.Errors, n.Connections}
	}
	return s
}

// per is how much a counter has grown in a second since before. One that began anew has not.
func (s *sample) per(before *sample, now, then uint64) float64 {
	return float64(now-min(then, now)) / max(s.at.Sub(before.at).Seconds(), 0.001)
}

// rates sets what is counted between two samples.
func (g *gauge) rates(s *status, before, next *sample) {
	// as many as a command's buckets at least
	var all, locks [32]uint64
	for name, c := range next.commands {
		then := before.commands[name]
		one := commandRow{Name: name, Rate: next.per(before, c.Calls, then.Calls),
			Errors: next.per(before, c.Errors, then.Errors)}
		if one.Rate == 0 {
			continue
		}
		var own [32]uint64
		for i := range c.Buckets {
			n := c.Buckets[i] - min(then.Buckets[i], c.Buckets[i])
			own[i] += n
			all[i] += n
			if slices.Contains(lockVerbs, name) {
				locks[i] += n
			}
		}
		one.P50, one.P99 = quantile(own[:len(c.Buckets)], 0.5), quantile(own[:len(c.Buckets)], 0.99)
		s.Commands = append(s.Commands, one)
		s.Rate.Commands += one.Rate
		s.Rate.Errors += one.Errors
	}
	slices.SortFunc(s.Commands, func(a, b commandRow) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.Name, b.Name))
	})
	s.Commands = append([]commandRow{}, s.Commands[:min(len(s.Commands), mostCommands)]...)
	s.P50, s.P99 = quantile(all[:], 0.5), quantile(all[:], 0.99)
	s.LockP50, s.LockP99 = quantile(locks[:], 0.5), quantile(locks[:], 0.99)
	s.Rate.At, s.Rate.Waiting = s.At, s.Waiting
	s.Rate.Grants = next.per(before, next.grants, before.grants)
}

// quantile is a bound of a part q of what buckets have counted, in µs: that of the bucket in which it lies.
// 0: there is nothing.
func quantile(buckets []uint64, q float64) int64 {
	sum := uint64(0)
	for _, n := range buckets {
		sum += n
	}
	if sum == 0 {
		return 0
	}
	want, below := q*float64(sum), uint64(0)
	for i, n := range buckets {
		if below += n; float64(below) >= want {
			// the upper bound, so the truth is at most this
			return stats.BucketLimit(i).Microseconds()
		}
	}
	return 0
}

// upstream sets what is known of the nodes.
func (g *gauge) upstream(s *status, source Source, stats *proxy.Stats, before, next *sample) {
	t := source.Topology()
	s.Kind = t.Kind.String()
	// Writing the ranges goes through all slots, so it is done once for each topology.
	if g.slots == nil || g.version != t.Version {
		g.slots, g.version = map[string]string{"": t.SlotsOf(nil)}, t.Version
		for _, n := range t.Masters {
			g.slots[n.Addr] = t.SlotsOf(n)
		}
	}
	s.NoMaster = g.slots[""]
	for _, n := range append(slices.Clone(t.Masters), t.Replicas...) {
		now, then := next.nodes[n.Addr], before.nodes[n.Addr]
		one := nodeRow{Addr: n.Addr, Master: n.Master, Follows: n.Follows, Slots: g.slots[n.Addr],
			Connections: now.connections, Evicts: stats.Evicts[n.Addr],
			Rate:   next.per(before, now.requests, then.requests),
			Errors: next.per(before, now.errors, then.errors)}
		if out, down := source.Down(n.Addr); down {
			one.Since = time.Since(out.Since).Milliseconds()
			one.Down = printable(cluster.Explain(out.Err), mostReason)
		}
		if !n.Master && t.Readers != nil {
			one.Fit = "no"
			for _, fit := range t.Readers {
				if slices.Contains(fit, n) {
					one.Fit = "yes"
				}
			}
		}
		s.Nodes = append(s.Nodes, one)
	}
}

// proxiesOf are the proxies that are known, this one first.
func proxiesOf(self string, others totals.Sum) []otherProxy {
	all := []otherProxy{{ID: self, Self: true}}
	for _, id := range others.Said {
		all = append(all, otherProxy{ID: printable(id, mostText)})
	}
	for _, id := range others.Silent {
		all = append(all, otherProxy{ID: printable(id, mostText), Silent: true})
	}
	return all
}

// busy are the busiest locks. With many names they are found less often.
func (g *gauge) busy(now time.Time, source Source) []busy {
	if now.Before(g.due) {
		return g.busiest
	}
	begin := time.Now()
	g.busiest = []busy{}
	for _, c := range source.Busiest(mostBusiest) {
		g.busiest = append(g.busiest, busy{printable(c.Name, mostName), c.Grants, c.Refusals, c.Waits})
	}
	g.due = now.Add(busiestShare * time.Since(begin))
	return g.busiest
}
