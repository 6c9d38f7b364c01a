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

// whole is the proxy as commands see it: it implements commands.Server.
type whole struct{ s *Server }

// AuthRequired implements commands.Server.
func (v whole) AuthRequired() bool { return v.s.o.UsersOnly || v.s.now.Load().Password != "" }

// UsersOnly implements commands.Server.
func (v whole) UsersOnly() bool { return v.s.o.UsersOnly }

// CheckAuth implements commands.Server. The one user is called "default", as in a Redis without ACL rules.
func (v whole) CheckAuth(user, password []byte) bool {
	// Digests have one length, so the comparison tells nothing about the password's.
	want, got := sha256.Sum256([]byte(v.s.now.Load().Password)), sha256.Sum256(password)
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1 && string(user) == "default"
}

// Config implements commands.Server.
func (v whole) Config() commands.Config { return v.s.o.Config }

// OwnStats implements commands.Server.
func (v whole) OwnStats() commands.OwnStats { return v.s.shared.Own }

// Scripts implements commands.Server.
func (v whole) Scripts() *commands.Scripts { return v.s.shared.Scripts }

// Upstream implements commands.Server.
func (v whole) Upstream() cluster.Server { return v.s.upstream.Topology().Server }

// Login implements commands.Server.
func (v whole) Login() *cluster.Login { return v.s.upstream.Login() }

// Clustered implements commands.Server.
func (v whole) Clustered() bool { return v.s.upstream.Topology().Kind == cluster.Cluster }

// Facts implements commands.Server.
func (v whole) Facts() commands.Facts {
	f := commands.Facts{
		Version:    v.s.o.Version,
		Upstream:   kindNames[v.s.upstream.Topology().Kind],
		ConfigFile: v.s.o.ConfigFile,
		RunID:      v.s.runID,
		Started:    v.s.started,
		MaxClients: v.s.now.Load().MaxClients,
		Stats:      v.s.shared.Own.SinceReset(),
	}
	if p := v.s.shared.Clients.Paused(); p != nil {
		f.Pause, f.PauseLeft = p.Kind, max(time.Until(p.Until), 0)
	}
	f.Executable, _ = os.Executable() // otherwise the line stays empty
	if all := v.s.Addrs(); len(all) > 0 {
		f.Addr = all[0].String()
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
