package transcripts

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// blockedClients is what INFO says through the proxy.
func blockedClients(t *testing.T, c *rig.Conn) int {
	t.Helper()
	n, err := strconv.Atoi(rig.InfoField(c.Must(t, "INFO", "clients").Text, "blocked_clients"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// waitBlocked waits until so many clients are blocked.
func waitBlocked(t *testing.T, c *rig.Conn, want int) {
	t.Helper()
	rig.Eventually(t, 2*rig.Patience, fmt.Sprintf("%d blocked clients", want),
		func() bool { return blockedClients(t, c) == want })
}

// TestManyBlockedClients: hundreds of clients that block delay nobody, each gets what is pushed for it, and
// of those that leave nothing stays.
func TestManyBlockedClients(t *testing.T) {
	t.Parallel()
	const crowd = 500
	c := rig.StartCluster(t, 3, 0)
	p := rig.StartProxy(t, "--upstream", c.Addrs(), "--loops", "2")
	watch := rig.Connect(t, p.Addr)
	var clients []*rig.Conn
	for i := range crowd {
		b := rig.Connect(t, p.Addr)
		b.Send("BLPOP", fmt.Sprint("list:", i), "0")
		clients = append(clients, b)
	}
	waitBlocked(t, watch, crowd)
	if got := p.Metric(t, "lockproxy_blocked_clients"); got != crowd {
		t.Errorf("the metric says %v", got)
	}
	for i := range 300 { // on every node, beside those that block: behind one of them it would get no answer
		watch.Want(t, "OK", "SET", fmt.Sprint("key:", i), "1")
	}
	for i, b := range clients[crowd/2:] {
		b.Close()
		if i%2 == 0 { // one that sends more and leaves
			clients[i].Send("PING")
		}
	}
	waitBlocked(t, watch, crowd/2)
	for i := range crowd {
		watch.Must(t, "RPUSH", fmt.Sprint("list:", i), fmt.Sprint("elem:", i))
	}
	for i, b := range clients[:crowd/2] {
		if v, err := b.Receive(rig.Patience); err != nil ||
			v.String() != fmt.Sprintf(`["list:%d", "elem:%d"]`, i, i) {
			t.Fatalf("client %d: %s %v", i, v, err)
		}
		if i%2 == 0 {
			if v, err := b.Receive(rig.Patience); err != nil || v.Text != "PONG" {
				t.Fatalf("client %d: %s %v", i, v, err)
			}
		}
	}
	for i := crowd / 2; i < crowd; i++ {
		watch.Want(t, "(integer) 1", "LLEN", fmt.Sprint("list:", i))
	}
	if got := blockedClients(t, watch); got != 0 {
		t.Errorf("%d blocked clients", got)
	}
	if got := p.Metric(t, "lockproxy_own_connections", `state="used"`); got != 0 {
		t.Errorf("%v connections in use", got)
	}
}

// TestBlockedClientMoves: a client that blocks goes with its slot, and with the master's office.
func TestBlockedClientMoves(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 3, 1)
	p := rig.StartProxy(t, "--upstream", c.Addrs())
	push := rig.Connect(t, p.Addr)
	from := c.MasterOf(t, "moving")
	to := c.MasterOf(t, "elsewhere")
	for _, key := range []string{"b", "c", "d", "e", "f"} {
		if from == to {
			to = c.MasterOf(t, key)
		}
	}
	b := rig.Connect(t, p.Addr)
	b.Send("BLPOP", "moving", "0")
	waitBlocked(t, push, 1)
	c.Migrate(t, c.SlotOf(t, "moving"), from, to, 0)
	rig.Eventually(t, 2*rig.Patience, "the client blocks at the new node", func() bool {
		return to.Info(t, "clients", "blocked_clients") == "1"
	})
	push.Must(t, "RPUSH", "moving", "1")
	if v, err := b.Receive(rig.Patience); err != nil || v.String() != `["moving", "1"]` {
		t.Errorf("behind the slot: %s %v", v, err)
	}
	b.Send("BLPOP", "moving", "0")
	waitBlocked(t, push, 1)
	replica := c.ReplicasOf(t, to)[0]
	replica.Promote(t)
	rig.Eventually(t, 2*rig.Patience, "the client blocks at the new master", func() bool {
		return replica.Info(t, "clients", "blocked_clients") == "1"
	})
	push.Must(t, "RPUSH", "moving", "2")
	if v, err := b.Receive(rig.Patience); err != nil || v.String() != `["moving", "2"]` {
		t.Errorf("behind the master: %s %v", v, err)
	}
}

// TestBlockedClientsMasterDies: a client that blocks for ever on a master that is killed is told that nobody
// knows what became of its command, soon; the next one blocks on the replica.
func TestBlockedClientsMasterDies(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 3, 1)
	p := rig.StartProxy(t, "--upstream", c.Addrs(), "--retry-budget", "2m")
	pops, reads, push := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
	push.Must(t, "XADD", "{dying}st", "1-1", "f", "v")
	pops.Send("BLPOP", "{dying}q", "0")
	reads.Send("XREAD", "BLOCK", "0", "STREAMS", "{dying}st", "1-1")
	waitBlocked(t, push, 2)
	for _, n := range c.Nodes {
		if n.Info(t, "clients", "blocked_clients") == "2" {
			n.Kill()
			c.DeadAfter("2000")
			break
		}
	}
	if v, err := pops.Receive(rig.Patience); err != nil ||
		!strings.Contains(v.Text, "may or may not have run") {
		t.Errorf("BLPOP: %s %v", v, err)
	}
	pops.Send("BLPOP", "{dying}q", "0")
	push.Send("RPUSH", "{dying}q", "x") // rides the fail-over out
	if v, err := push.Receive(2 * rig.Patience); err != nil || v.IsError() {
		t.Fatalf("RPUSH during the fail-over: %s %v", v, err)
	}
	if v, err := pops.Receive(rig.Patience); err != nil || v.String() != `["{dying}q", "x"]` {
		t.Errorf("BLPOP after the fail-over: %s %v", v, err)
	}
	push.Must(t, "XADD", "{dying}st", "2-1", "f", "v")
	if v, err := reads.Receive(rig.Patience); err != nil || !strings.Contains(v.String(), "2-1") {
		t.Errorf("XREAD, which only reads: %s %v", v, err)
	}
}

// TestOwnConnectionsAreBounded: who finds no connection is told by which setting.
func TestOwnConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	p := rig.StartProxy(t, "--upstream", rig.SharedRedis().Addr, "--upstream-own-connections", "1",
		"--retry-budget", "500ms")
	a, b, c := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
	key := "bounded:" + p.Addr
	a.Send("BLPOP", key, "0")
	rig.Eventually(t, rig.Patience, "a connection in use", func() bool {
		return p.Metric(t, "lockproxy_own_connections", `state="used"`) == 1
	})
	b.Send("BLPOP", key, "0")
	if v, err := b.Receive(rig.Patience); err != nil ||
		!strings.Contains(v.Text, "(upstream-own-connections)") {
		t.Errorf("%s %v", v, err)
	}
	c.Must(t, "RPUSH", key, "1", "2")
	if v, err := a.Receive(rig.Patience); err != nil || v.IsError() {
		t.Errorf("%s %v", v, err)
	}
	b.Want(t, fmt.Sprintf("[%q, %q]", key, "2"), "BLPOP", key, "0")
}

// TestWaitThroughTheProxy: WAIT says how many replicas have what the client wrote.
func TestWaitThroughTheProxy(t *testing.T) {
	t.Parallel()
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		master := rig.StartRedis(t)
		replicas := []*rig.Server{rig.StartRedis(t), rig.StartRedis(t)}
		for _, r := range replicas {
			r.Do(t, "REPLICAOF", "127.0.0.1", strconv.Itoa(master.Port))
			rig.Eventually(t, rig.Patience, "replica in sync",
				func() bool { return r.Info(t, "replication", "master_link_status") == "up" })
		}
		p := rig.StartProxy(t, "--upstream", master.Addr)
		c := rig.Connect(t, p.Addr)
		for i := range 20 {
			c.Must(t, "SET", "k", fmt.Sprint(i))
			if got := c.Must(t, "WAIT", "2", "120000").Int(); got != 2 {
				t.Errorf("WAIT 2: %d", got)
			}
			if got := replicas[i%2].Do(t, "GET", "k").Text; got != fmt.Sprint(i) {
				t.Errorf("the replica has %s, not %d", got, i)
			}
		}
		waitsInVain(t, c, replicas[1], "2", 1)
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		cl := rig.StartCluster(t, 3, 1)
		p := rig.StartProxy(t, "--upstream", cl.Addrs())
		c := rig.Connect(t, p.Addr)
		for i := range 20 {
			c.Must(t, "MSET", "a", fmt.Sprint(i), "b", fmt.Sprint(i), "c", fmt.Sprint(i))
			if got := c.Must(t, "WAIT", "1", "120000").Int(); got != 1 {
				t.Errorf("WAIT 1: %d", got)
			}
		}
		waitsInVain(t, c, cl.ReplicasOf(t, cl.MasterOf(t, "a"))[0], "1", 0)
	})
}

// waitsInVain stops a replica, and has c wait for all of them.
func waitsInVain(t *testing.T, c *rig.Conn, replica *rig.Server, all string, others int64) {
	t.Helper()
	replica.Signal(syscall.SIGSTOP)
	defer replica.Signal(syscall.SIGCONT)
	c.Must(t, "SET", "a", "stopped")
	if got := c.Must(t, "WAIT", all, "700").Int(); got != others {
		t.Errorf("WAIT with a replica that is stopped: %d, want %d", got, others)
	}
	c.Send("WAIT", all, "0")
	if !c.Silent(200 * time.Millisecond) {
		t.Error("WAIT for ever ends")
	}
	replica.Signal(syscall.SIGCONT)
	v, err := c.Receive(rig.Patience)
	if err != nil || v.Int() != others+1 {
		t.Errorf("WAIT once the replica goes on: %s %v", v, err)
	}
}
