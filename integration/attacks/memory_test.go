package attacks

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// attack is what clients do to take the memory of the proxy. Each client is a connection that sends what
// write writes and reads nothing.
type attack struct {
	name    string
	args    []string // settings of the proxy
	clients int      // for each 8 MB that clients may take
	size    int
	closes  bool // it is more than may be, so somebody must be closed
	write   func(c io.Writer, i, size int) error

	long, longer int // clients and size with -long
}

func write(c io.Writer, parts ...string) error {
	_, err := io.WriteString(c, strings.Join(parts, ""))
	return err
}

// bulk is text as an argument.
func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

var attacks = []attack{
	{name: "halves of a 500 MB command", closes: true, clients: 40, size: 512 << 10,
		long: 10000, longer: 512 << 10,
		write: func(c io.Writer, _, size int) error {
			return write(c, "*2\r\n$3\r\nGET\r\n$500000000\r\n", strings.Repeat("x", size))
		}},
	{name: "large replies that nobody reads", closes: true, clients: 2, size: 100, long: 50, longer: 1000,
		write: func(c io.Writer, _, size int) error { return write(c, strings.Repeat("GET big\r\n", size)) }},
	{name: "transactions", closes: true, clients: 3, size: 20, long: 100, longer: 100,
		write: func(c io.Writer, _, size int) error {
			long := "*3\r\n" + bulk("SET") + bulk("k") + bulk(strings.Repeat("x", 1<<20))
			err := write(c, "MULTI\r\n")
			for i := 0; i < size && err == nil; i++ {
				err = write(c, long)
			}
			return err
		}},
	{name: "channels", closes: true, clients: 1, size: 50_000, long: 10, longer: 100_000,
		write: func(c io.Writer, i, size int) error {
			for from := 0; from < size; from += 1000 {
				var b strings.Builder
				fmt.Fprintf(&b, "*1001\r\n%s", bulk("SUBSCRIBE"))
				for n := range 1000 {
					b.WriteString(bulk(fmt.Sprintf("channel-%d-%d", i, from+n)))
				}
				if err := write(c, b.String()); err != nil {
					return err
				}
			}
			return nil
		}},
	{name: "scripts", clients: 1, size: 20, long: 10, longer: 100,
		write: func(c io.Writer, i, size int) error {
			for n := range size {
				source := fmt.Sprintf("return %d -- %d %s", n, i, strings.Repeat("x", 1<<20-100))
				if err := write(c, "*3\r\n", bulk("SCRIPT"), bulk("LOAD"), bulk(source)); err != nil {
					return err
				}
			}
			return nil
		}},
	{name: "a script of many megabytes", closes: true, clients: 1, size: 20 << 20, long: 4, longer: 100 << 20,
		write: func(c io.Writer, _, size int) error {
			return write(c, "*3\r\n", bulk("EVAL"), bulk("return 1 --"+strings.Repeat("x", size)), bulk("0"))
		}},
	{name: "before AUTH", clients: 25, size: 1 << 20, long: 5000, longer: 1 << 20,
		args:  []string{"--requirepass", "secret"},
		write: func(c io.Writer, _, size int) error { return write(c, strings.Repeat("X\r\n", size/3)) }},
}

// However clients try to take memory, what they take stays below maxmemory-clients by the proxy's own
// account, those who take most are closed, and others are served. What the process takes TestLimitMemory
// looks at.
func TestMemoryAttacks(t *testing.T) {
	const budget = 8 << 20
	upstream := startBig(t, 1<<20)
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			p, end := a.begin(t, upstream, budget, a.clients, a.size)
			defer end()
			rig.Eventually(t, rig.Patience, "somebody is closed", func() bool {
				return !a.closes || p.Metric(t, "lockproxy_clients_evicted_total") > 0
			})
			rig.Eventually(t, rig.Patience, "they take no more than they may", func() bool {
				return p.Metric(t, "lockproxy_clients_memory_bytes") <= budget
			})
			a.serves(t, p)
		})
	}
}

// startBig starts a Redis with a value of so many bytes.
func startBig(t *testing.T, size int) (addr string) {
	t.Helper()
	upstream := rig.StartRedis(t)
	rig.Connect(t, upstream.Addr).Want(t, "OK", "SET", "big", strings.Repeat("x", size))
	return upstream.Addr
}

// begin starts a proxy whose clients may take budget, and the attack, which goes on until end is called.
func (a *attack) begin(t *testing.T, upstream string, budget, clients, size int) (p *rig.Proxy, end func()) {
	t.Helper()
	args := append([]string{"--upstream", upstream, "--maxmemory-clients", fmt.Sprint(budget)}, a.args...)
	p = rig.StartProxy(t, args...)
	var senders sync.WaitGroup
	var all []net.Conn
	gate := make(chan struct{}, 64) // so many send at a time
	for i := range clients {
		c, err := net.DialTimeout("tcp", p.Addr, rig.Patience)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
		senders.Go(func() { // ends with the connection
			gate <- struct{}{}
			defer func() { <-gate }()
			a.write(pieces{c}, i, size) // which may fail: it may be closed, or not read from
		})
	}
	return p, func() {
		for _, c := range all {
			c.Close()
		}
		senders.Wait()
	}
}

// serves proves that another client is answered.
func (a *attack) serves(t *testing.T, p *rig.Proxy) {
	t.Helper()
	c := rig.Connect(t, p.Addr)
	want := "+PONG\r\n"
	if len(a.args) > 0 && a.args[0] == "--requirepass" {
		want = "+OK\r\n"
		write(c, "AUTH secret\r\n")
	} else {
		write(c, "PING\r\n")
	}
	// its turn comes after one of each attacker, whose input is long
	c.SetReadDeadline(time.Now().Add(4 * rig.Patience))
	if line, err := c.Reader.ReadString('\n'); line != want {
		t.Errorf("another client got %q (%v)", line, err)
	}
}

// pieces writes to a connection in pieces, as long as each is taken within some seconds.
type pieces struct{ net.Conn }

func (p pieces) Write(b []byte) (n int, err error) {
	for err == nil && n < len(b) {
		p.SetWriteDeadline(time.Now().Add(10 * time.Second))
		var m int
		m, err = p.Conn.Write(b[n:min(len(b), n+64<<10)])
		n += m
	}
	return n, err
}
