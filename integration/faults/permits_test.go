package faults

import (
	"fmt"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// Permits and rests while their slot is half here and half there, wherever the lock and the fence are: never
// more permits than there are, and nobody comes in while a lock rests. Fences rise. R2
func TestPermitsAndRestsInAHalfMovedSlot(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 3, 0)
	p := rig.StartProxy(t, "--upstream", c.Addrs())
	a, b := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
	var fences risingFences
	semlock := func(name, token string, more ...string) []string {
		return append([]string{"SEMLOCK", name, "PERMITS", "2", "TOKEN", token, "PX", "120000"}, more...)
	}
	fences.rose(t, a.Must(t, semlock("{half}:before", "x")...))
	fences.rose(t, a.Must(t, "LOCK", "{half}:rested", "TOKEN", "x", "PX", "120000", "ATLEAST", "120000"))
	h := leaveHalfMoved(t, t, c, "half")
	h.proxies = [2]*rig.Proxy{p, p}
	a.Want(t, "(integer) 1", "UNLOCK", "{half}:rested", "x")
	for i, at := range []*rig.Server{h.from, h.to} {
		h.fence(at)
		b.Want(t, "(nil)", "LOCK", "{half}:rested", "TOKEN", "y")
		b.Want(t, "(nil)", "RLOCK", "{half}:rested", "TOKEN", "y")
		for _, name := range []string{"{half}:before", fmt.Sprint("{half}:sem", i)} {
			if name != "{half}:before" {
				fences.rose(t, a.Must(t, semlock(name, "x")...))
			}
			fences.rose(t, b.Must(t, semlock(name, "y")...))
			b.Want(t, "(nil)", semlock(name, "z")...)
			b.Send(semlock(name, "z", "WAIT", "60000")...)
			rig.WaitersOf(t, p.Addr, name, 1)
			a.Want(t, "(integer) 1", "UNLOCK", name, "y")
			v, err := b.Receive(rig.Patience)
			if err != nil {
				t.Fatal(err)
			}
			fences.rose(t, v)
			a.Want(t, "(nil)", semlock(name, "w")...)
			a.Want(t, "(integer) 1", "UNLOCK", name, "z")
		}
		name := fmt.Sprint("{half}:rest", i)
		began := time.Now()
		fences.rose(t, a.Must(t, "LOCK", name, "TOKEN", "x", "PX", "60000", "ATLEAST", "3000"))
		a.Want(t, "(integer) 1", "UNLOCK", name, "x")
		a.Want(t, "(nil)", "UNLOCK", name, "x")
		fences.rose(t, b.Must(t, "LOCK", name, "TOKEN", "y", "WAIT", "60000"))
		if took := time.Since(began); took < 3*time.Second {
			t.Errorf("the next came after %v", took)
		}
		name, began = fmt.Sprint("{half}:semrest", i), time.Now()
		fences.rose(t, a.Must(t, semlock(name, "x", "ATLEAST", "1500")...))
		fences.rose(t, a.Must(t, semlock(name, "y", "ATLEAST", "120000")...))
		a.Want(t, "(integer) 1", "UNLOCK", name, "x")
		a.Want(t, "(integer) 1", "UNLOCK", name, "y")
		fences.rose(t, b.Must(t, semlock(name, "z", "WAIT", "60000")...))
		if took := time.Since(began); took < 1500*time.Millisecond {
			t.Errorf("the next permit came after %v", took)
		}
		a.Want(t, "(nil)", semlock(name, "w")...)
	}
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
