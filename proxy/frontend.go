package proxy

import "lockproxy/commands"

// This file implements commands.Frontend for whole.

// ClusterMode implements commands.Frontend.
func (v whole) ClusterMode() bool { return v.s.o.ClusterMode }

// Announced implements commands.Frontend.
func (v whole) Announced() []string { return v.s.o.Announce }

// Home implements commands.Frontend.
func (v whole) Home() string {
	for _, addr := range v.s.Addrs() {
		if addr.Network() == "tcp" {
			return addr.String()
		}
	}
	return ""
}

// Secure implements commands.Frontend.
func (v whole) Secure() bool { return v.s.o.TLS != nil }

// Served implements commands.Frontend.
func (v whole) Served() int { return v.s.upstream.Topology().Served() }

// ReplicaReads implements commands.Frontend.
func (v whole) ReplicaReads() commands.ReplicaReads { return v.s.o.ReplicaReads }

// WatchReplicas implements commands.Frontend.
func (v whole) WatchReplicas() { v.s.upstream.WatchReplicas() }
