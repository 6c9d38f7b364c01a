package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"lockproxy/integration/trace"
)

// topologies are the tests, in the order and with the words of the table.
var topologies = [][2]string{
	{"TestTracesOfOneMaster/one_Redis", "one Redis"}, {"TestTracesOfOneMaster/Sentinel", "Sentinel"},
	{"TestTraces", "cluster, 3 + 3"}, {"TestMovingSlotsTraces", "cluster whose slots move"},
	{"TestRedlockTraces/3_masters", "RedLock, 3 masters"},
	{"TestRedlockTraces/5_masters", "RedLock, 5 masters"},
}

// addTraces reads sums, of which a later one of the same seed says more, and writes the page.
func (b *book) addTraces(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for lines := json.NewDecoder(f); lines.More(); {
		var t trace.Sum
		if err := lines.Decode(&t); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		b.kept.Traces = slices.DeleteFunc(b.kept.Traces, func(old trace.Sum) bool {
			return old.Test == t.Test && old.Server == t.Server && old.Seed == t.Seed
		})
		b.kept.Traces = append(b.kept.Traces, t)
	}
	return cmp.Or(b.Keep(b.kept), b.print())
}

// added are sums by topology and server, and of all.
type added struct {
	Lines       []trace.Sum
	All         trace.Sum
	First, Last time.Time
}

func addUp(all []trace.Sum) added {
	when := func(a, b trace.Sum) int { return a.When.Compare(b.When) }
	a := added{First: slices.MinFunc(all, when).When, Last: slices.MaxFunc(all, when).When,
		All: trace.Sum{Test: "all"}}
	all = slices.SortedStableFunc(slices.Values(all),
		func(a, b trace.Sum) int { return strings.Compare(a.Server, b.Server) })
	for _, topology := range topologies {
		for _, one := range all {
			if one.Test != topology[0] {
				continue
			}
			last := len(a.Lines) - 1
			if last < 0 || a.Lines[last].Test != topology[1] || a.Lines[last].Server != one.Server {
				a.Lines = append(a.Lines, trace.Sum{Test: topology[1], Server: one.Server})
				last++
			}
			a.Lines[last].Add(one)
			a.All.Add(one)
		}
	}
	a.Lines = append(a.Lines, a.All)
	return a
}

// faultsOf is how many faults there were.
func faultsOf(s trace.Sum) (n int) {
	for _, often := range s.Faults {
		n += often
	}
	return n
}
