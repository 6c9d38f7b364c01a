package adminpage

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"lockproxy/internal/journal"
	"lockproxy/redlock"
)

const (
	// mostBody bounds what is read of a request to break a lock.
	mostBody = 1 << 10
	// breakPatience bounds how long it takes.
	breakPatience = 10 * time.Second
	// tokenHeader has the token of hello: another site can neither read it nor send such a header here.
	tokenHeader = "Lockproxy-Token"
)

// breaker breaks a lock that a search shows:
//
//	POST /break {"id": "..."}  -->  {"broken": true}
//
// Browsers add the password by themselves, so it does not show that the page has sent the request: its origin
// and its token do. Safe for concurrent use. Breaking waits for the upstream, on the goroutine of the
// request.
type breaker struct {
	o     Options
	board *board
	lines journal.Lines
}

func (k *breaker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if reason := k.refuses(r); reason != "" {
		http.Error(w, reason, http.StatusForbidden)
		return
	}
	var asked struct {
		ID string `json:"id"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostBody)).Decode(&asked); err != nil {
		http.Error(w, "the body is no JSON with an id: "+err.Error(), http.StatusBadRequest)
		return
	}
	// By its id, since a name may be anything, and only what a viewer has seen can be broken.
	name, ok := k.board.nameOf(asked.ID)
	if !ok {
		http.Error(w, "this lock is not held any more", http.StatusNotFound)
		return
	}
	source := k.o.Source()
	if source == nil {
		http.Error(w, "the upstream is not known yet", http.StatusServiceUnavailable)
		return
	}
	// Any user name is let in, so it says who somebody claims to be; the event of the break shows it.
	user, _, _ := r.BasicAuth()
	by := redlock.Client{Name: "admin page", Addr: r.RemoteAddr, User: printable(user, mostText)}
	// A request that was sent is not taken back when the browser goes.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), breakPatience)
	defer cancel()
	broken, err := source.Break(ctx, name, by)
	// Whether it went well or not: the page shows what is so now.
	k.board.searchAgain()
	if err != nil {
		// Nobody knows whether it is broken; the page shows it in a moment.
		http.Error(w, printable(err.Error(), mostReason), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]bool{"broken": broken})
}

// refuses says why a request is not from the page, or not allowed.
func (k *breaker) refuses(r *http.Request) string {
	reason := ""
	switch origin, err := url.Parse(r.Header.Get("Origin")); {
	// told without a line in the log: nobody has tried to get around anything
	case !k.o.Values().Admin.Actions:
		return "locks are broken here only with admin-actions yes"
	case err != nil || origin.Host == "" || origin.Host != r.Host || !sameScheme(origin.Scheme, r):
		reason = "the request is not from this page: its Origin is another one"
	// Older browsers do not send it, so its absence says nothing.
	case r.Header.Get("Sec-Fetch-Site") != "" && r.Header.Get("Sec-Fetch-Site") != "same-origin":
		reason = "the request is not from this page, says the browser"
	case subtle.ConstantTimeCompare([]byte(r.Header.Get(tokenHeader)), []byte(k.board.token)) != 1:
		reason = "the request has not the token of this page: reload it"
	default:
		return ""
	}
	k.lines.Write(k.o.Log, slog.LevelWarn, "admin page: a request to break a lock was refused", "client",
		r.RemoteAddr, "reason", reason)
	return reason
}

// sameScheme says that a page of that scheme asks the way it was loaded. A proxy of HTTP that ends TLS in
// front says so in X-Forwarded-Proto, which no page of another origin can set.
func sameScheme(scheme string, r *http.Request) bool {
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		return scheme == "https"
	}
	return scheme == "http"
}
