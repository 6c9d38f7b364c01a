package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockproxy/integration/page"
)

var (
	waiterCounts = []int{10, 50}          // how many wait while one holds the lock
	drainCounts  = []int{2, 10, 50, 1000} // how many wait in a queue that drains
)

// mostPolling is how many may wait where waiting means to ask again and again.
const mostPolling = 50

const (
	commands figure = "commands" // that Redis ran for a hand-over
	sent     figure = "sent"     // by clients
	inside   figure = "inside"   // µs of the commands inside of a script
)

var evalsha = usecOf("evalsha")

func waiting(n int) string  { return fmt.Sprintf("%d waiters", n) }
func draining(n int) string { return fmt.Sprintf("drain of %d", n) }

// handover measures a contended lock: the time from its holder sending the
// release to the next one having read the grant, by one clock.
func handover(y *yard, rep *report) {
	both := way{name: twoProxies, servers: y.masters}
	ways := []way{y.lockproxy[0].through(y.lockproxy[0]), both.through(y.lockproxy...),
		y.redsync(y.plain[:1], lease), y.rueidislock(y.plain[0], false)}
	scripted := map[string]map[string]bool{}
	for _, w := range ways { // not counted: it warms up, and shows what scripts call
		scripted[w.name] = y.watchScripts(w.servers, func() {
			_, err := w.contend(y, 10, 100)
			y.check(err)
		})
	}
	r, whats := results{}, named(waiterCounts, waiting)
	y.rounds(r, ways, whats, func(i int, w way) sample {
		s, err := w.contend(y, waiterCounts[i], y.o.requests/50)
		return w.measured(y, s, err).scripted(scripted[w.name])
	})
	rep.printf("\n## Hand-over of a contended lock\n\n%s\n"+
		"Commands are those that Redis ran for one hand-over, on all nodes, by INFO commandstats.\n"+
		"It counts what scripts call beside the scripts themselves; those sent by clients are without\n"+
		"the commands that were seen to be called by scripts (MONITOR). An EVALSHA is by that too.",
		r.table(whats, ways, whole("hand-overs/s", rate), whole("p50 µs", p50), whole("p99 µs", p99),
			tenths("commands", commands), tenths("sent by clients", sent), tenths("an EVALSHA, µs", evalsha)))
	for _, what := range whats {
		for _, w := range ways {
			if all := r[what][w.name]; len(all) > 0 {
				rep.printf("\n- %s, %s: %s", what, w.name, all[len(all)-1].listed(scripted[w.name]))
			}
		}
	}
	rep.printf("\n")
	counts := slices.DeleteFunc(slices.Clone(drainCounts), func(n int) bool { return n > y.o.most })
	whats = named(counts, draining)
	y.rounds(r, ways, whats, func(i int, w way) sample {
		if counts[i] > mostPolling && w.queued == nil {
			return nil
		}
		s, err := w.drain(y, counts[i], min(100, y.o.requests/200))
		return w.measured(y, s, err).scripted(scripted[w.name])
	})
	printDrains(rep, r, ways, counts)
}

func printDrains(rep *report, r results, ways []way, counts []int) {
	rep.printf("\n## A queue that drains\n\n%s\nEach of those who wait holds the lock once, for %v.\n"+
		"redsync and rueidislock keep no queue: more than %d of\n"+
		"them are not measured.\n", r.table(named(counts, draining), ways,
		whole("p50 µs", p50), whole("p99 µs", p99), tenths("an EVALSHA, µs", evalsha),
		tenths("commands inside it", inside)), drainHold, mostPolling)
	for _, n := range counts {
		p := page.Plot{File: fmt.Sprintf("drain-%d", n),
			Title: fmt.Sprintf("Hand-overs while a queue of %d drains", n),
			X:     "µs from the release to the grant", Y: "% of the hand-overs", LogX: true}
		for _, w := range ways {
			if len(r[draining(n)][w.name]) == 0 {
				continue
			}
			l := page.Line{Name: w.name}
			for _, percent := range percents {
				l.Add(r.median(draining(n), w.name, part(percent)), percent)
			}
			p.Lines = append(p.Lines, l)
		}
		rep.Plots = append(rep.Plots, p)
	}
	for _, t := range []struct {
		who     string
		waiters int
		limit   float64
	}{{oneProxy, 2, 400}, {oneProxy, 10, 200}, {oneProxy, 50, 200}, {twoProxies, 10, 350},
		{twoProxies, 50, 300}} {
		what := fmt.Sprintf("hand-over, %s waiters, %s: ", draining(t.waiters), t.who)
		rep.hold(page.AtMost(t.limit, "%.0f", what+"p50 µs", r.spread(draining(t.waiters), t.who, p50)))
		if t.who == twoProxies {
			rep.hold(page.AtMost(700, "%.0f", what+"p99 µs", r.spread(draining(t.waiters), t.who, p99)))
		}
	}
	rep.hold(page.AtMost(25, "%.1f", "contended EVALSHA, "+draining(50)+": µs of Redis, by its own account",
		r.spread(draining(50), oneProxy, evalsha)))
}

// scripted tells the commands that clients sent from those that scripts call.
func (s sample) scripted(names map[string]bool) sample {
	for f, n := range s {
		name, ok := strings.CutPrefix(string(f), string(ran("")))
		switch {
		case !ok:
			continue
		case names[name]:
			s[inside] += n * s[usecOf(name)] / s[ran("evalsha")]
		default:
			s[sent] += n
		}
		s[commands] += n
	}
	return s
}

// listed names commands, the most frequent first; those of scripts in italics.
func (s sample) listed(scripted map[string]bool) string {
	var all []string
	for _, f := range slices.SortedFunc(maps.Keys(s), func(a, b figure) int {
		return cmp.Or(cmp.Compare(s[b], s[a]), cmp.Compare(a, b))
	}) {
		if name, ok := strings.CutPrefix(string(f), string(ran(""))); ok && s[f] >= 0.05 {
			if scripted[name] {
				name = "*" + name + "*"
			}
			all = append(all, fmt.Sprintf("%s %.1f", name, s[f]))
		}
	}
	return strings.Join(all, ", ")
}
