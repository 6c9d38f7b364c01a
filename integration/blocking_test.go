package integration

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// blockedClients is what INFO says through the proxy.
func blockedClients(t *testing.T, c *conn) int {
	t.Helper()
	n, err := strconv.Atoi(infoField(c.must(t, "INFO", "clients").text, "blocked_clients"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// waitBlocked waits until so many clients are blocked.
func waitBlocked(t *testing.T, c *conn, want int) {
	t.Helper()
	eventually(t, 2*patience, fmt.Sprintf("%d blocked clients", want), func() bool { return blockedClients(t, c) == want })
}

// TestManyBlockedClients: hundreds of clients that block delay nobody, each gets what is pushed for it, and
// of those that leave nothing stays.
func TestManyBlockedClients(t *testing.T) {
	t.Parallel()
	const crowd = 500
	c := startCluster(t, 3, 0)
	p := startProxy(t, "--upstream", c.addrs(), "--loops", "2")
	watch := connect(t, p.addr)
	var clients []*conn
	for i := range crowd {
		b := connect(t, p.addr)
		b.send("BLPOP", fmt.Sprint("list:", i), "0")
		clients = append(clients, b)
	}
	waitBlocked(t, watch, crowd)
	if got := p.metric(t, "lockproxy_blocked_clients"); got != crowd {
		t.Errorf("the metric says %v", got)
	}
	for i := range 300 { // on every node, beside those that block: behind one of them it would get no answer
		watch.want(t, "OK", "SET", fmt.Sprint("key:", i), "1")
	}
	for i, b := range clients[crowd/2:] {
		b.Close()
		if i%2 == 0 { // one that sends more and leaves
			clients[i].send("PING")
		}
	}
	waitBlocked(t, watch, crowd/2)
	for i := range crowd {
		watch.must(t, "RPUSH", fmt.Sprint("list:", i), fmt.Sprint("elem:", i))
	}
	for i, b := range clients[:crowd/2] {
		if v, err := b.receive(patience); err != nil || v.String() != fmt.Sprintf(`["list:%d", "elem:%d"]`, i, i) {
			t.Fatalf("client %d: %s %v", i, v, err)
		}
		if i%2 == 0 {
			if v, err := b.receive(patience); err != nil || v.text != "PONG" {
				t.Fatalf("client %d: %s %v", i, v, err)
			}
		}
	}
	for i := crowd / 2; i < crowd; i++ {
		watch.want(t, "(integer) 1", "LLEN", fmt.Sprint("list:", i))
	}
	if got := blockedClients(t, watch); got != 0 {
		t.Errorf("%d blocked clients", got)
	}
	if got := p.metric(t, "lockproxy_own_connections", `state="used"`); got != 0 {
		t.Errorf("%v connections in use", got)
	}
}

// TestBlockedClientBehindItsInput: the end of a client is noticed behind more input than is read ahead.
func TestBlockedClientBehindItsInput(t *testing.T) {
	t.Parallel()
	p := sharedOverCluster()
	c, b := connect(t, p.addr), connect(t, p.addr)
	key := "behind:" + p.addr
	b.send("BLPOP", key, "0")
	addr := b.LocalAddr().String()
	blocks := func() bool {
		return slices.ContainsFunc(linesOf(c.must(t, "CLIENT", "LIST").text), func(line string) bool {
			return lineField(line, "addr") == addr && lineField(line, "cmd") == "blpop"
		})
	}
	eventually(t, patience, "it is blocked", blocks)
	b.SetWriteDeadline(time.Now().Add(patience))
	if _, err := b.Write([]byte(strings.Repeat("*1\r\n$4\r\nPING\r\n", 6_000))); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // as a rule its input has been read ahead by then
	b.Close()
	eventually(t, patience, "its end is noticed", func() bool { return !blocks() })
	c.want(t, "(integer) 1", "RPUSH", key, "x")
	c.want(t, "(integer) 1", "LLEN", key)
}

// TestHalfClosedClient: what was sent before the end of the input is answered as Redis does; nobody waits any
// more.
func TestHalfClosedClient(t *testing.T) {
	t.Parallel()
	p := sharedOverCluster()
	for i, test := range []struct{ lines, want string }{
		{"RPUSH half:0 a b\r\nBLPOP half:0 0\r\nBLPOP half:0 0\r\n", ":2\r\n*2\r\n$6\r\nhalf:0\r\n$1\r\na\r\n*2\r\n$6\r\nhalf:0\r\n$1\r\nb\r\n"},
		{"SET half:1 1\r\nBLPOP half:2 0\r\n", "+OK\r\n"},
	} {
		c := connect(t, p.addr)
		c.Write([]byte(test.lines))
		c.Conn.(*net.TCPConn).CloseWrite()
		var got strings.Builder
		c.SetReadDeadline(time.Now().Add(patience))
		if _, err := c.r.WriteTo(&got); err != nil || !strings.HasPrefix(got.String(), test.want) {
			t.Errorf("%d: %q (%v), want %q", i, got.String(), err, test.want)
		}
	}
	c := connect(t, p.addr)
	c.want(t, "(integer) 1", "RPUSH", "half:2", "x")
	c.want(t, "(integer) 1", "LLEN", "half:2")
}

// TestBlockedClientMoves: a client that blocks goes with its slot, and with the master's office.
func TestBlockedClientMoves(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, 1)
	p := startProxy(t, "--upstream", c.addrs())
	push := connect(t, p.addr)
	from := c.masterOf(t, "moving")
	to := c.masterOf(t, "elsewhere")
	for _, key := range []string{"b", "c", "d", "e", "f"} {
		if from == to {
			to = c.masterOf(t, key)
		}
	}
	b := connect(t, p.addr)
	b.send("BLPOP", "moving", "0")
	waitBlocked(t, push, 1)
	c.migrate(t, c.slotOf(t, "moving"), from, to, 0)
	eventually(t, 2*patience, "the client blocks at the new node", func() bool {
		return to.info(t, "clients", "blocked_clients") == "1"
	})
	push.must(t, "RPUSH", "moving", "1")
	if v, err := b.receive(patience); err != nil || v.String() != `["moving", "1"]` {
		t.Errorf("behind the slot: %s %v", v, err)
	}
	b.send("BLPOP", "moving", "0")
	waitBlocked(t, push, 1)
	replica := c.replicasOf(t, to)[0]
	replica.do(t, "CLUSTER", "FAILOVER")
	eventually(t, 2*patience, "the client blocks at the new master", func() bool {
		return replica.info(t, "clients", "blocked_clients") == "1"
	})
	push.must(t, "RPUSH", "moving", "2")
	if v, err := b.receive(patience); err != nil || v.String() != `["moving", "2"]` {
		t.Errorf("behind the master: %s %v", v, err)
	}
}

// TestBlockedClientsMasterDies: a client that blocks for ever on a master that is killed is told that nobody
// knows what became of its command, soon; the next one blocks on the replica.
func TestBlockedClientsMasterDies(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, 1)
	p := startProxy(t, "--upstream", c.addrs())
	pops, reads, push := connect(t, p.addr), connect(t, p.addr), connect(t, p.addr)
	push.must(t, "XADD", "{dying}st", "1-1", "f", "v")
	pops.send("BLPOP", "{dying}q", "0")
	reads.send("XREAD", "BLOCK", "0", "STREAMS", "{dying}st", "1-1")
	waitBlocked(t, push, 2)
	for _, n := range c.nodes {
		if n.info(t, "clients", "blocked_clients") == "2" {
			n.kill()
			break
		}
	}
	killed := time.Now()
	if v, err := pops.receive(patience); err != nil || !strings.Contains(v.text, "may or may not have run") {
		t.Errorf("BLPOP: %s %v", v, err)
	}
	if took := time.Since(killed); took > 5*time.Second {
		t.Errorf("the answer took %v", took)
	}
	pops.send("BLPOP", "{dying}q", "0")
	push.must(t, "RPUSH", "{dying}q", "x") // rides the fail-over out
	if v, err := pops.receive(patience); err != nil || v.String() != `["{dying}q", "x"]` {
		t.Errorf("BLPOP after the fail-over: %s %v", v, err)
	}
	push.must(t, "XADD", "{dying}st", "2-1", "f", "v")
	if v, err := reads.receive(patience); err != nil || !strings.Contains(v.String(), "2-1") {
		t.Errorf("XREAD, which only reads: %s %v", v, err)
	}
}

// TestOwnConnectionsAreBounded: who finds no connection is told by which setting.
func TestOwnConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	p := startProxy(t, "--upstream", sharedRedis().addr, "--upstream-own-connections", "1", "--retry-budget", "500ms")
	a, b, c := connect(t, p.addr), connect(t, p.addr), connect(t, p.addr)
	key := "bounded:" + p.addr
	a.send("BLPOP", key, "0")
	eventually(t, patience, "a connection in use", func() bool {
		return p.metric(t, "lockproxy_own_connections", `state="used"`) == 1
	})
	b.send("BLPOP", key, "0")
	if v, err := b.receive(patience); err != nil || !strings.Contains(v.text, "(upstream-own-connections)") {
		t.Errorf("%s %v", v, err)
	}
	c.must(t, "RPUSH", key, "1", "2")
	if v, err := a.receive(patience); err != nil || v.isError() {
		t.Errorf("%s %v", v, err)
	}
	b.want(t, fmt.Sprintf("[%q, %q]", key, "2"), "BLPOP", key, "0")
}

// TestWaitThroughTheProxy: WAIT says how many replicas have what the client wrote.
func TestWaitThroughTheProxy(t *testing.T) {
	t.Parallel()
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		master := startRedis(t)
		replicas := []*server{startRedis(t), startRedis(t)}
		for _, r := range replicas {
			r.do(t, "REPLICAOF", "127.0.0.1", strconv.Itoa(master.port))
			eventually(t, patience, "replica in sync", func() bool { return r.info(t, "replication", "master_link_status") == "up" })
		}
		p := startProxy(t, "--upstream", master.addr)
		c := connect(t, p.addr)
		for i := range 20 {
			c.must(t, "SET", "k", fmt.Sprint(i))
			if got := c.must(t, "WAIT", "2", "10000").int(); got != 2 {
				t.Errorf("WAIT 2: %d", got)
			}
			if got := replicas[i%2].do(t, "GET", "k").text; got != fmt.Sprint(i) {
				t.Errorf("the replica has %s, not %d", got, i)
			}
		}
		waitsInVain(t, c, replicas[1], "2", 1)
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		cl := startCluster(t, 3, 1, "--cluster-node-timeout", "15000")
		p := startProxy(t, "--upstream", cl.addrs())
		c := connect(t, p.addr)
		for i := range 20 {
			c.must(t, "MSET", "a", fmt.Sprint(i), "b", fmt.Sprint(i), "c", fmt.Sprint(i))
			if got := c.must(t, "WAIT", "1", "10000").int(); got != 1 {
				t.Errorf("WAIT 1: %d", got)
			}
		}
		waitsInVain(t, c, cl.replicasOf(t, cl.masterOf(t, "a"))[0], "1", 0)
	})
}

// waitsInVain stops a replica, and has c wait for all of them.
func waitsInVain(t *testing.T, c *conn, replica *server, all string, others int64) {
	t.Helper()
	replica.signal(syscall.SIGSTOP)
	defer replica.signal(syscall.SIGCONT)
	c.must(t, "SET", "a", "stopped")
	start := time.Now()
	if got := c.must(t, "WAIT", all, "700").int(); got != others {
		t.Errorf("WAIT with a replica that is stopped: %d, want %d", got, others)
	}
	if took := time.Since(start); took < 690*time.Millisecond || took > 5*time.Second {
		t.Errorf("WAIT %s 700 took %v", all, took)
	}
	c.send("WAIT", all, "0")
	if !c.silent(200 * time.Millisecond) {
		t.Error("WAIT for ever ends")
	}
	replica.signal(syscall.SIGCONT)
	v, err := c.receive(patience)
	if err != nil || v.int() != others+1 {
		t.Errorf("WAIT once the replica goes on: %s %v", v, err)
	}
}
