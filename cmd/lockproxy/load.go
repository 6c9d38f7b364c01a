package main

import (
	"errors"
	"fmt"
	"strings"
)

// given is one setting as one source gives it.
type given struct {
	name  string
	value string
	where string // for errors: "--lock-lease 30", "LOCKPROXY_LOCK_LEASE=30", "proxy.conf:3: lock-lease 30"
}

// load reads all settings from the arguments, the environment and the config
// file that these name. What stands first in this list wins; a wrong value is
// an error also where another source overrides it. The error has one line for
// each thing that is wrong.
func load(args, environ []string) (*Values, error) {
	flags, err := readFlags(args)
	if err != nil {
		return nil, err
	}
	env, err := readEnviron(environ)
	if err != nil {
		return nil, err
	}
	v := defaults()
	if err := errors.Join(apply(v, env), apply(v, flags)); err != nil {
		return nil, err
	}
	if v.Proxy.ConfigFile != "" {
		file, err := readFile(v.Proxy.ConfigFile)
		if err != nil {
			return nil, err
		}
		v = defaults()
		if err := errors.Join(apply(v, file), apply(v, env), apply(v, flags)); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// apply sets all of gs in v.
func apply(v *Values, gs []given) error {
	var wrong []error
	for _, g := range gs {
		in := find(g.name).in(v)
		if err := in.Set(g.value); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %s %w; allowed: %s", g.where, g.name, err, in.Allowed()))
		}
	}
	return errors.Join(wrong...)
}

// known checks that name is a setting; where and spell say how the source writes
// names, for the error.
func known(name, where string, spell func(string) string) error {
	if find(name) != nil {
		return nil
	}
	if near := nearest(name); near != "" {
		return fmt.Errorf("%s: there is no such setting; did you mean %s?", where, spell(near))
	}
	return fmt.Errorf("%s: there is no such setting; lockproxy --help lists them", where)
}

// nearest is the setting whose name is most like name, "" if none is like it.
func nearest(name string) string {
	best, least := "", 1+len(name)/3
	for _, s := range settings {
		if d := distance(name, s.Name); d < least {
			best, least = s.Name, d
		}
	}
	if best != "" {
		return best
	}
	for _, s := range settings {
		if len(name) > 2 && strings.Contains(s.Name, name) {
			return s.Name
		}
	}
	return ""
}

// distance is how many letters must be put in, taken out or changed to make b
// of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
