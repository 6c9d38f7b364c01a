package attacks

import (
	"bytes"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/rig"
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

// The guard. What Redis refuses is refused alike, also before AUTH, and
// nobody else notices.
func TestHostileBytes(t *testing.T) {
	for _, password := range []string{"", "secret"} {
		t.Run("requirepass "+password, func(t *testing.T) {
			t.Parallel()
			upstream := rig.StartRedis(t)
			bare := rig.StartRedis(t, "--requirepass", password)
			p := rig.StartProxy(t, "--upstream", upstream.Addr, "--requirepass", password)
			canary := rig.Watch(t, p, password)
			probe := func(name, send string, piece int, check func(send []byte, piece int) error) {
				if err := check([]byte(send), piece); err != nil {
					t.Errorf("%s, %d bytes at a time: %v", name, piece, err)
				}
			}
			same := func(send []byte, piece int) error {
				return sameAnswer(bare.Addr, p.Addr, password != "", send,
					piece)
			}
			closes := func(send []byte, piece int) error {
				got, closed, err := hear(p.Addr, send, piece, rig.Patience)
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

// sameAnswer compares all that is said. A busy machine may say it late: then both are listened to for longer.
func sameAnswer(bare, through string, noauth bool, send []byte, piece int) (err error) {
	for quiet := time.Second; quiet < 2*rig.Patience; quiet *= 3 {
		if err = sameAnswerWithin(quiet, bare, through, noauth, send, piece); err == nil {
			return nil
		}
	}
	return err
}

func sameAnswerWithin(quiet time.Duration, bare, through string, noauth bool, send []byte, piece int) error {
	want, wantClosed, err := hear(bare, send, piece, quiet)
	if err != nil {
		return err
	}
	if noauth { // before AUTH the proxy does not say which commands there are
		want = unknown.ReplaceAll(want, []byte("-NOAUTH Authentication required.\r\n"))
	}
	got, gotClosed, err := hear(through, send, piece, quiet)
	if err != nil || !bytes.Equal(got, want) || gotClosed != wantClosed {
		return fmt.Errorf("%v\n got %.300q, closed %v\nwant %.300q, closed %v", err, got, gotClosed, want,
			wantClosed)
	}
	return nil
}

// A browser that was tricked into talking to the port says POST or Host:. Redis
// closes on these two words, so they must never reach a shared connection to it.
func TestCrossProtocolScripting(t *testing.T) {
	t.Parallel()
	p := rig.StartProxy(t, "--upstream", rig.StartRedis(t).Addr, "--loops", "1")
	rig.Connect(t, p.Addr).Must(t, "SET", "warm", "1")
	canary := rig.Watch(t, p, "")
	before := p.Metric(t, "lockproxy_node_connects_total")
	for _, send := range []string{
		"POST / HTTP/1.1\r\nHost: example.com\r\n\r\nSET http 1\r\n",
		"GET / HTTP/1.1\r\nHost: example.com\r\n\r\nSET http 1\r\n",
		string(rig.Encode("post", "x")) + string(rig.Encode("SET", "http", "1")),
		string(rig.Encode("HOST:", "x")) + string(rig.Encode("SET", "http", "1")),
	} {
		if heard, closed, err := hear(p.Addr, []byte(send), 1<<20, rig.Patience); err != nil || !closed {
			t.Errorf("%q: not closed: %q %v", send, heard, err)
		}
	}
	rig.Connect(t, p.Addr).Want(t, "(nil)", "GET", "http")
	canary()
	if after := p.Metric(t, "lockproxy_node_connects_total"); after != before {
		t.Errorf("connections to the upstream: %v made before, %v after: some were closed", before, after)
	}
}

// Half a command of each of many connections takes no more memory than what has come of it.
func TestHalfOpenCommands(t *testing.T) {
	for _, password := range []string{"", "secret"} {
		t.Run("requirepass "+password, func(t *testing.T) {
			t.Parallel()
			p := rig.StartProxy(t, "--upstream", rig.SharedRedis().Addr, "--requirepass", password)
			canary := rig.Watch(t, p, password)
			before, objects := p.Usage(t), allocated(t, p)
			conns := openHalves(t, p, rig.Dose(500, 8000))
			// what a client takes that has said nothing yet, and more for reading the metrics
			if each := (allocated(t, p) - objects) / len(conns); each > 64<<10 {
				t.Errorf("%d half-open commands: %d bytes were allocated for each", len(conns), each)
			} else {
				t.Logf("%d bytes were allocated for each", each)
			}
			for _, c := range conns {
				c.Close()
			}
			canary()
			p.ReturnsTo(t, before)
		})
	}
}

// openHalves opens n connections, each of which sends half a command.
func openHalves(t *testing.T, p *rig.Proxy, n int) (conns []net.Conn) {
	t.Helper()
	halves := []string{"*2\r\n$3\r\nGET\r\n$536870912\r\n", "*1048576\r\n", "*2\r\n$4\r\nECHO\r\n$10", "*",
		"inline without end"}
	for i := range n {
		c, err := rig.Dial(p.Addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		conns = append(conns, c)
		c.Write([]byte(halves[i%len(halves)]))
	}
	rig.Eventually(t, rig.Patience, "all are connected or were refused", func() bool {
		return p.Metric(t, "lockproxy_clients_accepted_total") >= float64(n)
	})
	return conns
}

// allocated is how many bytes the proxy has allocated since it started.
func allocated(t *testing.T, p *rig.Proxy) int {
	t.Helper()
	return int(p.Metric(t, "go_memstats_alloc_bytes_total"))
}

// What has come of a command is not copied for each byte that comes.
func TestDrippedBytes(t *testing.T) {
	t.Parallel()
	p := rig.StartProxy(t, "--upstream", rig.SharedRedis().Addr)
	canary := rig.Watch(t, p, "")
	before, drips := allocated(t, p), rig.Dose(20_000, 1_000_000)
	drip(t, p, drips)
	if n := allocated(t, p) - before; n > 20<<20+drips*100 {
		t.Errorf("%d bytes were allocated for %d dripped ones", n, drips)
	} else {
		t.Logf("%d bytes were allocated for %d dripped ones", n, drips)
	}
	canary()
}

// drip sets a key to a value whose bytes come one at a time.
func drip(t *testing.T, p *rig.Proxy, drips int) {
	t.Helper()
	c := rig.Connect(t, p.Addr)
	c.Conn.(*net.TCPConn).SetNoDelay(true)
	fmt.Fprintf(c, "*3\r\n$3\r\nSET\r\n$7\r\ndripped\r\n$%d\r\n", drips)
	for range drips {
		if _, err := c.Write([]byte{'d'}); err != nil {
			t.Fatal(err)
		}
	}
	c.Write([]byte("\r\n"))
	if v, err := c.Receive(rig.Patience); err != nil || v.Text != "OK" {
		t.Errorf("SET of %d dripped bytes: %s %v", drips, v, err)
	}
	c.Want(t, fmt.Sprintf("(integer) %d", drips), "STRLEN", "dripped")
}

// Random bytes and damaged commands, from many connections at once.
func TestNoise(t *testing.T) {
	t.Parallel()
	p := rig.StartProxy(t, "--upstream", rig.SharedCluster().Addrs())
	canary := rig.Watch(t, p, "")
	good := append(rig.Encode("SET", "noise", strings.Repeat("v", 300)),
		rig.Encode("LOCK", "noise", "PX", "10")...)
	for i := range rig.Dose(300, 20000) {
		c, err := rig.Dial(p.Addr)
		if err != nil {
			t.Fatal(err)
		}
		bad := bytes.Repeat(good, 3)
		for j := range 1 + i%5 {
			bad[(i*7919+j*104729)%len(bad)] ^= byte(1 + (i*31+j*17)%255)
		}
		c.Write(bad)
		if i%3 == 0 {
			c.SetReadDeadline(time.Now().Add(20 * time.Millisecond)) //house:brief an answer or none
			c.Reader.ReadByte()
		}
		c.Close()
	}
	canary()
	if _, err := rig.Ask(p.Addr, "PING"); err != nil {
		t.Error(err)
	}
	// its damaged SETs may have had any key; the lock must be free again
	rig.Eventually(t, rig.Patience, "lock free", func() bool {
		v, err := rig.Ask(p.Addr, "LOCKCTL", "INFO", "noise")
		return err == nil && v.Field("state").Text == "free"
	})
}

// maxclients turns clients away as Redis does.
func TestMaxClients(t *testing.T) {
	t.Parallel()
	p := rig.StartProxy(t, "--upstream", rig.SharedRedis().Addr, "--maxclients", "3")
	for range 3 {
		rig.Connect(t, p.Addr).Must(t, "PING")
	}
	c := rig.Connect(t, p.Addr)
	if v, err := c.Receive(rig.Patience); err != nil ||
		v.String() != "(error) ERR max number of clients reached" || !c.Closed(rig.Patience) {
		t.Errorf("the fourth client: %s %v", v, err)
	}
}

// hear sends bytes in pieces and returns what comes back until all is sent and nothing has come for so long,
// and whether the other side closed.
func hear(addr string, send []byte, piece int, quiet time.Duration) (heard []byte, closed bool, err error) {
	c, err := rig.Dial(addr)
	if err != nil {
		return nil, false, err
	}
	defer c.Close()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
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
	buf := make([]byte, 1<<16)
	for {
		over := false // all had been sent before
		select {
		case <-sent:
			over = true
		default:
		}
		c.SetReadDeadline(time.Now().Add(quiet))
		n, err := c.Reader.Read(buf)
		heard = append(heard, buf[:n]...)
		if err != nil && (over || !rig.IsTimeout(err)) {
			return heard, !rig.IsTimeout(err), nil
		}
	}
}
