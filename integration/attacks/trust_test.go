package attacks

import (
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// overOneRedisAndACluster runs test with two proxies in front of each.
func overOneRedisAndACluster(t *testing.T, test func(t *testing.T, one, two *rig.Proxy)) {
	for name, upstream := range map[string]func() string{
		"single":  func() string { return rig.SharedRedis().Addr },
		"cluster": func() string { return rig.SharedCluster().Addrs() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, rig.StartProxy(t, "--upstream", upstream()), rig.StartProxy(t, "--upstream", upstream()))
		})
	}
}

// A grant behind WAIT counts from when it was made, not from the request, which may be older than its ttl;
// the bound that a client can be certain of is the ttl of a CHECK or a RENEW, counted from when that was
// sent.
func TestTrustInAGrantBehindWait(t *testing.T) {
	overOneRedisAndACluster(t, func(t *testing.T, p, other *rig.Proxy) {
		for name, from := range map[string]*rig.Proxy{"one proxy": p, "two proxies": other} {
			for _, verb := range []string{"LOCK", "RLOCK"} {
				lock := "trust:" + name + verb + t.Name()
				holder, third := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
				waiter := rig.Connect(t, from.Addr)
				holder.Must(t, "LOCK", lock, "TOKEN", "h", "PX", "60000")
				waiter.Send(verb, lock, "TOKEN", "w", "PX", "3000", "WAIT", "60000")
				rig.WaitersOf(t, p.Addr, lock, 1)
				time.Sleep(3300 * time.Millisecond)
				released := time.Now()
				holder.Want(t, "(integer) 1", "UNLOCK", lock, "h")
				third.Send("LOCK", lock, "TOKEN", "t", "PX", "20000", "WAIT", "60000")
				v, err := waiter.Receive(rig.Patience)
				if err != nil || len(v.Elems) != 4 || v.Elems[2].Int() > 3000 {
					t.Fatalf("%s: %s %v", lock, v, err)
				}
				asked := time.Now()
				// the grant was made after that
				trusted := released.Add(time.Duration(v.Elems[2].Int()) * time.Millisecond)
				if c := waiter.Must(t, "LOCKCTL", "CHECK", lock, "w"); len(c.Elems) == 3 {
					trusted = asked.Add(time.Duration(c.Elems[0].Int()) * time.Millisecond)
				}
				v, err = third.Receive(rig.Patience)
				if early := time.Until(trusted); err != nil || len(v.Elems) != 4 || early > 0 {
					t.Errorf("%s: the next one got %s (%v) %v before the end of what could be trusted",
						lock, v, err, early)
				}
			}
		}
	})
}

// A hold that is kept alive can be trusted for the ttl of the last answer about it, counted from when that
// was asked for, also when the proxy that keeps it hangs and says nothing any more. R18 R19
func TestTrustInAHangingProxy(t *testing.T) {
	overOneRedisAndACluster(t, func(t *testing.T, live, hangs *rig.Proxy) {
		for _, ask := range [][]string{{"LOCKCTL", "CHECK", "", "h"}, {"RENEW", "", "TOKEN", "h"}} {
			lock := "hangs:" + ask[0] + t.Name()
			holder, next := rig.Connect(t, hangs.Addr), rig.Connect(t, live.Addr)
			holder.Must(t, "LOCK", lock, "TOKEN", "h", "PX", "6000", "KEEPALIVE")
			time.Sleep(7 * time.Second) // it was renewed
			ask = append([]string{}, ask...)
			for i := range ask {
				if ask[i] == "" {
					ask[i] = lock
				}
			}
			if ask[0] == "RENEW" {
				ask = append(ask, "PX", "6000")
			}
			asked := time.Now()
			v := holder.Must(t, ask...)
			hangs.Signal(syscall.SIGSTOP)
			if len(v.Elems) > 0 {
				v = v.Elems[0]
			}
			trusted := asked.Add(time.Duration(v.Int()) * time.Millisecond)
			if v.Int() < 1 || v.Int() > 6000 {
				t.Errorf("%v: %s", ask, v)
			}
			next.Send("LOCK", lock, "TOKEN", "n", "PX", "20000", "WAIT", "60000")
			got, err := next.Receive(rig.Patience)
			if early := time.Until(trusted); err != nil || len(got.Elems) != 4 || early > 0 {
				t.Errorf("%v: the next one got %s (%v) %v before the end of what could be trusted", ask,
					got, err, early)
			}
			hangs.Signal(syscall.SIGCONT)
		}
	})
}
