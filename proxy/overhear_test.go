package proxy

import (
	"bufio"
	"io"
	"strings"
	"testing"
)

// TestHear proves that of what a node says in MONITOR scripts and their calls are picked out, however long a line is.
func TestHear(t *testing.T) {
	long, endless := strings.Repeat("x", 3*earBuffer), strings.Repeat("y", maxFeed+earBuffer)
	lines := []struct {
		line   string
		fresh  bool
		script string // the same for equal calls
		lines  bool
	}{
		{`+1.2 [0 127.0.0.1:1] "set" "k" "v] \"eval\" x"`, false, "", false},
		{`+1.2 [9 127.0.0.1:1] "EVAL" "return 1" "0"`, true, "a", false},
		{`+1.2 [9 lua] "SET" "k" "` + long + `"`, false, "", true},
		{`+1.2 [0 [::1]:1] "EVAL" "return 1" "0"`, true, "a", false},
		{`+1.2 [0 unix:/tmp/s] "evalsha_ro" "` + long + `"`, true, "b", false},
		{`+1.2 [0 unix:/tmp/s] "evalsha_ro" "` + long + `."`, true, "c", false},
		{`+1.2 [0 lua] "eval" "x"`, false, "", true},
		{`+1.2 [0 lua] "set" "k" "` + endless + `"`, false, "", false},
		{`+1.2 [0 127.0.0.1:1] "get" "` + endless + `"`, false, "", false},
		{`+1.2 [0 127.0.0.1:1] "fcall" "f"`, true, "d", false},
		{`+1.2 [0 127.0.0.1:1] "evaluate" "f"`, false, "", false},
		{`+OK`, false, "", false},
		{`$5`, false, "", false},
	}
	var all strings.Builder
	for _, l := range lines {
		all.WriteString(l.line + "\r\n")
	}
	r := bufio.NewReaderSize(strings.NewReader(all.String()), earBuffer)
	scripts := make(map[string]uint64)
	for _, l := range lines {
		got, err := hear(r)
		if err != nil || got.fresh != l.fresh || (got.lines != nil) != l.lines || l.lines && string(got.lines) != l.line+"\r\n" {
			t.Errorf("%.60s: heard %v, %d bytes, %v", l.line, got.fresh, len(got.lines), err)
		}
		if l.script == "" {
			continue
		}
		for name, number := range scripts {
			if (name == l.script) != (number == got.script) {
				t.Errorf("%.60s is taken for %s, or not", l.line, name)
			}
		}
		scripts[l.script] = got.script
	}
	if _, err := hear(r); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}
