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

// rawFacts are Facts since the start, whatever CONFIG RESETSTAT says.
func (s *Server) rawFacts() commands.Facts {
	locks := s.lockStats()
	f := commands.Facts{
		Version:             s.o.Version,
		Upstream:            kindNames[s.upstream.Topology().Kind],
		ConfigFile:          s.o.ConfigFile,
		RunID:               s.runID,
		Started:             s.started,
		Clients:             int(s.clients.Load()),
		Blocked:             int(s.blocked.Load()),
		MaxClients:          s.now.Load().MaxClients,
		HeldClients:         int(s.held.Load()),
		Tracking:            int(s.tracking.Load()),
		ConnectionsTotal:    uint64(s.lastID.Load()),
		ConnectionsRejected: s.rejected.Load(),
		Memory:              max(s.memory.used.Load(), 0),
		MaxMemory:           s.memory.limit.Load(),
		Evicted:             s.memory.evicted.Load(),
		LocksGranted:        locks.Granted.Write + locks.Granted.Read,
		LocksRefused:        locks.Refused.Write + locks.Refused.Read,
		LockWaiters:         locks.Waiting,
		LocksKept:           locks.Kept,
		LockRenewals:        locks.Renewals,
	}
	for _, n := range locks.Lost {
		f.LocksLost += n
	}
	if p := s.pause.Load(); p != nil {
		f.Pause, f.PauseLeft = p.kind, max(time.Until(p.until), 0)
	}
	f.Executable, _ = os.Executable() // without it the line stays empty
	for _, w := range s.workers {
		f.BytesIn += w.bytesIn.Load()
		f.BytesOut += w.bytesOut.Load()
	}
	for i := range s.pipeStats.Redirects {
		f.Redirects += s.pipeStats.Redirects[i].Load()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.listeners) > 0 {
		f.Addr = s.listeners[0].Addr().String()
	}
	for _, c := range s.counters {
		f.CommandsTotal += c.calls.Load()
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
