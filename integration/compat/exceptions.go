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

// NotRun are the tests of a file that would wait for ever, or pass by chance, sorted.
func (e Exceptions) NotRun(target, file string) (names []string) {
	for key, why := range e {
		never := strings.HasPrefix(why, "stalls: ") || strings.HasPrefix(why, "chance: ")
		if key.Target == target && key.File == file && never {
			names = append(names, key.Name)
		}
	}
	slices.Sort(names)
	return names
}

// of is the key of the line that excepts a difference: of the test, or of "*", all tests of its file.
func (e Exceptions) of(d Difference) (key Key, ok bool) {
	for _, key := range []Key{{d.Target, d.File, d.Name}, {d.Target, d.File, "*"}} {
		if e[key] != "" {
			return key, true
		}
	}
	return Key{}, false
}

// Left are the differences that are no exceptions, and stale the exceptions which are none any more of tests
// that ran, sorted.
func (e Exceptions) Left(differ []Difference, ran map[Key]bool) (left []Difference, stale []Key) {
	used := map[Key]bool{}
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
	slices.SortFunc(stale, func(a, b Key) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return left, stale
}
