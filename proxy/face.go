package proxy

import "lockproxy/commands"

// This file is commands.Face of whole.

// ClusterMode implements commands.Face.
func (v whole) ClusterMode() bool { return v.s.o.ClusterMode }

// Announced implements commands.Face.
func (v whole) Announced() []string { return v.s.o.Announce }

// Home implements commands.Face.
func (v whole) Home() string {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	for _, ln := range v.s.listeners {
		if ln.Addr().Network() == "tcp" {
			return ln.Addr().String()
		}
	}
	return ""
}

// Secure implements commands.Face.
func (v whole) Secure() bool { return v.s.o.TLS != nil }

// Served implements commands.Face.
func (v whole) Served() int { return v.s.upstream.Topology().Served() }

// ReplicaReads implements commands.Face.
func (v whole) ReplicaReads() commands.ReplicaReads { return v.s.o.ReplicaReads }

// WatchReplicas implements commands.Face.
func (v whole) WatchReplicas() { v.s.upstream.WatchReplicas() }
