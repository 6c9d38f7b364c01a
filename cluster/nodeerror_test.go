package cluster

import (
	"net"
	"strings"
	"testing"

	"lockproxy/internal/resp"
)

// Whoever names the wrong port is told what answers there.
func TestExplainNoRedis(t *testing.T) {
	for text, want := range map[string]string{
		"<!DOCTYPE HTML>\n":        "an HTTP server",
		"HTTP/1.1 400 Bad Request": "an HTTP server",
		"SSH-2.0-OpenSSH_9.2":      "no Redis",
	} {
		here, there := net.Pipe()
		go there.Write([]byte(text)) // ends with here
		_, err := resp.Answer.Conn(here).Read(make([]byte, 100))
		here.Close()
		if got := Explain(err); !strings.Contains(got, want) {
			t.Errorf("%s: %s", text, got)
		}
	}
}
