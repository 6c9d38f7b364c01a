package settings

import (
	"lockproxy/cluster/discovery"
	"lockproxy/proxy"
)

// Setting is one row of the table that defines every setting: its flag, its environment variable, its line in
// a config file, its CONFIG parameter, its place in --help and in docs/settings.md. What a setting means for
// the data plane stands with the option that at points to.
type Setting struct {
	Name    string // lock-lease: --lock-lease, LOCKPROXY_LOCK_LEASE
	Group   string // heading in --help
	Default string // as a user would write it; "": what DefaultOptions of its package has, or nothing
	Help    string // what it is, in Markdown
	Secret  bool   // never shown in errors and logs

	at value // its place in the Values of the table, and what is allowed there
	// what of it all proxies must have the same that share locks; nil: nothing. Other proxies compare the
	// text, so it is the same for settings that mean the same
	same func() string
	// SIGHUP and CONFIG SET may change it, because it is read each time it is used, or Server.Change handles
	// it
	live bool
	// ... but not CONFIG SET: it is for those who run the proxy, not for clients
	fileOnly bool
}

// settable says that CONFIG SET may change the setting.
func (s *Setting) settable() bool { return s.live && !s.fileOnly }

// Find returns the setting called name, nil if there is none. It is of no Values: nobody reads or writes its
// place.
func Find(name string) *Setting { return findIn(settings, name) }

// findIn is Find in the table of some Values.
func findIn(all []Setting, name string) *Setting {
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	return nil
}

// in is the place of the setting in v. It makes a table, so whoever needs several has its own.
func (s *Setting) in(v *Values) value { return findIn(table(v), s.Name).at }

// Defaults are the values when nothing is set. A new one for each call: callers write into it.
func Defaults() *Values {
	v := &Values{Upstream: discovery.DefaultOptions(), Proxy: proxy.DefaultOptions()}
	for _, s := range table(v) {
		if s.Default == "" {
			continue
		}
		if err := s.at.Set(s.Default); err != nil {
			// a mistake in the table, which the first test meets
			panic("default of " + s.Name + " " + err.Error())
		}
	}
	return v
}
