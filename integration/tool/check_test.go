package tool

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// check runs lockproxy check with args and compares the exit code; each of lines is a pattern that a line of
// its output must match.
func check(t *testing.T, code int, args []string, lines ...string) (output string) {
	t.Helper()
	r := run(t, append([]string{"check"}, args...)...)
	output = r.stdout
	for _, line := range lines {
		if !regexp.MustCompile("(?m)^" + line).MatchString(output) {
			t.Errorf("no line matches %s", line)
		}
	}
	if r.code != code {
		t.Errorf("exit code %d, want %d\n%s", r.code, code, r.stderr)
	}
	if t.Failed() {
		t.Logf("check %s\n%s", strings.Join(args, " "), output)
	}
	return output
}

// upstream are the arguments for a proxy in front of addrs, with as much time as there may be.
func upstream(addrs string, more ...string) []string {
	return append([]string{"--upstream", addrs, "--upstream-connect-timeout", "1m"}, more...)
}

var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

func TestOneRedis(t *testing.T) {
	t.Parallel()
	s := rig.StartRedis(t, durable...)
	output := check(t, 0, upstream(s.Addr),
		`ok   settings    are right`,
		`ok   upstream    is one Redis: masters: 1, replicas: 0`,
		`ok   node        `+s.Addr+` answers in \S+: master, (redis|valkey) \d`,
		`ok   memory      `+s.Addr+` evicts nothing`,
		`ok   persistence `+s.Addr+` writes each grant to its disk`,
		`ok   clock       `+s.Addr+` \S+ (ahead of|behind) this machine, give or take \S+`)
	if strings.Contains(output, "\x1b") {
		t.Errorf("colors on a pipe: %q", output)
	}
	var all struct {
		OK    bool
		Facts []struct{ Level, About, Node, Text, Remedy string }
	}
	output = check(t, 0, upstream(s.Addr, "--json"))
	if err := json.Unmarshal([]byte(output), &all); err != nil || !all.OK || len(all.Facts) < 8 {
		t.Errorf("%v\n%s", err, output)
	}
	s.Do(t, "CONFIG", "SET", "appendfsync", "everysec")
	check(t, 0, upstream(s.Addr), `warn persistence `+s.Addr+` appendfsync is everysec: a crash .* Remedy: `+
		`appendonly`)
	s.Do(t, "CONFIG", "SET", "appendonly", "no")
	check(t, 0, upstream(s.Addr), `warn persistence `+s.Addr+` appendonly is no: after a restart two `+
		`clients may hold`)
	check(t, 1, upstream(s.Addr, "--lock-sync", "1"),
		`fail replicas    `+s.Addr+` has 0, and lock-sync 1 wants more: no lock is granted. Remedy: start `+
			`more`)
}

// Nothing is asked of nodes where the settings are wrong, and each mistake has a line.
func TestSettings(t *testing.T) {
	t.Parallel()
	check(t, 1, nil, `fail settings    neither --upstream nor --dev is given. Remedy: `)
	check(t, 64, []string{"--upstream", "127.0.0.1:1", "--lock-leese", "3s"},
		`fail settings    --lock-leese: there is no such setting; did you mean --lock-lease`)
	check(t, 1, []string{"--dev", "--redlock", "127.0.0.1:1", "--lock-lease", "48h"},
		`fail settings    redlock: 1 of at least 3 masters`, `fail settings    lock-lease`)
	check(t, 1, []string{"--dev", "--tls-cert", "/nowhere.crt", "--tls-key", "/nowhere.key"},
		`fail settings    tls-cert /nowhere.crt: no such file`)
	check(t, 0, []string{"--dev"}, `ok   upstream    is in the memory of the proxy \(dev\)`)
}

// Locks at a server that evicts are in danger, and so are they if a replica does that takes over. R27
func TestEviction(t *testing.T) {
	t.Parallel()
	master, replica := rig.StartRedis(t), rig.StartRedis(t)
	replica.Do(t, "REPLICAOF", "127.0.0.1", strconv.Itoa(master.Port))
	rig.Eventually(t, rig.Patience, "replica in sync", func() bool {
		return replica.Info(t, "replication", "master_link_status") == "up" &&
			strings.Contains(master.Do(t, "INFO", "replication").Text, "state=online")
	})
	check(t, 0, upstream(master.Addr),
		`ok   node        `+replica.Addr+` answers in \S+: replica of `+master.Addr,
		`warn failover    a replica that takes over may lack the last grants`)
	check(t, 0, upstream(master.Addr, "--lock-sync", "1"))

	const remedy = ` evicts: with maxmemory-policy allkeys-lru and maxmemory 104857600 .* Remedy: CONFIG ` +
		`SET ` +
		`maxmemory-policy noeviction`
	for _, s := range []*rig.Server{replica, master} {
		s.Do(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
		check(t, 0, upstream(master.Addr), `warn memory      `+s.Addr+` would evict locks if it had a `+
			`maxmemory`)
		s.Do(t, "CONFIG", "SET", "maxmemory", "100mb")
		check(t, 1, upstream(master.Addr), `fail memory      `+s.Addr+remedy)
		check(t, 0, upstream(master.Addr, "--lock-allow-eviction"), `warn memory      `+s.Addr+` evicts: `)
		s.Do(t, "CONFIG", "SET", "maxmemory", "0")
		s.Do(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	}
	master.Kill()
	check(t, 1, upstream(master.Addr), `fail node        `+master.Addr+` cannot be used: .*connection `+
		`refused`)
}

func TestNodesThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	nowhere := "127.0.0.1:" + strconv.Itoa(rig.FreePort(t))
	check(t, 1, upstream(nowhere),
		`fail node        `+nowhere+` cannot be used: .*connection refused. Remedy: is Redis running there`,
		`fail upstream    none of the nodes that are named can be used`)

	hung := rig.StartRedis(t)
	hung.Signal(syscall.SIGSTOP)
	check(t, 1, []string{"--upstream", hung.Addr, "--upstream-connect-timeout", "300ms"},
		`fail node        `+hung.Addr+` cannot be used: .*(time-?out|deadline)`)
	// A node may only be named, and be another Redis.
	s := rig.StartRedis(t)
	check(t, 1, upstream(s.Addr+","+nowhere), `fail node        `+nowhere, `ok   node        `+s.Addr)
}

// Whoever does not let the proxy do its work is told, in the words of an ACL. R10
func TestUsersWithoutRights(t *testing.T) {
	t.Parallel()
	s := rig.StartRedis(t, durable...)
	user := func(name string, rules ...string) []string {
		s.Do(t, append([]string{"ACL", "SETUSER", name, "on", ">secret", "+@all"}, rules...)...)
		return upstream(s.Addr, "--upstream-user", name, "--upstream-password", "secret")
	}
	check(t, 0, user("whole", "~*", "&*"),
		`(ok   rights .* user "whole" may run all|warn rights .* client\|info is `+
			`forbidden)`) // Redis 6.2 has it
	check(t, 1, user("nolocks", "~*", "&*", "-evalsha"),
		`fail rights      `+s.Addr+` evalsha is forbidden: there are no locks.* Remedy: .*\+evalsha`)
	check(t, 0, user("nosync", "~*", "&*", "-wait"),
		`warn rights      `+s.Addr+` wait is forbidden: LOCK with SYNC.* Remedy: .*\+wait`)
	check(t, 1, append(user("whole", "~*", "&*")[:6], "--upstream-password", "wrong"),
		`fail node        `+s.Addr+` cannot be used: WRONGPASS.* Remedy: check the upstream's user and `+
			`password`)
	if _, err := rig.Ask(s.Addr, "ACL", "DRYRUN", "default", "PING"); err != nil {
		check(t, 0, user("elsewhere", "~other:*", "&*"), `ok   rights      `+s.Addr+` nobody knows whether `+
			`user`)
		return
	}
	check(t, 1, user("elsewhere", "~other:*", "&other:*"),
		`fail rights      `+s.Addr+` user "elsewhere" may not use keys and channels that begin with lock:`+
			`.* Remedy: ACL SETUSER elsewhere ~lock:\* &\*`)
	check(t, 1, user("nohashes", "~*", "&*", "-hset"),
		`fail rights      `+s.Addr+` user "nohashes" may not run .*: hset. Remedy: .*\+hset`)
	check(t, 0, user("nolist", "~*", "&*", "-client|list"),
		`warn rights      `+s.Addr+` client\|list is forbidden: a connection that a firewall has .* Remedy: `+
			`.*\+client\|list`)
	check(t, 0, user("nochannel", "~*", "&lock:*"),
		`warn rights      `+s.Addr+` publish is forbidden: .*Remedy: allow the channels .*: &lockproxy:\*`)
	check(t, 0, user("undecided", "~*", "&*", "-acl|dryrun"),
		`warn rights      `+s.Addr+` nobody knows .* Remedy: allow it \+acl\|dryrun`)
	output := check(t, 0, user("closed", "~lock:*", "~lockproxy:wait:*", "&*", "-@all", "+@connection",
		"+@read",
		"+@write", "+@scripting", "+@pubsub", "-@dangerous", "+info", "+wait", "+time", "+command",
		"+client|kill", "+client|list",
		"+acl|dryrun", "+acl|list")) // docs/security.md
	if strings.Contains(output, "may not") || strings.Contains(output, "secret") {
		t.Errorf("the user that the docs name:\n%s", output)
	}
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	a := rig.NewAuthority(t)
	a.Issue(t, "server", rig.LoopbackIP)
	a.Issue(t, "client", rig.LoopbackIP)
	secured := func(addr string, more ...string) []string {
		return upstream(addr, append([]string{"--upstream-tls", "--upstream-tls-ca", a.File("ca.crt"),
			"--upstream-tls-cert", a.File("client.crt"), "--upstream-tls-key", a.File("client.key")},
			more...)...)
	}
	addr := rig.LaunchTLSRedis(t, a)
	check(t, 0, secured(addr), `warn certificate upstream-tls-cert \S+ days left: 0`,
		`warn certificate `+addr+` days left: 0 \(until .*\). Remedy: renew it`)
	check(t, 1, upstream(addr), `fail node        `+addr+` cannot be used: `)

	a.Until = time.Now().Add(-time.Minute)
	a.Issue(t, "server", rig.LoopbackIP)
	check(t, 1, secured(addr, "--tls-cert", a.File("server.crt"), "--tls-key", a.File("server.key")),
		`fail certificate tls-cert \S+ has expired, on .* Remedy: renew it`)
	expired := rig.LaunchTLSRedis(t, a)
	check(t, 1, secured(expired), `fail node        `+expired+` cannot be used: .*expired.* Remedy: renew `+
		`the `+
		`certificate of the node`)
	a.Issue(t, "client", rig.LoopbackIP)
	check(t, 1, secured(addr), `fail certificate upstream-tls-cert \S+ has expired`)

	a.Until = time.Now().AddDate(1, 0, 1)
	a.Issue(t, "client", rig.LoopbackIP)
	check(t, 0, secured(addr), `ok   certificate upstream-tls-cert \S+ days left: 36\d`)
}

// What is no Redis is named at once, by check and by a proxy, which waits for nothing if it cannot get
// better.
func TestNoRedis(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	addr := strings.TrimPrefix(web.URL, "http://")
	check(t, 1, upstream(addr),
		`fail node        `+addr+` cannot be used: .* Remedy: an HTTP server answers there`)
	other := rig.StartProxy(t, "--dev").Addr
	check(t, 1, upstream(other),
		`fail node        `+other+` cannot be used: a lockproxy answers there, and no Redis`)
	const ours = "a lockproxy answers there"
	elsewhere := []string{"--listen", "127.0.0.1:0", "--admin", "off"} // the default may be taken
	if r := run(t, upstream(other, elsewhere...)...); r.code == 0 || !strings.Contains(r.stderr, ours) {
		t.Errorf("in front of another proxy: %+v", r)
	}
	s := rig.SharedRedis().Addr
	masters := strings.Join([]string{s, other, rig.StartRedis(t).Addr}, ",")
	r := run(t, upstream(s, append(elsewhere, "--redlock", masters)...)...)
	if r.code == 0 || !strings.Contains(r.stderr, other+": a lockproxy answers there") {
		t.Errorf("over another proxy: %+v", r)
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 3, 0, durable...)
	check(t, 0, upstream(c.Nodes[1].Addr),
		`ok   upstream    is a cluster: masters: 3, replicas: 0`, `ok   slots       all 16384 have a master`,
		`ok   node        `+c.Nodes[0].Addr, `ok   node        `+c.Nodes[2].Addr,
		`warn replicas    `+c.Nodes[2].Addr+` has none`, `ok   clocks      no two nodes`)
	// What their master has said of them before may come to another node behind its DELSLOTS.
	rig.Eventually(t, rig.Patience, "no node knows a master of two slots", func() bool {
		left := 0
		for _, n := range c.Nodes {
			if !strings.Contains(n.Do(t, "CLUSTER", "INFO").Text, "cluster_slots_assigned:16382") {
				rig.Ask(n.Addr, "CLUSTER", "DELSLOTS", "7", "8")
				left++
			}
		}
		return left == 0
	})
	check(t, 1, upstream(c.Addrs()), `fail slots       2 of 16384 have no master: 7-8. Remedy: start the `+
		`nodes`)
	rig.Eventually(t, rig.Patience, "the cluster is down", func() bool {
		return strings.Contains(c.Nodes[1].Do(t, "CLUSTER", "INFO").Text, "cluster_state:fail")
	})
	check(t, 1, upstream(c.Addrs()), `fail cluster     `+c.Nodes[1].Addr+` calls the cluster fail. Remedy: `+
		`redis-cli`)
	c.Nodes[2].Kill()
	check(t, 1, upstream(c.Nodes[1].Addr), `fail node        `+c.Nodes[2].Addr+` cannot be used: `)
}

func TestSentinels(t *testing.T) {
	t.Parallel()
	g := rig.StartSentinels(t)
	check(t, 0, upstream(g.Sentinels[0].Addr),
		`ok   upstream    is a group with Sentinels: masters: 1, replicas: 1`,
		`ok   sentinel    `+g.Sentinels[0].Addr+` could fail over: 3 usable`,
		`ok   node        `+g.Sentinels[2].Addr+` answers in \S+: Sentinel`)
	for _, s := range g.Sentinels {
		s.Do(t, "SENTINEL", "SET", "mymaster", "down-after-milliseconds", "1000")
	}
	g.Sentinels[2].Kill()
	check(t, 1, upstream(g.Sentinels[0].Addr), `fail node        `+g.Sentinels[2].Addr+` cannot be used: `)
	g.Sentinels[1].Kill()
	rig.Eventually(t, rig.Patience, "one Sentinel of three knows that it is alone", func() bool {
		_, err := rig.Ask(g.Sentinels[0].Addr, "SENTINEL", "CKQUORUM", "mymaster")
		return err != nil
	})
	check(t, 1, upstream(g.Sentinels[0].Addr),
		`fail sentinel    `+g.Sentinels[0].Addr+` cannot fail over: NOQUORUM.* Remedy: start the Sentinels`)
	g.Replica.Kill()
	check(t, 1, upstream(g.Sentinels[0].Addr), `fail node        `+g.Replica.Addr+` cannot be used: `)
}

// R27, R32
func TestRedlock(t *testing.T) {
	t.Parallel()
	m := rig.StartMasters(t, 3)
	s := rig.SharedRedis()
	over := func(addrs ...string) []string {
		return upstream(s.Addr, "--redlock", strings.Join(addrs, ","), "--redlock-node-timeout", "1500ms",
			"--redlock-max-lease", "24h", // longer than it takes to build the program
			"--lock-fleet", "own") // others keep locks in that Redis
	}
	all := []string{m[0].Addr, m[1].Addr, m[2].Addr}
	check(t, 0, over(all...), `ok   node        `+all[0]+` answers in`, `ok   persistence `+all[1],
		`ok   redlock     3 of 3 masters can vote, and 2 are needed`)
	check(t, 1, over(all[0], all[1], net.JoinHostPort("localhost", strconv.Itoa(m[1].Port))),
		`fail redlock     localhost:\d+ is the same server as `+all[1])
	m[2].Do(t, "CONFIG", "SET", "appendfsync", "everysec")
	check(t, 0, over(all...), `warn persistence `+all[2]+` appendfsync is everysec: .* does not vote for 24h`,
		`warn redlock     `+all[2]+` does not vote for another \S+: it was started`)
	m[2].Do(t, "REPLICAOF", "127.0.0.1", strconv.Itoa(m[0].Port))
	check(t, 1, over(all...), `fail redlock     `+all[2]+` is a replica of `+all[0]+`. Remedy: name masters`)
	m[2].Kill()
	check(t, 1, over(all...), `fail node        `+all[2], `ok   redlock     2 of 3 masters can vote`)
	m[1].Kill()
	check(t, 1, over(all...), `fail redlock     1 of 3 masters can vote, and 2 are needed: no lock is `+
		`granted`)
}

func TestHelp(t *testing.T) {
	t.Parallel()
	check(t, 0, []string{"--help"}, `lockproxy check`, `Examples:`, `  lockproxy check --config`)
}
