package admin

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/proxy/login"
)

// gateOf is a gate that asks for a password, "" for none.
func gateOf(password string) *gate {
	return &gate{password: func() string { return password }, addresses: login.NewAddresses(),
		waits: make(map[chan struct{}]struct{}), log: slog.New(slog.DiscardHandler)}
}

// enter asks h with a password, "" for none.
func enter(h http.Handler, path, password string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	if password != "" {
		r.SetBasicAuth("anybody", password)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// With a password only the probes answer without it, and they tell no reasons.
func TestAdminPassword(t *testing.T) {
	h := handlerOf(fixed{ready: errors.New("starting")}, gateOf("sesame"), true)
	for _, test := range []struct {
		path, password string
		code           int
		has            string
	}{
		{"/healthz", "", 200, "ok"},
		{"/healthz", "wrong", 200, "ok"},
		{"/readyz", "", 503, "admin-password"},
		{"/readyz", "wrong", 503, "admin-password"},
		{"/readyz", "sesame", 503, "starting"},
		{"/metrics", "", 401, "admin-password"},
		{"/metrics", "sesam", 401, "admin-password"},
		{"/metrics", "sesame", 200, "lockproxy_ready 0"},
		{"/", "", 401, "admin-password"},
		{"/", "sesame", 200, "/metrics"},
		{"/debug/pprof/", "", 401, "admin-password"},
		{"/debug/pprof/cmdline", "wrong", 401, "admin-password"},
		{"/debug/pprof/", "sesame", 200, "goroutine"},
		{"/nowhere", "", 401, "admin-password"},
		{"/nowhere", "sesame", 404, ""},
	} {
		w := enter(h, test.path, test.password)
		if w.Code != test.code || !strings.Contains(w.Body.String(), test.has) {
			t.Errorf("%s with %q: %d %s", test.path, test.password, w.Code, w.Body)
		}
		if (w.Code == 401) != (w.Header().Get("WWW-Authenticate") != "") {
			t.Errorf("%s: %v", test.path, w.Header())
		}
	}
}

// Guessing gets slow, for whoever guesses; the wait comes before the password is looked at.
func TestAdminGuessing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf("sesame")
		h := handlerOf(fixed{}, g, false)
		begin := time.Now()
		for range 300 {
			enter(h, "/metrics", "wrong")
		}
		if took := time.Since(begin); took < 20*time.Second {
			t.Errorf("300 wrong passwords took %v", took)
		}
		begin = time.Now()
		if w := enter(h, "/metrics", "sesame"); w.Code != 200 {
			t.Errorf("the right one: %d", w.Code)
		}
		if took := time.Since(begin); took == 0 || took > login.MaxAddressPause {
			t.Errorf("the right one took %v", took)
		}
		var others sync.WaitGroup
		for range 60 {
			others.Go(func() { enter(h, "/metrics", "wrong") })
		}
		synctest.Wait()
		if w := enter(h, "/metrics", "sesame"); w.Code != 200 {
			t.Errorf("the right one beside 60 that guess: %d", w.Code)
		}
		others.Wait()
		conn := gateContext(t.Context(), nil) // of one that comes in before the flood
		over := func(password string) int {
			r := httptest.NewRequestWithContext(conn, "GET", "/metrics", nil)
			r.SetBasicAuth("anybody", password)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		if code := over("sesame"); code != 200 {
			t.Errorf("before the flood: %d", code)
		}
		flood := func() {
			for range 4 * mostWaits {
				others.Go(func() { enter(h, "/metrics", "wrong") })
			}
			synctest.Wait()
			if n := len(g.waits); n != mostWaits {
				t.Errorf("%d wait", n)
			}
		}
		flood()
		if w := enter(h, "/metrics", "sesame"); w.Code != 200 {
			t.Errorf("the right one, when the room is full: %d", w.Code)
		}
		others.Wait()
		flood()
		begin = time.Now()
		for range 10 {
			if code := over("sesame"); code != 200 || time.Since(begin) > 0 {
				t.Errorf("over a connection that is known: %d after %v", code, time.Since(begin))
			}
		}
		if code := over("wrong"); code != 401 || time.Since(begin) == 0 {
			t.Errorf("a wrong one over it: %d after %v", code, time.Since(begin))
		}
		flood()
		if code := over("sesame"); code != 200 || time.Since(begin) < login.MaxAddressPause {
			t.Errorf("it is known no more: %d after %v", code, time.Since(begin))
		}
		if w := enter(h, "/healthz", ""); w.Code != 200 {
			t.Errorf("/healthz beside them: %d", w.Code)
		}
		others.Wait()
	})
}
