package faults

import (
	"fmt"
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
	masters := rig.StartMasters(t, 3)
	var near, delayed []string
	for _, s := range masters {
		link := rig.StartLink(t, s.Addr)
		link.Delay(late)
		near, delayed = append(near, s.Addr), append(delayed, link.Addr())
	}
	const lease = 24 * time.Second // a node timeout of RedLock is a twentieth at most
	px := []string{"PX", "24000"}
	start := func(upstream string, masters []string) *rig.Proxy {
		return rig.StartProxy(t, "--upstream", upstream, "--redlock", strings.Join(masters, ","),
			"--redlock-prefix", "quorum:", "--redlock-node-timeout", "1200ms", "--redlock-max-lease", "24s",
			"--lock-lease", "24s")
	}
	p, q := start(far.Addr(), delayed), start(redis.Addr, near)

	for _, p := range []*rig.Proxy{p, q} {
		rig.Eventually(t, time.Minute, "all masters vote", func() bool {
			return p.Metric(t, "lockproxy_redlock_node_votes") == 3
		})
	}
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
					// How much more than was left its client was told. On a busy machine it reads late.
					least := time.Hour
					for try := 0; try < 10 && least > 2*time.Millisecond; try++ { // CHECK tells of whole ms
						name := fmt.Sprint(engine, verb, "-", how, ":", try)
						holder, waiter := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
						other := rig.Connect(t, q.Addr)
						if how != "free" {
							hold := px
							if free == nil {
								hold = []string{"PX", "1000"}
							}
							granted(t, holder, append([]string{"LOCK", name, "TOKEN", "h"}, hold...)...)
						}
						waiter.Send(append([]string{verb, name, "TOKEN", "w", "WAIT", "60000"}, px...)...)
						if free != nil && how != "free" {
							rig.Eventually(t, rig.Patience, "it waits", func() bool {
								return other.Must(t, "LOCKCTL", "INFO", name).Field("waiters").Int() > 0 ||
									engine == "quorum:" // whose waiters other proxies do not see
							})
							time.Sleep(4 * late)
							free(holder, other, name)
						}
						v, err := waiter.Receive(time.Minute)
						at := time.Now()
						if busy(v) {
							continue
						}
						if err != nil || len(v.Elems) != 4 {
							t.Fatalf("%s: %s %v", verb, v, err)
						}
						told := time.Duration(v.Elems[2].Int()) * time.Millisecond
						c, err := other.Do("LOCKCTL", "CHECK", name, "w")
						if busy(c) {
							continue
						}
						if err != nil || len(c.Elems) != 3 {
							t.Fatalf("CHECK: %s %v", c, err)
						}
						left, since := time.Duration(c.Elems[0].Int())*time.Millisecond, time.Since(at)
						t.Logf("told %v, left %v, %v later", told, left, since)
						least = min(least, told-left-since)
						if told < lease/2 {
							t.Errorf("told %v of a lease of %v", told, lease)
						}
					}
					if least > 2*time.Millisecond {
						t.Errorf("told %v more than was left, at least", least)
					}
				})
			}
		}
	}
}

// busy says whether the servers took too long to answer, as on a busy machine.
func busy(v rig.Reply) bool { return v.IsError("NOQUORUM") || v.IsError("TRYAGAIN") }

// granted asks until a LOCK is granted.
func granted(t *testing.T, c *rig.Conn, command ...string) {
	t.Helper()
	rig.Eventually(t, time.Minute, strings.Join(command, " "), func() bool {
		v, err := c.Do(command...)
		if err != nil || len(v.Elems) != 4 && !busy(v) {
			t.Fatalf("%q: %s %v", command, v, err)
		}
		return !busy(v)
	})
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
