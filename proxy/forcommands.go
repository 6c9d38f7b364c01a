package proxy

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"log/slog"
	"os"
	"strings"
	"time"

	"lockproxy/cluster"
	"lockproxy/commands"
	"lockproxy/internal/lockevent"
	"lockproxy/proxy/login"
)

// commandsServer is the proxy as commands see it: it implements commands.Server. Its methods run on any loop,
// and never block.
type commandsServer struct{ s *Server }

// AuthRequired implements commands.Server.
func (v commandsServer) AuthRequired() bool {
	return v.s.o.UsersOnly || v.s.shared.Now.Load().Password != ""
}

// UsersOnly implements commands.Server.
func (v commandsServer) UsersOnly() bool { return v.s.o.UsersOnly }

// CheckAuth implements commands.Server. The one user is called "default", as in a Redis without ACL rules.
func (v commandsServer) CheckAuth(user, password []byte) bool {
	// Digests have one length, so the comparison tells nothing about the password's.
	want, got := sha256.Sum256([]byte(v.s.shared.Now.Load().Password)), sha256.Sum256(password)
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1 && string(user) == "default"
}

// Config implements commands.Server.
func (v commandsServer) Config() commands.Config { return v.s.o.Config }

// OwnStats implements commands.Server.
func (v commandsServer) OwnStats() commands.OwnStats { return v.s.shared.Own }

// Scripts implements commands.Server.
func (v commandsServer) Scripts() *commands.Scripts { return v.s.shared.Scripts }

// Upstream implements commands.Server.
func (v commandsServer) Upstream() cluster.Server { return v.s.upstream.Topology().Server }

// Login implements commands.Server.
func (v commandsServer) Login() *cluster.Login { return v.s.upstream.Login() }

// Clustered implements commands.Server.
func (v commandsServer) Clustered() bool { return v.s.upstream.Topology().Kind == cluster.Cluster }

// Facts implements commands.Server. They are gathered anew for each INFO.
func (v commandsServer) Facts() commands.Facts {
	f := commands.Facts{
		Version:    v.s.o.Version,
		Upstream:   v.s.upstream.Topology().Kind.String(),
		ConfigFile: v.s.o.ConfigFile,
		RunID:      v.s.runID,
		Started:    v.s.started,
		MaxClients: v.s.shared.Now.Load().MaxClients,
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

// newRunID makes an id as Redis has one: 40 hex digits.
func newRunID() string {
	var b [20]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// ClusterMode implements commands.Frontend.
func (v commandsServer) ClusterMode() bool { return v.s.o.ClusterMode }

// Announced implements commands.Frontend.
func (v commandsServer) Announced() []string { return v.s.o.Announce }

// Home implements commands.Frontend. It is the first address on TCP; "": it listens on unix sockets only.
func (v commandsServer) Home() string {
	for _, addr := range v.s.Addrs() {
		if addr.Network() == "tcp" {
			return addr.String()
		}
	}
	return ""
}

// Secure implements commands.Frontend. It is about TCP: clients on a unix socket never use TLS.
func (v commandsServer) Secure() bool { return v.s.o.TLS != nil }

// Served implements commands.Frontend.
func (v commandsServer) Served() int { return v.s.upstream.Topology().Served() }

// ReplicaReads implements commands.Frontend.
func (v commandsServer) ReplicaReads() commands.ReplicaReads { return v.s.o.ReplicaReads }

// WatchReplicas implements commands.Frontend.
func (v commandsServer) WatchReplicas() { v.s.upstream.WatchReplicas() }

// maxShownUser is the length up to which the name of a user is logged.
const maxShownUser = 64

// LoginEnded implements commands.Server. It counts what was wrong for the connection and its address, so that
// the next attempt waits, and has it logged; a right password makes the connection's count start anew, and
// not that of the address.
func (v commandsServer) LoginEnded(c *commands.Client, user string, upstream bool, refusal []byte) {
	s := v.s
	from := s.shared.session(c.ID)
	if from == nil {
		return
	}
	if refusal == nil {
		from.attempts.Reset()
		return
	}
	if !bytes.HasPrefix(refusal, []byte("-WRONGPASS")) &&
		!bytes.HasPrefix(refusal, []byte("-ERR invalid password")) {
		return // it tells nothing about the password
	}
	now := time.Now()
	from.attempts.Failed(now)
	s.shared.Login.Addresses.Failed(login.Origin(c.Addr), now)
	kind, reason := &s.shared.Login.Failures.Password, "password"
	if upstream {
		kind, reason = &s.shared.Login.Failures.User, "user"
	}
	s.events.noteAudited(lockevent.Event{Kind: lockevent.LoginFailed, Reason: reason,
		Client: lockevent.Client{Addr: c.Addr, User: v.shownUser(user)}})
	kind.Note(s.o.Log, "authentication failed", "client", c.Addr, "user", v.shownUser(user))
}

// ConfigSet implements commands.Server. Each setting is a line of its own. A value that is secret, or longer
// than a line should be, is not shown.
func (v commandsServer) ConfigSet(c *commands.Client, pairs [][2]string) {
	user := v.shownUser(c.UserName())
	for _, p := range pairs {
		value := p[1]
		if commands.SecretSetting(p[0]) || len(value) > maxShownSetting {
			value = "(not shown)"
		}
		v.s.events.noteAudited(lockevent.Event{Kind: lockevent.Setting,
			Setting: strings.ToLower(p[0]), Value: value,
			Client: lockevent.Client{Addr: c.Addr, Name: c.Name[:min(len(c.Name), maxShownUser)],
				User: user}})
		v.s.changes.Write(v.s.o.Log, slog.LevelInfo, "setting changed", "setting", strings.ToLower(p[0]),
			"value", value, "client", c.Addr, "user", user)
	}
}

// maxShownSetting is the length up to which the value of a setting is logged.
const maxShownSetting = 200

// shownUser is the name of a user for the log. What cannot be a name, or is the password in its place, is not
// shown. Only printable ASCII is: anything else could forge a line of a log.
func (v commandsServer) shownUser(user string) string {
	unfit := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	if len(user) > maxShownUser || strings.ContainsFunc(user, unfit) ||
		v.CheckAuth([]byte("default"), []byte(user)) {
		return "(not shown)"
	}
	return user
}
