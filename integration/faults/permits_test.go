package faults

import (
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// Permits and rests while their slot is half here and half there: never more permits than there are, and
// nobody comes in while a lock rests. Who waits for a permit gets it once the fence is there too. R2
func TestPermitsAndRestsInAHalfMovedSlot(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 3, 0)
	p := rig.StartProxy(t, "--upstream", c.Addrs(), "--retry-budget", "2m")
	quick := rig.Connect(t, rig.StartProxy(t, "--upstream", c.Addrs(), "--retry-budget", "300ms").Addr)
	a, b := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
	var fences risingFences
	semlock := func(name, token string, more ...string) []string {
		return append([]string{"SEMLOCK", name, "PERMITS", "2", "TOKEN", token, "PX", "120000"}, more...)
	}
	fences.rose(t, a.Must(t, semlock("{half}:before", "x")...))
	fences.rose(t, a.Must(t, "LOCK", "{half}:rested", "TOKEN", "x", "PX", "120000", "ATLEAST", "120000"))
	h := leaveHalfMoved(t, t, c, "half")
	fences.rose(t, a.Must(t, semlock("{half}:before", "y")...))
	b.Send(semlock("{half}:before", "z", "WAIT", "60000")...)
	rig.WaitersOf(t, p.Addr, "{half}:before", 1)
	h.fence(h.to)
	a.Want(t, "(integer) 1", "UNLOCK", "{half}:rested", "x")
	a.Want(t, "(integer) 1", "UNLOCK", "{half}:before", "y")
	for _, args := range [][]string{
		{"LOCK", "{half}:rested", "TOKEN", "y"}, {"RLOCK", "{half}:rested", "TOKEN", "y"},
		semlock("{half}:before", "w"), semlock("{half}:new", "w"),
	} {
		if v := quick.Call(t, args...); !v.IsError("TRYAGAIN") {
			t.Errorf("%q: %s", args, v)
		}
	}
	if !b.Silent(time.Second) {
		t.Error("a waiter is told of a permit, and there is no fence")
	}
	for _, name := range []string{"{half}:before", "{half}:rested"} {
		h.move(name, h.from, h.to)
	}
	v, err := b.Receive(rig.Patience)
	if err != nil {
		t.Fatal(err)
	}
	fences.rose(t, v)
	a.Want(t, "(nil)", "LOCK", "{half}:rested", "TOKEN", "y")
	a.Want(t, "(nil)", semlock("{half}:before", "w")...)
	a.Want(t, "(integer) 1", "UNLOCK", "{half}:before", "z")
	c.Migrate(t, h.slot, h.from, h.to, 0)
	b.Want(t, "(nil)", "LOCK", "{half}:rested", "TOKEN", "y")
	if v := a.Must(t, "LOCKCTL", "INFO", "{half}:before"); v.Field("used").Int() != 1 ||
		v.Field("of").Int() != 2 {
		t.Errorf("when the slot has moved: %s", v)
	}
}

// A Redis that comes back empty knows neither permits nor rests. Former holders are told, and fences are
// higher than before. R31
func TestPermitsAndRestsAfterARestart(t *testing.T) {
	t.Parallel()
	redis := rig.StartRedis(t)
	p := rig.StartProxy(t, "--upstream", redis.Addr)
	c, keeper := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
	var fences risingFences
	fences.rose(t, c.Must(t, "SEMLOCK", "{r}:sem", "PERMITS", "2", "TOKEN", "x", "PX", "120000"))
	fences.rose(t, keeper.Must(t, "SEMLOCK", "{r}:sem", "PERMITS", "2", "TOKEN", "k", "PX", "9000",
		"KEEPALIVE"))
	fences.rose(t, c.Must(t, "LOCK", "{r}:rest", "TOKEN", "x", "PX", "120000", "ATLEAST", "120000"))
	c.Want(t, "(integer) 1", "UNLOCK", "{r}:rest", "x")
	c.Want(t, "(nil)", "LOCK", "{r}:rest", "TOKEN", "y")
	redis.Restart(t)
	rig.Eventually(t, rig.Patience, "the loss of what was kept alive is told", func() bool {
		return c.Call(t, "LOCKCTL", "CHECK", "{r}:sem", "k").IsError("LOCKLOST")
	})
	c.Want(t, "(nil)", "UNLOCK", "{r}:sem", "x")
	c.Want(t, "(integer) 0", "RENEW", "{r}:sem", "x")
	fences.rose(t, c.Must(t, "SEMLOCK", "{r}:sem", "PERMITS", "1", "TOKEN", "y"))
	fences.rose(t, c.Must(t, "LOCK", "{r}:rest", "TOKEN", "y"))
}
