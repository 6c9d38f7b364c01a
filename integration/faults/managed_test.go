package faults

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// taken is what a managed service takes away, and what becomes of that.
type taken struct {
	what  string   // rules of the proxy's user, behind +@all; or names of commands that the server has not
	told  []string // what the proxy says at its start that it lacks
	lacks string   // part of the session that fails for it
}

// byRules are the commands that managed services forbid by their ACL, each in turn, and mixtures of them.
var byRules = []taken{
	{"", nil, ""},
	{"-config", []string{"config|get"}, ""},
	{"-info", []string{"info"}, ""},
	{"-client|kill", []string{"client|kill"}, ""},
	{"-client", []string{"client|info", "client|kill", "client|list", "client|id", "client|unblock"}, ""},
	{"-wait", []string{"wait"}, ""},
	{"-script", []string{"script|exists", "script|load"}, ""},
	{"-acl", nil, ""},
	{"-command|info -command|docs", nil, ""},
	{"-cluster|slots -cluster|myid", []string{"cluster|slots"}, ""},
	{"-monitor -slowlog -latency -memory -replicaof -slaveof -debug -save -bgsave -shutdown -migrate",
		nil, ""},
	{"-cluster|nodes -cluster|info -cluster|shards", []string{"cluster|info", "cluster|nodes"}, ""},
	{"-publish -spublish", []string{"publish", "spublish"}, "pubsub"},
	{"-subscribe -psubscribe -ssubscribe", []string{"subscribe", "ssubscribe"}, "pubsub"},
	{"-@admin", []string{"config|get", "client|kill", "client|list", "client|unblock"}, ""},
	{"-@admin -@dangerous",
		[]string{"info", "config|get", "client|kill", "client|list", "client|unblock"}, ""},
	{"-evalsha", []string{"evalsha"}, "locks"},
	{"-time", []string{"time"}, "locks"},
}

// byName are those that they leave out with rename-command.
var byName = []taken{
	{"config", []string{"config|get"}, ""},
	{"info", []string{"info"}, ""},
	{"client", []string{"client|info", "client|kill", "client|list", "client|id", "client|unblock"}, ""},
	{"wait", []string{"wait"}, ""},
	{"script", []string{"script|exists", "script|load"}, ""},
	{"evalsha", []string{"evalsha"}, "locks"},
	{"time", []string{"time"}, "locks"},
	{"config acl monitor slowlog latency memory replicaof debug keys flushall", []string{"config|get"}, ""},
}

// An upstream that lacks what managed services take away is served, and the proxy says at its start what it
// cannot do therefore. Each kind of upstream has a part of the commands, with -long all of them.
func TestManagedServices(t *testing.T) {
	t.Parallel()
	for i, on := range []string{"redis7 single", "valkey9 cluster", "valkey9 single", "redis7 cluster"} {
		t.Run(on, func(t *testing.T) {
			t.Parallel()
			product, kind, _ := strings.Cut(on, " ")
			start := func(args ...string) []*rig.Server {
				if kind == "single" {
					return []*rig.Server{rig.StartRedis(rig.On(t, product), args...)}
				}
				return rig.StartCluster(rig.On(t, product), 3, 0, args...).Nodes
			}
			nodes := start()
			for k, c := range byRules {
				if *rig.Long || k%4 == i {
					t.Run(c.what, func(t *testing.T) { c.byRules(t, nodes) })
				}
			}
			for k, c := range byName {
				if kind == "single" && (*rig.Long || k%2 == i/2) || kind == "cluster" && k == len(byName)-1 {
					t.Run("without "+c.what, func(t *testing.T) { c.byName(t, start) })
				}
			}
		})
	}
}

// byRules has the proxy be a user that may not run what is taken.
func (c *taken) byRules(t *testing.T, nodes []*rig.Server) {
	for _, n := range nodes {
		n.Do(t, append([]string{"ACL", "SETUSER", "proxy", "reset", "on", ">pw", "~*", "&*", "+@all"},
			strings.Fields(c.what)...)...)
		n.Do(t, "SCRIPT", "FLUSH")
		n.Do(t, "FLUSHALL")
	}
	c.serves(t, nodes, "--upstream-user", "proxy", "--upstream-password", "pw")
}

// byName has the servers not know what is taken.
func (c *taken) byName(t *testing.T, start func(args ...string) []*rig.Server) {
	var args []string
	for name := range strings.FieldsSeq(c.what) {
		args = append(args, "--rename-command", name, "")
	}
	c.serves(t, start(args...))
}

// serves starts a proxy and goes through what its clients do.
func (c *taken) serves(t *testing.T, nodes []*rig.Server, args ...string) {
	p := rig.StartProxy(t, append([]string{"--upstream", nodes[0].Addr}, args...)...)
	c.session(t, p, nodes)
	var want, got []string
	for _, right := range c.told {
		if len(nodes) > 1 || !strings.HasPrefix(right, "cluster") {
			want = append(want, right)
		}
	}
	rig.Eventually(t, rig.Patience, "the proxy says what it lacks", func() bool {
		got = nil // a slow master says it later
		for _, line := range lacking.FindAllStringSubmatch(p.Log.String(), -1) {
			got = append(got, line[1])
		}
		return len(got) >= len(want)
	})
	if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("the proxy says that it lacks %v, want %v\n%s", got, want, p.Log.Tail())
	}
}

// A proxy that may not ask for the commands of the upstream ends, and says why once.
func TestManagedServiceWithoutCommand(t *testing.T) {
	t.Parallel()
	for _, s := range []*rig.Server{
		rig.StartRedis(t, strings.Fields("--user default on nopass ~* &* +@all -command")...),
		rig.StartRedis(t, "--rename-command", "command", ""),
	} {
		p := rig.StartProcess(t, rig.Binary(t),
			"--upstream", s.Addr, "--listen", "127.0.0.1:0", "--admin", "off")
		if code := p.Wait(rig.Patience); code != 1 {
			t.Errorf("it ended with %d", code)
		}
		log := p.Log.String()
		if strings.Count(log, "level=ERROR") != 1 || strings.Contains(log, "level=WARN") ||
			!strings.Contains(log, "learns by COMMAND which arguments are keys") {
			t.Errorf("it says\n%s", log)
		}
	}
}

// Masters of RedLock that forbid SCRIPT and CLIENT are given the scripts with the requests.
func TestManagedMasters(t *testing.T) {
	t.Parallel()
	for _, m := range oldMasters() {
		m.Do(t, strings.Fields("ACL SETUSER proxy on >pw ~* &* +@all -script -client")...)
	}
	p := startOldRedlock(t, rig.SharedRedis().Addr, "--redlock-user", "proxy", "--redlock-password", "pw")
	c := rig.Connect(t, p.Addr)
	for range 2 {
		c.Must(t, "LOCK", "managed", "TOKEN", "t", "PX", "20000")
		c.Must(t, "RENEW", "managed", "t")
		c.Want(t, "(integer) 1", "UNLOCK", "managed", "t")
	}
}

// lacking is the line about a command that the upstream forbids.
var lacking = regexp.MustCompile(`msg="the upstream forbids a command that lockproxy needs" command=(\S+) ` +
	`without=".+" remedy="[^"]+" node=\S+ err="?\w+ `)

// session is what clients do.
func (c *taken) session(t *testing.T, p *rig.Proxy, nodes []*rig.Server) {
	t.Helper()
	a, b := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
	for i := range 30 {
		a.Want(t, "OK", "SET", fmt.Sprint("k", i), "v")
	}
	a.Want(t, `"v"`, "GET", "k7")
	if got := scanned(t, a); got != 30 {
		t.Errorf("SCAN found %d keys of 30", got)
	}
	a.Want(t, "OK", "MULTI")
	a.Want(t, "QUEUED", "SET", "k7", "w")
	a.Want(t, `[OK]`, "EXEC")
	three := rig.Connect(t, p.Addr)
	three.Must(t, "HELLO", "3")
	three.Want(t, `"w"`, "GET", "k7")
	b.Send("BLPOP", "list", "0")
	rig.Eventually(t, rig.Patience, "a client waits", func() bool {
		return p.Metric(t, "lockproxy_blocked_clients") == 1
	})
	a.Want(t, "(integer) 1", "RPUSH", "list", "x")
	receives(t, b, `["list", "x"]`)
	if c.lacks != "pubsub" {
		s := rig.Connect(t, p.Addr)
		s.Want(t, `["subscribe", "news", (integer) 1]`, "SUBSCRIBE", "news")
		a.Want(t, "(integer) 1", "PUBLISH", "news", "m")
		receives(t, s, `["message", "news", "m"]`)
	}
	if c.lacks == "locks" {
		v := a.Call(t, "LOCK", "job", "WAIT", "10")
		if !v.IsError() || !strings.Contains(strings.ToLower(v.String()), c.told[0]) {
			t.Errorf("LOCK: %s", v)
		}
		for path, want := range map[string]int{"/readyz": 200, "/readyz?strict": 503} {
			rig.Eventually(t, rig.Patience, path+" says what is forbidden", func() bool {
				code, body, _ := p.Get(path)
				return code == want && strings.Contains(body, "forbids "+c.told[0])
			})
		}
		return
	}
	locks(t, a, b, nodes)
}

// locks is what clients do with locks.
func locks(t *testing.T, a, b *rig.Conn, nodes []*rig.Server) {
	t.Helper()
	a.Must(t, "LOCK", "job", "TOKEN", "t", "PX", "60000")
	if v := a.Must(t, "RENEW", "job", "t", "PX", "70000"); v.Int() < 60000 {
		t.Errorf("RENEW: %s", v)
	}
	b.Send("LOCK", "job", "TOKEN", "u", "WAIT", "30000", "PX", "60000")
	rig.Eventually(t, rig.Patience, "a client waits for the lock", func() bool {
		return a.Must(t, "LOCKCTL", "INFO", "job").Field("waiters").Int() == 1
	})
	for _, n := range nodes {
		rig.Ask(n.Addr, "SCRIPT", "FLUSH") // where it is there
	}
	a.Want(t, "(integer) 1", "UNLOCK", "job", "t")
	if v, err := b.Receive(rig.Patience); len(v.Elems) != 4 {
		t.Fatalf("LOCK with WAIT: %s %v", v, err)
	}
	b.Want(t, "(integer) 1", "UNLOCK", "job", "u")
	b.Must(t, "RLOCK", "job", "TOKEN", "r1", "PX", "6000", "KEEPALIVE")
	a.Must(t, "RLOCK", "job", "TOKEN", "r2", "PX", "60000")
	renewed(t, a, "job", "r1")
	a.Want(t, "(integer) 1", "UNLOCK", "job", "r2")
	b.Want(t, "(integer) 1", "UNLOCK", "job", "r1")
}

// receives reads the next reply.
func receives(t *testing.T, c *rig.Conn, want string) {
	t.Helper()
	if v, err := c.Receive(rig.Patience); v.String() != want {
		t.Errorf("got %s %v, want %s", v, err, want)
	}
}

// scanned is how many keys SCAN finds.
func scanned(t *testing.T, c *rig.Conn) (n int) {
	t.Helper()
	cursor := "0"
	for range 1000 {
		v := c.Must(t, "SCAN", cursor, "COUNT", "5")
		n += len(v.Elems[1].Elems)
		if cursor = v.Elems[0].Text; cursor == "0" {
			return n
		}
	}
	t.Error("SCAN does not end")
	return n
}
