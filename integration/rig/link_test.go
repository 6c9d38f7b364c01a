package rig

import (
	"fmt"
	"testing"
	"time"
)

// A link passes what comes, and does each of its faults.
func TestLink(t *testing.T) {
	t.Parallel()
	s := StartRedis(t)
	k := StartLink(t, s.Addr)
	c := Connect(t, k.Addr())
	c.Want(t, "OK", "SET", "k", "a\r\nb")
	c.Want(t, `"a\r\nb"`, "GET", "k")

	k.Delay(50 * time.Millisecond)
	start := time.Now()
	c.Send("INCR", "n")
	c.Send("INCR", "n")
	for want := range 2 {
		if v, err := c.Receive(Patience); err != nil || v.Int() != int64(want+1) {
			t.Errorf("INCR over a slow link: %s %v", v, err)
		}
	}
	if took := time.Since(start); took < 100*time.Millisecond {
		t.Errorf("twice 50 ms, and the reply came after %v", took)
	}
	k.Delay(0)

	other := Connect(t, k.Addr())
	other.Want(t, "PONG", "PING")
	k.watch("cut-me")
	for keep, got := range map[int]string{0: "", 3: ":1", LostRequest: ""} {
		k.CutReply("cut-me", keep)
		for _, args := range [][]string{{"GET", "n"}, {"SETNX", "cut-me", "1"}, {"GET", "n"}} {
			c.Send(args...)
		}
		if v, err := c.Receive(Patience); err != nil || v.Text != "2" {
			t.Errorf("keep %d: the reply before the one to cut: %s %v", keep, v, err)
		}
		if v, err := c.Receive(Patience); err == nil {
			t.Errorf("keep %d: a reply came: %s", keep, v)
		} else if len(v.Raw) != max(keep, 0) || len(got) > len(v.Raw) {
			t.Errorf("keep %d: %q came of the reply", keep, v.Raw)
		}
		c = Connect(t, k.Addr())
		want := "(integer) 1"
		if keep == LostRequest {
			want = "(integer) 0"
		}
		c.Want(t, want, "DEL", "cut-me")
	}
	if k.Cuts() != 3 {
		t.Errorf("%d cuts", k.Cuts())
	}
	if n := k.saw("cut-me"); n != 2+3 { // and three DEL
		t.Errorf("%d requests with cut-me reached the server", n)
	}
	other.Want(t, "PONG", "PING")

	k.Refuse(true)
	if c, err := Dial(k.Addr()); err == nil && !c.Closed(Patience) {
		t.Error("a new connection lives although they are refused")
	}
	other.Want(t, "PONG", "PING")
	k.Refuse(false)

	k.HalfOpen(true)
	fresh := Connect(t, k.Addr())
	for _, d := range []*Conn{other, fresh} {
		d.Send("INCR", "n")
		if !d.Silent(100 * time.Millisecond) {
			t.Error("a half-open connection is not silent")
		}
	}
	k.HalfOpen(false)
	for _, d := range []*Conn{other, fresh} {
		d.Send("INCR", "n")
		if !d.Silent(100 * time.Millisecond) {
			t.Error("a connection that was half open is heard of again")
		}
	}
	c = Connect(t, k.Addr())
	c.Want(t, `"2"`, "GET", "n")
	k.Cut()
	if !c.Closed(Patience) || !other.Closed(Patience) {
		t.Error("connections live on after a cut")
	}
	Eventually(t, Patience, "no connection is left", func() bool { return k.open() == 0 })
}

// A cluster behind links names nothing but links: its proxy passes them, and so do
// redirects and fail-overs.
func TestLinkedCluster(t *testing.T) {
	t.Parallel()
	c := StartLinkedCluster(t, 3, 1)
	p := StartProxy(t, "--upstream", c.Nodes[0].Link.Addr())
	client := Connect(t, p.Addr)
	m := c.MasterOf(t, "foo")
	if m != c.Nodes[2] {
		t.Fatalf("foo is on %s, not on the third master", m.Addr)
	}
	if r := c.ReplicasOf(t, m); len(r) != 1 || r[0] != c.Nodes[5] {
		t.Errorf("replicas of %s: %v", m.Addr, r)
	}
	for _, n := range c.Nodes[:3] {
		n.Link.watch("through")
	}
	for i := range 30 {
		client.Want(t, "OK", "SET", fmt.Sprint("through:", i), "1")
	}
	sum := 0
	for _, n := range c.Nodes[:3] {
		sum += n.Link.saw("through")
	}
	if sum != 30 {
		t.Errorf("%d of 30 SETs came through links", sum)
	}
	client.Want(t, "OK", "SET", "foo", "1")
	c.Migrate(t, c.SlotOf(t, "foo"), m, c.Nodes[0], time.Millisecond)
	c.Nodes[0].Link.watch("foo")
	client.Want(t, `"1"`, "GET", "foo")
	if c.Nodes[0].Link.saw("foo") == 0 {
		t.Error("the redirect did not name the link")
	}
	c.Nodes[3].Promote(t)
	c.Nodes[3].Link.watch("bar")
	client.Want(t, "OK", "SET", "{foo}bar", "1")
	if c.Nodes[3].Link.saw("bar") == 0 {
		t.Error("after the fail-over the command did not come through the link of the new master")
	}
}
