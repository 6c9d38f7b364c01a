package integration

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// tool runs one of Redis's own tools against an address and returns what it
// printed to either stream.
func tool(t *testing.T, addr, input, name string, args ...string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, append([]string{"-h", host, "-p", port}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func TestRedisCLI(t *testing.T) {
	everywhere(t, func(t *testing.T, p *lockproxy) {
		for _, tt := range []struct {
			input string
			args  []string
			want  string // a pattern for the whole output
		}{
			{"", []string{"SET", "cli:k", "v"}, `OK`},
			{"", []string{"--no-raw", "GET", "cli:k"}, `"v"`},
			{"", []string{"--no-raw", "-3", "PING"}, `PONG`},
			{"", []string{"--no-raw", "HSET", "cli:h", "f", "v"}, `\(integer\) [01]`},
			{"", []string{"--no-raw", "LOCK", "cli:job", "TOKEN", "t", "PX", "9000"}, `1\) "t"\n2\) \(integer\) \d+\n3\) \(integer\) \d+\n4\) \(integer\) 1`},
			{"", []string{"--no-raw", "LOCK", "cli:job"}, `\(nil\)`},
			{"", []string{"--no-raw", "-3", "LOCK", "cli:job"}, `\(nil\)`},
			{"", []string{"--no-raw", "UNLOCK", "cli:job", "t"}, `\(integer\) 1`},
			{"", []string{"--no-raw", "LOCK", "cli:job", "PX", "no"}, `\(error\) ERR .*`},
			{"LOCK cli:two PX 9000\nUNLOCK cli:two\nECHO \"a b\"\n", nil, `(?s).*\n1\na b`},
			{"LOCK cli:three PX 9000\nPING\n", []string{"--no-raw"}, `(?s)1\) "\w{16,}"\n.*\nPONG`},
		} {
			got := strings.TrimSpace(tool(t, p.addr, tt.input, "redis-cli", tt.args...))
			if !regexp.MustCompile("^(?:" + tt.want + ")$").MatchString(got) {
				t.Errorf("redis-cli %v %q: got\n%s\nwant %s", tt.args, tt.input, got, tt.want)
			}
		}
	})
}

// TestRedisCLIStateful has what needs the state of a connection typed at redis-cli, with -c in cluster mode.
func TestRedisCLIStateful(t *testing.T) {
	t.Parallel()
	eachFace(t, func(t *testing.T, p *lockproxy, clustered bool) {
		args := []string{"--no-raw"}
		if clustered {
			args = append(args, "-c")
		}
		k := tagOf("cli")
		typed := strings.NewReplacer("K:", k, "SCRIPT", addScript(k))
		for _, tt := range []struct{ input, want string }{
			{"MULTI\nSET K:n 1\nINCR K:n\nEXEC\n", "OK\nQUEUED\nQUEUED\n1) OK\n2) (integer) 2"},
			{"WATCH K:n\nINCR K:n\nMULTI\nINCR K:n\nEXEC\n", "OK\n(integer) 3\nOK\nQUEUED\n(nil)"},
			{"EVALSHA 0000000000000000000000000000000000000000 1 K:n 10\nEVAL \"SCRIPT\" 1 K:n 10\n",
				"(error) NOSCRIPT No matching script. Please use EVAL.\n(integer) 13"},
		} {
			got := strings.ReplaceAll(strings.TrimSpace(tool(t, p.addr, typed.Replace(tt.input), "redis-cli", args...)), "\n\n", "\n")
			if got != tt.want {
				t.Errorf("redis-cli %q: got\n%s\nwant\n%s", tt.input, got, tt.want)
			}
		}

		host, port, _ := net.SplitHostPort(p.addr)
		args = append(args, "-h", host, "-p", port)
		popper := startProcess(t, "redis-cli", append(args, "BLPOP", k+"none", k+"l", "20")...)
		tool(t, p.addr, "", "redis-cli", "RPUSH", k+"l", "x")
		if code := popper.wait(2 * patience); code != 0 || !strings.Contains(popper.log.String(), "2) \"x\"") {
			t.Errorf("redis-cli BLPOP: %d, %s", code, popper.log)
		}
		listener := startProcess(t, "redis-cli", append(args, "SUBSCRIBE", k+"c")...)
		heard := func(text string) func() bool {
			return func() bool { return strings.Contains(listener.log.String(), text) }
		}
		eventually(t, 2*patience, "subscribed", heard("subscribe"))
		tool(t, p.addr, "", "redis-cli", "PUBLISH", k+"c", "one")
		eventually(t, 2*patience, "the message has come", heard("3) \"one\""))
	})
}

// redis-cli --pipe sends raw commands as fast as it can and an ECHO at the end;
// --scan must then find every key once.
func TestRedisCLIPipeAndScan(t *testing.T) {
	everywhere(t, func(t *testing.T, p *lockproxy) {
		const keys = 2000
		var mass strings.Builder
		for i := range keys {
			mass.Write(encode("SET", fmt.Sprintf("pipe:%d", i), strings.Repeat("x", i%300)))
		}
		if out := tool(t, p.addr, mass.String(), "redis-cli", "--pipe"); !strings.Contains(out, fmt.Sprintf("errors: 0, replies: %d", keys)) {
			t.Errorf("redis-cli --pipe: %s", out)
		}
		found := strings.Fields(tool(t, p.addr, "", "redis-cli", "--scan", "--pattern", "pipe:*"))
		slices.Sort(found)
		if n := len(slices.Compact(found)); n != keys {
			t.Errorf("redis-cli --scan found %d keys, want %d", n, keys)
		}
	})
}

func TestRedisBenchmark(t *testing.T) {
	everywhere(t, func(t *testing.T, p *lockproxy) {
		n := dose("2000", "200000")
		for _, args := range [][]string{
			{"-t", "set,get,incr,lpush,mset", "-P", "16", "-c", "20"},
			{"-t", "get,set", "-c", "50"},
		} {
			out := tool(t, p.addr, "", "redis-benchmark", append(args, "-n", n, "-q", "-r", "1000")...)
			if strings.Contains(out, "rror") || strings.Count(out, "requests per second") < 2 {
				t.Errorf("redis-benchmark %v: %s", args, out)
			}
		}
	})
}
