package proxy

import "lockproxy/commands"

// This file implements commands.Face.

// ClusterMode implements commands.Face.
func (s *Server) ClusterMode() bool { return s.o.ClusterMode }

// Announced implements commands.Face.
func (s *Server) Announced() []string { return s.o.Announce }

// Home implements commands.Face.
func (s *Server) Home() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ln := range s.listeners {
		if ln.Addr().Network() == "tcp" {
			return ln.Addr().String()
		}
	}
	return ""
}

// Secure implements commands.Face.
func (s *Server) Secure() bool { return s.o.TLS != nil }

// Served implements commands.Face.
func (s *Server) Served() int { return s.upstream.Topology().Served() }

// ReplicaReads implements commands.Face.
func (s *Server) ReplicaReads() commands.ReplicaReads { return s.o.ReplicaReads }

// WatchReplicas implements commands.Face.
func (s *Server) WatchReplicas() { s.upstream.WatchReplicas() }
