package settings

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"lockproxy/internal/glob"
)

// Config holds the settings of a running program and answers CONFIG GET and CONFIG SET. Safe for concurrent
// use; nothing of it blocks for long. Values are read without mu, by loops too: they are never written to,
// only replaced.
type Config struct {
	now atomic.Pointer[Values]
	// what a setting that is not live still runs with, whatever its source says by now
	started *Values // as they were read at the start

	fit      func(*Values) *Values // lowers them to what the process may have; set by Fit
	mu       sync.Mutex            // one change at a time
	watchers []func(*Values)
}

// NewConfig returns a Config that starts with v.
func NewConfig(v *Values) *Config {
	c := &Config{started: v, fit: func(v *Values) *Values { return v }}
	c.now.Store(v)
	return c
}

// Values are the settings as they are now.
func (c *Config) Values() *Values { return c.now.Load() }

// Started are the settings as they were at the start.
func (c *Config) Started() *Values { return c.started }

// OnChange calls watch with the settings as they are now, and again after each change, in order. watch must
// not block and not call c. It is for the life of c: nothing takes a watch away.
func (c *Config) OnChange(watch func(*Values)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watchers = append(c.watchers, watch)
	watch(c.now.Load())
}

// Fit replaces the settings by the result of f, before anybody watches them, and those of each change. It is
// called once, by the program when it starts.
func (c *Config) Fit(f func(*Values) *Values) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fit = f
	c.now.Store(f(c.now.Load()))
}

// hidden is what CONFIG GET shows of secrets of the upstream: a client needs its own password only.
const hidden = "(hidden)"

// longestPattern is how long a pattern of CONFIG GET may be. No name is longer.
const longestPattern = 256

// Get returns names and values of the settings whose name matches pattern, in the
// order of the table (CONFIG GET).
func (c *Config) Get(pattern string) [][2]string {
	if len(pattern) > longestPattern {
		return nil
	}
	v := c.Values()
	lower := []byte(strings.ToLower(pattern))
	var found [][2]string
	var all []Setting // of v, once a name matches: most names that clients ask for are Redis's own
	for i := range settings {
		name := settings[i].Name
		if !glob.Match(lower, []byte(name)) {
			continue
		}
		if all == nil {
			all = table(v)
		}
		if strings.EqualFold(name, pattern) {
			name = pattern // as Redis: the spelling that was asked for
		}
		found = append(found, [2]string{name, all[i].configAnswer(v)})
	}
	return found
}

// configAnswer is what CONFIG GET shows of a setting of v.
func (s *Setting) configAnswer(v *Values) string {
	text := s.at.String()
	if s.inFile(v) {
		return hidden // not empty, which would say that there is no password
	}
	// Redis shows requirepass to those who may ask, and so it is here.
	if s.Secret && s.Group != "clients" && text != "" {
		return hidden
	}
	return text
}

// inFile says that s is the password of clients, and stands in requirepass-file.
func (s *Setting) inFile(v *Values) bool { return s.Name == "requirepass" && v.ClientsFrom.Given() }

// SetAll changes settings, pairs of name and value, all of them or none (CONFIG SET). Its errors are whole
// error replies in Redis's own words, from "ERR" on, without the minus sign. What it has changed holds until
// the next restart or SIGHUP: no file is written.
func (c *Config) SetAll(pairs [][2]string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	next, err := c.nextValues(pairs)
	if err != nil {
		return err
	}
	c.adoptValues(c.fit(next))
	return nil
}

// adoptValues makes next the settings. c.mu is held.
func (c *Config) adoptValues(next *Values) {
	c.now.Store(next)
	for _, watch := range c.watchers {
		watch(next)
	}
}

// Again has those who watch look again: what the settings lead to has changed, such as a file. Values stay
// the same ones.
func (c *Config) Again() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.adoptValues(c.now.Load())
}

// Reread makes the settings what fresh says, all of them or none, as far as they can change while the proxy
// runs: then they are what they would be after a restart, and what CONFIG SET has changed is over. It returns
// those that differ from before, and those that only a restart changes.
func (c *Config) Reread(fresh *Values) (changed, restart []*Setting, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now.Load()
	// It begins as what holds now, so settings that need a restart keep their values.
	mixed := *now
	running, wanted, next := table(c.started), table(fresh), table(&mixed)
	for i := range settings {
		s, text := &settings[i], wanted[i].at.String()
		switch {
		case s.live && movesPassword(s, running, wanted):
			// stays until the restart that changes the other setting: else there would be none till then
		case s.live:
			if err := next[i].at.Set(text); err != nil {
				return nil, nil, fmt.Errorf("%s %w", s.Name, err)
			}
		case text != running[i].at.String():
			restart = append(restart, s)
		}
	}
	// Before check and before the comparison: what is logged as changed is what will hold.
	fitted := c.fit(&mixed)
	if err := check(fitted); err != nil {
		return nil, restart, err
	}
	before := table(now)
	for i, then := range table(fitted) {
		if then.live && then.at.String() != before[i].at.String() {
			changed = append(changed, &settings[i])
		}
	}
	c.adoptValues(fitted)
	return changed, restart, nil
}

// movesPassword says that the password s comes from another setting in fresh: it moves into a file, say.
func movesPassword(s *Setting, started, fresh []Setting) bool {
	return slices.ContainsFunc([]string{"-file", "-command"}, func(source string) bool {
		other := findIn(started, s.Name+source)
		return other != nil && other.at.String() != findIn(fresh, s.Name+source).at.String()
	})
}

// Has says whether there is a setting of that name.
func (c *Config) Has(name string) bool { return Find(name) != nil }

// Check returns the error that SetAll would return, and changes nothing.
func (c *Config) Check(pairs [][2]string) error {
	_, err := c.nextValues(pairs)
	return err
}

// nextValues returns the settings as they would be with pairs.
func (c *Config) nextValues(pairs [][2]string) (*Values, error) {
	// A copy, which the pairs are written into one after the other.
	next := *c.now.Load()
	// Names first, as in Redis: an unknown one is told before any value is looked at.
	for _, pair := range pairs {
		if Find(strings.ToLower(pair[0])) == nil {
			return nil, fmt.Errorf("ERR Unknown option or number of arguments for CONFIG SET - '%s'", pair[0])
		}
	}
	all, seen := table(&next), make(map[string]bool, len(pairs))
	for _, pair := range pairs {
		s := findIn(all, strings.ToLower(pair[0]))
		switch {
		case (!s.settable() || s.inFile(&next)) && pair[1] == s.configAnswer(&next):
			continue // some clients set everything that they have read
		case s.inFile(&next):
			return nil, setError(s, errors.New("the password is that of requirepass-file: write it there"))
		case !s.settable():
			return nil, setError(s, errors.New("can't set immutable config"))
		case seen[s.Name]:
			return nil, setError(s, errors.New("duplicate parameter"))
		}
		seen[s.Name] = true
		var whole configError
		switch err := s.at.Set(pair[1]); {
		case errors.As(err, &whole):
			return nil, setError(s, err)
		case err != nil:
			return nil, setError(s, fmt.Errorf("%s %w", s.at.Subject, err))
		}
	}
	if len(pairs) == 0 {
		return &next, nil
	}
	// No single pair is to blame for a combination, and Redis's error has room for one name.
	if err := check(&next); err != nil {
		return nil, setError(Find(strings.ToLower(pairs[0][0])), err)
	}
	if s, err := opens(c.now.Load(), &next); err != nil {
		return nil, setError(s, err)
	}
	return &next, nil
}

// opens returns a change that would open the proxy to others. Only whoever starts the proxy may make it, no
// client.
func opens(now, next *Values) (*Setting, error) {
	// listen itself cannot be changed, so the addresses are those of now
	i := slices.IndexFunc(now.Listen, func(addr string) bool { return !IsLoopback(addr) })
	if i < 0 {
		return nil, nil
	}
	name := ""
	switch {
	case now.ProtectedMode && !next.ProtectedMode:
		name = "protected-mode"
	case !now.Open() && next.Open():
		name = "requirepass"
	default:
		return nil, nil
	}
	return Find(name), fmt.Errorf("listen %s reaches beyond this machine, and this would open it to others: "+
		"set it where lockproxy is started", now.Listen[i])
}

// setError is the error reply of CONFIG SET, in the form of Redis 7: the parameter in parentheses.
func setError(s *Setting, why error) error {
	// It is sent as one line of an error reply.
	line := strings.ReplaceAll(why.Error(), "\n", "; ")
	return fmt.Errorf("ERR CONFIG SET failed (possibly related to argument '%s') - %s", s.Name, line)
}

// Changed is a setting that differs from its default. It is for the page of the admin listener.
type Changed struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Default string `json:"default"`
}

// Changed are the settings that differ from their defaults. Secrets are not shown.
func (v *Values) Changed() []Changed {
	all, standard := []Changed{}, table(Defaults())
	for i, s := range table(v) {
		now, then := s.at.String(), standard[i].at.String()
		if now == then {
			continue
		}
		if s.Secret {
			now = hidden
		}
		all = append(all, Changed{Name: s.Name, Value: now, Default: then})
	}
	return all
}

// longestLogged is the length up to which the value of a setting is logged.
const longestLogged = 200

// Logged is the value of a setting as logs may show it.
func (s *Setting) Logged(v *Values) string {
	value := s.in(v).String()
	if s.Secret || len(value) > longestLogged {
		return "(not shown)"
	}
	return value
}
