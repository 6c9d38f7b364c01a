package integration

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// field is the value of a name in a line of CLIENT LIST.
func lineField(line, name string) string {
	_, rest, _ := strings.Cut(" "+line, " "+name+"=")
	value, _, _ := strings.Cut(rest, " ")
	return strings.TrimSpace(value)
}

// lines are the lines of a text.
func linesOf(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }

// What concerns all clients concerns those of all loops.
func TestClientsOfAllLoops(t *testing.T) {
	t.Parallel()
	p := startProxy(t, "--upstream", startCluster(t, 3, 0).nodes[0].addr, "--loops", "2")
	t.Run("list, pause and kill", func(t *testing.T) { clientsOfAllLoops(t, p) })
	t.Run("monitor", func(t *testing.T) { monitorOfAllLoops(t, p) })
	t.Run("functions", func(t *testing.T) { pauseKnowsFunctions(t, p) })
}

// clientsOfAllLoops: CLIENT LIST and CLIENT KILL reach all clients, and CLIENT PAUSE holds them.
func clientsOfAllLoops(t *testing.T, p *lockproxy) {
	boss := connect(t, p.addr)
	var all []*conn
	for i := range 20 {
		c := connect(t, p.addr)
		c.want(t, "OK", "CLIENT", "SETNAME", fmt.Sprint("c", i))
		all = append(all, c)
	}
	var names []string
	last := -1
	for _, line := range linesOf(boss.must(t, "CLIENT", "LIST").text) {
		var id int
		fmt.Sscan(lineField(line, "id"), &id)
		if id <= last {
			t.Errorf("client %d is behind client %d", id, last)
		}
		last = id
		names = append(names, lineField(line, "name"))
		if fd := lineField(line, "fd"); fd == "-1" || fd == "0" {
			t.Errorf("descriptor %s", fd)
		}
	}
	if len(names) != 21 || names[0] != "" || names[20] != "c19" {
		t.Errorf("clients %q", names)
	}

	boss.want(t, "OK", "CLIENT", "PAUSE", "60000", "WRITE")
	for i, c := range all {
		c.send("GET", "k")
		c.send("SET", fmt.Sprint("k", i), "v")
	}
	for _, c := range all {
		if v, err := c.receive(patience); err != nil || v.String() != "(nil)" {
			t.Errorf("GET: %s %v", v, err)
		}
	}
	eventually(t, patience, "all clients to be held", func() bool {
		return strings.Contains(boss.must(t, "INFO", "clients").text, "blocked_clients:20\r\n")
	})
	boss.want(t, "(integer) 0", "EXISTS", "k0", "k1", "k2", "k19")
	held := 0
	for _, line := range linesOf(boss.must(t, "CLIENT", "LIST").text) {
		if lineField(line, "flags") == "b" && lineField(line, "cmd") == "set" {
			held++
		}
	}
	if held != 20 {
		t.Errorf("%d clients are shown as held", held)
	}
	all[0].Close() // its SET is never run
	eventually(t, patience, "a client that left to be let go", func() bool {
		return strings.Contains(boss.must(t, "INFO", "clients").text, "blocked_clients:19\r\n")
	})
	boss.want(t, "OK", "CLIENT", "UNPAUSE")
	for i, c := range all[1:] {
		if v, err := c.receive(patience); err != nil || v.String() != "OK" {
			t.Errorf("SET of c%d: %s %v", i+1, v, err)
		}
	}
	boss.want(t, "(integer) 19", "DBSIZE")

	boss.want(t, "(integer) 19", "CLIENT", "KILL", "TYPE", "normal")
	for i, c := range all[1:] {
		if !c.closed(patience) {
			t.Errorf("c%d stays", i+1)
		}
	}
	boss.want(t, "PONG", "PING")
}

// monitorOfAllLoops: each client in MONITOR is shown each command once, those of one client in order.
func monitorOfAllLoops(t *testing.T, p *lockproxy) {
	const clients, each = 8, 200
	var monitors []*conn
	for range 3 {
		m := connect(t, p.addr)
		m.want(t, "OK", "MONITOR")
		monitors = append(monitors, m)
	}
	var work sync.WaitGroup
	defer work.Wait()
	for i := range clients {
		c := connect(t, p.addr)
		work.Go(func() {
			for j := range each {
				if _, err := c.do("SET", fmt.Sprint("k", i), fmt.Sprint(j)); err != nil {
					t.Errorf("SET: %v", err)
				}
			}
		})
	}
	line := regexp.MustCompile(`^\d{10}\.\d{6} \[0 127\.0\.0\.1:\d+\] "SET" "k(\d)" "(\d+)"$`)
	for _, m := range monitors {
		next := make([]int, clients)
		for range clients * each {
			v, err := m.receive(patience)
			found := line.FindStringSubmatch(v.text)
			if err != nil || found == nil {
				t.Fatalf("shown %s %v", v, err)
			}
			var i, j int
			fmt.Sscan(found[1]+" "+found[2], &i, &j)
			if j != next[i] {
				t.Fatalf("shown %s, want %d", v, next[i])
			}
			next[i]++
		}
		if !m.silent(30 * time.Millisecond) {
			t.Error("more is shown than was done")
		}
	}
}

// pauseKnowsFunctions: those that do not write go on during CLIENT PAUSE WRITE.
func pauseKnowsFunctions(t *testing.T, p *lockproxy) {
	c, boss := connect(t, p.addr), connect(t, p.addr)
	boss.want(t, `"l"`, "FUNCTION", "LOAD", "#!lua name=l\n"+
		"redis.register_function{function_name='reads', callback=function(keys) return redis.call('get', keys[1]) end, flags={'no-writes'}}\n"+
		"redis.register_function('writes', function(keys) return redis.call('incr', keys[1]) end)")
	boss.want(t, "OK", "CLIENT", "PAUSE", "60000", "WRITE")
	for range 2 {
		c.want(t, "(nil)", "FCALL", "reads", "1", "f")
	}
	c.send("FCALL", "writes", "1", "f")
	if !c.silent(100 * time.Millisecond) {
		t.Error("a function that writes is not held")
	}
	boss.want(t, "OK", "CLIENT", "UNPAUSE")
	if v, err := c.receive(patience); err != nil || v.String() != "(integer) 1" {
		t.Errorf("%s %v", v, err)
	}
}

// Over a unix socket, clients are shown as Redis shows them.
func TestClientListOverUnixSocket(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "lp") // a unix socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	redis := startRedis(t, "--unixsocket", dir+"/r")
	startProxy(t, "--upstream", redis.addr, "--listen", "127.0.0.1:0,"+dir+"/p")
	var shapes []string
	for _, path := range []string{dir + "/r", dir + "/p"} {
		c, m := connect(t, path), connect(t, path)
		line := c.must(t, "CLIENT", "INFO").text
		shapes = append(shapes, strings.ReplaceAll(lineField(line, "addr")+" "+lineField(line, "laddr")+" "+lineField(line, "flags"), path, "PATH"))
		m.want(t, "OK", "MONITOR")
		c.want(t, "PONG", "PING")
		v, err := m.receive(patience)
		_, shown, _ := strings.Cut(v.text, " ")
		shapes = append(shapes, strings.ReplaceAll(shown, path, "PATH"), fmt.Sprint(err))
		c.want(t, "OK", "CLIENT", "KILL", path+":0")
	}
	if !slices.Equal(shapes[:3], shapes[3:]) {
		t.Errorf("Redis: %q, lockproxy: %q", shapes[:3], shapes[3:])
	}
}

// The settings of Redis that concern clients take effect when they are changed.
func TestClientSettingsAreLive(t *testing.T) {
	t.Parallel()
	p := startProxy(t, "--upstream", startRedis(t).addr, "--loops", "2")
	c := connect(t, p.addr)
	c.want(t, "OK", "CONFIG", "SET", "tcp-keepalive", "60")
	c.want(t, `["tcp-keepalive", "60"]`, "CONFIG", "GET", "tcp-keepalive")
	c.want(t, "OK", "CONFIG", "SET", "maxclients", "1")
	turned := connect(t, p.addr)
	if v, err := turned.receive(patience); err != nil || v.String() != "(error) ERR max number of clients reached" {
		t.Errorf("%s %v", v, err)
	}
	c.want(t, "OK", "CONFIG", "SET", "maxclients", "100")
	idle := connect(t, p.addr)
	idle.want(t, "PONG", "PING")
	monitor := connect(t, p.addr)
	monitor.want(t, "OK", "MONITOR")
	c.want(t, "OK", "CONFIG", "SET", "timeout", "1")
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		c.want(t, "PONG", "PING")
	}
	if !idle.closed(patience) {
		t.Error("an idle client stays")
	}
	if got := len(linesOf(c.must(t, "CLIENT", "LIST").text)); got != 2 {
		t.Errorf("%d clients are left", got)
	}
}
