package main

import (
	"net/http"
	"strings"

	"lockproxy/cmd/lockproxy/adminpage"
	"lockproxy/cmd/lockproxy/settings"
	"lockproxy/proxy"
)

// This file wires the page of the admin listener to the program, and says who may see it.

// newAdminPage makes the page.
func (p *program) newAdminPage() *adminpage.Page {
	v := p.config.Values()
	return adminpage.New(adminpage.Options{
		Source: p.state.source, Stats: p.state.Stats, Ready: p.state.Ready,
		Settings: func() (all []adminpage.Setting) {
			for _, s := range p.config.Values().Changed() {
				all = append(all, adminpage.Setting(s))
			}
			return all
		},
		Actions: v.AdminActions, Dev: v.Dev, Version: version, Log: p.log,
	})
}

// source is the data plane as the page sees it; nil: there is none yet.
func (s *state) source() adminpage.Source {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen, ok := s.plane.(interface{ View() proxy.View }); ok {
		return seen.View()
	}
	return nil
}

// View is the data plane as the page sees it.
func (w *wired) View() proxy.View { return proxy.ViewOf(w.Server) }

// onlyPages serves page, but what is in other. The page names locks and clients, so without admin-password it
// is for this machine alone, and only as long as clients need no password either.
func onlyPages(values func() *settings.Values, page, other http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch reason := hidesPage(values()); {
		case r.URL.Path == "/metrics" || strings.HasPrefix(r.URL.Path, "/debug/"):
			other.ServeHTTP(w, r)
		case reason != "":
			http.Error(w, "this page names locks and clients, and "+reason+": set admin-password\n"+
				"Without it there are /metrics, /healthz and /readyz.", http.StatusForbidden)
		default:
			page.ServeHTTP(w, r)
		}
	})
}

// hidesPage says why nobody may see the page; "": whom the gate lets in may.
func hidesPage(v *settings.Values) string {
	switch {
	case !v.AdminOpen():
		return ""
	case !settings.IsLoopback(v.Admin):
		return "admin " + v.Admin + " reaches beyond this machine"
	case !v.Open():
		return "clients need a password to see them"
	}
	return ""
}
