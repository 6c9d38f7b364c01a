package limits

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"lockproxy/cmd/lockproxy/settings"
)

func TestFitClients(t *testing.T) {
	for _, test := range []struct {
		args      string
		limit     uint64
		want, own int
	}{
		{"--dev", 1 << 20, 10000, 4096},
		{"--dev", 14160, 10000, 4096},
		{"--dev", 14159, 10000, 3523},
		{"--dev", 1064, 750, 250},
		{"--dev --upstream-own-connections 100", 1064, 900, 100},
		{"--dev --tls-cert a --tls-key b", 364, 225, 75},
		{"--dev --upstream-tls yes", 364, 225, 75},
		{"--dev", 10, 1, 1},
	} {
		var log bytes.Buffer
		before, err := settings.Sources{Args: strings.Fields(test.args)}.Load()
		if err != nil {
			t.Fatal(err)
		}
		got := FitClients(before, test.limit, slog.New(slog.NewTextHandler(&log, nil)))
		if got.Proxy.MaxClients != test.want || got.Proxy.MaxOwn != test.own {
			t.Errorf("%s with %d files: %d clients, want %d; %d own connections, want %d", test.args,
				test.limit, got.Proxy.MaxClients, test.want, got.Proxy.MaxOwn, test.own)
		}
		for setting, lowered := range map[string]bool{
			"maxclients":               got.Proxy.MaxClients != before.Proxy.MaxClients,
			"upstream-own-connections": got.Proxy.MaxOwn != before.Proxy.MaxOwn,
		} {
			if strings.Contains(log.String(), "setting="+setting) != lowered {
				t.Errorf("%s with %d files: %s", test.args, test.limit, &log)
			}
		}
	}
	if OpenFiles() == 0 {
		t.Error("no open files are allowed here")
	}
}
