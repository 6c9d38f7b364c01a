package clients

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

func TestRedisCLI(t *testing.T) {
	rig.Everywhere(t, func(t *testing.T, p *rig.Proxy) {
		for _, tt := range []struct {
			input string
			args  []string
			want  string // a pattern for the whole output
		}{
			{"", []string{"SET", "cli:k", "v"}, `OK`},
			{"", []string{"--no-raw", "GET", "cli:k"}, `"v"`},
			{"", []string{"--no-raw", "-3", "PING"}, `PONG`},
			{"", []string{"--no-raw", "HSET", "cli:h", "f", "v"}, `\(integer\) [01]`},
			{"", []string{"--no-raw", "LOCK", "cli:job", "TOKEN", "t", "PX", "9000"},
				`1\) "t"\n2\) \(integer\) \d+\n3\) \(integer\) \d+\n4\) \(integer\) 1`},
			{"", []string{"--no-raw", "LOCK", "cli:job"}, `\(nil\)`},
			{"", []string{"--no-raw", "-3", "LOCK", "cli:job"}, `\(nil\)`},
			{"", []string{"--no-raw", "UNLOCK", "cli:job", "t"}, `\(integer\) 1`},
			{"", []string{"--no-raw", "LOCK", "cli:job", "PX", "no"}, `\(error\) ERR .*`},
			{"LOCK cli:two PX 9000\nUNLOCK cli:two\nECHO \"a b\"\n", nil, `(?s).*\n1\na b`},
			{"LOCK cli:three PX 9000\nPING\n", []string{"--no-raw"}, `(?s)1\) "\w{16,}"\n.*\nPONG`},
		} {
			got := strings.TrimSpace(rig.Tool(t, p.Addr, tt.input, "redis-cli", tt.args...))
			if !regexp.MustCompile("^(?:" + tt.want + ")$").MatchString(got) {
				t.Errorf("redis-cli %v %q: got\n%s\nwant %s", tt.args, tt.input, got, tt.want)
			}
		}
	})
}

// TestRedisCLIStateful has what needs the state of a connection typed at redis-cli, with -c in cluster mode.
func TestRedisCLIStateful(t *testing.T) {
	t.Parallel()
	eachFrontend(t, func(t *testing.T, p *rig.Proxy, clustered bool) {
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
			got := strings.ReplaceAll(strings.TrimSpace(rig.Tool(t, p.Addr,
				typed.Replace(tt.input), "redis-cli",
				args...)), "\n\n", "\n")
			if got != tt.want {
				t.Errorf("redis-cli %q: got\n%s\nwant\n%s", tt.input, got, tt.want)
			}
		}

		host, port, _ := net.SplitHostPort(p.Addr)
		args = append(args, "-h", host, "-p", port)
		popper := rig.StartProcess(t, "redis-cli", append(args, "BLPOP", k+"none", k+"l", "120")...)
		rig.Tool(t, p.Addr, "", "redis-cli", "RPUSH", k+"l", "x")
		if code := popper.Wait(rig.Patience); code != 0 ||
			!strings.Contains(popper.Log.String(), "2) \"x\"") {
			t.Errorf("redis-cli BLPOP: %d, %s", code, popper.Log)
		}
		listener := rig.StartProcess(t, "redis-cli", append(args, "SUBSCRIBE", k+"c")...)
		heard := func(text string) func() bool {
			return func() bool { return strings.Contains(listener.Log.String(), text) }
		}
		rig.Eventually(t, rig.Patience, "subscribed", heard("subscribe"))
		rig.Tool(t, p.Addr, "", "redis-cli", "PUBLISH", k+"c", "one")
		rig.Eventually(t, rig.Patience, "the message has come", heard("3) \"one\""))
	})
}

// redis-cli --pipe sends raw commands as fast as it can and an ECHO at the end;
// --scan must then find every key once.
func TestRedisCLIPipeAndScan(t *testing.T) {
	rig.Everywhere(t, func(t *testing.T, p *rig.Proxy) {
		const keys = 2000
		var mass strings.Builder
		for i := range keys {
			mass.Write(rig.Encode("SET", fmt.Sprintf("pipe:%d", i), strings.Repeat("x", i%300)))
		}
		if out := rig.Tool(t, p.Addr, mass.String(), "redis-cli", "--pipe"); !strings.Contains(out,
			fmt.Sprintf("errors: 0, replies: %d", keys)) {
			t.Errorf("redis-cli --pipe: %s", out)
		}
		found := strings.Fields(rig.Tool(t, p.Addr, "", "redis-cli", "--scan", "--pattern", "pipe:*"))
		slices.Sort(found)
		if n := len(slices.Compact(found)); n != keys {
			t.Errorf("redis-cli --scan found %d keys, want %d", n, keys)
		}
	})
}

func TestRedisBenchmark(t *testing.T) {
	rig.Everywhere(t, func(t *testing.T, p *rig.Proxy) {
		n := rig.Dose("2000", "200000")
		for _, args := range [][]string{
			{"-t", "set,get,incr,lpush,mset", "-P", "16", "-c", "20"},
			{"-t", "get,set", "-c", "50"},
		} {
			out := rig.Tool(t, p.Addr, "", "redis-benchmark", append(args, "-n", n, "-q", "-r", "1000")...)
			if strings.Contains(out, "rror") || strings.Count(out, "requests per second") < 2 {
				t.Errorf("redis-benchmark %v: %s", args, out)
			}
		}
	})
}
