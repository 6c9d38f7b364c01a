package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// handover measures a contended lock: the time from its holder sending the
// release to the next one having read the grant, by one clock.
func handover(ctx context.Context, y *yard, o options) ([]verdict, error) {
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
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
		scripted[w.name] = names
	}
	r := results{}
	for round := range o.rounds {
		for _, waiters := range crowds {
			what := waiting(waiters)
			progress("round %d of %d: hand-over, %s", round+1, o.rounds, what)
			for _, w := range rotated(ways, round) {
				s, err := contend(ctx, w, waiters, o.requests/50)
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", w.name, what, err)
				}
				r.add(what, w.name, s)
			}
		}
	}
	printHandover(r, ways, scripted)
	if len(y.lockproxy) == 0 {
		return nil, nil
	}
	return handoverVerdicts(r, scripted), nil
}

// crowds are how many wait while one holds the lock.
var crowds = []int{10, 50}

func waiting(n int) string { return fmt.Sprintf("%d waiters", n) }

func printHandover(r results, ways []lockWay, scripted map[string]map[string]bool) {
	t := table{{"", "hand-overs/s", "p50 µs", "p99 µs", "commands", "sent by clients"}}
	for _, waiters := range crowds {
		for _, w := range ways {
			what := waiting(waiters)
			t = append(t, []string{
				what + ", " + w.name,
				fmt.Sprintf("%.0f", r.median(what, w.name, rate)),
				fmt.Sprintf("%.0f", r.median(what, w.name, p50)),
				fmt.Sprintf("%.0f", r.median(what, w.name, p99)),
				fmt.Sprintf("%.1f", r.median(what, w.name, commands)),
				fmt.Sprintf("%.1f", r.median(what, w.name, sentBy(scripted[w.name]))),
			})
		}
	}
	fmt.Fprintf(os.Stdout, "\n## Hand-over of a contended lock\n\n%s\n", t)
	fmt.Println(
		"Commands are those that Redis ran for one hand-over, on all nodes, by INFO commandstats.\n" +
			"It counts what scripts call beside the scripts themselves; the last column is without the\n" +
			"commands that were\n" +
			"seen to be called by scripts (MONITOR).")
	for _, waiters := range crowds {
		for _, w := range ways {
			last := r[waiting(waiters)][w.name]
			fmt.Printf("\n- %s, %s: %s", waiting(waiters), w.name,
				listed(last[len(last)-1].commands, scripted[w.name]))
		}
	}
	fmt.Println()
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

// handoverVerdicts holds the results against the targets.
func handoverVerdicts(r results, scripted map[string]map[string]bool) []verdict {
	const most = 300 * time.Microsecond
	few, many := waiting(10), waiting(50)
	var all []verdict
	for _, who := range []string{oneProxy, twoProxies} {
		all = append(all,
			verdict{"hand-over, " + many + ", " + who + ": p50 µs", r.median(many, who, p50),
				micro(most), true,
				"%.0f"},
			verdict{"hand-over, " + many + ", " + who + ": p50, against redsync",
				r.ratio(many, who, redsyncName, p50),
				1. / 10, true, "%.3f"},
			verdict{"hand-over, " + few + ", " + who + ": p50, against redsync",
				r.ratio(few, who, redsyncName, p50),
				1. / 40, true, "%.3f"},
			verdict{"hand-over, " + many + ", " + who + ": commands sent by clients",
				r.median(many, who, sentBy(scripted[who])), 6, true, "%.1f"},
			verdict{"hand-over, " + many + ", " + who + ": commands, those of scripts too",
				r.median(many, who, commands), 6, true, "%.1f"})
	}
	return all
}
