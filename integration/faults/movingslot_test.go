package faults

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// halfMoved is a slot of a cluster that is on its way from one master to another, and stays so.
type halfMoved struct {
	t        *testing.T
	slot     int
	from, to *rig.Server
	proxies  [2]*rig.Proxy
}

// leaveHalfMoved has the slot of a tag leave its master.
func leaveHalfMoved(t *testing.T, l rig.Life, c *rig.Cluster, tag string) *halfMoved {
	h := &halfMoved{t: t, slot: c.SlotOf(l, tag), from: c.MasterOf(l, tag)}
	if h.to = c.Nodes[0]; h.to == h.from {
		h.to = c.Nodes[1]
	}
	s := strconv.Itoa(h.slot)
	h.to.Do(l, "CLUSTER", "SETSLOT", s, "IMPORTING", h.from.Do(l, "CLUSTER", "MYID").Text)
	h.from.Do(l, "CLUSTER", "SETSLOT", s, "MIGRATING", h.to.Do(l, "CLUSTER", "MYID").Text)
	return h
}

// fence moves the fence of the slot to a node. The source takes nothing back while the slot leaves it.
func (h *halfMoved) fence(at *rig.Server) {
	h.t.Helper()
	slot := strconv.Itoa(h.slot)
	h.from.Do(h.t, "CLUSTER", "SETSLOT", slot, "STABLE")
	defer h.from.Do(h.t, "CLUSTER", "SETSLOT", slot, "MIGRATING", h.to.Do(h.t, "CLUSTER", "MYID").Text)
	for _, n := range []*rig.Server{h.from, h.to} {
		for _, key := range n.Do(h.t, "CLUSTER", "GETKEYSINSLOT", slot, "1000").Strings() {
			if strings.HasPrefix(key, "lock:fence:") && n != at {
				h.migrate(key, n, at)
			}
		}
	}
}

// migrate moves a key to a node.
func (h *halfMoved) migrate(key string, from, to *rig.Server) {
	h.t.Helper()
	v := from.Do(h.t, "MIGRATE", "127.0.0.1", strconv.Itoa(to.Port), key, "0", "5000")
	if v.Text != "OK" {
		h.t.Fatalf("MIGRATE of %s: %s", key, v)
	}
}

// move moves a lock to a node.
func (h *halfMoved) move(name string, from, to *rig.Server) {
	h.t.Helper()
	h.migrate("lock:"+name, from, to)
}

// holds says that a node has a lock.
func (h *halfMoved) holds(at *rig.Server, name string) {
	h.t.Helper()
	for _, key := range at.Do(h.t, "CLUSTER", "GETKEYSINSLOT", strconv.Itoa(h.slot), "1000").Strings() {
		if key == "lock:"+name {
			return
		}
	}
	h.t.Errorf("%s has no %s: the test does not test", at.Addr, name)
}

// risingFences are those that were told, in the order in which they were granted.
type risingFences struct{ last int64 }

func (f *risingFences) rose(t *testing.T, v rig.Reply) string {
	t.Helper()
	if len(v.Elems) != 4 {
		t.Fatalf("no grant: %s", v)
	}
	n := v.Elems[1].Int()
	if n <= f.last || n < 1e15 {
		t.Errorf("fence %d behind %d", n, f.last)
	}
	f.last = n
	return strconv.FormatInt(n, 10)
}

// Locks go on in a slot that is half here and half there, for as long as that lasts: with every verb,
// wherever the lock and the fence of its slot are. And fences rise. R2 R8
func TestHalfMovedSlot(t *testing.T) {
	c := rig.StartCluster(t, 3, 0)
	var p [2]*rig.Proxy
	for i := range p {
		p[i] = rig.StartProxy(t, "--upstream", c.Addrs())
	}
	a, b := rig.Connect(t, p[0].Addr), rig.Connect(t, p[1].Addr)
	a.Must(t, "LOCK", "{half}:first", "TOKEN", "first", "PX", "600000")
	a.Must(t, "UNLOCK", "{half}:first", "first")
	aheadOfClock(t, c, "half")
	before := map[string]string{}
	for _, name := range strings.Fields("renewed checked waited again freed broken taken there") {
		v := a.Must(t, "LOCK", "{half}:"+name, "TOKEN", "old", "PX", "600000")
		before[name] = strconv.FormatInt(v.Elems[1].Int(), 10)
	}
	h := leaveHalfMoved(t, t, c, "half")
	h.proxies = p
	old(t, h, a, b, before)
	for _, at := range []*rig.Server{h.from, h.to} {
		h.fence(at)
		fresh(t, h, a, b, fmt.Sprintf("{half}:%d", at.Port))
	}
	for _, one := range p {
		if one.Metric(t, "lockproxy_redirects_total") == 0 {
			t.Error("no redirect was followed: the test did not test")
		}
	}
}

// aheadOfClock has the fences of a slot be a day ahead of the clock: they rise by what is stored alone then,
// after LOCKCTL BREAK too.
func aheadOfClock(t *testing.T, c *rig.Cluster, tag string) {
	t.Helper()
	master, slot := c.MasterOf(t, tag), strconv.Itoa(c.SlotOf(t, tag))
	for _, key := range master.Do(t, "CLUSTER", "GETKEYSINSLOT", slot, "1000").Strings() {
		if strings.HasPrefix(key, "lock:fence:") {
			ahead := time.Now().Add(24 * time.Hour).UnixMicro()
			master.Do(t, "SETRANGE", key, "0", strconv.FormatInt(ahead, 10))
			return
		}
	}
	t.Fatal("the slot has no fence")
}

// old is about plain locks that were taken before their slot moved, at the source, with the fence there and
// then at the target.
func old(t *testing.T, h *halfMoved, a, b *rig.Conn, fence map[string]string) {
	t.Helper()
	h.holds(h.from, "{half}:renewed")
	if v := a.Must(t, "RENEW", "{half}:renewed", "old", "PX", "900000"); v.Int() < 800000 {
		t.Errorf("RENEW: %s", v)
	}
	b.Want(t, "(nil)", "LOCK", "{half}:renewed", "TOKEN", "b")
	for _, c := range []*rig.Conn{a, b} {
		if v := c.Must(t, "LOCKCTL", "CHECK", "{half}:checked", "old"); len(v.Elems) != 3 ||
			v.Elems[1].Int() != grantOf(fence["checked"]) {
			t.Errorf("CHECK: %s, want the fence %s", v, fence["checked"])
		}
	}
	a.Want(t, "(integer) 1", "UNLOCK", "{half}:checked", "old")
	v := a.Must(t, "LOCK", "{half}:again", "TOKEN", "old", "PX", "600000", "REENTRANT")
	if v.Elems[3].Int() != 2 || v.Elems[1].Int() != grantOf(fence["again"]) {
		t.Errorf("again: %s, want the fence %s", v, fence["again"])
	}
	h.fence(h.to)
	a.Want(t, "(integer) 0", "UNLOCK", "{half}:again", "old")
	a.Want(t, "(integer) 1", "UNLOCK", "{half}:again", "old")
	b.Send("LOCK", "{half}:waited", "TOKEN", "b", "WAIT", "600000")
	rig.WaitersOf(t, h.proxies[0].Addr, "{half}:waited", 1)
	h.holds(h.from, "{half}:waited")
	a.Want(t, "(integer) 1", "UNLOCK", "{half}:waited", "old", "ID", "u1")
	v, err := b.Receive(rig.Patience)
	if err != nil {
		t.Fatal(err)
	}
	(&risingFences{last: grantOf(fence["waited"])}).rose(t, v)
	a.Want(t, "(integer) 1", "UNLOCK", "{half}:waited", "old", "ID", "u1")
	b.Want(t, "(integer) 1", "UNLOCK", "{half}:waited", "b")
	a.Want(t, "(integer) 1", "UNLOCK", "{half}:freed", "old", "ID", "u2")
	b.Want(t, "(integer) 1", "UNLOCK", "{half}:freed", "old", "ID", "u2")
	b.Want(t, "(nil)", "UNLOCK", "{half}:freed", "old")
	b.Want(t, "(integer) 1", "LOCKCTL", "BREAK", "{half}:broken")
	rising := &risingFences{last: grantOf(fence["broken"])}
	rising.rose(t, a.Must(t, "LOCK", "{half}:broken", "TOKEN", "new"))
	a.Want(t, "(integer) 1", "UNLOCK", "{half}:broken", "new")
	rising = &risingFences{last: grantOf(fence["taken"])}
	rising.rose(t, b.Must(t, "LOCK", "{half}:taken", "TOKEN", "new", "BREAK"))
	a.Want(t, "(nil)", "UNLOCK", "{half}:taken", "old")
	a.Want(t, "(integer) 1", "UNLOCK", "{half}:taken", "new")
	h.fence(h.from)
	h.move("{half}:there", h.from, h.to)
	b.Want(t, "(nil)", "LOCK", "{half}:there", "TOKEN", "b")
	a.Want(t, "(integer) 1", "UNLOCK", "{half}:there", "old")
	a.Want(t, "(integer) 1", "UNLOCK", "{half}:renewed", "old")
}

func grantOf(fence string) int64 {
	n, _ := strconv.ParseInt(fence, 10, 64)
	return n
}

// fresh is about a lock that is free when its slot moves, and so made at the target.
func fresh(t *testing.T, h *halfMoved, a, b *rig.Conn, name string) {
	t.Helper()
	var fences risingFences
	f := fences.rose(t, a.Must(t, "LOCK", name, "TOKEN", "a", "PX", "600000"))
	h.holds(h.to, name)
	for _, again := range []*rig.Conn{a, b} {
		if v := again.Must(t, "LOCK", name, "TOKEN", "a", "PX", "600000"); v.Elems[1].Int() != grantOf(f) {
			t.Errorf("the same token again: %s, want the fence %s", v, f)
		}
		if v := again.Must(t, "LOCKCTL", "CHECK", name, "a"); v.Elems[1].Int() != grantOf(f) {
			t.Errorf("CHECK: %s, want the fence %s", v, f)
		}
		if v := again.Must(t, "LOCKCTL", "INFO", name); v.Field("fence").Int() != grantOf(f) {
			t.Errorf("INFO: %s, want the fence %s", v, f)
		}
	}
	b.Want(t, "(nil)", "LOCK", name, "TOKEN", "b")
	b.Want(t, "(nil)", "UNLOCK", name, "b")
	a.Must(t, "RENEW", name, "a", "PX", "700000")
	a.Must(t, "RENEW", name, "a", "PX", "700000", "FENCE", f)
	if v := a.Must(t, "LOCK", name, "TOKEN", "a", "REENTRANT", "ID", "one"); v.Elems[3].Int() != 2 {
		t.Errorf("REENTRANT: %s", v)
	}
	b.Must(t, "LOCK", name, "TOKEN", "a", "REENTRANT", "ID", "one")
	b.Want(t, "(integer) 0", "UNLOCK", name, "a", "ID", "down")
	a.Want(t, "(integer) 0", "UNLOCK", name, "a", "ID", "down")
	a.Want(t, "(integer) 1", "UNLOCK", name, "a")
	a.Want(t, "(nil)", "UNLOCK", name, "a")

	// Kept alive: a short lease lasts for as long as the connection, and no longer.
	keeper := rig.Connect(t, h.proxies[0].Addr)
	f = fences.rose(t, keeper.Must(t, "LOCK", name, "TOKEN", "k", "PX", "9000", "KEEPALIVE"))
	if fence := renewed(t, b, name, "k"); fence != grantOf(f) {
		t.Errorf("kept alive: the fence %d, want %s", fence, f)
	}
	keeper.Close()
	fences.rose(t, b.Must(t, "LOCK", name, "TOKEN", "b", "PX", "600000", "WAIT", "600000"))

	// It is taken over, and taken away.
	fences.rose(t, a.Must(t, "LOCK", name, "TOKEN", "a", "PX", "600000", "BREAK"))
	fences.rose(t, b.Must(t, "RLOCK", name, "TOKEN", "b", "PX", "600000", "BREAK"))
	a.Want(t, "(nil)", "UNLOCK", name, "a")
	b.Want(t, "(integer) 1", "LOCKCTL", "BREAK", name)
	b.Want(t, "(nil)", "UNLOCK", name, "b")

	// Readers, of whom one becomes the writer.
	fences.rose(t, a.Must(t, "RLOCK", name, "TOKEN", "r1", "PX", "600000"))
	fences.rose(t, b.Must(t, "RLOCK", name, "TOKEN", "r2", "PX", "600000"))
	a.Send("WLOCK", name, "TOKEN", "r1", "PX", "600000", "WAIT", "600000")
	rig.WaitersOf(t, h.proxies[1].Addr, name, 1)
	b.Want(t, "(integer) 1", "UNLOCK", name, "r2")
	v, err := a.Receive(rig.Patience)
	if err != nil {
		t.Fatal(err)
	}
	fences.rose(t, v)
	a.Must(t, "RLOCK", name, "TOKEN", "r1")
	a.Want(t, "(integer) 1", "UNLOCK", name, "r1")

	// In one pipeline: no step of a command is behind one of the next, nor is one without steps before them.
	a.Want(t, "OK", "SET", name+":n", "0")
	for i := range 5 {
		var all []byte
		for _, args := range [][]string{
			{"LOCK", name, "TOKEN", "p", "PX", "600000"}, {"RENEW", name, "p", "PX", "700000"},
			{"LOCKCTL", "CHECK", name, "p"}, {"LOCKCTL", "INFO", name}, {"UNLOCK", name, "p"},
			{"LOCK", name, "TOKEN", "g"}, {"GUARD", name, "g", "INCR", name + ":n"}, {"UNLOCK", name, "g"},
		} {
			all = append(all, rig.Encode(args...)...)
		}
		a.Write(all)
		var replies []rig.Reply
		for range 8 {
			if v, err = a.Receive(rig.Patience); err != nil {
				t.Fatal(err)
			}
			replies = append(replies, v)
		}
		f = fences.rose(t, replies[0])
		if replies[1].Int() <= 600000 {
			t.Errorf("RENEW behind LOCK: %s", replies[1])
		}
		if v = replies[2]; len(v.Elems) != 3 || v.Elems[1].Int() != grantOf(f) {
			t.Errorf("CHECK behind LOCK: %s, want the fence %s", v, f)
		}
		if v = replies[3]; v.Field("fence").Int() != grantOf(f) || v.Field("state").Text != "write" {
			t.Errorf("INFO behind LOCK: %s, want the fence %s", v, f)
		}
		if v = replies[4]; v.String() != "(integer) 1" {
			t.Errorf("UNLOCK behind LOCK: %s", v)
		}
		fences.rose(t, replies[5])
		if v = replies[6]; v.Int() != int64(i+1) {
			t.Errorf("GUARD behind LOCK: %s, want %d", v, i+1)
		}
		if v = replies[7]; v.String() != "(integer) 1" {
			t.Errorf("UNLOCK behind GUARD: %s", v)
		}
	}
	a.Write([]byte(string(rig.Encode("LOCK", name, "TOKEN", "p")) + string(rig.Encode("UNLOCK", name, "p")) +
		string(rig.Encode("LOCK", name, "TOKEN", "q")) + string(rig.Encode("UNLOCK", name, "q"))))
	for range 2 {
		if v, err = a.Receive(rig.Patience); err != nil {
			t.Fatal(err)
		}
		fences.rose(t, v)
		if v, err = a.Receive(rig.Patience); err != nil || v.String() != "(integer) 1" {
			t.Errorf("UNLOCK in a pipeline: %s %v", v, err)
		}
	}

	// Two clients of each proxy wait for one another.
	w := &witness{}
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			if err := contend(h.proxies[i%2], i%2, i, name, tenMinutes, 15, nil, w); err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		})
	}
	group.Wait()
	w.check(t, 60)
	fences.last = w.grants[len(w.grants)-1].fence
	fences.rose(t, a.Must(t, "LOCK", name, "TOKEN", "a"))
	a.Want(t, "(integer) 1", "UNLOCK", name, "a")
}
