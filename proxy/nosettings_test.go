package proxy

import (
	"log/slog"
	"strings"
	"testing"
)

// Without settings of its own the proxy leaves CONFIG to the upstream.
func TestConfigWithoutSettings(t *testing.T) {
	node := func(_ int, command string) string {
		switch command {
		case "CONFIG GET maxmemory":
			return "*2\r\n$9\r\nmaxmemory\r\n$1\r\n0\r\n"
		case "CONFIG SET maxmemory 1":
			return "+OK\r\n"
		case "CONFIG SET maxmemory-clients 1":
			return "-ERR Unknown option or number of arguments for CONFIG SET - 'maxmemory-clients'\r\n"
		}
		return "-ERR unknown command\r\n"
	}
	inBubble(t, 1, Options{}, node, func(r *rig) {
		c := r.connect()
		c.tell("*2\r\n$9\r\nmaxmemory\r\n$1\r\n0\r\n", "CONFIG GET maxmemory")
		c.tell("+OK\r\n", "CONFIG SET maxmemory 1")
		c.tell("-ERR Unknown option or number of arguments for CONFIG SET - 'maxmemory-clients'\r\n",
			"CONFIG SET maxmemory-clients 1")
		c.tell("*0\r\n", "CONFIG GET requirepass")
	})
}

// The log names who changed a setting, also if nobody needs a password.
func TestConfigSetIsLogged(t *testing.T) {
	var out textLog
	node := func(int, string) string { return "+OK\r\n" }
	inBubble(t, 1, Options{Log: slog.New(slog.NewTextHandler(&out, nil))}, node, func(r *rig) {
		r.connect().tell("+OK\r\n", "CONFIG SET maxmemory 1")
		if want := ` setting=maxmemory value=1 client=`; !strings.Contains(out.String(), want) ||
			!strings.HasSuffix(out.String(), " user=default\n") {
			t.Errorf("no %q of default in %s", want, out.String())
		}
	})
}
