package proxy

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"os"
	"time"

	"lockproxy/cluster"
	"lockproxy/commands"
)

// This file is what commands may ask of the proxy as a whole: it implements
// commands.Server.

// AuthRequired implements commands.Server.
func (s *Server) AuthRequired() bool { return s.o.UsersOnly || s.now.Load().Password != "" }

// UsersOnly implements commands.Server.
func (s *Server) UsersOnly() bool { return s.o.UsersOnly }

// CheckAuth implements commands.Server. The one user is called "default", as
// that of a Redis without ACL rules.
func (s *Server) CheckAuth(user, password []byte) bool {
	// Digests have one length, so the comparison tells nothing of the password's.
	want, got := sha256.Sum256([]byte(s.now.Load().Password)), sha256.Sum256(password)
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1 && string(user) == "default"
}

// Config implements commands.Server.
func (s *Server) Config() commands.Config { return s.o.Config }

// Scripts implements commands.Server.
func (s *Server) Scripts() *commands.Scripts { return s.scripts }

// RedisVersion implements commands.Server.
func (s *Server) RedisVersion() string { return s.upstream.Topology().RedisVersion }

// Clustered implements commands.Server.
func (s *Server) Clustered() bool { return s.upstream.Topology().Kind == cluster.Cluster }

// Facts implements commands.Server.
func (s *Server) Facts() commands.Facts {
	f := commands.Facts{
		Version:    s.o.Version,
		Upstream:   kindNames[s.upstream.Topology().Kind],
		ConfigFile: s.o.ConfigFile,
		RunID:      s.runID,
		Started:    s.started,
		MaxClients: s.now.Load().MaxClients,
		Stats:      s.books.since(s.shared()),
	}
	if p := s.pause.Load(); p != nil {
		f.Pause, f.PauseLeft = p.kind, max(time.Until(p.until), 0)
	}
	f.Executable, _ = os.Executable() // without it the line stays empty
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.listeners) > 0 {
		f.Addr = s.listeners[0].Addr().String()
	}
	return f
}

var kindNames = map[cluster.Kind]string{
	cluster.Single: "single", cluster.Sentinel: "sentinel", cluster.Cluster: "cluster",
}

// newRunID makes an id as Redis has one: 40 hex digits.
func newRunID() string {
	var b [20]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
