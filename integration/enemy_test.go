package integration

import (
	"bytes"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// hostile is what an enemy sends as the first bytes of a connection. What the
// proxy answers, and whether it closes, must be what Redis does.
var hostile = []struct{ name, bytes string }{
	{"bulk of 2^63-1", "*1\r\n$9223372036854775807\r\n"},
	{"bulk of 2^63", "*1\r\n$9223372036854775808\r\n"},
	{"bulk of -2", "*1\r\n$-2\r\n"},
	{"bulk of -1", "*1\r\n$-1\r\n"},
	{"bulk above 512 MB", "*1\r\n$536870913\r\n"},
	{"length with a zero before it", "*1\r\n$04\r\nPING\r\n"},
	{"count with a zero before it", "*01\r\n$4\r\nPING\r\n"},
	{"count with a plus", "*+1\r\n$4\r\nPING\r\n"},
	{"length with a plus", "*1\r\n$+4\r\nPING\r\n"},
	{"length with a blank", "*1\r\n$ 4\r\nPING\r\n"},
	{"length of nothing", "*1\r\n$\r\nPING\r\n"},
	{"count of nothing", "*\r\n*1\r\n$4\r\nPING\r\n"},
	{"length that is no number", "*1\r\n$x\r\n"},
	{"count that is no number", "*x\r\n"},
	{"2^31 arguments", "*2147483648\r\n"},
	{"2^63 arguments", "*9223372036854775808\r\n"},
	{"2^64+1 arguments", "*18446744073709551617\r\n$4\r\nPING\r\n"},
	{"no arguments", "*0\r\n*1\r\n$4\r\nPING\r\n"},
	{"-1 arguments", "*-1\r\n*1\r\n$4\r\nPING\r\n"},
	{"-100 arguments", "*-100\r\n*1\r\n$4\r\nPING\r\n"},
	{"no dollar", "*1\r\n:4\r\nPING\r\n"},
	{"no dollar for the second", "*2\r\n$4\r\nECHO\r\n+hi\r\n"},
	{"an array inside", "*2\r\n$4\r\nECHO\r\n*1\r\n$1\r\na\r\n"},
	{"arrays inside arrays", strings.Repeat("*1\r\n", 10000)},
	{"an empty line", "\r\n*1\r\n$4\r\nPING\r\n"},
	{"a line feed", "\n\nPING\r\n"},
	{"inline", "PING\r\n"},
	{"inline with a line feed only", "PING\n"},
	{"inline with blanks", "  ECHO   hi  \r\n"},
	{"inline with a tab", "ECHO\thi\r\n"},
	{"inline with quotes", `ECHO "a\x41\n" 'b\'c'` + "\r\n" + `ECHO "a b\x41\t"` + "\r\n"},
	{"inline with open quotes", "ECHO \"abc\r\n"},
	{"inline with text after quotes", "ECHO \"abc\"d\r\n"},
	{"inline above 64 KB", strings.Repeat("a", 70000)},
	{"a count line above 64 KB", "*" + strings.Repeat("1", 70000)},
	{"a length line above 64 KB", "*1\r\n$" + strings.Repeat("1", 70000)},
	{"an empty name", "*1\r\n$0\r\n\r\n*1\r\n$4\r\nPING\r\n"},
	{"replies instead of commands", "+OK\r\n-ERR x\r\n:1\r\n_\r\n%0\r\n"},
	{"QUIT with more behind it", "*1\r\n$4\r\nQUIT\r\n*1\r\n$4\r\nPING\r\n"},
	{"good ones before a bad one", "*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$x\r\n"},
}

// stricter is what Redis 7.0 lets pass and the proxy refuses.
var stricter = []struct{ name, bytes string }{
	{"a billion arguments", "*1000000000\r\n"},
	{"no end of a bulk", "*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n"},
	// Redis looks for the end of a line no further than a NUL, and waits for ever.
	{"inline with NUL", "PI\x00NG\r\nPING\r\n"},
	{"a TLS hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n"},
	{"zeros", strings.Repeat("\x00", 1000) + "\r\nPING\r\n"},
}

// beforeAuth is at the limits for clients that have not given the password: 10
// arguments of 16 KB.
var beforeAuth = []struct{ name, bytes string }{
	{"11 arguments", "*11\r\n"},
	{"10 arguments", "*10\r\n" + strings.Repeat("$1\r\na\r\n", 10)},
	{"16385 bytes", "*1\r\n$16385\r\n"},
	{"16384 bytes", "*1\r\n$16384\r\n" + strings.Repeat("a", 16384) + "\r\n"},
}

// hear sends bytes in pieces and returns what comes back until nothing has come
// for a while, and whether the other side closed.
func hear(addr string, send []byte, piece int) (heard []byte, closed bool, err error) {
	c, err := dial(addr)
	if err != nil {
		return nil, false, err
	}
	defer c.Close()
	go func() {
		for rest := send; len(rest) > 0; {
			n := min(piece, len(rest))
			if _, err := c.Write(rest[:n]); err != nil {
				return
			}
			rest = rest[n:]
			if piece < 100 {
				time.Sleep(time.Millisecond)
			}
		}
	}()
	wait := time.Second
	if piece < 100 {
		wait += time.Duration(len(send)/piece) * 2 * time.Millisecond
	}
	buf := make([]byte, 1<<16)
	for {
		c.SetReadDeadline(time.Now().Add(wait))
		n, err := c.r.Read(buf)
		heard = append(heard, buf[:n]...)
		if err != nil {
			return heard, !isTimeout(err), nil
		}
		wait = 500 * time.Millisecond
	}
}

// The guard. What Redis refuses is refused alike, also before AUTH, and
// nobody else notices.
func TestHostileBytes(t *testing.T) {
	for _, password := range []string{"", "secret"} {
		t.Run("requirepass "+password, func(t *testing.T) {
			t.Parallel()
			upstream := startRedis(t)
			bare := startRedis(t, "--requirepass", password)
			p := startProxy(t, "--upstream", upstream.addr, "--requirepass", password)
			canary := watch(t, p, password)
			probe := func(name, send string, piece int, check func(send []byte, piece int) error) {
				if err := check([]byte(send), piece); err != nil {
					t.Errorf("%s, %d bytes at a time: %v", name, piece, err)
				}
			}
			same := func(send []byte, piece int) error { return sameAnswer(bare.addr, p.addr, password != "", send, piece) }
			closes := func(send []byte, piece int) error {
				got, closed, err := hear(p.addr, send, piece)
				if err != nil || !bytes.HasPrefix(got, []byte("-ERR Protocol error: ")) || !closed {
					return fmt.Errorf("got %q, closed %v, %v", got, closed, err)
				}
				return nil
			}
			var all sync.WaitGroup
			for _, h := range hostile {
				all.Go(func() { probe(h.name, h.bytes, 1<<20, same) })
				if len(h.bytes) < 60 {
					all.Go(func() { probe(h.name, h.bytes, 1, same) })
				}
			}
			for _, h := range stricter {
				all.Go(func() { probe(h.name, h.bytes, 1<<20, closes) })
			}
			for _, h := range beforeAuth {
				all.Go(func() { probe(h.name, h.bytes, 1<<20, same) })
			}
			all.Wait()
			canary()
		})
	}
}

var unknown = regexp.MustCompile(`-ERR (unknown command|wrong number) [^\r]*\r\n`)

func sameAnswer(bare, through string, noauth bool, send []byte, piece int) error {
	want, wantClosed, err := hear(bare, send, piece)
	if err != nil {
		return err
	}
	if noauth { // before AUTH the proxy does not say which commands there are
		want = unknown.ReplaceAll(want, []byte("-NOAUTH Authentication required.\r\n"))
	}
	got, gotClosed, err := hear(through, send, piece)
	if err != nil || !bytes.Equal(got, want) || gotClosed != wantClosed {
		return fmt.Errorf("%v\n got %.300q, closed %v\nwant %.300q, closed %v", err, got, gotClosed, want, wantClosed)
	}
	return nil
}

// watch keeps another client of the same nodes busy; the function it returns
// stops that and fails the test if anything was wrong for it.
func watch(t *testing.T, p *lockproxy, password string) (stop func()) {
	t.Helper()
	c := connect(t, p.addr)
	if password != "" {
		c.must(t, "AUTH", password)
	}
	end, result := make(chan struct{}), make(chan error, 1)
	go func() { result <- sing(c, "canary:"+t.Name(), end) }()
	return func() {
		t.Helper()
		close(end)
		if err := <-result; err != nil {
			t.Errorf("another client of the same proxy: %v", err)
		}
	}
}

// sing writes and reads back values on several slots until end is closed.
func sing(c *conn, prefix string, end chan struct{}) error {
	for i := 0; ; i++ {
		select {
		case <-end:
			return nil
		default:
		}
		key, value := fmt.Sprintf("%s:%d", prefix, i%16), fmt.Sprintf("song\r\n$%d", i)
		if v, err := c.do("SET", key, value); err != nil || v.text != "OK" {
			return fmt.Errorf("SET: %s %v", v, err)
		}
		if v, err := c.do("GET", key); err != nil || v.text != value {
			return fmt.Errorf("GET: %s %v, want %q", v, err, value)
		}
		time.Sleep(time.Millisecond)
	}
}

// A browser that was tricked into talking to the port says POST or Host:. Redis
// closes on these two words, so they must never reach a shared connection to it.
func TestCrossProtocolScripting(t *testing.T) {
	t.Parallel()
	p := startProxy(t, "--upstream", startRedis(t).addr, "--loops", "1")
	connect(t, p.addr).must(t, "SET", "warm", "1")
	canary := watch(t, p, "")
	before := p.metric(t, "lockproxy_node_connects_total")
	for _, send := range []string{
		"POST / HTTP/1.1\r\nHost: example.com\r\n\r\nSET http 1\r\n",
		"GET / HTTP/1.1\r\nHost: example.com\r\n\r\nSET http 1\r\n",
		string(encode("post", "x")) + string(encode("SET", "http", "1")),
		string(encode("HOST:", "x")) + string(encode("SET", "http", "1")),
	} {
		if heard, closed, err := hear(p.addr, []byte(send), 1<<20); err != nil || !closed {
			t.Errorf("%q: not closed: %q %v", send, heard, err)
		}
	}
	connect(t, p.addr).want(t, "(nil)", "GET", "http")
	canary()
	if after := p.metric(t, "lockproxy_node_connects_total"); after != before {
		t.Errorf("connections to the upstream: %v made before, %v after: some were closed", before, after)
	}
}

// Half commands of thousands of connections, and a million dripped bytes, cost
// neither memory nor CPU without bound.
func TestHalfOpenCommands(t *testing.T) {
	for _, password := range []string{"", "secret"} {
		t.Run("requirepass "+password, func(t *testing.T) {
			p := startBinary(t, lean(t), "--upstream", sharedRedis().addr, "--requirepass", password)
			canary := watch(t, p, password)
			before := p.usage(t)
			var conns []net.Conn
			halves := []string{"*2\r\n$3\r\nGET\r\n$536870912\r\n", "*1048576\r\n", "*2\r\n$4\r\nECHO\r\n$10", "*", "inline without end"}
			for i := range dose(2000, 8000) {
				c, err := dial(p.addr)
				if err != nil {
					t.Fatal(err)
				}
				conns = append(conns, c)
				c.Write([]byte(halves[i%len(halves)]))
			}
			eventually(t, patience, "all are connected or were refused", func() bool {
				return p.metric(t, "lockproxy_clients_accepted_total") >= float64(len(conns))
			})
			if rss := p.rss(t); rss > 200<<20 {
				t.Errorf("%d half-open commands: %d MB of memory", len(conns), rss>>20)
			}
			for _, c := range conns {
				c.Close()
			}
			canary()
			p.returnsTo(t, before)
		})
	}
}

func TestDrippedBytes(t *testing.T) {
	t.Parallel()
	p := startBinary(t, lean(t), "--upstream", sharedRedis().addr)
	canary := watch(t, p, "")
	c := connect(t, p.addr)
	c.Conn.(*net.TCPConn).SetNoDelay(true)
	drips := dose(100_000, 1_000_000)
	start := p.cpu(t)
	fmt.Fprintf(c, "*3\r\n$3\r\nSET\r\n$7\r\ndripped\r\n$%d\r\n", drips)
	for range drips {
		if _, err := c.Write([]byte{'d'}); err != nil {
			t.Fatal(err)
		}
	}
	c.Write([]byte("\r\n"))
	if v, err := c.receive(patience); err != nil || v.text != "OK" {
		t.Errorf("SET of %d dripped bytes: %s %v", drips, v, err)
	}
	c.want(t, fmt.Sprintf("(integer) %d", drips), "STRLEN", "dripped")
	// a write of one byte costs the proxy one read; 100 µs are ten times that
	if used := p.cpu(t) - start; used > time.Duration(drips)*100*time.Microsecond {
		t.Errorf("%d dripped bytes: %v of CPU", drips, used)
	}
	canary()
}

// Random bytes and damaged commands, from many connections at once.
func TestNoise(t *testing.T) {
	t.Parallel()
	p := startProxy(t, "--upstream", sharedCluster().addrs())
	canary := watch(t, p, "")
	good := append(encode("SET", "noise", strings.Repeat("v", 300)), encode("LOCK", "noise", "PX", "10")...)
	for i := range dose(300, 20000) {
		c, err := dial(p.addr)
		if err != nil {
			t.Fatal(err)
		}
		bad := bytes.Repeat(good, 3)
		for j := range 1 + i%5 {
			bad[(i*7919+j*104729)%len(bad)] ^= byte(1 + (i*31+j*17)%255)
		}
		c.Write(bad)
		if i%3 == 0 {
			c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			c.r.ReadByte()
		}
		c.Close()
	}
	canary()
	if _, err := ask(p.addr, "PING"); err != nil {
		t.Error(err)
	}
	// its damaged SETs may have had any key; the lock must be free again
	eventually(t, patience, "lock free", func() bool {
		v, err := ask(p.addr, "LOCKCTL", "INFO", "noise")
		return err == nil && v.field("state").text == "free"
	})
}

// maxclients turns clients away as Redis does.
func TestMaxClients(t *testing.T) {
	t.Parallel()
	p := startProxy(t, "--upstream", sharedRedis().addr, "--maxclients", "3")
	for range 3 {
		connect(t, p.addr).must(t, "PING")
	}
	c := connect(t, p.addr)
	if v, err := c.receive(patience); err != nil || v.String() != "(error) ERR max number of clients reached" || !c.closed(patience) {
		t.Errorf("the fourth client: %s %v", v, err)
	}
}
