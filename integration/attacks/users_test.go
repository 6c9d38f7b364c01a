package attacks

import (
	"errors"
	"os"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// users are rules of users at the upstream.
var users = map[string][]string{
	"alice": {"on", ">apw", "~app:*", "+get"},
	"bob":   {"on", ">bpw", "~app:*", "&app:*", "+@all", "-script", "-config", "-slowlog", "-@dangerous"},
	"carol": {"on", ">cpw", "%R~app:*", "~lock:*", "&*", "+@all", "-client|kill"},
}

var passwords = map[string]string{"alice": "apw", "bob": "bpw", "carol": "cpw"}

// guarded are commands that the proxy answers by itself, wholly or in part, and some that it does not.
var guarded = []string{
	"GET app:1", "GET other", "SET app:1 x", "MGET app:1 app:2", "DEL app:1 other", "MSET app:1 x other y",
	"EXISTS app:1 other",
	"PING", "ECHO x", "SELECT 0", "CLIENT LIST", "CLIENT INFO", "CLIENT ID", "CLIENT SETNAME x",
	"CLIENT GETNAME", "CLIENT KILL ID 999999",
	"CLIENT UNPAUSE", "CLIENT PAUSE 1 WRITE", "CLIENT UNBLOCK 999999", "CLIENT NO-EVICT OFF",
	"CLIENT GETREDIR", "CLIENT TRACKING OFF",
	"CLIENT TRACKINGINFO", "CLIENT HELP", "CONFIG GET maxclients", "CONFIG SET maxclients 10000",
	"CONFIG RESETSTAT", "INFO", "COMMAND",
	"COMMAND COUNT", "COMMAND INFO get", "COMMAND DOCS get", "COMMAND LIST", "COMMAND GETKEYS GET x",
	"ACL WHOAMI", "ACL CAT", "ACL LIST",
	"ROLE", "CLUSTER KEYSLOT x", "CLUSTER INFO", "SUBSCRIBE secret", "SUBSCRIBE app:1",
	"PSUBSCRIBE app:*", "PSUBSCRIBE *",
	"SSUBSCRIBE secret", "SSUBSCRIBE app:1", "UNSUBSCRIBE", "PUBLISH secret x", "PUBLISH app:1 x",
	"SPUBLISH secret x",
	"PUBSUB CHANNELS", "PUBSUB NUMPAT", "MONITOR", "MULTI", "EXEC", "DISCARD", "WATCH app:1", "WATCH other",
	"UNWATCH", "SCAN 0",
	"RANDOMKEY", "DBSIZE", "KEYS *", "SCRIPT LOAD x", "SCRIPT EXISTS x", "SCRIPT FLUSH",
	"EVAL return 0 other", "SLOWLOG GET",
	"SLOWLOG LEN", "LATENCY LATEST", "MEMORY DOCTOR", "WAIT 0 1", "BLPOP other 0.01", "FUNCTION LIST",
	"LOLWUT", "TIME", "READONLY", "DEBUG OBJECT app:1", "SAVE",
	"RENAME app:1 other", "SINTERSTORE app:1 app:2 other", "BLPOP app:1 other 0.01", "SMOVE app:1 app:2 x",
}

// TestUsersMayWhatTheirRulesSay proves that whatever is denied at the upstream is denied through the proxy,
// in the same words, and that what is allowed is allowed.
func TestUsersMayWhatTheirRulesSay(t *testing.T) {
	t.Parallel()
	single := rig.StartRedis(t)
	cluster := rig.StartCluster(t, 3, 0)
	for kind, nodes := range map[string][]*rig.Server{"single": {single}, "cluster": cluster.Nodes} {
		t.Run(kind, func(t *testing.T) {
			addr := startUsersProxy(t, nodes)
			for user, password := range passwords {
				for _, command := range guarded {
					words := strings.Fields(command)
					direct, through := rig.Connect(t, nodes[0].Addr), rig.Connect(t, addr)
					direct.Want(t, "OK", "AUTH", user, password)
					through.Want(t, "OK", "AUTH", user, password)
					want, got := direct.Call(t, words...), through.Call(t, words...)
					direct.Close()
					through.Close()
					if denied := strings.HasPrefix(want.Text, "NOPERM"); denied && got.Text != want.Text ||
						!denied && strings.HasPrefix(got.Text, "NOPERM") {
						t.Errorf("%s: %s: through the proxy %s, at the upstream %s", user, command, got, want)
					}
				}
			}
		})
	}
}

// startUsersProxy makes the users at all nodes, and starts a proxy whose clients they are.
func startUsersProxy(t *testing.T, nodes []*rig.Server) (addr string) {
	t.Helper()
	var addrs []string
	for _, n := range nodes {
		for user, rules := range users {
			n.Do(t, append([]string{"ACL", "SETUSER", user, "reset"}, rules...)...)
		}
		addrs = append(addrs, n.Addr)
	}
	return rig.StartProxy(t, "--upstream", strings.Join(addrs, ","), "--client-auth", "upstream").Addr
}

// TestUsersLeaveNoMarks proves that the proxy asks nothing as a client's user that the upstream notes as an
// attempt of that user's (ACL LOG).
func TestUsersLeaveNoMarks(t *testing.T) {
	t.Parallel()
	r := rig.StartRedis(t)
	c := rig.Connect(t, startUsersProxy(t, []*rig.Server{r}))
	c.Want(t, "OK", "AUTH", "alice", passwords["alice"])
	c.Want(t, "(nil)", "GET", "app:1")
	rig.Connect(t, r.Addr).Want(t, "[]", "ACL", "LOG")
	if v := c.Call(t, "GET", "other"); !strings.HasPrefix(v.Text, "NOPERM") {
		t.Errorf("GET other: %s", v)
	}
	if v := rig.Connect(t, r.Addr).Call(t, "ACL", "LOG"); !strings.Contains(v.String(), `"other"`) {
		t.Errorf("ACL LOG: %s", v)
	}
}

// TestKillUser proves that CLIENT KILL USER knows the users of the upstream. The words for one that is not
// there are the node's.
func TestKillUser(t *testing.T) {
	t.Parallel()
	r := rig.StartRedis(t)
	addr := startUsersProxy(t, []*rig.Server{r})
	r.Do(t, "ACL", "SETUSER", "admin", "on", ">adminpw", "+@all")
	bob, direct, through := rig.Connect(t, addr), rig.Connect(t, r.Addr), rig.Connect(t, addr)
	through.Want(t, "OK", "AUTH", "admin", "adminpw")
	bob.Want(t, "OK", "AUTH", "bob", passwords["bob"])
	for _, c := range []struct{ user, want string }{
		{"alice", "(integer) 0"}, {"nosuch", direct.Call(t, "CLIENT", "KILL", "USER", "nosuch").String()},
		{"bob", "(integer) 1"}, {"bob", "(integer) 0"},
	} {
		through.Want(t, c.want, "CLIENT", "KILL", "USER", c.user)
	}
}

// TestUsersOfLocks proves which rights the lock verbs need.
func TestUsersOfLocks(t *testing.T) {
	t.Parallel()
	r := rig.StartRedis(t)
	addr := startUsersProxy(t, []*rig.Server{r})
	as := func(user string) *rig.Conn {
		c := rig.Connect(t, addr)
		c.Want(t, "OK", "AUTH", user, passwords[user])
		return c
	}
	carol := as("carol")
	carol.Must(t, "LOCK", "job", "TOKEN", "t")
	for _, denied := range []string{
		"LOCK job", "WLOCK job", "RLOCK job", "UNLOCK job t", "RENEW job t", "LOCKCTL INFO job",
		"LOCKCTL CHECK job t", "GUARD job t SET job 1", "MLOCK 1 job", "MLOCK 2 app:1 job",
		"MUNLOCK 1 job t", "MRENEW 1 job t",
		"LOCKCTL BREAK job", "LOCKCTL LIST", "LOCKCTL WATCH", "LOCKCTL STATS",
		"LOCKCTL STATS ALL",
	} {
		for _, user := range []string{"alice", "bob"} {
			if got := as(user).Call(t, strings.Fields(denied)...); !strings.HasPrefix(got.Text, "NOPERM") {
				t.Errorf("%s: %s: %s", user, denied, got)
			}
		}
	}
	for _, allowed := range []string{"LOCKCTL INFO job", "LOCKCTL CHECK job t", "LOCKCTL LIST",
		"LOCKCTL STATS", "LOCKCTL STATS ALL",
		"UNLOCK job t"} {
		carol.Must(t, strings.Fields(allowed)...)
	}
	if got := carol.Call(t, "LOCKCTL", "BREAK", "job"); !strings.HasPrefix(got.Text, "NOPERM") {
		t.Errorf("LOCKCTL BREAK without the right to CLIENT KILL: %s", got)
	}
}

// TestGuardedScriptOfAUser proves that a script inside GUARD runs with the rights of its user or not at all.
func TestGuardedScriptOfAUser(t *testing.T) {
	t.Parallel()
	r := rig.StartRedis(t)
	addr := startUsersProxy(t, []*rig.Server{r})
	r.Do(t, "ACL", "SETUSER", "erin", "on", ">erinpw", "~*", "&*", "+@all", "-flushall")
	c := rig.Connect(t, addr)
	c.Want(t, "OK", "AUTH", "erin", "erinpw")
	c.Must(t, "SET", "kept", "1")
	c.Must(t, "LOCK", "job", "TOKEN", "t")
	guarded := []string{"GUARD", "job", "t", "EVAL", "return redis.call('FLUSHALL')", "0"}
	const refused = "ERR this would run inside GUARD with the rights of the proxy"
	if got := c.Call(t, guarded...); !strings.HasPrefix(got.Text, refused) {
		t.Errorf("GUARD: %s", got)
	}
	c.Want(t, "OK", "MULTI")
	c.Want(t, "QUEUED", guarded...)
	c.Want(t, "QUEUED", "GUARD", "job", "t", "EVAL", "return redis.call('INCR', KEYS[1])", "1", "kept")
	if got := c.Call(t, "EXEC"); len(got.Elems) != 2 ||
		!strings.Contains(got.Elems[0].Text, "can't run this command") || got.Elems[1].Int() != 2 {
		t.Errorf("EXEC: %s", got)
	}
	c.Want(t, `"2"`, "GET", "kept")
}

// TestUsersThatChange proves that new rules hold from the next command on, by whichever way they came, and
// that a user that is deleted, switched off or given another password is nobody within a moment.
func TestUsersThatChange(t *testing.T) {
	t.Parallel()
	r := rig.StartRedis(t)
	addr := startUsersProxy(t, []*rig.Server{r})
	login := func() *rig.Conn {
		c := rig.Connect(t, addr)
		c.Want(t, "OK", "AUTH", "dora", "pw")
		return c
	}
	set := func(rules ...string) { r.Do(t, append([]string{"ACL", "SETUSER", "dora"}, rules...)...) }
	set("on", ">pw", "~*", "&*", "+@all")
	c := login()
	c.Want(t, "PONG", "PING")
	set("-ping")
	c.Want(t, "(error) NOPERM this user has no permissions to run the 'ping' command", "PING")
	set("+ping")
	c.Want(t, "PONG", "PING")

	listener := login()
	listener.Must(t, "SUBSCRIBE", "news")
	set("resetchannels")
	if !listener.Closed(rig.Patience) {
		t.Error("who listens to what the rules forbid now is not closed")
	}
	for i, out := range [][]string{{"off"}, {"on", ">pw2", "<pw"}} {
		set("on", "resetpass", ">pw", "&*")
		c, listener := login(), login()
		listener.Must(t, "SUBSCRIBE", "news")
		set(out...)
		rig.Eventually(t, rig.Patience, "nobody", func() bool { return shutOut(c, "CLIENT", "ID") })
		if !shutOut(c, "GET", "k") {
			t.Errorf("way %d: it is served again", i)
		}
		if !listener.Closed(rig.Patience) {
			t.Errorf("way %d: the subscriber is not closed", i)
		}
	}
	set("on", "resetpass", ">pw", "&*")
	c = login()
	r.Do(t, "ACL", "DELUSER", "dora")
	for _, command := range [][]string{{"CLIENT", "ID"}, {"CLIENT", "ID"}, {"GET", "k"}} {
		if !shutOut(c, command...) {
			t.Errorf("%q is served", command)
		}
	}
}

// shutOut says that a command is not served because its client is nobody: with an error, or with the end of
// the connection, if the proxy looked at its users just when the command was on its way.
func shutOut(c *rig.Conn, command ...string) bool {
	if err := c.Send(command...); err != nil {
		return true
	}
	v, err := c.Receive(rig.Patience)
	if err != nil {
		return !errors.Is(err, os.ErrDeadlineExceeded)
	}
	return v.Text == "NOAUTH Authentication required."
}

// TestClosedAsDocumented proves that the users of docs/security.md have the rights that they need, and no
// more than that page says.
func TestClosedAsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	single := rig.StartRedis(t)
	cluster := rig.StartCluster(t, 3, 0)
	for kind, nodes := range map[string][]*rig.Server{"single": {single}, "cluster": cluster.Nodes} {
		t.Run(kind, func(t *testing.T) {
			var addrs []string
			for _, n := range nodes {
				for _, user := range []string{"lockproxy", "shop"} {
					_, line, _ := strings.Cut(string(page), "\nuser "+user+" ")
					line, _, _ = strings.Cut(line, "\n")
					n.Do(t, append([]string{"ACL", "SETUSER", user}, strings.Fields(line)...)...)
				}
				addrs = append(addrs, n.Addr)
			}
			addr := rig.StartProxy(t, "--upstream", strings.Join(addrs, ","), "--client-auth", "upstream",
				"--upstream-user", "lockproxy", "--upstream-password", "PASSWORD1").Addr
			login := func() *rig.Conn {
				c := rig.Connect(t, addr)
				c.Want(t, "OK", "AUTH", "shop", "PASSWORD2")
				return c
			}
			c, listener := login(), login()
			for _, allowed := range []string{
				"PING", "COMMAND COUNT", "SET shop:1 v", "MGET shop:1 shop:2", "MULTI", "SET shop:1 w",
				"EXEC", "SCAN 0",
				"LOCK shop:1 TOKEN t PX 60000 META x", "RENEW shop:1 t", "UNLOCK shop:1 t",
				"LOCK shop:2 TOKEN t KEEPALIVE",
				"LOCKCTL INFO shop:2", "LOCKCTL CHECK shop:2 t", "UNLOCK shop:2 t", "RLOCK shop:3 TOKEN a",
				"RLOCK shop:3 TOKEN b",
				"UNLOCK shop:3 a", "WLOCK shop:3 TOKEN b WAIT 100", "WAIT 0 1", "CLIENT ID",
				"SELECT 0", "HELLO 3",
			} {
				c.Must(t, strings.Fields(allowed)...)
			}
			listener.Must(t, "SUBSCRIBE", "shop:news")
			c.Want(t, "(integer) 1", "PUBLISH", "shop:news", "m")
			waiter := login()
			waiter.Send("LOCK", "shop:3", "WAIT", "60000")
			c.Want(t, "(integer) 1", "UNLOCK", "shop:3", "b")
			if v, err := waiter.Receive(rig.Patience); err != nil || len(v.Elems) != 4 {
				t.Errorf("the waiter got %s, %v", v, err)
			}
			for _, denied := range []string{
				"GET other", "LOCK job", "LOCK shop", "LOCKCTL INFO job", "LOCKCTL LIST", "LOCKCTL STATS",
				"LOCKCTL BREAK shop:3", "KEYS *",
				"SUBSCRIBE other", "PSUBSCRIBE *", "CONFIG GET *", "CONFIG SET maxclients 1", "CLIENT LIST",
				"CLIENT KILL TYPE normal",
				"CLIENT PAUSE 1", "MONITOR", "INFO", "ACL LIST", "FLUSHALL", "EVAL x 0",
			} {
				if got := c.Call(t, strings.Fields(denied)...); !strings.HasPrefix(got.Text, "NOPERM") {
					t.Errorf("%s: %s", denied, got)
				}
			}
		})
	}
}

// What is queued behind AUTH would run as the user before, with rights that the new one has not.
func TestNothingRunsBehindAUTHInATransaction(t *testing.T) {
	t.Parallel()
	redis := rig.StartRedis(t)
	redis.Do(t, "ACL", "SETUSER", "writer", "on", ">pw", "~*", "+@all")
	redis.Do(t, "ACL", "SETUSER", "reader", "on", ">pw", "~*", "-@all", "+get", "+multi", "+exec", "+discard")
	for _, auth := range []string{"proxy", "upstream"} {
		p := rig.StartProxy(t, "--upstream", redis.Addr, "--client-auth", auth)
		for _, login := range [][]string{{"AUTH", "reader", "pw"}, {"HELLO", "2", "AUTH", "reader", "pw"}} {
			c := rig.Connect(t, p.Addr)
			c.Want(t, "OK", "AUTH", "writer", "pw")
			c.Want(t, "OK", "MULTI")
			c.Want(t, "QUEUED", "SET", "before", "1")
			c.Want(t, "QUEUED", login...)
			if v, err := c.Do("SET", "behind", "1"); err != nil || !v.IsError("ERR") {
				t.Errorf("%s, SET behind %s: %s %v", auth, login, v, err)
			}
			if v, err := c.Do("EXEC"); err != nil || !v.IsError("EXECABORT") {
				t.Errorf("%s, EXEC: %s %v", auth, v, err)
			}
			c.Want(t, "OK", "MULTI")
			c.Want(t, "QUEUED", "GET", "behind")
			c.Want(t, "QUEUED", login...)
			if v := c.Must(t, "EXEC"); len(v.Elems) != 2 || !v.Elems[0].Null || v.Elems[1].IsError() {
				t.Errorf("%s, EXEC with %s at its end: %s", auth, login, v)
			}
			if v, err := c.Do("SET", "behind", "1"); err != nil || !v.IsError("NOPERM") {
				t.Errorf("%s, SET as the reader: %s %v", auth, v, err)
			}
		}
	}
}
