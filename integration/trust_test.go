package integration

import (
	"syscall"
	"testing"
	"time"
)

// overOneRedisAndACluster runs test with two proxies in front of each.
func overOneRedisAndACluster(t *testing.T, test func(t *testing.T, one, two *lockproxy)) {
	for name, upstream := range map[string]func() string{
		"single":  func() string { return sharedRedis().addr },
		"cluster": func() string { return sharedCluster().addrs() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, startProxy(t, "--upstream", upstream()), startProxy(t, "--upstream", upstream()))
		})
	}
}

// A grant behind WAIT counts from when it was made, not from the request, which may be older than its ttl;
// the bound that a client can be certain of is the ttl of a CHECK or a RENEW, counted from when that was
// sent.
func TestTrustInAGrantBehindWait(t *testing.T) {
	overOneRedisAndACluster(t, func(t *testing.T, p, other *lockproxy) {
		for name, from := range map[string]*lockproxy{"one proxy": p, "two proxies": other} {
			for _, verb := range []string{"LOCK", "RLOCK"} {
				lock := "trust:" + name + verb + t.Name()
				holder, waiter, third := connect(t, p.addr), connect(t, from.addr), connect(t, p.addr)
				holder.must(t, "LOCK", lock, "TOKEN", "h", "PX", "60000")
				waiter.send(verb, lock, "TOKEN", "w", "PX", "700", "WAIT", "30000")
				waitersOf(t, p.addr, lock, 1)
				time.Sleep(time.Second)
				released := time.Now()
				holder.want(t, "(integer) 1", "UNLOCK", lock, "h")
				third.send("LOCK", lock, "TOKEN", "t", "PX", "1000", "WAIT", "30000")
				v, err := waiter.receive(patience)
				if err != nil || len(v.elems) != 4 || v.elems[2].int() > 700 {
					t.Fatalf("%s: %s %v", lock, v, err)
				}
				asked := time.Now()
				trusted := released.Add(time.Duration(v.elems[2].int()) * time.Millisecond) // the grant was made after that
				if c := waiter.must(t, "LOCKCTL", "CHECK", lock, "w"); len(c.elems) == 3 {
					trusted = asked.Add(time.Duration(c.elems[0].int()) * time.Millisecond)
				}
				v, err = third.receive(patience)
				if early := time.Until(trusted); err != nil || len(v.elems) != 4 || early > 0 {
					t.Errorf("%s: the next one got %s (%v) %v before the end of what could be trusted", lock, v, err, early)
				}
			}
		}
	})
}

// A hold that is kept alive can be trusted for the ttl of the last answer about it, counted from when that
// was asked for, also when the proxy that keeps it hangs and says nothing any more. R18 R19
func TestTrustInAHangingProxy(t *testing.T) {
	overOneRedisAndACluster(t, func(t *testing.T, live, hangs *lockproxy) {
		for _, ask := range [][]string{{"LOCKCTL", "CHECK", "", "h"}, {"RENEW", "", "TOKEN", "h"}} {
			lock := "hangs:" + ask[0] + t.Name()
			holder, next := connect(t, hangs.addr), connect(t, live.addr)
			holder.must(t, "LOCK", lock, "TOKEN", "h", "PX", "1500", "KEEPALIVE")
			time.Sleep(1700 * time.Millisecond) // it was renewed
			ask = append([]string{}, ask...)
			for i := range ask {
				if ask[i] == "" {
					ask[i] = lock
				}
			}
			if ask[0] == "RENEW" {
				ask = append(ask, "PX", "1500")
			}
			asked := time.Now()
			v := holder.must(t, ask...)
			hangs.signal(syscall.SIGSTOP)
			if len(v.elems) > 0 {
				v = v.elems[0]
			}
			trusted := asked.Add(time.Duration(v.int()) * time.Millisecond)
			if v.int() < 500 || v.int() > 1500 {
				t.Errorf("%v: %s", ask, v)
			}
			next.send("LOCK", lock, "TOKEN", "n", "PX", "1000", "WAIT", "30000")
			got, err := next.receive(patience)
			if early := time.Until(trusted); err != nil || len(got.elems) != 4 || early > 0 {
				t.Errorf("%v: the next one got %s (%v) %v before the end of what could be trusted", ask, got, err, early)
			}
			hangs.signal(syscall.SIGCONT)
		}
	})
}
