package main

import (
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockproxy/cmd/lockproxy/auditlog"
	"lockproxy/cmd/lockproxy/files"
	"lockproxy/cmd/lockproxy/settings"
	"lockproxy/cmd/lockproxy/tool"
)

// The password comes from a file, TLS from files, and a certificate can be asked for, but not of probes.
func TestAdminTLS(t *testing.T) {
	cert, key := selfSigned(t)
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	v := settings.Defaults()
	v.Admin.Addr, v.Admin.From.File = "127.0.0.1:0", file
	v.Admin.TLS.Cert, v.Admin.TLS.Key, v.Admin.TLS.CA = cert, key, cert
	c, err := files.ReadCerts(v)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	p := newProgram(settings.NewConfig(v), c, &log)
	if p.passwords, err = files.ReadPasswords(v); err != nil {
		t.Fatal(err)
	}
	stopAdmin, err := p.openAdmin()
	if err != nil {
		t.Fatal(err)
	}
	defer stopAdmin()
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
	for words, want := range map[string]int{"": tool.ExitNo, " --admin-tls-cert any --admin-tls-key " +
		"any": tool.ExitOK} {
		args := strings.Fields("health --admin " + addr + words)
		if code := realMain(args, nil, nil, io.Discard, io.Discard); code != want {
			t.Errorf("%v: %d", args, code)
		}
	}
}

// A wrong password is in the audit log, with where it came from and nothing of the password.
func TestAdminFailuresAreTold(t *testing.T) {
	var log, lines safeBuffer
	v := settings.Defaults()
	v.Admin.Addr, v.Admin.Password = "127.0.0.1:0", "sesame"
	p := newProgram(settings.NewConfig(v), files.Certs{}, &log)
	p.audit, _ = auditlog.Start("stderr", &lines, p.log, v.Proxy.Locks.Names)
	stopAdmin, err := p.openAdmin()
	if err != nil {
		t.Fatal(err)
	}
	r, _ := http.NewRequest("GET", "http://"+p.ports.First("admin").String()+"/metrics", nil)
	r.SetBasicAuth("any", "guess")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	stopAdmin()
	p.audit.Close()
	for _, text := range []string{log.String(), lines.String()} {
		if !strings.Contains(text, "127.0.0.1") || strings.Contains(text, "guess") {
			t.Errorf("told: %s", text)
		}
	}
}
