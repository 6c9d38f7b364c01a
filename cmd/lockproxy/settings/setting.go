package settings

import (
	"lockproxy/cluster/discovery"
	"lockproxy/cmd/lockproxy/kind"
	"lockproxy/proxy"
)

// Setting is one row of the table that defines every setting: its flag, its environment variable, its line in
// a config file, its CONFIG parameter, its place in --help and in docs/settings.md. What a setting means for
// the data plane stands with the option that in points to.
type Setting struct {
	Name    string // lock-lease: --lock-lease, LOCKPROXY_LOCK_LEASE
	Group   string // heading in --help
	Default string // as a user would write it; "": what DefaultOptions of its package has, or nothing
	Help    string // what it is, in Markdown
	Secret  bool   // never shown in errors and logs

	// called for each use, since a value is bound to the Values that it was made of
	in func(*Values) value // its place in v, and what is allowed there
	// what of it all proxies must have the same that share locks; nil: nothing. Other proxies compare the
	// text, so it is the same for settings that mean the same
	same func(*Values) string
	// SIGHUP and CONFIG SET may change it, because it is read each time it is used, or Server.Change handles
	// it
	live bool
	// ... but not CONFIG SET: it is for those who run the proxy, not for clients
	fileOnly bool
}

// settable says that CONFIG SET may change the setting.
func (s *Setting) settable() bool { return s.live && !s.fileOnly }

// Find returns the setting called name, nil if there is none. The pointer is into the table, which nobody
// writes to.
func Find(name string) *Setting {
	for i := range settings {
		if settings[i].Name == name {
			return &settings[i]
		}
	}
	return nil
}

// Defaults are the values when nothing is set. A new one for each call: callers write into it.
func Defaults() *Values {
	v := &Values{Upstream: discovery.DefaultOptions(), Proxy: proxy.DefaultOptions()}
	for _, s := range settings {
		if s.Default == "" {
			continue
		}
		if err := s.in(v).Set(s.Default); err != nil {
			// a mistake in the table, which the first test meets
			panic("default of " + s.Name + " " + err.Error())
		}
	}
	return v
}

// standard is the value that v has for the setting, as a user would write it.
func (s *Setting) standard(v *Values) string {
	in := s.in(v)
	if long, ok := in.(shortened); ok {
		return long.short()
	}
	return in.String()
}

// allowed describes the values that the setting accepts. What Set takes does not depend on the Values, so an
// empty one will do.
func (s *Setting) allowed() string { return s.in(new(Values)).Allowed() }

// boolean says that the flag needs no value.
func (s *Setting) boolean() bool { return kind.Boolean(s.in(new(Values))) }
