package compat

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// testKey names a test on a target.
type testKey struct{ target, file, name string }

// exceptions are the tests that need not pass through the proxy, each with its reason.
type exceptions map[testKey]string

// listed are the exceptions for the suite of a server, such as "valkey9": those of exceptions.txt, which hold
// for all, and its own, of which there may be none.
func listed(server string) (exceptions, error) {
	all, err := os.ReadFile("exceptions.txt")
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile("exceptions-" + server + ".txt")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return parseExceptions(string(all) + string(own))
}

// parseExceptions reads lines of four fields with a tab between them: targets with commas between them, file,
// test and reason. A # begins a comment, at the start of a line.
func parseExceptions(text string) (exceptions, error) {
	all := exceptions{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 4 || slices.Contains(f, "") {
			return nil, fmt.Errorf("exceptions.txt: not four fields with tabs between them: %q", line)
		}
		for target := range strings.SplitSeq(f[0], ",") {
			key := testKey{target, f[1], f[2]}
			if all[key] != "" {
				return nil, fmt.Errorf("exceptions.txt: twice: %q", line)
			}
			all[key] = f[3]
		}
	}
	return all, nil
}

// notRun are the tests of a file that would wait for ever, or pass by chance, sorted.
func (e exceptions) notRun(target, file string) (names []string) {
	for key, why := range e {
		never := strings.HasPrefix(why, "stalls: ") || strings.HasPrefix(why, "chance: ")
		if key.target == target && key.file == file && never {
			names = append(names, key.name)
		}
	}
	slices.Sort(names)
	return names
}

// of is the key of the line that excepts a difference: of the test, or of "*", all tests of its file.
func (e exceptions) of(d difference) (key testKey, ok bool) {
	for _, key := range []testKey{{d.target, d.file, d.name}, {d.target, d.file, "*"}} {
		if e[key] != "" {
			return key, true
		}
	}
	return testKey{}, false
}

// left are the differences that are no exceptions, and stale the exceptions which are none any more of tests
// that ran, sorted.
func (e exceptions) left(differ []difference, ran map[testKey]bool) (left []difference, stale []testKey) {
	used := map[testKey]bool{}
	for _, d := range differ {
		key, ok := e.of(d)
		if used[key] = true; !ok {
			left = append(left, d)
		}
	}
	for key := range e {
		if !used[key] && ran[key] {
			stale = append(stale, key)
		}
	}
	slices.SortFunc(stale, func(a, b testKey) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return left, stale
}

func TestExceptions(t *testing.T) {
	e, err := parseExceptions("# a comment\n\nsingle\tx\ta # of \"it\"\tno proxy could\ncluster\ty\t*\tall " +
		"of them\nsingle\tz\ta\tas well\n")
	if err != nil || len(e) != 3 {
		t.Fatalf("%v %v", e, err)
	}
	differ := []difference{
		{"single", "x", outcome{name: `a # of "it"`}},
		{"single", "x", outcome{name: "b"}},
		{"cluster", "y", outcome{name: "a"}},
		{"cluster", "y", outcome{name: "b"}},
	}
	ran := map[testKey]bool{{"single", "x", `a # of "it"`}: true, {"cluster", "y", "*"}: true}
	left, stale := e.left(differ, ran)
	if !reflect.DeepEqual(left, differ[1:2]) || len(stale) != 0 {
		t.Errorf("left %v, stale %v", left, stale)
	}
	left, stale = e.left(differ[1:2], ran)
	if want := []testKey{{"cluster", "y", "*"}, {"single", "x", `a # of "it"`}}; len(left) != 1 ||
		!reflect.DeepEqual(stale, want) {
		t.Errorf("left %v, stale %v, want %v", left, stale, want)
	}
	for _, wrong := range []string{"single x a why", "single\tx\ta", "single\tx\ta\t", "single\tx\ta\tb\tc",
		"single\tx\ta\tb\nsingle\tx\ta\tc"} {
		if e, err := parseExceptions(wrong); err == nil {
			t.Errorf("%q gives %v", wrong, e)
		}
	}
	for _, server := range []string{"redis7", "redis8", "valkey8", "valkey9"} {
		if _, err := listed(server); err != nil {
			t.Error(err)
		}
	}
}
