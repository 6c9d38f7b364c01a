package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"lockproxy/cmd/lockproxy/tool"
)

// given is one setting as one source gives it.
type given struct {
	name  string // "" if it is not known which one is meant
	value string
	where string // for errors: "--lock-lease 30", "LOCKPROXY_LOCK_LEASE=30", "proxy.conf:3: lock-lease 30"
	place string // "proxy.conf:3: "; "" outside of a config file
	line  int    // of that file
	wrong error  // why it cannot be used
}

// reading is what the sources give, with all that is wrong with it.
type reading struct {
	values *Values
	used   map[string]given // where the value of a setting is from
	wrong  []given
	unread bool // there is a config file that cannot be read
	typed  bool // some of what is wrong stands on the command line or in a variable
}

// mistakes is all that is wrong with settings.
type mistakes struct {
	all   []error
	typed bool // some of it stands on the command line or in a variable
}

func (m *mistakes) Error() string { return errors.Join(m.all...).Error() }

func (m *mistakes) Unwrap() []error { return m.all }

// load reads all settings from the arguments, the environment and the config file that these name. What
// stands first in this list wins; a wrong value is an error also where another source overrides it. The error
// has all that is wrong (see apart): of the file by lines, then of the environment and the arguments.
func load(args, environ []string) (*Values, error) {
	r, err := read(args, environ)
	if err != nil {
		return nil, err
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return r.values, nil
}

// loadChecked is load and check, with all mistakes of both. A mistake of check that may only be the
// consequence of one of load is left out.
func loadChecked(args, environ []string) (*Values, error) {
	r, err := read(args, environ)
	if err != nil {
		return nil, err
	}
	r.add(check(r.values))
	if err := r.err(); err != nil {
		return nil, err
	}
	return r.values, nil
}

// loadAll is loadChecked, and reads the files that the settings name, with all mistakes of both.
func loadAll(args, environ []string) (*Values, certs, passwords, error) {
	r, err := read(args, environ)
	if err != nil {
		return nil, certs{}, passwords{}, err
	}
	r.add(check(r.values))
	c, wrongCerts := loadCerts(r.values)
	p, wrongPasswords := loadPasswords(r.values)
	_, wrongMap := readDetours(r.values)
	r.add(errors.Join(wrongCerts, wrongPasswords, wrongMap, checkAuditLog(r.values.AuditLog)))
	return r.values, c, p, r.err()
}

// read reads all sources. Its errors are errHelp and errVersion.
func read(args, environ []string) (*reading, error) {
	flags, err := readFlags(args)
	if err != nil {
		return nil, err
	}
	env := readEnviron(environ)
	r := &reading{values: defaults(), used: make(map[string]given)}
	if path := last("config", env, flags); path != "" {
		file, err := readFile(path)
		if r.unread = err != nil; r.unread {
			file = []given{{wrong: err}}
		}
		r.apply(file)
	}
	before := len(r.wrong)
	r.apply(env)
	r.apply(flags)
	r.typed = len(r.wrong) > before
	return r, nil
}

// last is the value that counts of the setting, "" if it is not given.
func last(name string, sources ...[]given) (value string) {
	for _, gs := range sources {
		for _, g := range gs {
			if g.name == name && g.wrong == nil {
				value = g.value
			}
		}
	}
	return value
}

// apply takes over those of gs that are right.
func (r *reading) apply(gs []given) {
	for _, g := range gs {
		if g.wrong == nil {
			in := find(g.name).in(r.values)
			if err := in.Set(g.value); err != nil {
				g.wrong = fmt.Errorf("%s: %s %w; allowed: %s", g.where, g.name, err, in.Allowed())
			}
		}
		if g.wrong != nil {
			r.wrong = append(r.wrong, g)
			continue
		}
		r.used[g.name] = g
	}
}

// add adds mistakes that a source alone does not show. A mistake stands at the line of the first setting that
// it is about, if that is from the config file. It is left out if it may only follow from another one: a
// setting that it names is wrong itself, or the config file cannot be read.
func (r *reading) add(err error) {
	if r.unread {
		return
	}
	for _, one := range apart(err) {
		if errors.Is(one, errNoUpstream) && r.typed { // what is misspelt may have been meant to say it
			continue
		}
		if slices.ContainsFunc(r.wrong, func(g given) bool { return g.name != "" && names(one, g.name) }) {
			continue
		}
		subject, _, _ := strings.Cut(one.Error(), ": ")
		g := given{wrong: one}
		for word := range strings.FieldsSeq(subject) {
			if at := r.used[strings.TrimRight(word, ",")]; at.line > 0 {
				g.line, g.wrong = at.line, fmt.Errorf("%s%w", at.place, one)
				break
			}
		}
		r.wrong = append(r.wrong, g)
	}
}

// names says that the text of err has the name of a setting.
func names(err error, setting string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(err.Error(), func(c rune) bool {
		return c != '-' && (c < 'a' || c > 'z')
	}), func(word string) bool { return strings.Trim(word, "-") == setting })
}

// err is all that is wrong: what stands in the file first, by lines.
func (r *reading) err() error {
	place := func(g given) int { return cmp.Or(g.line, math.MaxInt) }
	slices.SortStableFunc(r.wrong, func(a, b given) int { return cmp.Compare(place(a), place(b)) })
	if len(r.wrong) == 0 {
		return nil
	}
	m := &mistakes{typed: r.typed}
	for _, g := range r.wrong {
		m.all = append(m.all, g.wrong)
	}
	return m
}

// apart is err in single errors.
func apart(err error) []error {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, one := range several.Unwrap() {
			all = append(all, apart(one)...)
		}
		return all
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// stranger is what is given under a name that no setting has. where and spell say how the source writes
// names.
func stranger(name, where string, spell func(string) string) given {
	near := nearest(name)
	if near != "" {
		return given{name: near, wrong: fmt.Errorf("%s: there is no such setting; did you mean %s?", where,
			spell(near))}
	}
	return given{wrong: fmt.Errorf("%s: there is no such setting; lockproxy --help lists them", where)}
}

// nearest is the setting whose name is most like name, "" if none is like it.
func nearest(name string) string {
	var all []string
	for _, s := range settings {
		all = append(all, s.Name)
	}
	if best := tool.Nearest(name, all); best != "" {
		return best
	}
	for _, s := range settings {
		if len(name) > 2 && strings.Contains(s.Name, name) {
			return s.Name
		}
	}
	return ""
}
