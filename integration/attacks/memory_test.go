package attacks

import (
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// attack is what clients do to take the memory of the proxy. Each client is a connection that sends what
// write writes and reads nothing; n and size are how many and how large, with -long and without.
type attack struct {
	name          string
	args          []string // settings of the proxy
	clients, long int
	size, longer  int
	closes        bool // it is more than may be, so somebody must be closed
	write         func(c io.Writer, i, size int) error
}

// attackBudget is maxmemory-clients of the proxies under attack.
const attackBudget = 64 << 20

// attackSlack is how much memory the process may take up beside twice the budget, for garbage grows as large
// as what is in use: the program and its tables, buffers of loops, what is read before somebody is closed,
// and up to two replies more.
const attackSlack = 192 << 20

// attackEach is what a connection takes up for a moment before anything can be done about it.
const attackEach = 16 << 10

func write(c io.Writer, parts ...string) error {
	_, err := io.WriteString(c, strings.Join(parts, ""))
	return err
}

// bulk is text as an argument.
func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

var attacks = []attack{
	{name: "halves of a 500 MB command", closes: true, clients: 300, long: 10000, size: 512 << 10,
		longer: 512 << 10,
		write: func(c io.Writer, _, size int) error {
			return write(c, "*2\r\n$3\r\nGET\r\n$500000000\r\n", strings.Repeat("x", size))
		}},
	{name: "large replies that nobody reads", closes: true, clients: 8, long: 50, size: 100, longer: 1000,
		write: func(c io.Writer, _, size int) error { return write(c, strings.Repeat("GET big\r\n", size)) }},
	{name: "transactions", closes: true, clients: 20, long: 100, size: 20, longer: 100,
		write: func(c io.Writer, _, size int) error {
			long := "*3\r\n" + bulk("SET") + bulk("k") + bulk(strings.Repeat("x", 1<<20))
			err := write(c, "MULTI\r\n")
			for i := 0; i < size && err == nil; i++ {
				err = write(c, long)
			}
			return err
		}},
	{name: "channels", clients: 4, long: 10, size: 50_000, longer: 100_000,
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
	{name: "scripts", clients: 4, long: 10, size: 20, longer: 100,
		write: func(c io.Writer, i, size int) error {
			for n := range size {
				source := fmt.Sprintf("return %d -- %d %s", n, i, strings.Repeat("x", 1<<20-100))
				if err := write(c, "*3\r\n", bulk("SCRIPT"), bulk("LOAD"), bulk(source)); err != nil {
					return err
				}
			}
			return nil
		}},
	{name: "a script of many megabytes", clients: 4, long: 4, size: 20 << 20, longer: 100 << 20,
		write: func(c io.Writer, _, size int) error {
			return write(c, "*3\r\n", bulk("EVAL"), bulk("return 1 --"+strings.Repeat("x", size)), bulk("0"))
		}},
	{name: "before AUTH", clients: 200, long: 5000, size: 1 << 20, longer: 1 << 20,
		args:  []string{"--requirepass", "secret"},
		write: func(c io.Writer, _, size int) error { return write(c, strings.Repeat("X\r\n", size/3)) }},
}

// However clients try to take memory, the process stays near maxmemory-clients, and serves others. With -long
// the doses are those of an attack in earnest. The peaks are logged.
func TestMemoryAttacks(t *testing.T) {
	upstream := rig.StartRedis(t)
	direct := rig.Connect(t, upstream.Addr)
	if _, err := direct.Do("SET", "big", strings.Repeat("x", 8<<20)); err != nil {
		t.Fatal(err)
	}
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) { a.run(t, upstream.Addr) })
	}
}

func (a *attack) run(t *testing.T, upstream string) {
	args := append([]string{"--upstream", upstream, "--maxmemory-clients", fmt.Sprint(attackBudget)},
		a.args...)
	p := rig.StartBinary(t, rig.LeanBinary(t), args...)
	before := peak(t, p)
	clients, size := a.clients, a.size
	if *rig.Long {
		clients, size = a.long, a.longer
	}
	var senders sync.WaitGroup
	var all []net.Conn
	gate := make(chan struct{}, 64) // so many send at a time
	for i := range clients {
		c, err := net.DialTimeout("tcp", p.Addr, rig.Patience)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
		senders.Add(1)
		go func() { // ends with a deadline
			defer senders.Done()
			gate <- struct{}{}
			defer func() { <-gate }()
			a.write(pieces{c}, i, size) // which may fail: it may be closed, or not read from
		}()
	}
	senders.Wait()
	most := 2*attackBudget + attackSlack + clients*attackEach
	peak := settled(t, p, a.closes, most)
	t.Logf("%d clients: %d MB before, peak %d MB, %.0f clients closed", clients, before>>20, peak>>20,
		p.Metric(t, "lockproxy_clients_evicted_total"))
	if peak > most {
		t.Errorf("%d MB of memory, more than %d MB", peak>>20, most>>20)
	}
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
	for _, c := range all {
		c.Close()
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

// settled is the peak once it has not grown by a megabyte for a while, and once a client was closed if one
// must be; or more than limit. A busy machine takes long to get there.
func settled(t *testing.T, p *rig.Proxy, closes bool, limit int) (most int) {
	t.Helper()
	for since := time.Now(); most <= limit; time.Sleep(50 * time.Millisecond) {
		if now := peak(t, p); now > most+1<<20 {
			most, since = now, time.Now()
		}
		silent := time.Since(since)
		if silent > 2*time.Second && (!closes || p.Metric(t, "lockproxy_clients_evicted_total") > 0) {
			break
		}
		if silent > 2*rig.Patience {
			t.Error("nobody was closed")
			break
		}
	}
	return max(most, peak(t, p))
}

// peak is the most memory that the process has had, in bytes.
func peak(t *testing.T, p *rig.Proxy) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("no VmHWM in %s", text)
	}
	n, _ := strconv.Atoi(string(found[1]))
	return n << 10
}
