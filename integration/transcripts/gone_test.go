package transcripts

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// waiting is a command in which a client waits for what nobody has sent yet.
type waiting struct {
	name    string
	words   string // KEY stands for a key of its own
	prepare string
	push    string // what it has waited for
	check   string
	left    string // the answer to check if nothing was taken
}

var waitings = []waiting{
	{"BLPOP", "BLPOP KEY 0", "", "RPUSH KEY x", "LLEN KEY", "(integer) 1"},
	{"BLPOP with a time-out", "BLPOP KEY 600", "", "RPUSH KEY x", "LLEN KEY", "(integer) 1"},
	{"BRPOP", "BRPOP KEY 0", "", "RPUSH KEY x", "LLEN KEY", "(integer) 1"},
	{"BRPOPLPUSH", "BRPOPLPUSH KEY KEY:to 0", "", "RPUSH KEY x", "LLEN KEY", "(integer) 1"},
	{"BLMOVE", "BLMOVE KEY KEY:to LEFT LEFT 0", "", "RPUSH KEY x", "LLEN KEY", "(integer) 1"},
	{"BLMPOP", "BLMPOP 0 1 KEY LEFT", "", "RPUSH KEY x", "LLEN KEY", "(integer) 1"},
	{"BZPOPMIN", "BZPOPMIN KEY 0", "", "ZADD KEY 1 x", "ZCARD KEY", "(integer) 1"},
	{"BZPOPMAX", "BZPOPMAX KEY 0", "", "ZADD KEY 1 x", "ZCARD KEY", "(integer) 1"},
	{"BZMPOP", "BZMPOP 0 1 KEY MIN", "", "ZADD KEY 1 x", "ZCARD KEY", "(integer) 1"},
	{"XREAD", "XREAD BLOCK 0 STREAMS KEY 0", "", "XADD KEY 1-1 f v", "XLEN KEY", "(integer) 1"},
	{"XREADGROUP", "XREADGROUP GROUP g c BLOCK 0 STREAMS KEY >", "XGROUP CREATE KEY g $ MKSTREAM",
		"XADD KEY 1-1 f v", "XPENDING KEY g", "[(integer) 0, (nil), (nil), (nil)]"},
	{"WAIT", "WAIT 9 0", "", "SET KEY x", "STRLEN KEY", "(integer) 1"},
	{"WAITAOF", "WAITAOF 0 9 0", "", "SET KEY x", "STRLEN KEY", "(integer) 1"},
}

// lockWaits are such commands that only the proxy has.
var lockWaits = []waiting{
	{"LOCK", "LOCK KEY WAIT 600000", "LOCK KEY TOKEN holder PX 600000", "UNLOCK KEY holder",
		"LOCK KEY TOKEN next PX 600000", "next"},
	{"LOCK with NOTIFY", "LOCK KEY TOKEN t WAIT 600000 NOTIFY KEY:news", "LOCK KEY TOKEN holder PX 600000",
		"UNLOCK KEY holder", "LOCK KEY TOKEN next PX 600000", "next"},
}

// runs is how the command is sent for key.
func (w waiting) runs(words, key string) []string {
	return strings.Fields(strings.ReplaceAll(words, "KEY", key))
}

func (w waiting) locks() bool { return w.left == "next" }

// goneTarget is a server, or a proxy, that clients leave.
type goneTarget struct {
	name  string
	dial  func() (net.Conn, error)
	nodes []func() (net.Conn, error) // that it blocks at
	locks bool
}

// client is a connection to it for the test itself.
func (g *goneTarget) client(t *testing.T) *rig.Conn { return rigConn(t, g.dial) }

func rigConn(t *testing.T, dial func() (net.Conn, error)) *rig.Conn {
	t.Helper()
	nc, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return rig.NewConn(nc)
}

func plainly(addr string) func() (net.Conn, error) {
	return func() (net.Conn, error) { return net.Dial("tcp", addr) }
}

// goneTargets are a Redis, and proxies before one, before a cluster, and with TLS on both sides.
func goneTargets(t *testing.T) []*goneTarget {
	limit := []string{"--client-output-buffer-limit", "pubsub 1mb 0 0"}
	overOne := func(args ...string) string { // a handshake of TLS may take long on a busy machine
		args = append(args, "--upstream-connect-timeout", "1m")
		return rig.StartProxy(t, slices.Concat(limit, args)...).Addr
	}

	bare := rig.StartRedis(t, append(limit[:1:1], strings.Fields(limit[1])...)...).Addr
	one := rig.StartRedis(t).Addr
	cluster := rig.StartCluster(t, 3, 0)
	var nodes []func() (net.Conn, error)
	for _, n := range cluster.Nodes {
		nodes = append(nodes, plainly(n.Addr))
	}

	a := rig.NewAuthority(t)
	a.Issue(t, "server", rig.LoopbackIP)
	a.Issue(t, "client", nil)
	pool := x509.NewCertPool()
	pool.AddCert(a.Cert)
	pair, err := tls.LoadX509KeyPair(a.File("client.crt"), a.File("client.key"))
	if err != nil {
		t.Fatal(err)
	}
	secretly := func(addr string) func() (net.Conn, error) {
		return func() (net.Conn, error) {
			return tls.Dial("tcp", addr, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}})
		}
	}
	secret := rig.LaunchTLSRedis(t, a)
	return []*goneTarget{
		{"Redis", plainly(bare), []func() (net.Conn, error){plainly(bare)}, false},
		{"single", plainly(overOne("--upstream", one)), []func() (net.Conn, error){plainly(one)}, true},
		{"cluster", plainly(overOne("--upstream", cluster.Addrs())), nodes, true},
		{"TLS", secretly(overOne("--upstream", secret, "--upstream-tls", "yes", "--upstream-tls-ca",
			a.File("ca.crt"), "--upstream-tls-cert", a.File("client.crt"), "--upstream-tls-key",
			a.File("client.key"), "--tls-cert", a.File("server.crt"), "--tls-key", a.File("server.key"),
			"--tls-ca", a.File("ca.crt"))), []func() (net.Conn, error){secretly(secret)}, true},
	}
}

// tcp is the connection below TLS.
func tcp(nc net.Conn) *net.TCPConn {
	if over, ok := nc.(*tls.Conn); ok {
		return over.NetConn().(*net.TCPConn)
	}
	return nc.(*net.TCPConn)
}

// waysToGo are those of clients.
var waysToGo = map[string]func(t *testing.T, ctl *rig.Conn, c net.Conn){
	"closes": func(_ *testing.T, _ *rig.Conn, c net.Conn) { c.Close() },
	"ends its side": func(t *testing.T, _ *rig.Conn, c net.Conn) {
		if over, ok := c.(*tls.Conn); ok {
			over.CloseWrite()
		}
		tcp(c).CloseWrite()
	},
	"is reset": func(_ *testing.T, _ *rig.Conn, c net.Conn) {
		tcp(c).SetLinger(0)
		tcp(c).Close()
	},
	"is killed": func(t *testing.T, ctl *rig.Conn, c net.Conn) {
		ctl.Must(t, "CLIENT", "KILL", "ADDR", c.LocalAddr().String())
	},
	"does not read": func(t *testing.T, ctl *rig.Conn, c net.Conn) {
		for message := strings.Repeat("x", 1<<20); ; {
			if ctl.Must(t, "PUBLISH", c.LocalAddr().String(), message).Int() == 0 {
				return
			}
		}
	},
}

// TestNothingIsTakenForWhoeverHasGone: a client that waits in a command, and goes, leaves no wait at a node,
// however it goes. What it has sent behind the command, whatever it is, does not run. So it is at Redis.
func TestNothingIsTakenForWhoeverHasGone(t *testing.T) {
	t.Parallel()
	const much = 300_000
	long := fmt.Sprintf("*3\r\n$3\r\nSET\r\n$5\r\nafter\r\n$%d\r\n%s\r\n", much, strings.Repeat("x", much))
	behinds := map[string]string{
		"nothing": "", "one": "SET after x\r\n", "many": strings.Repeat("SET after x\r\n", much/12),
		"a long one": long, "a part": long[:2*much/3],
	}
	for _, g := range goneTargets(t) {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			for way := range waysToGo {
				for behind, bytes := range behinds {
					if way == "does not read" && behind != "a long one" {
						continue
					}
					t.Run(way+" behind "+behind, func(t *testing.T) { g.clientsGo(t, way, bytes, false) })
					if way == "closes" || way == "ends its side" {
						t.Run(way+" at once behind "+behind,
							func(t *testing.T) { g.clientsGo(t, way, bytes, true) })
					}
				}
			}
		})
	}
}

// clientsGo has a client wait in each command, and all of them go. With atOnce they do not wait first.
func (g *goneTarget) clientsGo(t *testing.T, way, behind string, atOnce bool) {
	ctl := g.client(t)
	all := waitings
	if g.locks {
		all = slices.Concat(all, lockWaits)
	}
	all = slices.DeleteFunc(slices.Clone(all), func(w waiting) bool {
		return ctl.Must(t, "COMMAND", "INFO", strings.Fields(w.words)[0]).Elems[0].Null
	})
	clients := make(map[string]*rig.Conn)
	key := func(w waiting) string { return "{" + strings.ReplaceAll(t.Name()+w.name, " ", "_") + "}" }
	ctl.Must(t, "DEL", "after")
	for _, w := range all {
		if w.prepare != "" {
			ctl.Must(t, w.runs(w.prepare, key(w))...)
		}
		c := g.client(t)
		clients[w.name] = c
		if way == "does not read" {
			c.Must(t, "HELLO", "3")
			c.Must(t, "SUBSCRIBE", c.LocalAddr().String())
		}
		text := string(rig.Encode(w.runs(w.words, key(w))...))
		if w.locks() { // what comes behind it may run
			text += strings.ReplaceAll(behind, "after", "other")
		} else {
			text += behind
		}
		c.SetDeadline(time.Now().Add(rig.Patience))
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatalf("%s: %v", w.name, err)
		}
	}
	if !atOnce {
		waitBlocked(t, ctl, len(all))
	}
	for _, c := range clients {
		waysToGo[way](t, ctl, c.Conn)
	}
	for _, w := range all {
		if way != "ends its side" || w.locks() {
			continue
		}
		got, err := io.ReadAll(clients[w.name].Reader)
		lost := strings.HasPrefix(string(got), "-UNBLOCKED the node that was asked") // meanwhile, or slow
		if len(got) > 0 && !lost || err != nil {
			t.Errorf("%s: it is told %q, %v", w.name, got, err)
		}
	}
	addrs := make(map[string]bool)
	for _, c := range clients {
		addrs[c.LocalAddr().String()] = true
	}
	rig.Eventually(t, rig.Patience, "all are gone", func() bool {
		return !slices.ContainsFunc(rig.LinesOf(ctl.Must(t, "CLIENT", "LIST").Text), func(line string) bool {
			return addrs[rig.LineField(line, "addr")]
		})
	})
	waitBlocked(t, ctl, 0)
	for _, node := range g.nodes {
		waitBlocked(t, rigConn(t, node), 0)
	}
	for _, w := range all {
		if w.locks() {
			rig.Eventually(t, rig.Patience, w.name+": nobody waits for the lock", func() bool {
				return ctl.Must(t, "LOCKCTL", "INFO", key(w)).Field("waiters").Int() == 0
			})
		}
		ctl.Must(t, w.runs(w.push, key(w))...)
		got := ctl.Must(t, w.runs(w.check, key(w))...)
		if w.locks() {
			if len(got.Elems) != 4 || got.Elems[0].Text != "next" {
				t.Errorf("%s: the lock is not free: %s", w.name, got)
			}
		} else if got.String() != w.left {
			t.Errorf("%s: %s is %s, want %s", w.name, w.check, got, w.left)
		}
	}
	ctl.Want(t, "(integer) 0", "EXISTS", "after")
}

// TestHalfClosedClient: what was sent before the end of the input is answered as Redis does. Nobody waits any
// more, and nothing runs behind a command that would have to.
func TestHalfClosedClient(t *testing.T) {
	t.Parallel()
	targets := []string{rig.StartRedis(t).Addr, rig.SharedOverRedis().Addr, rig.SharedOverCluster().Addr}
	for i, lines := range []string{
		"BLPOP KEY 0\r\nSET KEY 1\r\n",
		"BLPOP KEY 1\r\nSET KEY 1\r\n",
		"BLPOP KEY what\r\nSET KEY 1\r\n",
		"SET KEY 1\r\nBLPOP KEY:2 0\r\nSET KEY 2\r\n",
		"RPUSH KEY a b\r\nBLPOP KEY 0\r\nBLPOP KEY 0\r\nPING\r\nBLPOP KEY 0\r\nSET KEY 1\r\n",
		"XADD KEY 1-1 f v\r\nXREAD BLOCK 0 STREAMS KEY 0\r\nXREAD BLOCK 0 STREAMS KEY $\r\nDEL KEY\r\n",
		"SET KEY 1\r\nWAIT 0 0\r\nPING\r\nWAIT 9 0\r\nSET KEY 2\r\n",
		"SUBSCRIBE KEY\r\n",
		"SUBSCRIBE KEY\r\nUNSUBSCRIBE\r\nSET KEY 1\r\nQUIT\r\n",
	} {
		key := fmt.Sprint("half:", targets[0], ":", i)
		var all []string
		for _, addr := range targets {
			c := rig.Connect(t, addr)
			c.SetDeadline(time.Now().Add(rig.Patience))
			io.WriteString(c, strings.ReplaceAll(lines, "KEY", "{"+key+"}"))
			c.Conn.(*net.TCPConn).CloseWrite()
			got, err := io.ReadAll(c.Reader)
			if err != nil {
				t.Errorf("%q: %v behind %q", lines, err, got)
			}
			left := rig.Connect(t, addr)
			all = append(all, fmt.Sprintf("%q, and %s %s", got, left.Must(t, "TYPE", "{"+key+"}"),
				left.Call(t, "GET", "{"+key+"}")))
		}
		for i, got := range all {
			if got != all[0] {
				t.Errorf("%q: %s, Redis says %s", lines, all[i], all[0])
			}
		}
	}
}
