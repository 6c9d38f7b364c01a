package compat

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Key names a test on a target.
type Key struct{ Target, File, Name string }

// Exceptions are the tests that need not pass through the proxy, each with its reason.
type Exceptions map[Key]string

//go:embed exceptions*.txt
var listed embed.FS

// Listed are the exceptions for the suite of a server, such as "valkey9": those of exceptions.txt, which hold
// for all, and its own, of which there may be none.
func Listed(server string) (Exceptions, error) {
	all, err := listed.ReadFile("exceptions.txt")
	if err != nil {
		return nil, err
	}
	own, err := listed.ReadFile("exceptions-" + server + ".txt")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return parseExceptions(string(all) + string(own))
}

// parseExceptions reads lines of four fields with a tab between them: targets with commas between them, file,
// test and reason. A # begins a comment, at the start of a line.
func parseExceptions(text string) (Exceptions, error) {
	all := Exceptions{}
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
			key := Key{target, f[1], f[2]}
			if all[key] != "" {
				return nil, fmt.Errorf("exceptions.txt: twice: %q", line)
			}
			all[key] = f[3]
		}
	}
	return all, nil
}

// stalls is how the reason of a test begins that would wait for ever.
const stalls = "stalls: "

// Stall are the tests of a file that would wait for ever, sorted.
func (e Exceptions) Stall(target, file string) (names []string) {
	for key, why := range e {
		if key.Target == target && key.File == file && strings.HasPrefix(why, stalls) {
			names = append(names, key.Name)
		}
	}
	slices.Sort(names)
	return names
}

// pick is the reason why a difference is excepted, and the key of the line that says so:
// of the test, or of "*", all tests of its file.
func (e Exceptions) pick(d Difference) (Key, string) {
	for _, key := range []Key{d.Key(), {d.Target, d.File, "*"}} {
		if why := e[key]; why != "" {
			return key, why
		}
	}
	return Key{}, ""
}

// Left are the differences that are no exceptions.
func (e Exceptions) Left(differ []Difference) (left []Difference) {
	for _, d := range differ {
		if _, why := e.pick(d); why == "" {
			left = append(left, d)
		}
	}
	return left
}

// Stale are the exceptions which are none any more of tests that ran, sorted.
func (e Exceptions) Stale(differ []Difference, ran func(Key) bool) (stale []Key) {
	used := map[Key]bool{}
	for _, d := range differ {
		key, _ := e.pick(d)
		used[key] = true
	}
	for key := range e {
		if !used[key] && ran(key) {
			stale = append(stale, key)
		}
	}
	slices.SortFunc(stale, func(a, b Key) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return stale
}
