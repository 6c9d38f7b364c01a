package faults

import (
	"fmt"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// heard returns the next message of a subscriber.
func heard(t *testing.T, c *rig.Conn) string {
	t.Helper()
	v, err := c.Receive(rig.Patience)
	if err != nil || len(v.Elems) < 3 {
		t.Fatalf("no message: %s %v", v, err)
	}
	return v.Elems[len(v.Elems)-1].Text
}

// notified has asker wait for a lock that holder then frees.
func notified(t *testing.T, asker, holder *rig.Conn, name, channel string) {
	t.Helper()
	holder.Must(t, "LOCK", name, "TOKEN", "first", "PX", "60000")
	asker.Want(t, "QUEUED", "LOCK", name, "TOKEN", "second", "PX", "60000", "WAIT", "50000",
		"NOTIFY", channel)
	rig.Eventually(t, rig.Patience, "it waits", func() bool {
		return holder.Must(t, "LOCKCTL", "INFO", name).Field("waiters").Int() == 1
	})
	holder.Want(t, "(integer) 1", "UNLOCK", name, "first")
}

// A message counts as heard wherever its listener is: at another proxy, at any master of the cluster, by its
// name or by a pattern. Where nobody is, the lock is given back.
func TestNotifyListeners(t *testing.T) {
	t.Parallel()
	cl := rig.StartCluster(t, 3, 0)
	a := rig.StartProxy(t, "--upstream", cl.Addrs())
	b := rig.StartProxy(t, "--upstream", cl.Addrs())
	asker, holder := rig.Connect(t, a.Addr), rig.Connect(t, b.Addr)
	at := []string{a.Addr, b.Addr}
	for _, n := range cl.Nodes {
		at = append(at, n.Addr)
	}
	for i, addr := range at {
		for j, verb := range []string{"SUBSCRIBE", "PSUBSCRIBE"} {
			name, channel := fmt.Sprintf("job%d%d", i, j), fmt.Sprintf("news%d%d", i, j)
			c := rig.Connect(t, addr)
			c.Must(t, verb, strings.Replace(channel, "news", []string{"news", "new?"}[j], 1))
			notified(t, asker, holder, name, channel)
			if text := heard(t, c); !strings.HasPrefix(text, "granted "+name+" ") {
				t.Errorf("%s at %s: %s", verb, addr, text)
			}
			if v := holder.Must(t, "LOCKCTL", "CHECK", name, "second"); len(v.Elems) != 3 {
				t.Errorf("%s at %s: the lock is not held: %s", verb, addr, v)
			}
			c.Close()
		}
	}
	notified(t, asker, holder, "job", "nobody")
	rig.Eventually(t, rig.Patience, "it is given back", func() bool {
		state, _ := rig.LockInfo(t, a.Addr, "job")
		return state == "free"
	})
}

// A master may become a replica while it has the subscription of a listener, who is told all the same:
// replicas of a cluster get what is published, too. So the lock is not given back, though for a while the
// cluster does not tell of the former master. R25
func TestNotifyInAFailover(t *testing.T) {
	t.Parallel()
	cl := rig.StartCluster(t, 3, 1)
	p := rig.StartProxy(t, "--upstream", cl.Addrs())
	former := cl.MasterOf(t, "any")
	asker, holder, listener := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr), rig.Connect(t, former.Addr)
	listener.Must(t, "SUBSCRIBE", "news")
	next := cl.ReplicasOf(t, former)[0]
	next.Promote(t)
	p.Logged(t, `msg="topology changed".* masters=\S*[^\]]*`+next.Addr)
	for n := range 20 {
		notified(t, asker, holder, fmt.Sprint("job", n), "news")
		text := heard(t, listener)
		if v := holder.Must(t, "UNLOCK", strings.Fields(text)[1], "second"); v.Int() != 1 {
			t.Errorf("told %q, and UNLOCK says %s", text, v)
		}
	}
}

// A proxy that ends tells those who wait with NOTIFY, through the others.
func TestNotifyDrain(t *testing.T) {
	t.Parallel()
	up := rig.StartRedis(t)
	a, b := rig.StartProxy(t, "--upstream", up.Addr), rig.StartProxy(t, "--upstream", up.Addr)
	listener, holder, asker := rig.Connect(t, b.Addr), rig.Connect(t, b.Addr), rig.Connect(t, a.Addr)
	listener.Must(t, "SUBSCRIBE", "news")
	holder.Must(t, "LOCK", "job", "TOKEN", "first", "PX", "60000")
	asker.Want(t, "QUEUED", "LOCK", "job", "TOKEN", "second", "WAIT", "50000", "NOTIFY", "news")
	rig.Eventually(t, rig.Patience, "it waits", func() bool {
		return a.Metric(t, "lockproxy_lock_waiters") == 1
	})
	a.Drain(t)
	if text := heard(t, listener); !strings.HasPrefix(text, "error job TRYAGAIN lockproxy is shutting down") {
		t.Error(text)
	}
	if _, n := rig.LockInfo(t, b.Addr, "job"); n != 0 {
		t.Errorf("%d waiters are left", n)
	}
}

// A Redis that takes the message of a grant and does not answer: it is not sent twice, and the hold stays,
// for somebody may have heard of it. The Redis answers what else it is asked, so that it is not known to be
// lost before it has the message, however long that takes.
func TestNotifyInDoubt(t *testing.T) {
	t.Parallel()
	up := rig.StartRedis(t)
	p := startOldRedlock(t, up.Addr, "--retry-budget", "1s")
	listener, holder, asker := rig.Connect(t, up.Addr), rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
	listener.Must(t, "SUBSCRIBE", "news")
	holder.Must(t, "SET", "x", "1") // the proxy is connected
	holder.Must(t, "LOCK", "doubted", "TOKEN", "first", "PX", "20000")
	asker.Want(t, "QUEUED", "LOCK", "doubted", "TOKEN", "second", "PX", "20000", "WAIT", "50000",
		"NOTIFY", "news")
	up.Do(t, "CLIENT", "PAUSE", "3600000", "WRITE") // PUBLISH waits, PING does not
	holder.Want(t, "(integer) 1", "UNLOCK", "doubted", "first")
	p.Logged(t, "nobody knows whether its client was told")
	up.Do(t, "CLIENT", "UNPAUSE")
	if text := heard(t, listener); !strings.HasPrefix(text, "granted doubted ") {
		t.Error(text)
	}
	if v := holder.Must(t, "LOCKCTL", "CHECK", "doubted", "second"); len(v.Elems) != 3 {
		t.Errorf("the lock is not held: %s", v)
	}
}
