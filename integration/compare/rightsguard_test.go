package compare

import (
	"slices"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// lockRules let a user hold locks and guard commands, in a transaction too, and add nothing to what it may do
// with the keys of the samples.
const lockRules = " (~lock:* +get +set +hgetall +hget +hmget +type +time +evalsha)"

// withLocks are the users, who may lock besides, and one who may run no script but those that Redis has.
func withLocks() (users []rightsUser) {
	all := append(slices.Clone(rightsUsers), rightsUser{"noeval", "~* &* +@all -eval"})
	for _, u := range all {
		users = append(users, rightsUser{u.name + "-locks", u.rules + lockRules})
	}
	return users
}

// TestRightsInGuard proves that GUARD gives nobody more than the guarded command has by itself: each command
// that GUARD runs, alone and between MULTI and EXEC, in pipelines, by users of all kinds. What counts is what
// the rules say, and what Redis says of the very command, which looks at some rights only while it runs.
func TestRightsInGuard(t *testing.T) {
	t.Parallel()
	judge := rig.StartRedis(t)
	users := withLocks()
	makeRightsUsers(t, users, []*rig.Server{judge})
	samples := samplesOfCommands(t, judge.Addr)
	eachUpstream(t, users, func(t *testing.T, nodes []*rig.Server, p *rig.Proxy) {
		users := users
		if len(nodes) > 1 && !*rig.Long { // make matrix has the others there, too
			users = slices.DeleteFunc(slices.Clone(users), func(u rightsUser) bool {
				return !slices.Contains([]string{"everything-locks", "prefix-locks", "noeval-locks"}, u.name)
			})
		}
		holder := rig.Connect(t, p.Addr)
		holder.Want(t, "OK", "AUTH", users[0].name, rightsPassword)
		holder.Must(t, "LOCK", "t", "TOKEN", "t", "PX", "3600000")
		samples := guardable(t, p.Addr, users[0], samples)
		ran := 0
		for _, u := range users {
			c, straight := rig.Connect(t, p.Addr), rig.Connect(t, judge.Addr)
			c.Want(t, "OK", "AUTH", u.name, rightsPassword)
			straight.Want(t, "OK", "AUTH", u.name, rightsPassword)
			var bare, calls [][]string
			for _, s := range samples {
				guard := append([]string{"GUARD", "t", "t"}, s.args...)
				bare = append(bare, s.args)
				calls = append(calls, guard, []string{"MULTI"}, guard, []string{"EXEC"})
			}
			denied := deniedAtRedis(t, judge.Addr, u, samples)
			said, through := pipelined(t, straight, bare), pipelined(t, c, calls)
			for i, s := range samples {
				alone, queued, exec := through[4*i], through[4*i+2], through[4*i+3]
				in := exec
				if len(exec.Elems) == 1 {
					in = exec.Elems[0]
				}
				for door, got := range map[string]rig.Reply{"GUARD": alone, "MULTI, GUARD": in} {
					refused := deniesRight(got) || got.IsError("EXECABORT")
					switch {
					case got.IsError("NOTHELD"):
						t.Fatalf("%s: %s %s: %s", u.name, door, s, got)
					case !refused:
						ran++
						if denied[i] || deniesRight(said[i]) {
							t.Errorf("%s: wider than Redis: %s %s: %.100s %.100s; Redis: %v %.100s",
								u.name, door, s, queued, got, denied[i], said[i])
						}
					case !denied[i] && !deniesRight(said[i]) && got.IsError("NOPERM") && door == "GUARD":
						t.Errorf("%s: narrower than Redis: %s %s: %.200s", u.name, door, s, got)
					}
				}
			}
		}
		t.Logf("%d calls, %d of %d users' ran", len(samples), ran, 2*len(samples)*len(users))
		if ran < len(samples)*len(users)/4 {
			t.Errorf("%d calls ran, and that is hardly any", ran)
		}
	})
}

// guardable are the samples that GUARD does not refuse by the name of their command.
func guardable(t *testing.T, addr string, u rightsUser, samples []rightsSample) (some []rightsSample) {
	t.Helper()
	var calls [][]string
	for _, s := range samples {
		calls = append(calls, append([]string{"GUARD", "t", "another"}, s.args...))
	}
	c := rig.Connect(t, addr)
	c.Want(t, "OK", "AUTH", u.name, rightsPassword)
	for i, v := range pipelined(t, c, calls) {
		if !refusedByName(v) && !v.IsError("CROSSSLOT") {
			some = append(some, samples[i])
		}
	}
	if len(some) < len(samples)/3 {
		t.Errorf("GUARD runs %d of %d calls", len(some), len(samples))
	}
	return some
}

// deniesRight says that a reply is about a right that the user lacks, in the words of any server or of the
// proxy, or that the proxy does not run the command because nobody would judge it.
func deniesRight(v rig.Reply) bool {
	return v.IsError() && slices.ContainsFunc([]string{
		"NOPERM", "ACL permissions", "ACL failure", "The user executing the script can't",
		"nothing would judge this", "with the rights of the proxy", "not with those of its user",
	}, func(words string) bool { return strings.Contains(v.Text, words) })
}

// TestGuardInDatabases proves that rules of Valkey that name databases hold inside GUARD.
func TestGuardInDatabases(t *testing.T) {
	t.Parallel()
	s := rig.StartRedis(rig.On(t, "valkey9"))
	s.Do(t, "ACL", "SETUSER", "lockproxy", "on", ">proxy", "~*", "&*", "+@all")
	s.Do(t, "ACL", "SETUSER", "amy", "on", ">"+rightsPassword, "~*", "+@all", "resetdbs", "db=0",
		"(+select resetdbs db=1)")
	p := rig.StartProxy(t, "--upstream", s.Addr, "--client-auth", "upstream", "--upstream-user", "lockproxy",
		"--upstream-password", "proxy")
	for _, addr := range []string{s.Addr, p.Addr} {
		c := rig.Connect(t, addr)
		c.Want(t, "OK", "AUTH", "amy", rightsPassword)
		guard := []string{}
		if addr == p.Addr {
			c.Must(t, "LOCK", "t", "TOKEN", "t")
			guard = []string{"GUARD", "t", "t"}
		}
		for db, denied := range map[string]bool{"0": false, "1": true} {
			c.Want(t, "OK", "SELECT", db)
			for _, call := range []string{"SET k v", "GET k", "COPY k l DB 1"} {
				got := c.Call(t, append(slices.Clone(guard), strings.Fields(call)...)...)
				if want := denied || strings.HasSuffix(call, "1"); got.IsError("NOPERM") != want {
					t.Errorf("%q %s in database %s: %s, want it denied: %v", guard, call, db, got, want)
				}
			}
		}
	}
}
