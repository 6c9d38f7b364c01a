package clients

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"lockproxy/integration/rig"
)

// interpreter is the system's own one where it has one: its packages are what
// install.sh installs.
func interpreter(name string) string {
	if path := "/usr/bin/" + name; exec.Command("test", "-x", path).Run() == nil {
		return path
	}
	return name
}

// script runs a script of testdata/clients against a proxy; it must print ok.
func script(t *testing.T, p *rig.Proxy, env []string, name, file string, args ...string) {
	t.Helper()
	client(t, p, env, interpreter(name),
		append([]string{filepath.Join("testdata/clients", file)}, args...)...)
}

// client runs a program against a proxy, whose host and port are put behind the first of its arguments; it
// must print ok.
func client(t *testing.T, p *rig.Proxy, env []string, name string, args ...string) {
	t.Helper()
	host, port, err := net.SplitHostPort(p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), rig.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, slices.Insert(args, min(1, len(args)), host, port)...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Fatalf("%s is not installed: run integration/install.sh, or make test", name)
	}
	if err != nil || !strings.HasSuffix(string(out), "ok\n") {
		t.Errorf("%s %v: %v (if a library is missing: integration/install.sh)\n%s", name, args, err, out)
	}
}

func TestClientLibraries(t *testing.T) {
	t.Parallel()
	for _, lib := range []struct{ name, suffix string }{
		{"python3", "py"},
		{"ruby", "rb"},
		{"php", "php"},
		{"perl", "pl"},
	} {
		t.Run(lib.name, func(t *testing.T) {
			t.Parallel()
			rig.Everywhere(t, func(t *testing.T, p *rig.Proxy) {
				script(t, p, nil, lib.name, "everyday."+lib.suffix)
				script(t, p, nil, lib.name, "stateful."+lib.suffix, "single")
			})
		})
	}
}

// The loss of a lock that one connection of a pool kept alive is told on another one. R19
func TestPoolIsToldOfALoss(t *testing.T) {
	t.Parallel()
	rig.Everywhere(t, func(t *testing.T, p *rig.Proxy) { script(t, p, nil, "python3", "pool.py") })
}

// TestHiredis has the library for C at work. It has no cluster mode, so it is the same to a proxy in cluster
// mode.
func TestHiredis(t *testing.T) {
	t.Parallel()
	program := compileC(t, "testdata/clients/hiredis.c")
	eachFrontend(t, func(t *testing.T, p *rig.Proxy, _ bool) { client(t, p, nil, program) })
}

func TestGoRedis(t *testing.T) {
	rig.Everywhere(t, func(t *testing.T, p *rig.Proxy) {
		for _, protocol := range []int{2, 3} {
			t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) { goRedis(t, p, protocol) })
		}
	})
}

func goRedis(t *testing.T, p *rig.Proxy, protocol int) {
	ctx := t.Context()
	c := redis.NewClient(&redis.Options{Addr: p.Addr, Protocol: protocol, ClientName: "everyday",
		DialTimeout: rig.Patience, ReadTimeout: rig.Patience})
	defer c.Close()
	check := func(what string, got any, err error, want any) {
		t.Helper()
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %v, %v; want %v", what, got, err, want)
		}
	}
	k := func(name string) string { return fmt.Sprintf("go%d:%s", protocol, name) }
	pong, err := c.Ping(ctx).Result()
	check("PING", pong, err, "PONG")
	ok, err := c.MSet(ctx, k("a"), 1, k("b"), 2).Result()
	check("MSET", ok, err, "OK")
	values, err := c.MGet(ctx, k("a"), k("none"), k("b")).Result()
	check("MGET", values, err, []any{"1", nil, "2"})
	n, err := c.HSet(ctx, k("h"), "f", "v").Result()
	check("HSET", n, err, 1)
	hash, err := c.HGetAll(ctx, k("h")).Result()
	check("HGETALL", hash, err, map[string]string{"f": "v"})
	if err := c.Get(ctx, k("none")).Err(); err != redis.Nil {
		t.Errorf("GET of nothing: %v", err)
	}
	seen := []string{}
	keys := c.Scan(ctx, 0, k("?"), 10).Iterator()
	for keys.Next(ctx) {
		seen = append(seen, keys.Val())
	}
	slices.Sort(seen)
	check("SCAN", seen, keys.Err(), []string{k("a"), k("b"), k("h")})
	cmds, err := c.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range 500 {
			pipe.Set(ctx, k(fmt.Sprint("p", i)), i, 0)
			pipe.Get(ctx, k(fmt.Sprint("p", i)))
		}
		return nil
	})
	check("pipeline", len(cmds), err, 1000)
	for i := 1; i < len(cmds); i += 2 {
		check("GET", cmds[i].(*redis.StringCmd).Val(), nil, i/2)
	}
	sha, err := c.ScriptLoad(ctx, "return ARGV[1]").Result()
	check("SCRIPT LOAD", len(sha), err, 40)
	echo, err := c.EvalSha(ctx, sha, []string{k("a")}, "x").Result()
	check("EVALSHA", echo, err, "x")

	grant, err := c.Do(ctx, "LOCK", k("job"), "PX", 100000).Slice()
	if err != nil || len(grant) != 4 {
		t.Fatalf("LOCK: %v %v", grant, err)
	}
	if err := c.Do(ctx, "LOCK", k("job")).Err(); err != redis.Nil {
		t.Errorf("LOCK of a held lock: %v", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- c.Do(ctx, "LOCK", k("job"), "WAIT", 100000, "TOKEN", "w").Err() }()
	one, err := c.Do(ctx, "UNLOCK", k("job"), grant[0]).Result()
	check("UNLOCK", one, err, 1)
	check("LOCK WAIT", <-waited, nil, nil)
	one, err = c.Do(ctx, "UNLOCK", k("job"), "w").Result()
	check("UNLOCK", one, err, 1)
}
