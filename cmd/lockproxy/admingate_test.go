package main

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cmd/lockproxy/auditlog"
	"lockproxy/cmd/lockproxy/files"
	"lockproxy/cmd/lockproxy/settings"
	"lockproxy/proxy/login"
)

// gateOf is a gate that asks for a password, "" for none.
func gateOf(password string) *adminGate {
	return &adminGate{password: func() string { return password }, addresses: login.NewAddresses(),
		waits: make(map[chan struct{}]struct{}), log: slog.New(slog.DiscardHandler)}
}

func openGate() *adminGate { return gateOf("") }

// adminOf is the admin listener of the default settings, but for the gate.
func adminOf(s *state, gate *adminGate, profiles bool) http.Handler {
	p := newProgram(settings.NewConfig(settings.Defaults()), files.Certs{}, io.Discard)
	return adminHandler(s, gate, onlyPages(p.config.Values, p.newAdminPage(), adminInside(s, profiles)))
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
	s := new(state)
	h := adminOf(s, gateOf("sesame"), true)
	for _, test := range []struct {
		path, password string
		code           int
		has            string
	}{
		{"/healthz", "", 200, "ok"},
		{"/healthz", "wrong", 200, "ok"},
		{"/readyz", "", 503, "admin-password"},
		{"/readyz", "wrong", 503, "admin-password"},
		{"/readyz", "sesame", 503, errStarting.Error()},
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
		h := adminOf(new(state), g, false)
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
			for range 4 * mostAdminWaits {
				others.Go(func() { enter(h, "/metrics", "wrong") })
			}
			synctest.Wait()
			if n := len(g.waits); n != mostAdminWaits {
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

// The password comes from a file, TLS from files, and a certificate can be asked for, but not of probes.
func TestAdminTLS(t *testing.T) {
	cert, key := selfSigned(t)
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	v := settings.Defaults()
	v.Admin, v.AdminFrom.File = "127.0.0.1:0", file
	v.AdminTLSCert, v.AdminTLSKey, v.AdminTLSCA = cert, key, cert
	c, err := files.ReadCerts(v)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	p := newProgram(settings.NewConfig(v), c, &log)
	if p.passwords, err = files.ReadPasswords(v); err != nil {
		t.Fatal(err)
	}
	stop, err := p.startAdmin()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	_, addr, _ := strings.Cut(strings.TrimSpace(log.String()), "addr=")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		shown    []tls.Certificate
		path     string
		password string
		code     int
	}{
		{nil, "/healthz", "", 200},
		{nil, "/metrics", "sesame", 403},
		{[]tls.Certificate{pair}, "/metrics", "", 401},
		{[]tls.Certificate{pair}, "/metrics", "sesame", 200},
	} {
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: test.shown}}}
		r, _ := http.NewRequest("GET", "https://"+addr+test.path, nil)
		r.SetBasicAuth("any", test.password)
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		if answer.StatusCode != test.code {
			t.Errorf("%s, password %q, %d certificates: %s", test.path, test.password, len(test.shown),
				answer.Status)
		}
	}
	if err := ask(t.Context(), &settings.Values{Admin: addr, AdminTLSCert: "any"}, "/healthz"); err != nil {
		t.Error(err)
	}
	if err := ask(t.Context(), &settings.Values{Admin: addr}, "/healthz"); err == nil {
		t.Error("without TLS it answers too")
	}
}

// A wrong password is in the audit log, with where it came from and nothing of the password.
func TestAdminFailuresAreTold(t *testing.T) {
	var log, lines safeBuffer
	v := settings.Defaults()
	v.AdminPassword = "sesame"
	p := newProgram(settings.NewConfig(v), files.Certs{}, &log)
	p.audit, _ = auditlog.Start("stderr", &lines, p.log, v.Proxy.Locks.Names)
	enter(adminOf(&p.state, p.newAdminGate(), false), "/metrics", "guess")
	p.audit.Close()
	for _, text := range []string{log.String(), lines.String()} {
		if !strings.Contains(text, "192.0.2.1") || strings.Contains(text, "guess") {
			t.Errorf("told: %s", text)
		}
	}
}
