package main

import (
	"fmt"
	"strings"

	"lockproxy/integration/page"
)

// swift are the targets of a fault after which a replica takes over: everybody goes on within ms of that, no
// read fails, and what was not written does not either.
func swift(limit float64) func(r row) []page.Verdict {
	return func(r row) []page.Verdict {
		ours := r.Ways[0]
		return append([]page.Verdict{
			page.AtMost(limit, "%.0f", r.Title+": ms from the promotion until every client goes on",
				known(ours.Last)),
			page.AtMost(limit, "%.0f", r.Title+": ms until a new connection is served", known(ours.New)),
			page.AtMost(0, "%.0f", r.Title+": reads that failed, those of new connections too",
				known(float64(ours.Failed+ours.Refused))),
			page.AtMost(0, "%.0f", r.Title+`: writes that were told "not run"`, known(float64(ours.NotRun))),
		}, calm(r)...)
	}
}

// calm is the target for the clients that a fault does not strike. Where both CPUs are busy with the fault,
// clients without a proxy have longer times too, which the second figure takes out.
func calm(r row) []page.Verdict {
	ours := r.Ways[0]
	if ours.Others.Before <= 0 || ours.Others.During < 0 {
		return nil
	}
	grew := ours.Others.During / ours.Others.Before
	all := []page.Verdict{page.AtMost(1.2, "%.2f", r.Title+": p99 at the other shards, against before",
		known(grew))}
	if r.Direct.Before > 0 && r.Direct.During > 0 {
		all = append(all, page.AtMost(1.2, "%.2f", r.Title+": the same, against what became of the p99 of "+
			"clients straight at those masters", known(grew*r.Direct.Before/r.Direct.During)))
	}
	return all
}

// unharmed is the target of a fault that no client that tries again should notice.
func unharmed(r row) []page.Verdict {
	ours := r.Ways[0]
	return []page.Verdict{page.AtMost(0, "%.0f", r.Title+": errors",
		known(float64(ours.Failed+ours.Refused+ours.Unknown+ours.NotRun)))}
}

// known is a figure of which there is one; nil if there is none.
func known(f float64) *page.Spread {
	if f < 0 {
		return nil
	}
	return page.SpreadOf(f)
}

// targetsOf are all targets of the rows that were run.
func targetsOf(rows []row) (all []page.Verdict) {
	for _, r := range rows {
		for _, f := range faults {
			if f.name == r.Name && f.targets != nil && r.Skipped == "" {
				all = append(all, overRounds(f.targets, r.rounds())...)
			}
		}
	}
	return all
}

// overRounds has each target judge the median of all rounds.
func overRounds(targets func(row) []page.Verdict, rounds []row) (all []page.Verdict) {
	got := map[string][]float64{}
	for _, r := range rounds {
		if r.Skipped != "" {
			continue
		}
		for _, v := range targets(r) {
			if got[v.What] == nil {
				all = append(all, v)
				got[v.What] = []float64{}
			}
			if v.Got != nil {
				got[v.What] = append(got[v.What], v.Got.Median)
			}
		}
	}
	for i, v := range all {
		all[i].Got = page.SpreadOf(got[v.What]...)
	}
	return all
}

// sums is a line about all rows: what must not be, over all of them and their rounds.
func sums(rows []row) string {
	total := map[string]*verdict{}
	var names []string
	for _, r := range rows {
		for _, round := range r.rounds() {
			for _, w := range round.Ways {
				if total[w.Name] == nil {
					total[w.Name] = &verdict{}
					names = append(names, w.Name)
				}
				total[w.Name].add(w.verdict)
			}
		}
	}
	var lines []string
	for _, name := range names {
		v := total[name]
		lines = append(lines, fmt.Sprintf("- %s: %d writes acknowledged, %d whose outcome is unknown (%d "+
			"of them "+
			"ran), %d told \"not run\", %d reads failed of %d; %d ran twice, %d told \"not run\" ran, %d "+
			"by half, "+
			"%d out of order, %d wrong replies; %d lost", name, v.Acked, v.Unknown, v.Done, v.NotRun,
			v.Failed,
			v.Reads, v.Doubled, v.Ran, v.Torn, v.Order, v.Crossed, v.Lost))
	}
	return strings.Join(lines, "\n")
}
