package compare

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// What concerns all clients concerns those of all loops.
func TestClientsOfAllLoops(t *testing.T) {
	t.Parallel()
	p := rig.StartProxy(t, "--upstream", rig.StartCluster(t, 3, 0).Nodes[0].Addr, "--loops", "2")
	t.Run("list, pause and kill", func(t *testing.T) { clientsOfAllLoops(t, p) })
	t.Run("monitor", func(t *testing.T) { monitorOfAllLoops(t, p) })
	t.Run("functions", func(t *testing.T) { pauseKnowsFunctions(t, p) })
}

// clientsOfAllLoops: CLIENT LIST and CLIENT KILL reach all clients, and CLIENT PAUSE holds them.
func clientsOfAllLoops(t *testing.T, p *rig.Proxy) {
	boss := rig.Connect(t, p.Addr)
	var all []*rig.Conn
	for i := range 20 {
		c := rig.Connect(t, p.Addr)
		c.Want(t, "OK", "CLIENT", "SETNAME", fmt.Sprint("c", i))
		all = append(all, c)
	}
	var names []string
	last := -1
	for _, line := range rig.LinesOf(boss.Must(t, "CLIENT", "LIST").Text) {
		var id int
		fmt.Sscan(rig.LineField(line, "id"), &id)
		if id <= last {
			t.Errorf("client %d is behind client %d", id, last)
		}
		last = id
		names = append(names, rig.LineField(line, "name"))
		if fd := rig.LineField(line, "fd"); fd == "-1" || fd == "0" {
			t.Errorf("descriptor %s", fd)
		}
	}
	if len(names) != 21 || names[0] != "" || names[20] != "c19" {
		t.Errorf("clients %q", names)
	}

	boss.Want(t, "OK", "CLIENT", "PAUSE", "60000", "WRITE")
	for i, c := range all {
		c.Send("GET", "k")
		c.Send("SET", fmt.Sprint("k", i), "v")
	}
	for _, c := range all {
		if v, err := c.Receive(rig.Patience); err != nil || v.String() != "(nil)" {
			t.Errorf("GET: %s %v", v, err)
		}
	}
	rig.Eventually(t, rig.Patience, "all clients to be held", func() bool {
		return strings.Contains(boss.Must(t, "INFO", "clients").Text, "blocked_clients:20\r\n")
	})
	boss.Want(t, "(integer) 0", "EXISTS", "k0", "k1", "k2", "k19")
	held := 0
	for _, line := range rig.LinesOf(boss.Must(t, "CLIENT", "LIST").Text) {
		if rig.LineField(line, "flags") == "b" && rig.LineField(line, "cmd") == "set" {
			held++
		}
	}
	if held != 20 {
		t.Errorf("%d clients are shown as held", held)
	}
	all[0].Close() // its SET is never run
	rig.Eventually(t, rig.Patience, "a client that left to be let go", func() bool {
		return strings.Contains(boss.Must(t, "INFO", "clients").Text, "blocked_clients:19\r\n")
	})
	boss.Want(t, "OK", "CLIENT", "UNPAUSE")
	for i, c := range all[1:] {
		if v, err := c.Receive(rig.Patience); err != nil || v.String() != "OK" {
			t.Errorf("SET of c%d: %s %v", i+1, v, err)
		}
	}
	boss.Want(t, "(integer) 19", "DBSIZE")

	boss.Want(t, "(integer) 19", "CLIENT", "KILL", "TYPE", "normal")
	for i, c := range all[1:] {
		if !c.Closed(rig.Patience) {
			t.Errorf("c%d stays", i+1)
		}
	}
	boss.Want(t, "PONG", "PING")
}

// monitorOfAllLoops: each client in MONITOR is shown each command once, those of one client in order.
func monitorOfAllLoops(t *testing.T, p *rig.Proxy) {
	const clients, each = 8, 200
	var monitors []*rig.Conn
	for range 3 {
		m := rig.Connect(t, p.Addr)
		m.Want(t, "OK", "MONITOR")
		monitors = append(monitors, m)
	}
	var work sync.WaitGroup
	defer work.Wait()
	for i := range clients {
		c := rig.Connect(t, p.Addr)
		work.Go(func() {
			for j := range each {
				if _, err := c.Do("SET", fmt.Sprint("k", i), fmt.Sprint(j)); err != nil {
					t.Errorf("SET: %v", err)
				}
			}
		})
	}
	line := regexp.MustCompile(`^\d{10}\.\d{6} \[0 127\.0\.0\.1:\d+\] "SET" "k(\d)" "(\d+)"$`)
	for _, m := range monitors {
		next := make([]int, clients)
		for range clients * each {
			v, err := m.Receive(rig.Patience)
			found := line.FindStringSubmatch(v.Text)
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
		if !m.Silent(30 * time.Millisecond) {
			t.Error("more is shown than was done")
		}
	}
}

// pauseKnowsFunctions: those that do not write go on during CLIENT PAUSE WRITE.
func pauseKnowsFunctions(t *testing.T, p *rig.Proxy) {
	c, boss := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
	boss.Want(t, `"l"`, "FUNCTION", "LOAD", "#!lua name=l\n"+
		"redis.register_function{function_name='reads', callback=function(keys) return redis.call('get', "+
		"keys[1]) end, flags={'no-writes'}}\n"+
		"redis.register_function('writes', function(keys) return redis.call('incr', keys[1]) end)")
	boss.Want(t, "OK", "CLIENT", "PAUSE", "60000", "WRITE")
	for range 2 {
		c.Want(t, "(nil)", "FCALL", "reads", "1", "f")
	}
	c.Send("FCALL", "writes", "1", "f")
	if !c.Silent(100 * time.Millisecond) {
		t.Error("a function that writes is not held")
	}
	boss.Want(t, "OK", "CLIENT", "UNPAUSE")
	if v, err := c.Receive(rig.Patience); err != nil || v.String() != "(integer) 1" {
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
	redis := rig.StartRedis(t, "--unixsocket", dir+"/r")
	var shapes []string
	for _, path := range []string{dir + "/r", dir + "/p"} {
		if path == dir+"/p" { // not earlier, or Redis's MONITOR shows what the proxy asks
			rig.StartProxy(t, "--upstream", redis.Addr, "--listen", "127.0.0.1:0,"+path)
		}
		c, m := rig.Connect(t, path), rig.Connect(t, path)
		line := c.Must(t, "CLIENT", "INFO").Text
		shapes = append(shapes,
			strings.ReplaceAll(rig.LineField(line, "addr")+" "+rig.LineField(line, "laddr")+" "+
				rig.LineField(line, "flags"), path, "PATH"))
		m.Want(t, "OK", "MONITOR")
		c.Want(t, "PONG", "PING")
		v, err := m.Receive(rig.Patience)
		_, shown, _ := strings.Cut(v.Text, " ")
		shapes = append(shapes, strings.ReplaceAll(shown, path, "PATH"), fmt.Sprint(err))
		c.Want(t, "OK", "CLIENT", "KILL", path+":0")
	}
	if !slices.Equal(shapes[:3], shapes[3:]) {
		t.Errorf("Redis: %q, lockproxy: %q", shapes[:3], shapes[3:])
	}
}

// The settings of Redis that concern clients take effect when they are changed.
func TestClientSettingsAreLive(t *testing.T) {
	t.Parallel()
	p := rig.StartProxy(t, "--upstream", rig.StartRedis(t).Addr, "--loops", "2")
	c := rig.Connect(t, p.Addr)
	c.Want(t, "OK", "CONFIG", "SET", "tcp-keepalive", "60")
	c.Want(t, `["tcp-keepalive", "60"]`, "CONFIG", "GET", "tcp-keepalive")
	c.Want(t, "OK", "CONFIG", "SET", "maxclients", "1")
	turned := rig.Connect(t, p.Addr)
	if v, err := turned.Receive(rig.Patience); err != nil ||
		v.String() != "(error) ERR max number of clients reached" {
		t.Errorf("%s %v", v, err)
	}
	c.Want(t, "OK", "CONFIG", "SET", "maxclients", "100")
	idle := rig.Connect(t, p.Addr)
	idle.Want(t, "PONG", "PING")
	monitor := rig.Connect(t, p.Addr)
	monitor.Want(t, "OK", "MONITOR")
	c.Want(t, "OK", "CONFIG", "SET", "timeout", "3")
	if !idle.Closed(rig.Patience) {
		t.Error("an idle client is not closed")
	}
	// That who is not idle stays is tested in fake time: here c may be idle, too, on a busy machine.
	list := rig.Connect(t, p.Addr).Must(t, "CLIENT", "LIST").Text
	if !strings.Contains(list, " addr="+monitor.LocalAddr().String()) {
		t.Error("a client that watches is closed:", list)
	}
}
