package limits

import (
	"log/slog"

	"lockproxy/cmd/lockproxy/settings"
)

// spareFiles are the descriptors kept for everything besides clients and owned connections to nodes: other
// connections to the upstream, listeners, the admin address.
const spareFiles = 64

// ownShare is the part of the other descriptors (one of so many) that owned connections may take if there
// are not enough for all.
const ownShare = 4

// FitClients lowers maxclients to what the limit of open files allows, as Redis does, and before that
// upstream-own-connections, and logs it. A connection is one descriptor, with TLS and without.
func FitClients(v *settings.Values, limit uint64, log *slog.Logger) *settings.Values {
	if uint64(v.Proxy.MaxClients)+uint64(v.Proxy.MaxOwn)+spareFiles <= limit {
		return v
	}
	// v itself is in use elsewhere, and never changes
	fitted := *v
	// unsigned: a limit below spareFiles must not wrap
	spare := max(limit, spareFiles) - spareFiles
	fitted.Proxy.MaxOwn = fitNumber("upstream-own-connections", v.Proxy.MaxOwn, spare/ownShare, limit, log)
	spare -= min(spare, uint64(fitted.Proxy.MaxOwn))
	fitted.Proxy.MaxClients = fitNumber("maxclients", v.Proxy.MaxClients, spare, limit, log)
	return &fitted
}

// fitNumber is the configured number, or as many as fit into spare, but at least 1.
func fitNumber(name string, configured int, spare, limit uint64, log *slog.Logger) int {
	if uint64(configured) <= spare {
		return configured
	}
	fitted := int(max(spare, 1))
	log.Warn("a setting is lowered: the limit of open files (ulimit -n) allows no more",
		"setting", name, "value", fitted, "configured", configured, "limit", limit)
	return fitted
}
