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
)

// trace is what traces of locks have come to, as the tests of integration/faults write it down.
type trace struct {
	Test       string         `json:"test"`
	Server     string         `json:"server"`
	Seed       uint64         `json:"seed"`
	When       time.Time      `json:"when"`
	Took       float64        `json:"took"` // seconds
	Rounds     int            `json:"rounds"`
	Ops        int            `json:"ops"`
	Unanswered int            `json:"unanswered"`
	Grants     int            `json:"grants"`
	Faults     map[string]int `json:"faults"`
	Exceptions map[string]int `json:"exceptions"`
	Violations int            `json:"violations"`
}

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
		var t trace
		if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		b.kept.Traces = slices.DeleteFunc(b.kept.Traces, func(old trace) bool {
			return old.Test == t.Test && old.Server == t.Server && old.Seed == t.Seed
		})
		b.kept.Traces = append(b.kept.Traces, t)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return b.write()
}

// traceText is the table of the traces.
func traceText(all []trace) string {
	if len(all) == 0 {
		return ""
	}
	t := page.Table{{"topology", "server", "operations", "grants", "no answer", "rounds", "time", "faults",
		"violations"}}
	var whole trace
	exceptions, faults := page.Table{{"exception", "how often"}}, page.Table{{"fault", "how often"}}
	whole.Faults, whole.Exceptions = map[string]int{}, map[string]int{}
	for _, topology := range topologies {
		for _, server := range servers(all) {
			sum := trace{Faults: map[string]int{}}
			for _, one := range all {
				if one.Test == topology[0] && one.Server == server {
					sum.add(one)
					whole.add(one)
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
	fmt.Fprintf(&b, "\n## Traces of locks\n\nMade by `make traces`, which goes on until it has counted "+
		"10,000,000 "+
		"operations: clients of two proxies take,\nrenew, check and free locks at random while faults "+
		"happen, and "+
		"porcupine and plain monitors judge every call\n([how](house.md#commands-for-work)). A violation "+
		"is a promise "+
		"of [locks](locks.md) that was broken. An exception is a reply that\nthe judge lets pass because "+
		"it is "+
		"documented.\n\n%s\n%s\n%s", t, faults, exceptions)
	return b.String()
}

func servers(all []trace) (names []string) {
	for _, t := range all {
		if !slices.Contains(names, t.Server) {
			names = append(names, t.Server)
		}
	}
	slices.Sort(names)
	return names
}

// add adds one up.
func (t *trace) add(one trace) {
	t.Took, t.Rounds, t.Ops, t.Unanswered = t.Took+one.Took, t.Rounds+one.Rounds, t.Ops+one.Ops,
		t.Unanswered+one.Unanswered
	t.Grants, t.Violations = t.Grants+one.Grants, t.Violations+one.Violations
	for name, n := range one.Faults {
		t.Faults[name] += n
	}
	for name, n := range one.Exceptions {
		if t.Exceptions != nil {
			t.Exceptions[name] += n
		}
	}
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
