package faults

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// Trouble at the upstream is an error, never Null; and what was held can still
// be freed. R10
func TestUpstreamInTrouble(t *testing.T) {
	t.Parallel()
	s := rig.StartRedis(t)
	p := rig.StartProxy(t, "--upstream", s.Addr, "--retry-budget", "1s")
	c := rig.Connect(t, p.Addr)
	c.Must(t, "LOCK", "held", "TOKEN", "t", "PX", "60000")

	s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	if v := c.Call(t, "LOCK", "new"); !v.IsError("OOM") {
		t.Errorf("LOCK without memory: %s", v)
	}
	c.Want(t, "(integer) 1", "UNLOCK", "held", "t")
	s.Do(t, "CONFIG", "SET", "maxmemory", "0")
	c.Must(t, "LOCK", "held", "TOKEN", "t", "PX", "60000")

	s.Do(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	if v := c.Call(t, "LOCK", "new"); !v.IsError("NOREPLICAS") {
		t.Errorf("LOCK without enough replicas: %s", v)
	}
	s.Do(t, "CONFIG", "SET", "min-replicas-to-write", "0")

	busy := rig.Connect(t, s.Addr)
	busy.Must(t, "CONFIG", "SET", "busy-reply-threshold", "50")
	busy.Send("EVAL", "while true do end", "0")
	rig.Eventually(t, rig.Patience, "Redis is busy", func() bool {
		v, _ := rig.Ask(s.Addr, "PING")
		return v.IsError("BUSY")
	})
	if v := c.Call(t, "LOCK", "new"); !v.IsError() {
		t.Errorf("LOCK while a script runs: %s", v)
	}
	s.Do(t, "SCRIPT", "KILL")
	busy.Receive(rig.Patience)
	c.Want(t, "(integer) 1", "UNLOCK", "held", "t")
	if v := c.Must(t, "LOCK", "new", "TOKEN", "t"); len(v.Elems) != 4 {
		t.Errorf("LOCK afterwards: %s", v)
	}
}

// A node that hangs does not hold up clients of the others, nor other commands of the proxy; when it goes on,
// so do its clients. No time-out ends the wait here: each is longer than what a reply may take.
func TestHangingNode(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 3, 0)
	p := rig.StartProxy(t, "--upstream", c.Addrs(), "--upstream-timeout", "10m",
		"--upstream-connect-timeout", "1m", "--retry-budget", "10m")
	hanging := c.MasterOf(t, "hang")
	other := ""
	for i := range 100 {
		if other = fmt.Sprint("other:", i); c.MasterOf(t, other) != hanging {
			break
		}
	}
	healthy, stuck := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
	stuck.Want(t, "OK", "SET", "hang", "v")
	healthy.Want(t, "OK", "SET", other, "v")

	hanging.Stop(t)
	defer hanging.Signal(syscall.SIGCONT)
	stuck.Send("GET", "hang")
	for range 200 { // meanwhile the proxy asks for the topology
		healthy.Want(t, `"v"`, "GET", other)
		time.Sleep(10 * time.Millisecond)
	}
	healthy.Want(t, "PONG", "PING")
	if v := healthy.Must(t, "LOCK", other, "TOKEN", "t", "PX", "60000"); len(v.Elems) != 4 {
		t.Errorf("LOCK at another node: %s", v)
	}
	if !stuck.Silent(time.Millisecond) {
		t.Error("the node that hangs has answered")
	}
	hanging.Signal(syscall.SIGCONT)
	if v, err := stuck.Receive(rig.Patience); err != nil || v.Text != "v" {
		t.Errorf("its client after it goes on: %s %v", v, err)
	}
}

// Clients that write a whole pipeline before they read, as most libraries do,
// must not be left writing for ever: some 20 MB of replies wait for them meanwhile.
func TestPipelineWrittenBeforeRead(t *testing.T) {
	t.Parallel()
	p := rig.StartProxy(t, "--upstream", rig.SharedCluster().Addrs())
	c := rig.Connect(t, p.Addr)
	value := strings.Repeat("v", 200)
	for i := range 10 {
		c.Must(t, "SET", fmt.Sprint("whole:", i), value)
	}
	const n = 100_000
	var pipeline []byte
	for i := range n {
		pipeline = append(pipeline, rig.Encode("GET", fmt.Sprint("whole:", i%10))...)
	}
	c.SetWriteDeadline(time.Now().Add(4 * rig.Patience))
	if m, err := c.Write(pipeline); err != nil {
		t.Fatalf("%d of %d bytes could be written without reading: %v", m, len(pipeline), err)
	}
	for i := range n {
		if v, err := c.Receive(rig.Patience); err != nil || v.Text != value {
			t.Fatalf("reply %d: %s %v", i, v, err)
		}
	}
}

// Values far above any buffer pass through: the node has what the client has sent so far, before that is all.
// Clients that go in the middle of one disturb nobody.
func TestLargeValues(t *testing.T) {
	t.Parallel()
	s := rig.StartRedis(t)
	p := rig.StartProxy(t, "--upstream", s.Addr)
	canary := rig.Watch(t, p, "")
	c := rig.Connect(t, p.Addr)
	size := rig.Dose(64<<20, 512<<20)
	chunk := []byte(strings.Repeat("0123456789abcdef", 1<<16))
	fmt.Fprintf(c, "*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n$%d\r\n", size)
	for i := range size / len(chunk) {
		if i == size/len(chunk)-1 {
			rig.Eventually(t, rig.Patience, "the node has most of it", func() bool {
				return largestQuery(s.Do(t, "CLIENT", "LIST").Text) > size*3/4
			})
		}
		if _, err := c.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	c.Write([]byte("\r\n"))
	if v, err := c.Receive(rig.Patience); err != nil || v.Text != "OK" {
		t.Fatalf("SET of %d MB: %s %v", size>>20, v, err)
	}
	if v := c.Must(t, "GET", "large"); len(v.Text) != size || !strings.HasSuffix(v.Text, string(chunk)) {
		t.Errorf("GET: %d bytes", len(v.Text))
	}
	for _, send := range []string{"*2\r\n$3\r\nGET\r\n$5\r\nlarge\r\n",
		fmt.Sprintf("*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n$%d\r\n%s", size, chunk)} {
		d := rig.Connect(t, p.Addr)
		d.Write([]byte(send))
		time.Sleep(20 * time.Millisecond)
		d.Conn.(*net.TCPConn).SetLinger(0)
		d.Close()
	}
	canary()
	c.Want(t, fmt.Sprintf("(integer) %d", size), "STRLEN", "large")
}
