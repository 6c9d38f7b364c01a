package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"lockproxy/cmd/lockproxy/admin"
	"lockproxy/cmd/lockproxy/files"
	"lockproxy/cmd/lockproxy/lifecycle"
	"lockproxy/cmd/lockproxy/tool"
	"lockproxy/proxy"
)

func TestProbes(t *testing.T) {
	var good, bad, partly lifecycle.State
	good.Serve(&scriptedPlane{})
	partly.Serve(&scriptedPlane{ready: proxy.InPart{Err: errors.New("slot 7 has no master")}})
	bad.Waits(errors.New("nobody answers"))
	serve := func(h http.Handler) (addr string) {
		srv := httptest.NewServer(h)
		t.Cleanup(srv.Close)
		return srv.Listener.Addr().String()
	}
	up, waits, some := adminOf(t, &good), adminOf(t, &bad), adminOf(t, &partly)
	other := serve(http.NotFoundHandler())
	_, port, _ := net.SplitHostPort(up)
	for _, test := range []struct {
		args    string
		environ string
		code    int
		says    string
	}{
		{"health --admin " + up, "", tool.ExitOK, ""},
		{"health", "LOCKPROXY_ADMIN=" + up, tool.ExitOK, ""},
		{"health --admin 0.0.0.0:" + port, "", tool.ExitOK, ""},
		{"health --admin :" + port, "", tool.ExitOK, ""},
		{"health --maxclients=7 --dev --admin " + up, "", tool.ExitOK, ""},
		{"health --admin " + waits, "", tool.ExitOK, ""},
		{"ready --admin " + waits, "", tool.ExitNo, "503 Service Unavailable: starting: nobody answers"},
		{"ready --admin " + up, "", tool.ExitOK, ""},
		{"ready --strict --admin " + up, "", tool.ExitOK, ""},
		{"ready --admin " + some, "", tool.ExitOK, ""},
		{"ready --strict --admin " + some, "", tool.ExitNo, "slot 7 has no master"},
		{"health --admin 127.0.0.1:1", "", tool.ExitNo, "refused"},
		{"health --admin " + other, "", tool.ExitNo, "404"},
		{"ready --admin off", "", tool.ExitNo, "admin is off"},
		{"health --admin nowhere", "", tool.ExitUsage, "host:port"},
		{"health --proxy nowhere", "", tool.ExitUsage, "host:port"},
		{"ready --proxy a:1 --cert x", "", tool.ExitUsage, "need each other"},
		{"health elsewhere", "", tool.ExitUsage, "elsewhere"},
		{"ready --within 3", "", tool.ExitUsage, "needs a unit: 3s or 3ms"},
		{"health --help", "", tool.ExitOK, ""},
	} {
		var stdout, stderr strings.Builder
		args := slices.Insert(strings.Fields(test.args), 1, "--within", "2m") // a proxy may take its time
		code := realMain(args, []string{test.environ}, nil, &stdout, &stderr)
		if code != test.code || !strings.Contains(stderr.String(), test.says) ||
			(test.says == "") != (stderr.Len() == 0) {
			t.Errorf("%s: %d %s", test.args, code, &stderr)
		}
	}
}

// At the port of clients: what answers is alive, and serves once it has found its upstream.
func TestProbesOfThePortOfClients(t *testing.T) {
	for _, test := range []struct {
		probe, answer string
		code          int
		says          string
	}{
		{"health", "+PONG", tool.ExitOK, ""},
		{"ready", "+PONG", tool.ExitOK, ""},
		{"health", "-NOAUTH Authentication required.", tool.ExitOK, ""},
		{"ready", "-NOAUTH Authentication required.", tool.ExitOK, ""},
		{"health", "-LOADING not found yet", tool.ExitOK, ""},
		{"ready", "-LOADING not found yet", tool.ExitNo, "LOADING not found yet"},
		{"health", "HTTP/1.1 400 Bad Request", tool.ExitNo, "HTTP"},
	} {
		var stdout, stderr strings.Builder
		args := []string{test.probe, "--within", "2m", "--proxy", answering(t, test.answer)}
		code := realMain(args, nil, nil, &stdout, &stderr)
		if code != test.code || !strings.Contains(stderr.String(), test.says) ||
			(test.says == "") != (stderr.Len() == 0) {
			t.Errorf("%s of %s: %d %s", test.probe, test.answer, code, &stderr)
		}
	}
	var stdout, stderr strings.Builder
	args := []string{"health", "--within", "50ms", "--proxy", answering(t, "")}
	if code := realMain(args, nil, nil, &stdout, &stderr); code != tool.ExitNo || stderr.Len() == 0 {
		t.Errorf("a proxy that hangs: %d %s", code, &stderr)
	}
}

// answering is an address where each command is answered with that line; with none if it is empty.
func answering(t *testing.T, line string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() { // ends with ln
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { // ends when the client closes
				defer conn.Close()
				for buf := make([]byte, 1024); ; {
					n, err := conn.Read(buf)
					switch {
					case err != nil:
						return
					case line == "+PONG" && strings.Contains(strings.ToUpper(string(buf[:n])), "HELLO"):
						conn.Write([]byte("-ERR unknown command 'hello'\r\n"))
					case line != "":
						conn.Write([]byte(line + "\r\n"))
					}
				}
			}()
		}
	}()
	return ln.Addr().String()
}

// adminOf is where the admin listener of a program in such a state answers.
func adminOf(t *testing.T, s *lifecycle.State) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := newProgram(configOf(t, "--dev"), files.Certs{}, io.Discard)
	t.Cleanup(admin.Serve(ln, admin.Options{Program: adminView{s, p}, Values: p.config.Values, Log: p.log}))
	return ln.Addr().String()
}
