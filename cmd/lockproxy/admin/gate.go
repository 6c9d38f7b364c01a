package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/internal/journal"
	"lockproxy/internal/lockevent"
	"lockproxy/proxy"
	"lockproxy/proxy/login"
)

// gate decides who may ask the admin listener for what:
//
//	/healthz, /readyz   anybody: probes give no password. /readyz has its reasons for those who are let in
//	everything else     who gives the password and shows a certificate, as far as the settings ask for them
//
// Safe for concurrent use. What password says may change; a request is judged by what it says then.
type gate struct {
	password    func() string // "": none is needed
	certificate bool          // one is needed
	log         *slog.Logger
	audit       proxy.Audit // nil: there is none

	addresses *login.Addresses
	lines     journal.Lines

	mu    sync.Mutex
	waits map[chan struct{}]struct{} // of requests after wrong passwords; closed when another takes its place
}

// mostWaits is how many requests may wait because of wrong passwords before them: so few that they are
// some tens of MB.
const mostWaits = 1024

// gateConn is the key of what the gate knows of a connection: that the right password came over it last.
// Whoever has given the password over it is not slowed down by others who guess from the same address.
type gateConn struct{}

// gateContext is the ConnContext of a server behind the gate.
func gateContext(ctx context.Context, _ net.Conn) context.Context {
	// A *atomic.Bool, made once for each connection: the requests of a connection share it.
	return context.WithValue(ctx, gateConn{}, new(atomic.Bool))
}

func newGate(o Options) *gate {
	v := o.Values()
	password := func() string { return v.Admin.Password }
	if o.Password != nil {
		password = func() string { return o.Password.Now().Password }
	}
	return &gate{password: password, certificate: v.Admin.TLS.CA != "", log: o.Log, audit: o.Audit,
		addresses: login.NewAddresses(), waits: make(map[chan struct{}]struct{})}
}

// verdict is what the gate says to a request.
type verdict int

const (
	letIn verdict = iota
	needsCertificate
	needsPassword
	tooMany // wrong passwords before it
)

// judgeRequest looks at a request. It blocks after wrong passwords of others from the address, but not who
// has given the right one over the same connection before.
func (g *gate) judgeRequest(r *http.Request) verdict {
	// admin-tls only asks for a certificate (VerifyClientCertIfGiven), so that probes get in without. Here
	// one is demanded.
	if g.certificate && (r.TLS == nil || len(r.TLS.VerifiedChains) == 0) {
		return needsCertificate
	}
	want := g.password()
	if want == "" {
		return letIn
	}
	_, given, tried := r.BasicAuth()
	conn, _ := r.Context().Value(gateConn{}).(*atomic.Bool)
	// Compared in any case, before anything that depends on it.
	right := samePassword(given, want)
	switch {
	case !tried:
		return needsPassword
	case right && conn != nil && conn.Load():
		return letIn
	// The right password waits as well: otherwise how fast the answer comes would tell a guess from the
	// truth.
	case !g.pauseRequest(r):
		return tooMany
	case !right:
		g.noteFailure(r)
	}
	if conn != nil {
		conn.Store(right)
	}
	if !right {
		return needsPassword
	}
	return letIn
}

// only passes on to next the requests that are let in.
func (g *gate) only(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch g.judgeRequest(r) {
		case letIn:
			next.ServeHTTP(w, r)
		case needsCertificate:
			http.Error(w, "the admin listener asks for a certificate of admin-tls-ca", http.StatusForbidden)
		case needsPassword:
			// has browsers ask for the password, and send it with each request from then on
			w.Header().Set("WWW-Authenticate", `Basic realm="lockproxy", charset="UTF-8"`)
			http.Error(w, "the admin listener asks for admin-password, under any user name",
				http.StatusUnauthorized)
		case tooMany:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many wrong passwords: try again later", http.StatusTooManyRequests)
		}
	})
}

// pauseRequest waits as long as wrong passwords from the same address make the next one wait. It reports
// false if too many wait: then any of them gives its place to the one that has just come, so that nobody can
// keep them all.
func (g *gate) pauseRequest(r *http.Request) bool {
	wait := g.addresses.Pause(login.Origin(r.RemoteAddr), time.Now())
	if wait <= 0 {
		return true
	}
	pushed := make(chan struct{})
	g.mu.Lock()
	for other := range g.waits { // in random order
		if len(g.waits) < mostWaits {
			break
		}
		delete(g.waits, other)
		close(other)
	}
	g.waits[pushed] = struct{}{}
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		delete(g.waits, pushed)
		g.mu.Unlock()
	}()
	select {
	case <-time.After(wait):
		return true
	case <-pushed:
		return false
	// the client has gone
	case <-r.Context().Done():
		return false
	}
}

// noteFailure notes a wrong password.
func (g *gate) noteFailure(r *http.Request) {
	now := time.Now()
	g.addresses.Failed(login.Origin(r.RemoteAddr), now)
	// Few lines, however fast somebody guesses.
	g.lines.Write(g.log, slog.LevelWarn, "admin: wrong password", "client", r.RemoteAddr)
	if g.audit != nil {
		g.audit.Note(lockevent.Event{Time: now, Kind: lockevent.LoginFailed, Reason: "admin",
			Client: lockevent.Client{Addr: r.RemoteAddr}})
	}
}

// samePassword compares digests, which have one length, so the time tells nothing about the password's.
func samePassword(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
