package faults

import (
	"strings"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// The ttl that a LOCK with WAIT or TRIES answers is left when the answer comes, however long the servers took
// for it: its client, which knows not when the grant was made, need subtract nothing. R25 R27
func TestTTLOfWhoWaited(t *testing.T) {
	t.Parallel()
	const late = 100 * time.Millisecond // each way between the proxy and its servers
	redis := rig.StartRedis(t)
	far := rig.StartLink(t, redis.Addr)
	far.Delay(late)
	var near, delayed []string
	for _, s := range oldMasters() {
		link := rig.StartLink(t, s.Addr)
		link.Delay(late)
		near, delayed = append(near, s.Addr), append(delayed, link.Addr())
	}
	start := func(upstream string, masters []string) *rig.Proxy {
		p := rig.StartProxy(t, "--upstream", upstream, "--redlock", strings.Join(masters, ","),
			"--redlock-prefix", "quorum:", "--redlock-node-timeout", "5s", "--redlock-max-lease", "20s",
			"--lock-lease", "20s")
		rig.Eventually(t, rig.Patience, "all masters vote", func() bool {
			return p.Metric(t, "lockproxy_redlock_node_votes") == 3
		})
		return p
	}
	p, q := start(far.Addr(), delayed), start(redis.Addr, near)
	for _, engine := range []string{"single:", "quorum:"} {
		for _, verb := range []string{"LOCK", "WLOCK", "RLOCK"} {
			for how, free := range map[string]func(holder, other *rig.Conn, name string){
				"here":      func(c, _ *rig.Conn, name string) { c.Must(t, "UNLOCK", name, "h") },
				"elsewhere": func(_, c *rig.Conn, name string) { c.Must(t, "UNLOCK", name, "h") },
				"expired":   nil,
				"free":      func(_, _ *rig.Conn, _ string) {},
			} {
				if engine == "quorum:" && free == nil {
					continue // the shortest lease there is long
				}
				t.Run(engine+verb+"-"+how, func(t *testing.T) {
					t.Parallel()
					name, lease := engine+verb+"-"+how, "20000"
					holder, waiter := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
					other := rig.Connect(t, q.Addr)
					if free == nil {
						lease = "2000"
					}
					if how != "free" {
						granted(t, holder, "LOCK", name, "TOKEN", "h", "PX", lease)
					}
					waiter.Send(verb, name, "TOKEN", "w", "WAIT", "600000", "PX", "20000")
					if free != nil && how != "free" {
						rig.Eventually(t, rig.Patience, "it waits", func() bool {
							return other.Must(t, "LOCKCTL", "INFO", name).Field("waiters").Int() > 0 ||
								engine == "quorum:" // whose waiters other proxies do not see
						})
						time.Sleep(4 * late)
						free(holder, other, name)
					}
					v, err := waiter.Receive(2 * rig.Patience)
					if err != nil || len(v.Elems) != 4 {
						t.Fatalf("%s: %s %v", verb, v, err)
					}
					// The answer was on its way for that long at least.
					told := time.Duration(v.Elems[2].Int()) * time.Millisecond
					if told > 20*time.Second-late || told < 10*time.Second {
						t.Errorf("told %v of a lease of 20s, %v behind the grant", told, late)
					}
				})
			}
		}
	}
}

// busy says whether the servers took too long to answer, as on a busy machine.
func busy(v rig.Reply) bool { return v.IsError("NOQUORUM") || v.IsError("TRYAGAIN") }

// granted asks until a LOCK is granted.
func granted(t *testing.T, c *rig.Conn, command ...string) (v rig.Reply) {
	t.Helper()
	rig.Eventually(t, rig.Patience, strings.Join(command, " "), func() (ok bool) {
		var err error
		v, err = c.Do(command...)
		if err != nil || len(v.Elems) != 4 && !busy(v) {
			t.Fatalf("%q: %s %v", command, v, err)
		}
		return !busy(v)
	})
	return v
}

// A grant whose lease may be over when its client can be told is given back, and its client is told that:
// also without WAIT. R2 R25
func TestGrantThatMayBeOver(t *testing.T) {
	t.Parallel()
	redis := rig.StartRedis(t)
	far := rig.StartLink(t, redis.Addr)
	c := rig.Connect(t, rig.StartProxy(t, "--upstream", far.Addr()).Addr)
	far.Delay(100 * time.Millisecond)
	for name, command := range map[string][]string{
		"write":  {"LOCK", "write", "TOKEN", "w", "PX", "150"},
		"read":   {"RLOCK", "read", "TOKEN", "w", "PX", "150"},
		"permit": {"SEMLOCK", "permit", "PERMITS", "2", "TOKEN", "w", "PX", "150"},
	} {
		v, err := c.Do(command...)
		if err != nil || !strings.HasPrefix(v.Text, "TRYAGAIN the lock was granted, but its lease may be") {
			t.Errorf("%q: %s %v", command, v, err)
		}
		rig.Eventually(t, rig.Patience, name+" is free", func() bool {
			return redis.Do(t, "EXISTS", "lock:{"+name+"}").Int() == 0
		})
	}
}
