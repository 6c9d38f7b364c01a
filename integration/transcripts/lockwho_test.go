package transcripts

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// INFO says which client holds a lock and which one waits, also through another proxy. Addresses and users
// are for those who may run CLIENT LIST. R21
func TestWhoHoldsThroughAnotherProxy(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func() []*rig.Server{
		"single":  func() []*rig.Server { return []*rig.Server{rig.StartRedis(t)} },
		"cluster": func() []*rig.Server { return rig.StartCluster(t, 3, 0).Nodes },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whoHolds(t, start())
		})
	}
}

func whoHolds(t *testing.T, nodes []*rig.Server) {
	for _, n := range nodes {
		n.Do(t, "ACL", "SETUSER", "ops", "on", ">x", "~*", "&*", "+@all")
		n.Do(t, "ACL", "SETUSER", "shop", "on", ">x", "~lock:*", "+@all", "-@dangerous", "+keys",
			"+client|setname")
	}
	var proxies [2]*rig.Proxy
	for i := range proxies {
		proxies[i] = rig.StartProxy(t, "--upstream", nodes[0].Addr, "--client-auth", "upstream")
	}
	as := func(p *rig.Proxy, user, name string) *rig.Conn {
		c := rig.Connect(t, p.Addr)
		c.Want(t, "OK", "AUTH", user, "x")
		c.Want(t, "OK", "CLIENT", "SETNAME", name)
		return c
	}
	holder, waiter := as(proxies[0], "shop", "worker"), as(proxies[1], "shop", "next")
	ops, shop := as(proxies[1], "ops", "ops"), as(proxies[1], "shop", "eyes")
	holder.Must(t, "LOCK", "job", "TOKEN", "t", "PX", "600000")
	waiter.Send("LOCK", "job", "WAIT", "600000")
	id := as(proxies[0], "ops", "ops").Must(t, "LOCKCTL", "STATS").Field("proxy").Text

	see := func(c *rig.Conn, client string) rig.Reply {
		t.Helper()
		var v rig.Reply
		for until := time.Now().Add(rig.Patience); ; time.Sleep(20 * time.Millisecond) {
			v = c.Must(t, "LOCKCTL", "INFO", "job")
			hs, ws := v.Field("holders").Elems, v.Field("waiting").Elems
			if len(hs) == 1 && hs[0].Field("client").Text == client && len(ws) == 1 {
				return v
			}
			if time.Now().After(until) {
				t.Fatalf("not the holder %q and one waiter: %s", client, v)
			}
		}
	}
	v := see(ops, "worker")
	h, w := v.Field("holders").Elems[0], v.Field("waiting").Elems[0]
	addr := holder.LocalAddr().String()
	if h.Field("addr").Text != addr || h.Field("user").Text != "shop" || h.Field("proxy").Text != id {
		t.Errorf("%s, want %s, shop and %s", h, addr, id)
	}
	if since := h.Field("since").Int(); since < time.Now().Add(-time.Hour).UnixMilli() ||
		h.Field("waited").Int() > 600_000 {
		t.Errorf("%s", h)
	}
	if w.Field("client").Text != "next" || w.Field("user").Text != "shop" ||
		w.Field("addr").Text != waiter.LocalAddr().String() || w.Field("proxy").Text == id {
		t.Errorf("%s", w)
	}
	v = see(shop, "worker")
	for _, one := range []rig.Reply{v.Field("holders").Elems[0], v.Field("waiting").Elems[0]} {
		if one.Field("addr").Text+one.Field("user").Text != "" {
			t.Errorf("who may not run CLIENT LIST sees %s", one)
		}
	}
	rig.Eventually(t, rig.Patience, "LIST says where the holder is", func() bool {
		return strings.Contains(ops.Must(t, "LOCKCTL", "LIST").String(), addr)
	})
	proxies[0].Signal(syscall.SIGSTOP)
	defer proxies[0].Signal(syscall.SIGCONT)
	see(ops, "")
}
