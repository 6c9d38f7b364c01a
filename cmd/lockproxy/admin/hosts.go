package admin

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"lockproxy/cmd/lockproxy/settings"
)

// This file keeps web pages away from the admin listener. A page may have its own host name resolve to this
// machine (DNS rebinding). Then the browser takes the admin listener for a part of that site and lets the
// page read it. But the request still carries the page's host name.

// names are the host names under which the admin listener may be asked.
func names(v *settings.Values) []string {
	all := append([]string{"localhost"}, v.Admin.Hosts...)
	// who has chosen to listen on a name may use it
	if host, _, err := net.SplitHostPort(v.Admin.Addr); err == nil && host != "" {
		all = append(all, strings.ToLower(host))
	}
	return all
}

// onlyHosts passes requests on to next if their Host is one of names, which are in lower case, or an IP
// address. A request without a Host, which no browser sends, is passed on too.
func onlyHosts(names []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// An IP address cannot be rebound: it is no name.
		host := hostName(r.Host)
		if _, err := netip.ParseAddr(host); err != nil && host != "" && !slices.Contains(names, host) {
			http.Error(w, fmt.Sprintf("the admin listener is not asked as %q: use its IP address, "+
				"or name the host in admin-hosts", host), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostName is a Host header without port, brackets and the dot at the end.
func hostName(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
