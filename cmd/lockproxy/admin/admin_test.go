package admin

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster/master"
	"lockproxy/cluster/pipe"
	"lockproxy/cmd/lockproxy/adminpage"
	"lockproxy/cmd/lockproxy/files"
	"lockproxy/cmd/lockproxy/settings"
	"lockproxy/commands"
	"lockproxy/proxy"
	"lockproxy/proxy/stats"
	"lockproxy/redlock/locks"
)

// fixed is a program that says what a test wants.
type fixed struct {
	stats   proxy.Stats
	ready   error
	reloads []files.State
}

func (f fixed) Stats() proxy.Stats       { return f.stats }
func (f fixed) Ready() error             { return f.ready }
func (f fixed) Source() adminpage.Source { return nil }
func (f fixed) Reloads() []files.State   { return f.reloads }

// optionsOf are the options of the listener that shows p, with the settings v.
func optionsOf(p Program, v *settings.Values) Options {
	return Options{Program: p, Values: func() *settings.Values { return v }, Version: "1.2.3", Commit: "abc",
		Log: slog.New(slog.DiscardHandler)}
}

// handlerOf is the listener of the default settings, but for the gate.
func handlerOf(p Program, g *gate, profiles bool) http.Handler {
	v := settings.Defaults()
	v.Admin.Pprof = profiles
	o := optionsOf(p, v)
	return o.handler(g, o.newPage())
}

func fetch(h http.Handler, path string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code, w.Body.String()
}

func TestMetrics(t *testing.T) {
	code, body := fetch(handlerOf(fixed{stats: proxy.Stats{
		Stats: commands.Stats{
			Clients: 3, ClientsTotal: 10, ClientsRejected: 2, BytesIn: 100, BytesOut: 200,
			Redirects: map[string]uint64{"moved": 5},
			Locks: locks.Stats{
				locks.GrantedWrite: 8, locks.RefusedWrite: 1, locks.RefusedRead: 15, locks.LostGone: 16,
				locks.Waiters: 4, locks.Waits: 11, locks.TimedOut: 12, locks.NoReplicas: 13,
			},
		},
		GivenUp: 6,
		Commands: []stats.CommandCount{
			{Name: "get", Calls: 6, Errors: 1, Took: 1500 * time.Millisecond,
				Buckets: [...]uint64{6: 3, 9: 2, 19: 1}},
			{Name: "never"},
		},
		Nodes: []pipe.NodeStats{{Addr: "127.0.0.1:7000", Requests: 9, Errors: 1, Connects: 2,
			DialErrors: 1, Connections: 1}},
		AuthFailures: map[string]uint64{"password": 14}, Unnoted: 17, PeersDropped: 18, PeersDiffer: 19,
		Masters: []master.Health{{Addr: "127.0.0.1:7001", Up: true}},
	}}, gateOf(""), false), "/metrics")
	if code != 200 {
		t.Fatalf("/metrics: %d %s", code, body)
	}
	for _, want := range []string{
		"lockproxy_ready 1",
		"lockproxy_clients 3",
		"lockproxy_clients_accepted_total 10",
		"lockproxy_clients_rejected_total 2",
		"lockproxy_received_bytes_total 100",
		"lockproxy_sent_bytes_total 200",
		`lockproxy_commands_total{command="get"} 6`,
		`lockproxy_command_errors_total{command="get"} 1`,
		`lockproxy_command_duration_seconds_bucket{command="get",le="0.001024"} 3`,
		`lockproxy_command_duration_seconds_bucket{command="get",le="0.008192"} 5`,
		`lockproxy_command_duration_seconds_bucket{command="get",le="+Inf"} 6`,
		`lockproxy_command_duration_seconds_sum{command="get"} 1.5`,
		`lockproxy_redirects_total{kind="moved"} 5`,
		"lockproxy_given_up_total 6",
		`lockproxy_auth_failures_total{kind="password"} 14`,
		`lockproxy_node_requests_total{node="127.0.0.1:7000"} 9`,
		`lockproxy_node_errors_total{node="127.0.0.1:7000"} 1`,
		`lockproxy_node_connects_total{node="127.0.0.1:7000"} 2`,
		`lockproxy_node_connect_errors_total{node="127.0.0.1:7000"} 1`,
		`lockproxy_node_connections{node="127.0.0.1:7000"} 1`,
		"lockproxy_lock_waiters 4",
		"lockproxy_lock_waits_total 11",
		"lockproxy_lock_wait_timeouts_total 12",
		"lockproxy_lock_no_replicas_total 13",
		`lockproxy_lock_outcomes_total{outcome="granted",verb="lock"} 8`,
		`lockproxy_lock_outcomes_total{outcome="refused",verb="rlock"} 15`,
		`lockproxy_lock_lost_total{reason="gone"} 16`,
		"lockproxy_lock_unnoted_total 17",
		"lockproxy_peer_questions_dropped_total 18",
		`lockproxy_redlock_node_up{node="127.0.0.1:7001"} 1`,
		`lockproxy_redlock_node_votes{node="127.0.0.1:7001"} 0`,
		"go_goroutines ",
		"process_cpu_seconds_total ",
		`commit="abc"`, `version="1.2.3"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if strings.Contains(body, "never") {
		t.Error("a command that was never used has a metric")
	}
}

func TestAdminPaths(t *testing.T) {
	wrong := errors.New("slot 7 has no master")
	plain := handlerOf(fixed{ready: wrong}, gateOf(""), false)
	profiled := handlerOf(fixed{ready: wrong}, gateOf(""), true)
	some := handlerOf(fixed{ready: proxy.InPart{Err: wrong}}, gateOf(""), false)
	for _, test := range []struct {
		h    http.Handler
		path string
		code int
		has  string
	}{
		{plain, "/", 200, "/readyz"},
		{plain, "/healthz", 200, "ok"},
		{plain, "/readyz", 503, "slot 7 has no master"},
		{plain, "/metrics", 200, "lockproxy_ready 0"},
		{some, "/readyz", 200, "slot 7 has no master"},
		{some, "/readyz?strict", 503, "slot 7 has no master"},
		{some, "/metrics", 200, "lockproxy_ready 0"},
		{plain, "/debug/pprof/", 404, ""},
		{profiled, "/debug/pprof/", 200, "goroutine"},
		{plain, "/nowhere", 404, ""},
	} {
		if code, body := fetch(test.h, test.path); code != test.code || !strings.Contains(body, test.has) {
			t.Errorf("%s: %d %s", test.path, code, body)
		}
	}
}

// What is reread has a metric, and the certificates in use have when they end.
func TestReloadMetrics(t *testing.T) {
	ends := map[string]time.Time{"tls-cert": time.Now().Add(59 * time.Minute)}
	states := []files.State{{Of: "settings"}, {Of: "tls", Failed: true, Ends: ends}}
	_, body := fetch(handlerOf(fixed{reloads: states}, gateOf(""), false), "/metrics")
	for _, want := range []string{`lockproxy_reload_success{of="tls"} 0`,
		`lockproxy_reload_success{of="settings"} 1`,
		`lockproxy_certificate_remaining_seconds{setting="tls-cert"} 35`} {
		if !strings.Contains(body, "\n"+want) {
			t.Errorf("no metric %s in\n%s", want, body)
		}
	}
}

// pipes is a listener whose clients are the other ends of pipes.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if nc, open := <-p; open {
		return nc, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error { close(p); return nil }

func (p pipes) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// A body that does not come keeps no connection.
func TestBodyThatDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := make(pipes)
		defer Serve(ln, optionsOf(fixed{}, settings.Defaults()))()
		here, there := net.Pipe()
		ln <- there
		io.WriteString(here, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")
		here.SetReadDeadline(time.Now().Add(time.Hour))
		if _, err := io.ReadAll(here); err != nil {
			t.Error(err)
		}
	})
}
