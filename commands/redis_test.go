//go:build !quick

package commands

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/internal/resp"
)

// realRedis starts a redis-server of its own and returns a function that runs a
// command on it.
func realRedis(t *testing.T) func(words ...string) []byte {
	t.Helper()
	dir, err := os.MkdirTemp("", "commands") // a unix socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	server := exec.Command("redis-server", "--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--appendonly", "no")
	if err := server.Start(); err != nil {
		t.Fatalf("redis-server must be installed for this test: %v", err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
		os.RemoveAll(dir)
	})
	var conn net.Conn
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if conn, err = net.Dial("unix", socket); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { conn.Close() })
	return func(words ...string) []byte { return converse(t, conn, words...) }
}

// The fields are Redis's, in its order.
func TestClientInfoHasTheFieldsOfRedis(t *testing.T) {
	ask := realRedis(t)
	values := regexp.MustCompile(`=\S*`)
	f := newFake(t)
	want := values.ReplaceAllString(string(ask("CLIENT", "INFO")), "=")
	got := values.ReplaceAllString(f.do("CLIENT INFO"), "=")
	if _, want, _ = strings.Cut(want, "\r\n"); !strings.HasSuffix(got, want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
}

// What the proxy answers itself, it answers as Redis does, in every byte.
func TestAnswersAsRedis(t *testing.T) {
	ask := realRedis(t)
	f := newFake(t)
	for _, line := range []string{
		"PING", "PING hi", "PING a b", "ECHO hi", "ECHO", "ECHO a b", `ECHO ""`,
		"HELLO 4", "HELLO 1", "HELLO x", "HELLO 3 foo", "HELLO 2 AUTH a", "HELLO 3 SETNAME", "HELLO 2 AUTH a b", "HELLO 2 SETNAME \x01", "HELLO 99999999999999999999",
		"AUTH", "AUTH a", "AUTH a b", "AUTH default x", "AUTH a b c",
		"CLIENT", "CLIENT FOO", "CLIENT SETNAME", "CLIENT GETNAME", "CLIENT SETNAME \x01", "CLIENT SETNAME me", "CLIENT GETNAME", `CLIENT SETNAME ""`, "CLIENT GETNAME",
		"CLIENT ID x", "CLIENT NO-EVICT ON", "CLIENT NO-EVICT off", "CLIENT NO-EVICT maybe", "CLIENT NO-EVICT", "CLIENT GETREDIR",
		"CLIENT HELP", "CLIENT HELP x", "CLIENT LIST FOO", "CLIENT LIST TYPE", "CLIENT LIST TYPE x", "CLIENT LIST TYPE replica", "CLIENT LIST ID", "CLIENT LIST ID x", "CLIENT LIST ID 99999", "CLIENT LIST ID +1",
		"CLIENT KILL", "CLIENT KILL nobody", "CLIENT KILL ID x", "CLIENT KILL ID 0", "CLIENT KILL ID 01", "CLIENT KILL ID 9999", "CLIENT KILL ID 9999 SKIPME", "CLIENT KILL TYPE x", "CLIENT KILL TYPE slave", "CLIENT KILL USER nobody",
		"CLIENT KILL SKIPME maybe", "CLIENT KILL SKIPME yes", "CLIENT KILL ADDR a LADDR b", "CLIENT KILL FOO bar", "CLIENT KILL addr x foo bar",
		"CLIENT PAUSE", "CLIENT PAUSE x", "CLIENT PAUSE -1", "CLIENT PAUSE 1.5", "CLIENT PAUSE 99999999999999999999", "CLIENT PAUSE 9223372036854775807", "CLIENT PAUSE 1 x", "CLIENT PAUSE 0 WRITE", "CLIENT PAUSE 0 write x", "CLIENT UNPAUSE", "CLIENT UNPAUSE x",
		"CLIENT REPLY", "CLIENT REPLY x", "CLIENT REPLY on", "CLIENT REPLY on off", "MONITOR x", "HELLO +2", "HELLO 2 SETNAME y FOO", "CLIENT GETNAME", "HELLO 2 AUTH default x FOO",
		"SELECT", "SELECT 0", "SELECT x", "SELECT -1", "SELECT 0 0", "SELECT 9", "SELECT 15", "SELECT 16", "SELECT +1", "SELECT 01", "SELECT -0", "SELECT 2147483648", "SELECT -99999999999", "SELECT 9223372036854775808", "RESET", "RESET x",
		"COMMAND FOO", "COMMAND COUNT", "COMMAND COUNT x", "COMMAND GETKEYS", "COMMAND GETKEYS get", "COMMAND LIST x", "COMMAND LIST FILTERBY", "COMMAND HELP x",
		"CONFIG", "CONFIG FOO", "CONFIG GET", "CONFIG GET nosuch", "CONFIG SET a", "CONFIG SET a b", "CONFIG SET a b c", "CONFIG RESETSTAT",
		"CLUSTER INFO", "CLUSTER NODES", "CLUSTER", "ROLE", "ROLE x", "ACL WHOAMI",
		"SCAN", "SCAN x", "EVAL x", "SCRIPT LOAD", "MSET a", "MSET a 1 b", "RANDOMKEY x", "READONLY x", "XREAD a",
		"INFO nosuch", "QUIT",
	} {
		want := string(ask(strings.Fields(strings.ReplaceAll(line, `""`, "\x00"))...))
		if strings.Contains(line, `""`) {
			want = string(ask(append(strings.Fields(strings.TrimSuffix(line, `""`)), "")...))
		}
		f.masters[0] = node(want) // for what is forwarded
		if got := f.do(line); got != want {
			t.Errorf("%q:\n got %q\nwant %q", line, got, want)
		}
	}
	if !f.closed {
		t.Error("QUIT does not close")
	}
}

// All that a real server tells keeps its place and its form.
func TestInfoOfRealServer(t *testing.T) {
	ask := realRedis(t)
	ask("SET", "k", "v")
	one := ask("INFO", "everything")
	f := newFake(t, node(string(one)), node(string(one)))
	v, _, _ := resp.Parse(one)
	w, _, _ := resp.Parse([]byte(f.do("INFO everything")))
	theirs, ours := parseInfo(v.Text()), parseInfo(w.Text())
	for i, s := range theirs {
		if ours[i].title != s.title {
			t.Fatalf("section %s stands where %s was", ours[i].title, s.title)
		}
		for _, line := range s.lines {
			if line[1] != "" && ours[i].get(line[0]) == "" && line[0] != "run_id" && line[0] != "executable" {
				t.Errorf("%s: %s is lost", s.title, line[0])
			}
		}
	}
	if v, _, _ := resp.Parse([]byte(f.do("INFO keyspace"))); !strings.Contains(v.Text(), "db0:keys=2,expires=0,avg_ttl=0") {
		t.Errorf("%q", v.Text())
	}
}

func TestKeysAsRedisFindsThem(t *testing.T) {
	ask := realRedis(t)
	table, err := NewTableOf(ask("COMMAND"), nil)
	if err != nil {
		t.Fatal(err)
	}
	check := func(line string) {
		t.Helper()
		args := split(line)
		want := []string{}
		v, _, err := resp.Parse(ask(append([]string{"COMMAND", "GETKEYS"}, strings.Fields(line)...)...))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(v.Err(), "ERR Invalid arguments") {
			return // any node will say so
		}
		for _, key := range v.Elems {
			want = append(want, key.Text())
		}
		slices.Sort(want)
		if got := keysOf(table, args); !slices.Equal(got, want) {
			t.Errorf("%s: keys %q, Redis: %q %s", line, got, want, v.Err())
		}
	}
	for _, line := range calls {
		check(line)
	}
	n := 0
	for _, c := range table.Commands() {
		if c.askKeys || c.Flags&PubSub != 0 {
			continue // channels are hashed as keys are, but Redis does not call them keys
		}
		for extra := range 3 {
			if line := sampleOf(c, extra); line != "" {
				check(line)
				n++
			}
		}
	}
	if n < 500 {
		t.Errorf("only %d sample calls", n)
	}
}
