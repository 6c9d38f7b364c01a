package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"lockproxy/integration/page"
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

const tracesHead = `
## Traces of locks

Made by ` + "`make traces`" + `, which goes on until it has counted 10,000,000 operations, or as many as TRACEOPS says; what
several runs have counted is added up here, from %s to %s. Clients of two proxies take, renew, check and
free locks at random while faults happen, and porcupine and plain monitors judge every call
([how](house.md#commands-for-work)). A violation is a promise of [locks](locks.md) that was broken. An exception is a
reply that the judge lets pass because it is documented.

A run that showed a violation is not in the table: it led to a change of lockproxy or of the judge. One
history is not explained yet, of RedLock at a load average of 40.

%s
%s
%s`

// traceText is the table of the traces.
func traceText(all []trace.Sum) string {
	if len(all) == 0 {
		return ""
	}
	t := page.Table{{"topology", "server", "operations", "grants", "no answer", "rounds", "time", "faults",
		"violations"}}
	var whole trace.Sum
	exceptions, faults := page.Table{{"exception", "how often"}}, page.Table{{"fault", "how often"}}
	for _, topology := range topologies {
		for _, server := range servers(all) {
			var sum trace.Sum
			for _, one := range all {
				if one.Test == topology[0] && one.Server == server {
					sum.Add(one)
					whole.Add(one)
				}
			}
			if sum.Ops == 0 {
				continue
			}
			t = append(t, []string{topology[1], server, fmt.Sprint(sum.Ops), fmt.Sprint(sum.Grants),
				fmt.Sprint(sum.Unanswered), fmt.Sprint(sum.Rounds), duration(sum.Took),
				fmt.Sprint(total(sum.Faults)), fmt.Sprint(sum.Violations)})
		}
	}
	t = append(t, []string{"all", "", fmt.Sprint(whole.Ops), fmt.Sprint(whole.Grants),
		fmt.Sprint(whole.Unanswered), fmt.Sprint(whole.Rounds), duration(whole.Took),
		fmt.Sprint(total(whole.Faults)), fmt.Sprint(whole.Violations)})
	for _, name := range slices.Sorted(maps.Keys(whole.Faults)) {
		faults = append(faults, []string{name, fmt.Sprint(whole.Faults[name])})
	}
	for _, name := range slices.Sorted(maps.Keys(whole.Exceptions)) {
		exceptions = append(exceptions, []string{name, fmt.Sprint(whole.Exceptions[name])})
	}
	var b strings.Builder
	first, last := all[0].When, all[0].When
	for _, one := range all {
		if one.When.Before(first) {
			first = one.When
		}
		if one.When.After(last) {
			last = one.When
		}
	}
	fmt.Fprintf(&b, tracesHead, first.UTC().Format(time.DateOnly), last.UTC().Format(time.DateOnly), t,
		faults, exceptions)
	return b.String()
}

func servers(all []trace.Sum) (names []string) {
	for _, t := range all {
		if !slices.Contains(names, t.Server) {
			names = append(names, t.Server)
		}
	}
	slices.Sort(names)
	return names
}

func total(counts map[string]int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

func duration(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}
