package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// handover measures a contended lock: the time from its holder sending the
// release to the next one having read the grant, by one clock.
func handover(ctx context.Context, y *yard, o options, rep *report) error {
	ways, end := y.lockWays()
	defer end()
	scripted := map[string]map[string]bool{}
	for _, w := range ways {
		// The first contest is not counted: it warms up, and shows what scripts call.
		names, err := watchScripts(ctx, w.nodes, func() error {
			_, err := contend(ctx, w, 10, 100)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		scripted[w.name] = names
	}
	r := results{}
	for round := range o.rounds {
		for _, waiters := range waiterCounts {
			what := waiting(waiters)
			progress("round %d of %d: hand-over, %s", round+1, o.rounds, what)
			for _, w := range rotated(ways, round) {
				s, err := contend(ctx, w, waiters, o.requests/50)
				if err != nil && !w.hung(err) {
					return fmt.Errorf("%s, %s: %w", w.name, what, err)
				}
				if err == nil {
					r.add(what, w.name, s)
				}
			}
		}
	}
	printHandover(rep, r, ways, scripted)
	if err := drains(ctx, ways, scripted, o, r); err != nil {
		return err
	}
	printDrains(rep, r, ways)
	if len(y.lockproxy) > 0 {
		drainTargets(rep, r)
	}
	return nil
}

// waiterCounts are how many wait while one holds the lock.
var waiterCounts = []int{10, 50}

func waiting(n int) string { return fmt.Sprintf("%d waiters", n) }

func printHandover(rep *report, r results, ways []lockWay, scripted map[string]map[string]bool) {
	t := table{{"", "hand-overs/s", "p50 µs", "p99 µs", "commands", "sent by clients", "an EVALSHA, µs"}}
	for _, waiters := range waiterCounts {
		for _, w := range ways {
			what := waiting(waiters)
			t = append(t, []string{
				what + ", " + w.name,
				fmt.Sprintf("%.0f", r.median(what, w.name, rate)),
				fmt.Sprintf("%.0f", r.median(what, w.name, p50)),
				fmt.Sprintf("%.0f", r.median(what, w.name, p99)),
				fmt.Sprintf("%.1f", r.median(what, w.name, commands)),
				fmt.Sprintf("%.1f", r.median(what, w.name, sentBy(scripted[w.name]))),
				fmt.Sprintf("%.1f", r.median(what, w.name, account)),
			})
		}
	}
	rep.printf("\n## Hand-over of a contended lock\n\n%s\n", t)
	rep.printf(
		"Commands are those that Redis ran for one hand-over, on all nodes, by INFO commandstats.\n" +
			"It counts what scripts call beside the scripts themselves; those sent by clients are without\n" +
			"the commands that were seen to be called by scripts (MONITOR). An EVALSHA is by that too.")
	for _, waiters := range waiterCounts {
		for _, w := range ways {
			last := r[waiting(waiters)][w.name]
			if len(last) == 0 {
				continue
			}
			rep.printf("\n- %s, %s: %s", waiting(waiters), w.name,
				listed(last[len(last)-1].commands, scripted[w.name]))
		}
	}
	rep.printf("\n")
}

// listed names commands, the most frequent first; those of scripts in italics.
func listed(count map[string]float64, scripted map[string]bool) string {
	var names, all []string
	for name := range count {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if count[a] != count[b] {
			if count[a] > count[b] {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		switch {
		case count[name] < 0.05:
		case scripted[name]:
			all = append(all, fmt.Sprintf("*%s* %.1f", name, count[name]))
		default:
			all = append(all, fmt.Sprintf("%s %.1f", name, count[name]))
		}
	}
	return strings.Join(all, ", ")
}

// commands is how many commands Redis ran, those of scripts included.
func commands(s sample) float64 {
	return sum(s.commands, func(string) bool { return true })
}

// sentBy makes a figure of the commands that clients sent: all but those that
// scripts are known to call.
func sentBy(scripted map[string]bool) func(sample) float64 {
	return func(s sample) float64 {
		return sum(s.commands, func(name string) bool { return !scripted[name] })
	}
}

func sum(count map[string]float64, counts func(name string) bool) float64 {
	var all float64
	for name, n := range count {
		if counts(name) {
			all += n
		}
	}
	return all
}
