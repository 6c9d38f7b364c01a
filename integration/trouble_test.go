package integration

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Trouble at the upstream is an error, never Null; and what was held can still
// be freed. R10
func TestUpstreamInTrouble(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	p := startProxy(t, "--upstream", s.addr, "--retry-budget", "1s")
	c := connect(t, p.addr)
	c.must(t, "LOCK", "held", "TOKEN", "t", "PX", "60000")

	s.do(t, "CONFIG", "SET", "maxmemory", "1")
	if v := c.call(t, "LOCK", "new"); !v.isError("OOM") {
		t.Errorf("LOCK without memory: %s", v)
	}
	c.want(t, "(integer) 1", "UNLOCK", "held", "t")
	s.do(t, "CONFIG", "SET", "maxmemory", "0")
	c.must(t, "LOCK", "held", "TOKEN", "t", "PX", "60000")

	s.do(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	if v := c.call(t, "LOCK", "new"); !v.isError("NOREPLICAS") {
		t.Errorf("LOCK without enough replicas: %s", v)
	}
	s.do(t, "CONFIG", "SET", "min-replicas-to-write", "0")

	busy := connect(t, s.addr)
	busy.must(t, "CONFIG", "SET", "busy-reply-threshold", "50")
	busy.send("EVAL", "while true do end", "0")
	eventually(t, patience, "Redis is busy", func() bool {
		v, _ := ask(s.addr, "PING")
		return v.isError("BUSY")
	})
	if v := c.call(t, "LOCK", "new"); !v.isError() {
		t.Errorf("LOCK while a script runs: %s", v)
	}
	s.do(t, "SCRIPT", "KILL")
	busy.receive(patience)
	c.want(t, "(integer) 1", "UNLOCK", "held", "t")
	if v := c.must(t, "LOCK", "new", "TOKEN", "t"); len(v.elems) != 4 {
		t.Errorf("LOCK afterwards: %s", v)
	}
}

// A node that hangs does not hold up clients of the others, nor other commands of
// the proxy; when it goes on, so do its clients.
func TestHangingNode(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, 0, "--cluster-require-full-coverage", "no")
	p := startProxy(t, "--upstream", c.addrs())
	hanging := c.masterOf(t, "hang")
	other := ""
	for i := range 100 {
		if other = fmt.Sprint("other:", i); c.masterOf(t, other) != hanging {
			break
		}
	}
	healthy, stuck := connect(t, p.addr), connect(t, p.addr)
	stuck.want(t, "OK", "SET", "hang", "v")
	healthy.want(t, "OK", "SET", other, "v")

	hanging.signal(syscall.SIGSTOP)
	defer hanging.signal(syscall.SIGCONT)
	stuck.send("GET", "hang")
	var worst time.Duration
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		start := time.Now()
		healthy.want(t, `"v"`, "GET", other)
		worst = max(worst, time.Since(start))
	}
	t.Logf("a GET at another node took up to %v", worst)
	if worst > 2*time.Second {
		t.Errorf("a GET at another node took up to %v", worst)
	}
	healthy.want(t, "PONG", "PING")
	if v := healthy.must(t, "LOCK", other, "TOKEN", "t", "PX", "1000"); len(v.elems) != 4 {
		t.Errorf("LOCK at another node: %s", v)
	}
	hanging.signal(syscall.SIGCONT)
	if v, err := stuck.receive(patience); err != nil || v.text != "v" {
		t.Errorf("its client after it goes on: %s %v", v, err)
	}
}

// Clients that write a whole pipeline before they read, as most libraries do,
// must not be left writing for ever: some 20 MB of replies wait for them meanwhile.
func TestPipelineWrittenBeforeRead(t *testing.T) {
	t.Parallel()
	p := startBinary(t, lean(t), "--upstream", sharedCluster().addrs())
	c := connect(t, p.addr)
	value := strings.Repeat("v", 50)
	for i := range 10 {
		c.must(t, "SET", fmt.Sprint("whole:", i), value)
	}
	const n = 400_000
	var pipeline []byte
	for i := range n {
		pipeline = append(pipeline, encode("GET", fmt.Sprint("whole:", i%10))...)
	}
	c.SetWriteDeadline(time.Now().Add(4 * patience))
	if m, err := c.Write(pipeline); err != nil {
		t.Fatalf("%d of %d bytes could be written without reading: %v", m, len(pipeline), err)
	}
	for i := range n {
		if v, err := c.receive(patience); err != nil || v.text != value {
			t.Fatalf("reply %d: %s %v", i, v, err)
		}
	}
}

// Values far above any buffer pass through. A command is collected whole before it
// goes to a shared connection, which a slow client must not hold up, but not
// copied again and again.
func TestLargeValues(t *testing.T) {
	t.Parallel()
	p := startBinary(t, lean(t), "--upstream", startRedis(t).addr)
	canary := watch(t, p, "")
	c := connect(t, p.addr)
	size := dose(100<<20, 500<<20)
	chunk := []byte(strings.Repeat("0123456789abcdef", 1<<16))
	fmt.Fprintf(c, "*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n$%d\r\n", size)
	for range size / len(chunk) {
		if _, err := c.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	c.Write([]byte("\r\n"))
	if v, err := c.receive(2 * patience); err != nil || v.text != "OK" {
		t.Fatalf("SET of %d MB: %s %v", size>>20, v, err)
	}
	wrote := p.rss(t)
	if v := c.must(t, "GET", "large"); len(v.text) != size || !strings.HasSuffix(v.text, string(chunk)) {
		t.Errorf("GET: %d bytes", len(v.text))
	}
	if read := p.rss(t); max(wrote, read) > 5*int64(size) {
		t.Errorf("a value of %d MB: %d MB of memory after SET, %d MB after GET", size>>20, wrote>>20, read>>20)
	} else {
		t.Logf("a value of %d MB: %d MB of memory after SET, %d MB after GET", size>>20, wrote>>20, read>>20)
	}
	// two clients that go in the middle of it
	for _, send := range []string{"*2\r\n$3\r\nGET\r\n$5\r\nlarge\r\n", fmt.Sprintf("*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n$%d\r\n%s", size, chunk)} {
		d := connect(t, p.addr)
		d.Write([]byte(send))
		time.Sleep(20 * time.Millisecond)
		d.Conn.(*net.TCPConn).SetLinger(0)
		d.Close()
	}
	canary()
	c.want(t, fmt.Sprintf("(integer) %d", size), "STRLEN", "large")
}
