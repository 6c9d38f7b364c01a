package compare

import (
	"slices"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// lockRights are the calls of the lock verbs, and what a user must be allowed at Redis for each, as
// docs/security.md says it.
var lockRights = []struct {
	call  string
	needs []string
}{
	{"LOCK app:job TOKEN t PX 200", []string{"SET lock:{app:job} * GET"}},
	{"LOCK other:job TOKEN t PX 200", []string{"SET lock:{other:job} * GET"}},
	{"LOCK app:job TOKEN t PX 200 WAIT 1", []string{"SET lock:{app:job} * GET"}},
	{"WLOCK other:job TOKEN t PX 200 KEEPALIVE", []string{"SET lock:{other:job} * GET"}},
	{"RLOCK app:job TOKEN t PX 200", []string{"SET lock:{app:job} * GET"}},
	{"LOCK app:job TOKEN u PX 200 BREAK", []string{"SET lock:{app:job} * GET", "DEL lock:{app:job}",
		"CLIENT KILL ID 1"}},
	{"RLOCK other:job break TOKEN BREAK PX 200", []string{"SET lock:{other:job} * GET",
		"DEL lock:{other:job}", "CLIENT KILL ID 1"}},
	{"LOCK app:job TOKEN BREAK META BREAK PX 200", []string{"SET lock:{app:job} * GET"}},
	{"SEMLOCK app:pool PERMITS 2 TOKEN t PX 200", []string{"SET lock:{app:pool} * GET"}},
	{"SEMLOCK other:pool PERMITS 2 TOKEN t PX 200", []string{"SET lock:{other:pool} * GET"}},
	{"RLOCK other:job TOKEN t PX 200", []string{"SET lock:{other:job} * GET"}},
	{"RENEW app:job t", []string{"SET lock:{app:job} * GET"}},
	{"RENEW other:job t KEEPALIVE", []string{"SET lock:{other:job} * GET"}},
	{"UNLOCK app:job t", []string{"SET lock:{app:job} * GET"}},
	{"UNLOCK other:job t", []string{"SET lock:{other:job} * GET"}},
	{"MLOCK 2 app:job {other}:job WAIT 1", []string{"SET lock:{app:job} * GET",
		"SET lock:{other}:job * GET"}},
	{"MUNLOCK 1 other:job t", []string{"SET lock:{other:job} * GET"}},
	{"MRENEW 2 app:job app:job2 t PX 5", []string{"SET lock:{app:job} * GET", "SET lock:{app:job2} * GET"}},
	{"GUARD app:job t GET app:x", []string{"GET lock:{app:job}", "HGETALL lock:{app:job}", "GET app:x"}},
	{"GUARD {other}:job t SET {other}:x 1", []string{"GET lock:{other}:job", "HGETALL lock:{other}:job",
		"SET {other}:x 1"}},
	{"GUARD app:job FENCE 7 MSET app:job 1", []string{"GET lock:{app:job}", "HGETALL lock:{app:job}",
		"MSET app:job 1"}},
	{"LOCKCTL CHECK app:job t", []string{"GET lock:{app:job}", "HGETALL lock:{app:job}"}},
	{"LOCKCTL INFO other:job", []string{"GET lock:{other:job}", "HGETALL lock:{other:job}"}},
	{"LOCKCTL BREAK app:job", []string{"SET lock:{app:job} * GET", "DEL lock:{app:job}", "CLIENT KILL ID 1"}},
	{"LOCKCTL BREAK other:job", []string{"SET lock:{other:job} * GET", "DEL lock:{other:job}",
		"CLIENT KILL ID 1"}},
	{"LOCKCTL LIST", []string{"KEYS *", "GET lock:{any}", "HGETALL lock:{any}", "GET lock:{app:any}",
		"HGETALL lock:{app:any}"}},
	{"LOCKCTL WATCH", []string{"KEYS *", "GET lock:{any}", "HGETALL lock:{any}", "GET lock:{app:any}",
		"HGETALL lock:{app:any}"}},
	{"LOCKCTL STATS", []string{"INFO", "KEYS *"}},
	{"LOCKCTL STATS ALL", []string{"INFO", "KEYS *"}},
	{"LOCKCTL HELP", []string{"COMMAND"}},
}

// TestRightsOfLockVerbs proves that the lock verbs ask for the rights that docs/security.md names, by users
// of all kinds.
func TestRightsOfLockVerbs(t *testing.T) {
	t.Parallel()
	users := append(slices.Clone(rightsUsers),
		rightsUser{"applocks", "~lock:{app:* +set +get +hgetall +del +client|kill +keys"},
		rightsUser{"lockreader", "%R~lock:* +get +hgetall +keys"},
		rightsUser{"lockwriter", "%W~lock:* +set +get"},
		rightsUser{"lockadmin", "~lock:* +set +get +hgetall +del +keys +info +command +client|kill"})
	eachUpstream(t, users, func(t *testing.T, nodes []*rig.Server, p *rig.Proxy) {
		allowed := 0
		for _, u := range users {
			c := rig.Connect(t, p.Addr)
			c.Want(t, "OK", "AUTH", u.name, rightsPassword)
			for _, l := range lockRights {
				var lacks string
				for _, need := range l.needs {
					ask := append([]string{"ACL", "DRYRUN", u.name}, strings.Fields(need)...)
					if v := nodes[0].Do(t, ask...); v.Text != "OK" {
						lacks = need
					}
				}
				got := c.Call(t, strings.Fields(l.call)...)
				switch refused := got.IsError("NOPERM"); {
				case lacks != "" && !refused:
					t.Errorf("%s: %s: %s, and the user may not %s", u.name, l.call, got, lacks)
				case lacks == "" && refused:
					t.Errorf("%s: %s: %s, and the user may do all that it needs", u.name, l.call, got)
				case lacks == "":
					allowed++
				}
			}
		}
		if allowed < 3*len(lockRights) {
			t.Errorf("%d calls are allowed, and that is hardly any", allowed)
		}
	})
}

// TestTrackingTakesOneRight proves that CLIENT TRACKING works for a user who may not PING, and that one who
// may not track is told so of CLIENT TRACKING, as at Redis.
func TestTrackingTakesOneRight(t *testing.T) {
	t.Parallel()
	users := []rightsUser{{"tracker", "~* +get +client|tracking"}, {"reader", "~* +get"}}
	eachUpstream(t, users, func(t *testing.T, nodes []*rig.Server, p *rig.Proxy) {
		for _, call := range [][]string{{"CLIENT", "TRACKING", "ON"}, {"CLIENT", "TRACKING", "ON", "BCAST"}} {
			c := rig.Connect(t, p.Addr)
			c.Must(t, "HELLO", "3", "AUTH", "tracker", rightsPassword)
			c.Want(t, "OK", call...)
			if v := c.Call(t, "PING"); !v.IsError("NOPERM") {
				t.Errorf("PING of a user who may not: %s", v)
			}
			refused, bare := rig.Connect(t, p.Addr), rig.Connect(t, nodes[0].Addr)
			var said [2]string
			for i, c := range []*rig.Conn{refused, bare} {
				c.Must(t, "HELLO", "3", "AUTH", "reader", rightsPassword)
				said[i] = c.Call(t, call...).Text
			}
			if said[0] != said[1] || !strings.Contains(said[0], "client|tracking") {
				t.Errorf("%q: %q, Redis says %q", call, said[0], said[1])
			}
		}
	})
}

// TestNobodyIsServed proves that nothing but AUTH, HELLO, QUIT and RESET is served before AUTH, after RESET,
// and soon after the user was deleted or switched off.
func TestNobodyIsServed(t *testing.T) {
	t.Parallel()
	samples := samplesOfCommands(t, rig.SharedRedis().Addr)
	for _, l := range lockRights {
		samples = append(samples, rightsSample{args: strings.Fields(l.call)})
	}
	var calls [][]string
	for _, s := range samples {
		free := slices.Contains([]string{"auth", "hello", "quit", "reset"}, s.name)
		if !free && len(s.args) <= 10 { // a longer command ends a connection that has not authenticated
			calls = append(calls, s.args)
		}
	}
	eachUpstream(t, rightsUsers, func(t *testing.T, nodes []*rig.Server, p *rig.Proxy) {
		unserved := func(when string, c *rig.Conn) {
			t.Helper()
			for i, v := range pipelined(t, c, calls) {
				if !v.IsError("NOAUTH") {
					t.Errorf("%s: %q: %.100s", when, calls[i], v)
				}
			}
		}
		as := func(user string) *rig.Conn {
			c := rig.Connect(t, p.Addr)
			c.Want(t, "OK", "AUTH", user, rightsPassword)
			c.Want(t, "PONG", "PING")
			return c
		}
		unserved("before AUTH", rig.Connect(t, p.Addr))
		refused := rig.Connect(t, p.Addr)
		if v := refused.Call(t, "AUTH", "isoff", rightsPassword); !v.IsError("WRONGPASS") {
			t.Errorf("a user who is off: %s", v)
		}
		unserved("after AUTH as a user who is off", refused)
		c := as("everything")
		c.Want(t, "RESET", "RESET")
		unserved("after RESET", c)
		watcher := as("subcommands")
		for name, rules := range map[string][]string{
			"deleted": {"ACL", "DELUSER", "everything"}, "off": {"ACL", "SETUSER", "safe", "off"},
		} {
			user := map[string]string{"deleted": "everything", "off": "safe"}[name]
			c := as(user)
			for _, n := range nodes {
				n.Do(t, rules...)
			}
			rig.Eventually(t, rig.Patience, user+" is nobody", func() bool {
				// Another user looks: a client in the middle of a command is closed.
				return !strings.Contains(watcher.Must(t, "CLIENT", "LIST").Text, "user="+user+" ")
			})
			unserved("after the user is "+name, c)
		}
	})
}

// TestRightsAgainstHarm proves that a user who is confined cannot keep others from being served.
func TestRightsAgainstHarm(t *testing.T) {
	t.Parallel()
	eachUpstream(t, rightsUsers, func(t *testing.T, nodes []*rig.Server, p *rig.Proxy) {
		other := rig.Connect(t, p.Addr)
		other.Want(t, "OK", "AUTH", "everything", rightsPassword)
		for _, user := range []string{"prefixget", "prefixsafe", "safe", "inselector",
			"onlylocks", "pubsub"} {
			c := rig.Connect(t, p.Addr)
			c.Want(t, "OK", "AUTH", user, rightsPassword)
			for _, harm := range []string{
				"CONFIG SET requirepass owned", "CONFIG SET maxclients 1", "CONFIG SET timeout 1",
				"CONFIG GET requirepass",
				"CLIENT KILL TYPE normal", "CLIENT KILL USER everything", "CLIENT PAUSE 31536000000000",
				"CLIENT UNPAUSE",
				"MONITOR", "LOCKCTL BREAK job", "LOCKCTL LIST", "CLIENT LIST",
				"ACL SETUSER default on nopass",
				"SCRIPT FLUSH", "FLUSHALL", "SHUTDOWN ABORT", "DEBUG SLEEP 0",
			} {
				if user == "prefixsafe" || user == "safe" || user == "inselector" {
					if harm == "SCRIPT FLUSH" { // it is not @dangerous
						continue
					}
				}
				v := c.Call(t, strings.Fields(harm)...)
				if !v.IsError("NOPERM") && !refusedByName(v) {
					t.Errorf("%s: %s: %s", user, harm, v)
				}
			}
			other.Want(t, "PONG", "PING")
			newcomer := rig.Connect(t, p.Addr)
			newcomer.Want(t, "OK", "AUTH", "everything", rightsPassword)
			newcomer.Close()
		}
	})
}

// TestRightsInTransactions proves that MULTI makes no difference to what a user may do: what is denied is not
// queued, or fails when EXEC runs it.
func TestRightsInTransactions(t *testing.T) {
	t.Parallel()
	users := slices.DeleteFunc(slices.Clone(rightsUsers), func(u rightsUser) bool {
		return !slices.Contains([]string{"prefixsafe", "safe", "subcommands", "mixedkeys",
			"nochannels", "admin"},
			u.name)
	})
	judge := rig.StartRedis(t)
	makeRightsUsers(t, users, []*rig.Server{judge})
	samples := slices.DeleteFunc(samplesOfCommands(t, judge.Addr), func(s rightsSample) bool {
		return s.apart || slices.Contains([]string{"multi", "exec", "discard", "unwatch", "quit"}, s.name)
	})
	var calls [][]string
	for _, s := range samples {
		calls = append(calls, []string{"MULTI"}, s.args, []string{"EXEC"})
	}
	eachUpstream(t, users, func(t *testing.T, _ []*rig.Server, p *rig.Proxy) {
		for _, u := range users {
			c := rig.Connect(t, p.Addr)
			c.Want(t, "OK", "AUTH", u.name, rightsPassword)
			replies := pipelined(t, c, calls)
			for i, denied := range deniedAtRedis(t, judge.Addr, u, samples) {
				queued, ran := replies[3*i+1], replies[3*i+2]
				if denied && queued.Text == "QUEUED" && !ran.IsError() &&
					!(len(ran.Elems) == 1 && ran.Elems[0].IsError("NOPERM")) {
					t.Errorf("%s: %s is run: %s %.100s", u.name, samples[i], queued, ran)
				}
				if !denied && (queued.IsError("NOPERM") || strings.Contains(ran.Text, "NOPERM")) {
					t.Errorf("%s: %s is not run: %s %.100s", u.name, samples[i], queued, ran)
				}
			}
		}
	})
}
