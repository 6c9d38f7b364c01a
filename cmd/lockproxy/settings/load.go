package settings

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"lockproxy/cmd/lockproxy/tool"
)

// given is one setting as one source gives it. It is right as long as wrong is nil; then name is that of a
// setting, and value is not judged yet.
type given struct {
	name  string // "" if it is not known which one is meant
	value string
	where string // for errors: "--lock-lease 30", "LOCKPROXY_LOCK_LEASE=30", "proxy.conf:3: lock-lease 30"
	place string // "proxy.conf:3: "; "" outside of a config file
	line  int    // of that file
	wrong error  // why it cannot be used
}

// Reading is what the sources give, with all that is wrong with it. Values are whole in any case: a setting
// whose value is wrong has its default, or what a source of less weight says.
type Reading struct {
	Values *Values
	used   map[string]given // where the value of a setting is from
	wrong  []given
	final  bool // no more mistakes are added: a config file cannot be read, or something else is asked for
	typed  bool // some of what is wrong stands on the command line or in a variable
}

// Mistakes is all that is wrong with settings. Its text has one mistake a line.
type Mistakes struct {
	all   []error
	Typed bool // some of it stands on the command line or in a variable
}

func (m *Mistakes) Error() string { return errors.Join(m.all...).Error() }

func (m *Mistakes) Unwrap() []error { return m.all }

// Sources are where settings are read from. What stands first wins: the arguments, the environment, the
// config file that these name. They are as they were given, and each reading begins with them anew.
type Sources struct {
	Args, Environ []string
	Tools         []string // names of subcommands
	Others        []string // variables that are no settings
}

// Load reads all settings. A wrong value is an error also where another source overrides it. The error has
// all that is wrong (see Apart): of the file by lines, then of the environment and the arguments. Unlike Read
// it does not look whether the settings go together: a probe needs the admin address alone.
func (s Sources) Load() (*Values, error) {
	r := s.readSources()
	return r.Values, r.Err()
}

// Read reads all settings, as Load does, and looks for mistakes that only show when all are known. One that
// may only be the consequence of another is left out.
func (s Sources) Read() *Reading {
	r := s.readSources()
	r.Add(check(r.Values))
	return r
}

// readSources reads all sources. The file comes first, so that what comes behind it overrides it. Where help
// or the version is asked for, that is all that is wrong.
func (s Sources) readSources() *Reading {
	r := &Reading{Values: Defaults(), used: make(map[string]given)}
	flags, err := s.readFlags()
	if err != nil {
		r.wrong, r.final = []given{{wrong: err}}, true
		return r
	}
	typed, path := append(s.readEnviron(), flags...), ""
	for _, g := range typed {
		if g.name == "config" && g.wrong == nil {
			path = g.value
		}
	}
	if path != "" {
		file, err := readFile(path)
		if r.final = err != nil; r.final {
			file = []given{{wrong: err}}
		}
		r.applyGiven(file)
	}
	// From here on mistakes are of what was typed.
	before := len(r.wrong)
	r.applyGiven(typed)
	r.typed = len(r.wrong) > before
	return r
}

// applyGiven takes over those of gs that are right.
func (r *Reading) applyGiven(gs []given) {
	all := table(r.Values)
	for _, g := range gs {
		if g.wrong == nil {
			// Set leaves the place alone if it refuses.
			in := findIn(all, g.name).at
			if err := in.Set(g.value); err != nil {
				g.wrong = fmt.Errorf("%s: %s %w; allowed: %s", g.where, g.name, err, in.Allowed)
			}
		}
		if g.wrong != nil {
			r.wrong = append(r.wrong, g)
			continue
		}
		r.used[g.name] = g
	}
}

// Add adds mistakes that a source alone does not show. A mistake stands at the line of the first setting that
// it is about, if that is from the config file. It is left out if it may only follow from another one: a
// setting that it names is wrong itself, or the config file cannot be read.
func (r *Reading) Add(err error) {
	if r.final {
		return
	}
	for _, one := range Apart(err) {
		if errors.Is(one, ErrNoUpstream) && r.typed { // what is misspelt may have been meant to say it
			continue
		}
		if slices.ContainsFunc(r.wrong, func(g given) bool {
			return g.name != "" && namesSetting(one, g.name)
		}) {
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

// namesSetting says that the text of err has the name of a setting. A word is letters and dashes, so
// lock-lease is not found in lock-lease-x.
func namesSetting(err error, setting string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(err.Error(), func(c rune) bool {
		return c != '-' && (c < 'a' || c > 'z')
	}), func(word string) bool { return strings.Trim(word, "-") == setting })
}

// Err is all that is wrong: what stands in the file first, by lines. It is a *Mistakes, or nil.
func (r *Reading) Err() error {
	// stable, so mistakes without a line keep their order, behind the others
	place := func(g given) int { return cmp.Or(g.line, math.MaxInt) }
	slices.SortStableFunc(r.wrong, func(a, b given) int { return cmp.Compare(place(a), place(b)) })
	if len(r.wrong) == 0 {
		return nil
	}
	m := &Mistakes{Typed: r.typed}
	for _, g := range r.wrong {
		m.all = append(m.all, g.wrong)
	}
	return m
}

// Apart is err in single errors. An error that was joined of others is taken apart, however deep; nil has
// none.
func Apart(err error) []error {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, one := range several.Unwrap() {
			all = append(all, Apart(one)...)
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
	// A given with the likely name and an error: what follows from that setting's being missing is then left
	// out.
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
		// a part of a name: prefix for lock-prefix
		if len(name) > 2 && strings.Contains(s.Name, name) {
			return s.Name
		}
	}
	return ""
}
