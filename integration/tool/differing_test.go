package tool

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// Two proxies that keep one lock in two places give it to two clients. Both say so wherever somebody looks,
// and serve on; `lockproxy check` says it before the second one runs.
func TestProxiesThatDiffer(t *testing.T) {
	t.Parallel()
	masters := rig.StartMasters(t, 3)
	redlock := []string{"--redlock", rig.Addrs(masters), "--redlock-node-timeout", "1500ms"}
	one := func() *rig.Server { return rig.StartRedis(t, durable...) }
	for setting, c := range map[string]struct {
		upstream   func() *rig.Server
		one, other []string
	}{
		"lock-prefix": {func() *rig.Server { return rig.StartCluster(t, 3, 0).Nodes[1] },
			nil, []string{"--lock-prefix", "other:"}},
		"lock-compat": {one, nil, []string{"--lock-compat", "adv:"}},
		"redlock-prefix": {one, slices.Concat(redlock, []string{"--redlock-prefix", "pay:"}),
			slices.Concat(redlock, []string{"--redlock-prefix", "adv:,pay:"})},
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			s := c.upstream()
			var proxies [2]*rig.Proxy
			var conns [2]*rig.Conn
			start := func(i int, args ...string) (id string) {
				proxies[i] = rig.StartProxy(t, append(upstream(s.Addr), args...)...)
				conns[i] = rig.Connect(t, proxies[i].Addr)
				conns[i].Call(t, "LOCK", "adv:1", "PX", "60000") // masters of RedLock do not vote yet
				return conns[i].Must(t, "LOCKCTL", "STATS").Field("proxy").Text
			}
			ids := []string{start(0, c.one...)}
			told := func(args []string) string {
				return run(t, slices.Concat([]string{"check"}, upstream(s.Addr), args)...).stdout
			}
			rig.Eventually(t, rig.Patience, "the first is alike, and the second would not be", func() bool {
				return strings.Contains(told(c.one), "ok   proxies     1 that run") &&
					strings.Contains(told(c.other), "fail proxies     "+ids[0]+" runs with other settings: "+
						setting+"; both would grant one lock. Remedy: ")
			})
			if proxies[0].Metric(t, "lockproxy_peers_differing") != 0 {
				t.Error("check is no proxy, and not to be warned of")
			}
			ids = append(ids, start(1, c.other...)) // its client is given what another has
			for i, p := range proxies {
				other := ids[1-i]
				p.Logged(t, `another proxy has other settings: both may grant one lock".* proxy=`+other+
					` settings=`+setting)
				if status, body, _ := p.Get("/readyz?strict"); status != http.StatusServiceUnavailable ||
					!strings.Contains(body, "two clients may get one lock: "+other+" ("+setting+")") {
					t.Errorf("%d %s", status, body)
				}
				if status, body, _ := p.Get("/readyz"); status != http.StatusOK {
					t.Errorf("%d %s", status, body)
				}
				if n := p.Metric(t, "lockproxy_peers_differing"); n != 1 {
					t.Errorf("%v in the metric", n)
				}
				v := conns[i].Must(t, "LOCKCTL", "STATS", "ALL").Field("differing")
				if v.Field(other).Text != setting {
					t.Errorf("STATS ALL: %s", v)
				}
			}
		})
	}
}

// The way of docs/changing-over.md to another lock-compat: a proxy of one step and one of the next never
// grant a lock both, while a hold of the first step can be freed. Without the steps they do.
func TestSettingsThatChangeInSteps(t *testing.T) {
	t.Parallel()
	const refusing = "lock,wlock,rlock,semlock,mlock"
	steps := [][]string{nil, {"--refused-commands", refusing},
		{"--refused-commands", refusing, "--lock-compat", "adv:"}, {"--lock-compat", "adv:"}}
	s := rig.StartRedis(t, durable...)
	var at []*rig.Conn
	for _, args := range steps {
		at = append(at, rig.Connect(t, rig.StartProxy(t, upstream(s.Addr, args...)...).Addr))
	}
	granted := func(i int) int {
		v, err := at[i].Do("LOCK", "adv:1", "TOKEN", "t"+strconv.Itoa(i), "PX", "600000")
		if err != nil {
			t.Fatal(err)
		}
		return len(v.Elems) / max(len(v.Elems), 1)
	}
	for _, c := range []struct{ one, next, grants int }{{0, 1, 1}, {1, 2, 0}, {2, 3, 1}, {0, 3, 2}} {
		s.Do(t, "FLUSHALL")
		if n := granted(c.one) + granted(c.next); n != c.grants {
			t.Errorf("%q beside %q: %d grants", steps[c.one], steps[c.next], n)
		}
	}
	at[1].Want(t, "(integer) 1", "UNLOCK", "adv:1", "t0")
}
