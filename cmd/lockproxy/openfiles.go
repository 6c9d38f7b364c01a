package main

import "log/slog"

// spareFiles are the descriptors kept for what is neither a client nor a connection that one client has for
// itself: the upstream's other connections, listeners, the admin address.
const spareFiles = 64

// ownShare is the part of the other descriptors that connections of one client each may take when there
// are not enough for all.
const ownShare = 4

// fitClients lowers maxclients to what the limit of open files allows, as Redis
// does, and upstream-own-connections before it, and says so. Behind TLS a connection takes three: its
// socket and the pair through which its loop reads it.
func fitClients(v *Values, limit uint64, log *slog.Logger) *Values {
	client, own := uint64(1), uint64(1)
	if v.TLSCert != "" {
		client = 3
	}
	if v.UpstreamTLS {
		own = 3
	}
	if uint64(v.Proxy.MaxClients)*client+uint64(v.Proxy.MaxOwn)*own+spareFiles <= limit {
		return v
	}
	fitted := *v
	room := max(limit, spareFiles) - spareFiles
	fitted.Proxy.MaxOwn = fit("upstream-own-connections", v.Proxy.MaxOwn, room/ownShare/own, limit, log)
	room -= min(room, uint64(fitted.Proxy.MaxOwn)*own)
	fitted.Proxy.MaxClients = fit("maxclients", v.Proxy.MaxClients, room/client, limit, log)
	return &fitted
}

// fit is configured, or what there is room for, which is at least 1.
func fit(name string, configured int, room, limit uint64, log *slog.Logger) int {
	if uint64(configured) <= room {
		return configured
	}
	fitted := int(max(room, 1))
	log.Warn("a setting is lowered: the limit of open files (ulimit -n) allows no more",
		"setting", name, "value", fitted, "configured", configured, "limit", limit)
	return fitted
}
