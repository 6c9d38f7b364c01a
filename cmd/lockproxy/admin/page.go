package admin

import (
	"net/http"
	"strings"

	"lockproxy/cmd/lockproxy/adminpage"
	"lockproxy/cmd/lockproxy/settings"
)

func (o Options) newPage() *adminpage.Page {
	return adminpage.New(adminpage.Options{Source: o.Program.Source, Stats: o.Program.Stats,
		Ready: o.Program.Ready, Values: o.Values, Version: o.Version, Log: o.Log})
}

// onlyPages serves page, but what is in other. The page names locks and clients, so without admin-password it
// is for this machine alone, and only as long as clients need no password either.
func onlyPages(values func() *settings.Values, page, other http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch reason := HidesPage(values()); {
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

// HidesPage says why nobody may see the page; "": whom the gate lets in may. It asks for the settings of now:
// a password that was set meanwhile counts at once.
func HidesPage(v *settings.Values) string {
	switch {
	case !v.AdminOpen():
		return ""
	case !settings.IsLoopback(v.Admin.Addr):
		return "admin " + v.Admin.Addr + " reaches beyond this machine"
	case !v.Open():
		return "clients need a password to see them"
	}
	return ""
}
