package main

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockproxy/cluster"
)

// Both formats of the log say the same words.
func TestLogFormatsSayTheSame(t *testing.T) {
	said := func(format string) string {
		var out strings.Builder
		log := newLogger(configOf(t, "--dev --log-format "+format), &out)
		addr := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 6379}
		log.Warn("it happens", "kind", cluster.Cluster, "addr", addr,
			"signal", syscall.SIGTERM, "took", 1500*time.Millisecond, "err", errors.New("no route"),
			"n", 3, "ok", true,
			slog.Group("node", "kind", cluster.Sentinel))
		return out.String()
	}
	text := said("text")
	want := "kind=cluster addr=10.0.0.1:6379 signal=terminated took=1.5s err=\"no route\" n=3 ok=true " +
		"node.kind=sentinel"
	if !strings.Contains(text, "level=WARN msg=\"it happens\" "+want) {
		t.Errorf("text: %s", text)
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(said("json")), &fields); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{
		"level": "WARN", "msg": "it happens", "kind": "cluster", "addr": "10.0.0.1:6379",
		"signal": "terminated", "took": "1.5s", "err": "no route", "n": 3.0, "ok": true,
	} {
		if fields[name] != want {
			t.Errorf("%s: %#v, want %#v", name, fields[name], want)
		}
	}
	if node, _ := fields["node"].(map[string]any); node["kind"] != "sentinel" {
		t.Errorf("node: %v", fields["node"])
	}
}
