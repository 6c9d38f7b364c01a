package main

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"lockproxy/integration/trace"
)

// topologies are the tests, in the order and with the words of the table.
var topologies = [][2]string{
	{"TestTracesOfOneMaster/one_Redis", "one Redis"}, {"TestTracesOfOneMaster/Sentinel", "Sentinel"},
	{"TestTraces", "cluster, 3 + 3"}, {"TestMovingSlotsTraces", "cluster whose slots move"},
	{"TestRedlockTraces", "RedLock, 5 masters"},
}

// addTraces reads sums, of which a later one of the same seed says more, and writes the page.
func (b *book) addTraces(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var t trace.Sum
		if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		b.kept.Traces = slices.DeleteFunc(b.kept.Traces, func(old trace.Sum) bool {
			return old.Test == t.Test && old.Server == t.Server && old.Seed == t.Seed
		})
		b.kept.Traces = append(b.kept.Traces, t)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return b.write()
}

//go:embed text/traces.txt
var tracesHead string

// traceText is the table of the traces.
func traceText(all []trace.Sum) string {
	if len(all) == 0 {
		return ""
	}
	t := table{{"topology", "server", "operations", "grants", "no answer", "rounds", "time", "faults",
		"violations"}}
	add := func(topology, server string, s trace.Sum) {
		faults := 0
		for _, n := range s.Faults {
			faults += n
		}
		t.add(topology, server, s.Ops, s.Grants, s.Unanswered, s.Rounds,
			time.Duration(s.Took*float64(time.Second)).Round(time.Second), faults, s.Violations)
	}
	var whole trace.Sum
	servers, times := map[string]bool{}, []time.Time{}
	for _, one := range all {
		servers[one.Server], times = true, append(times, one.When)
	}
	for _, topology := range topologies {
		for _, server := range slices.Sorted(maps.Keys(servers)) {
			var sum trace.Sum
			for _, one := range all {
				if one.Test == topology[0] && one.Server == server {
					sum.Add(one)
					whole.Add(one)
				}
			}
			if sum.Ops > 0 {
				add(topology[1], server, sum)
			}
		}
	}
	add("all", "", whole)
	counts := func(what string, of map[string]int) table {
		t := table{{what, "how often"}}
		for _, name := range slices.Sorted(maps.Keys(of)) {
			t.add(name, of[name])
		}
		return t
	}
	day := func(at time.Time) string { return at.UTC().Format(time.DateOnly) }
	return fmt.Sprintf(tracesHead, day(slices.MinFunc(times, time.Time.Compare)),
		day(slices.MaxFunc(times, time.Time.Compare)), t, counts("fault", whole.Faults),
		counts("exception", whole.Exceptions))
}
