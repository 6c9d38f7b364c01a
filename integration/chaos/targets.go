package main

import (
	"slices"

	"lockproxy/integration/page"
)

// swift are the targets of a fault after which a replica takes over: everybody goes on within ms of that, no
// read fails, and what was not written does not either.
func swift(limit float64) func(r row) []page.Verdict {
	return func(r row) []page.Verdict {
		ours := r.Ways[0]
		return append([]page.Verdict{
			r.target(limit, "%.0f", "ms from the promotion until every client goes on", ours.Last),
			r.target(limit, "%.0f", "ms until a new connection is served", ours.New),
			r.target(0, "%.0f", "reads that failed, those of new connections too",
				float64(ours.Failed+ours.Refused)),
			r.target(0, "%.0f", `writes that were told "not run"`, float64(ours.NotRun)),
		}, calm(r)...)
	}
}

// target is one of a row; got is -1 if there is no such figure.
func (r row) target(limit float64, format, what string, got float64) page.Verdict {
	v := page.AtMost(limit, format, r.Name+": "+what, nil)
	if got >= 0 {
		v.Got = page.SpreadOf(got)
	}
	return v
}

// calm is the target for the clients that a fault does not strike. Where both CPUs are busy with the fault,
// clients without a proxy have longer times too, which the second figure takes out.
func calm(r row) []page.Verdict {
	others := r.Ways[0].Others
	if others.Before <= 0 || others.During < 0 {
		return nil
	}
	grew := others.During / others.Before
	all := []page.Verdict{r.target(1.2, "%.2f", "p99 at the other shards, against before", grew)}
	if r.Direct.Before > 0 && r.Direct.During > 0 {
		all = append(all, r.target(1.2, "%.2f", "the same, against that of clients straight at those masters",
			grew*r.Direct.Before/r.Direct.During))
	}
	return all
}

// unharmed is the target of a fault that no client that tries again should notice.
func unharmed(r row) []page.Verdict {
	ours := r.Ways[0]
	return []page.Verdict{r.target(0, "%.0f", "errors",
		float64(ours.Failed+ours.Refused+ours.Unknown+ours.NotRun))}
}

// targetsOf are all targets of the rows that were run, each for the median of all rounds.
func targetsOf(rows []row) (all []page.Verdict) {
	for _, r := range rows {
		f := faultNamed(r.Name)
		if f == nil || f.targets == nil || r.Skipped != "" {
			continue
		}
		first := len(all)
		got := map[string][]float64{}
		for _, round := range r.rounds() {
			if round.Skipped != "" {
				continue
			}
			for _, v := range f.targets(round) {
				if got[v.What] == nil {
					all = append(all, v)
					got[v.What] = []float64{}
				}
				if v.Got != nil {
					got[v.What] = append(got[v.What], v.Got.Median)
				}
			}
		}
		for i := range all[first:] {
			all[first+i].Got = page.SpreadOf(got[all[first+i].What]...)
		}
	}
	return all
}

// sums are what must not be, over all rows and their rounds, by way.
func sums(rows []row) (all []figures) {
	for _, r := range rows {
		for _, round := range r.rounds() {
			for _, w := range round.Ways {
				i := slices.IndexFunc(all, func(f figures) bool { return f.Name == w.Name })
				if i < 0 {
					i, all = len(all), append(all, figures{Name: w.Name})
				}
				all[i].add(w.verdict)
			}
		}
	}
	return all
}
