package faults

import (
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// Everything between lockproxy and a node forgets the connections that there are, and says nothing; new ones
// work. What only reads is answered, nothing runs twice, who wrote is told that nobody knows, and a hold that
// is kept stays. It is not the time-out that ends the connections, which is longer than any wait here.
func TestForgottenConnections(t *testing.T) {
	t.Parallel()
	s := rig.StartRedis(t)
	k := rig.StartLink(t, s.Addr)
	p := rig.StartProxy(t, "--upstream", k.Addr(), "--upstream-timeout", "1h")
	holder, writer, reader, watcher := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr), rig.Connect(t, p.Addr),
		rig.Connect(t, p.Addr)
	fence := holder.Must(t, "LOCK", "kept", "TOKEN", "t", "PX", "9000", "KEEPALIVE").Elems[1].Int()
	for _, c := range []*rig.Conn{writer, watcher} {
		c.Must(t, "INCR", "n")
	}
	reader.Want(t, `"2"`, "GET", "n")
	watcher.Want(t, "OK", "WATCH", "n")
	watcher.Want(t, "OK", "MULTI")
	watcher.Want(t, "QUEUED", "INCR", "n")
	k.Forget()
	writer.Send("INCR", "n")
	reader.Send("GET", "n")
	watcher.Send("EXEC")
	for _, c := range []*rig.Conn{writer, watcher} {
		if v, err := c.Receive(rig.Patience); err != nil ||
			!strings.Contains(v.Text, "may or may not have run") {
			t.Errorf("%s %v, want that it may or may not have run", v, err)
		}
	}
	if v, err := reader.Receive(rig.Patience); err != nil || v.String() != `"2"` {
		t.Errorf("GET: %s %v", v, err)
	}
	writer.Want(t, "(integer) 3", "INCR", "n")
	p.Logged(t, "connections to a node were forgotten on the way")
	if now := renewed(t, holder, "kept", "t"); now != fence {
		t.Errorf("the kept hold has fence %d, and had %d", now, fence)
	}
}

// A node that holds writes back is asked, and says so: no connection is given up, however often it is asked.
func TestPausedIsNotForgotten(t *testing.T) {
	t.Parallel()
	s := rig.StartRedis(t)
	p := rig.StartProxy(t, "--upstream", s.Addr)
	c, node := rig.Connect(t, p.Addr), rig.Connect(t, s.Addr)
	c.Want(t, "OK", "SET", "k", "0")
	node.Want(t, "OK", "CLIENT", "PAUSE", "600000", "WRITE")
	c.Send("SET", "k", "1")
	rig.Eventually(t, rig.Patience, "Redis was asked twice for what it owes", func() bool {
		calls := strings.Split(s.Info(t, "commandstats", "cmdstat_client|list"), ",")[0]
		return calls != "" && calls != "calls=1"
	})
	node.Want(t, "OK", "CLIENT", "UNPAUSE")
	if v, err := c.Receive(rig.Patience); err != nil || v.Text != "OK" {
		t.Errorf("%s %v", v, err)
	}
	if log := p.Log.String(); strings.Contains(log, "forgotten") {
		t.Error(log)
	}
}
