package cluster

import (
	"errors"
	"strings"
	"testing"
)

// Whoever names the wrong port is told what answers there.
func TestExplainNoRedis(t *testing.T) {
	for text, want := range map[string]string{
		`redis: invalid reply: "<!DOCTYPE HTML>\\n"`:           "an HTTP server",
		`redis: can't parse reply: "HTTP/1.1 400 Bad Request"`: "an HTTP server",
		`redis: invalid reply: "SSH-2.0-OpenSSH_9.2"`:          "no Redis",
		"its answer to INFO is not Redis: a line of 9 bytes":   "no Redis",
	} {
		if got := Explain(errors.New(text)); !strings.Contains(got, want) {
			t.Errorf("%s: %s", text, got)
		}
	}
}
