package faults

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// halfMoved is a slot of a cluster that is on its way from one master to another, and stays so.
type halfMoved struct {
	t        *testing.T
	slot     int
	from, to *rig.Server
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

// In a slot that is half here and half there, what is held is renewed, looked at and freed, wherever the lock
// and the fence of its slot are. What is new waits as any command with two keys does: until the slot has
// moved, or for retry-budget. And fences rise. R2 R8
func TestHalfMovedSlot(t *testing.T) {
	c := rig.StartCluster(t, 3, 0)
	h := &halves{}
	for i, budget := range []string{"300ms", "2m"} {
		p := rig.StartProxy(t, "--upstream", c.Addrs(), "--retry-budget", budget)
		h.proxies[i] = p
	}
	h.quick, h.patient = rig.Connect(t, h.proxies[0].Addr), rig.Connect(t, h.proxies[1].Addr)
	h.quick.Must(t, "LOCK", "{half}:first", "TOKEN", "first", "PX", "600000")
	h.quick.Must(t, "UNLOCK", "{half}:first", "first")
	aheadOfClock(t, c, "half")
	h.fences = map[string]int64{}
	for _, name := range strings.Fields("renewed checked waited again freed broken taken reader") {
		v := h.quick.Must(t, "LOCK", "{half}:"+name, "TOKEN", "old", "PX", "600000")
		h.fences[name] = v.Elems[1].Int()
	}
	h.keeper = rig.Connect(t, h.proxies[0].Addr)
	v := h.keeper.Must(t, "LOCK", "{half}:kept", "TOKEN", "old", "PX", "9000", "KEEPALIVE")
	h.fences["kept"] = v.Elems[1].Int()
	h.halfMoved = leaveHalfMoved(t, t, c, "half")
	h.atSource(t)
	h.fence(h.to)
	h.atTwoNodes(t)
	h.atTarget(t)
	h.newOnes(t, func() { c.Migrate(t, h.slot, h.from, h.to, 0) })
	for _, one := range h.proxies {
		if one.Metric(t, "lockproxy_redirects_total") == 0 {
			t.Error("no redirect was followed: the test did not test")
		}
	}
}

// halves are two proxies at a slot that is half moved: one that gives up soon, and one that does not. The
// fences are those of the locks that the token old has there.
type halves struct {
	*halfMoved
	proxies        [2]*rig.Proxy
	quick, patient *rig.Conn
	waits, keeper  *rig.Conn
	fences         map[string]int64
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

// atSource: the locks and the fence are at the source, where all goes on.
func (h *halves) atSource(t *testing.T) {
	t.Helper()
	h.holds(h.from, "{half}:renewed")
	if v := h.quick.Must(t, "RENEW", "{half}:renewed", "old", "PX", "900000"); v.Int() < 800000 {
		t.Errorf("RENEW: %s", v)
	}
	h.patient.Want(t, "(nil)", "LOCK", "{half}:renewed", "TOKEN", "b")
	if v := h.quick.Call(t, "LOCK", "{half}:new", "TOKEN", "b"); !v.IsError("TRYAGAIN") {
		t.Errorf("a lock at no node: %s", v)
	}
	v := h.quick.Must(t, "LOCK", "{half}:again", "TOKEN", "old", "PX", "600000", "REENTRANT")
	if v.Elems[3].Int() != 2 || v.Elems[1].Int() != h.fences["again"] {
		t.Errorf("again: %s, want the fence %d", v, h.fences["again"])
	}
	h.waits = rig.Connect(t, h.proxies[1].Addr)
	h.waits.Send("LOCK", "{half}:waited", "TOKEN", "b", "WAIT", "600000")
	rig.WaitersOf(t, h.proxies[1].Addr, "{half}:waited", 1)
	h.quick.Must(t, "RLOCK", "{half}:reader", "TOKEN", "old")
}

// atTwoNodes: the fence is at the target. What is held is that for as long as it would be elsewhere.
func (h *halves) atTwoNodes(t *testing.T) {
	t.Helper()
	quick, patient := h.quick, h.patient
	for _, c := range []*rig.Conn{quick, patient} {
		if v := c.Must(t, "LOCKCTL", "CHECK", "{half}:checked", "old"); len(v.Elems) != 3 ||
			v.Elems[1].Int() != h.fences["checked"] {
			t.Errorf("CHECK: %s, want the fence %d", v, h.fences["checked"])
		}
	}
	for _, args := range [][]string{
		{"LOCK", "{half}:renewed", "TOKEN", "b"}, {"LOCK", "{half}:renewed", "TOKEN", "old"},
		{"LOCK", "{half}:broken", "TOKEN", "b", "BREAK"}, {"WLOCK", "{half}:reader", "TOKEN", "old"},
		{"LOCK", "{half}:waited", "TOKEN", "c", "WAIT", "600000"},
	} {
		if v := quick.Call(t, args...); !v.IsError("TRYAGAIN") || !strings.Contains(v.Text, "slot") {
			t.Errorf("%q: %s", args, v)
		}
	}
	quick.Want(t, "(integer) 1", "UNLOCK", "{half}:checked", "old")
	quick.Want(t, "(integer) 0", "UNLOCK", "{half}:again", "old", "ID", "u1")
	patient.Want(t, "(integer) 0", "UNLOCK", "{half}:again", "old", "ID", "u1")
	quick.Want(t, "(integer) 1", "UNLOCK", "{half}:again", "old")
	quick.Want(t, "(integer) 1", "UNLOCK", "{half}:reader", "old")
	quick.Want(t, "(integer) 1", "UNLOCK", "{half}:freed", "old", "ID", "u2")
	patient.Want(t, "(integer) 1", "UNLOCK", "{half}:freed", "old", "ID", "u2")
	patient.Want(t, "(nil)", "UNLOCK", "{half}:freed", "old")
	quick.Want(t, "(integer) 1", "UNLOCK", "{half}:waited", "old", "ID", "u3")
	patient.Want(t, "(integer) 1", "UNLOCK", "{half}:waited", "old", "ID", "u3")
	patient.Want(t, "(integer) 1", "LOCKCTL", "BREAK", "{half}:broken")
	quick.Want(t, "(nil)", "UNLOCK", "{half}:broken", "old")
	if fence := renewed(t, patient, "{half}:kept", "old"); fence != h.fences["kept"] {
		t.Errorf("kept alive: the fence %d, want %d", fence, h.fences["kept"])
	}
	h.keeper.Close()
	rig.Eventually(t, rig.Patience, "what was kept alive is freed", func() bool {
		return patient.Must(t, "LOCKCTL", "INFO", "{half}:kept").Field("state").Text == "free"
	})
	if !h.waits.Silent(time.Second) {
		t.Error("a waiter is told of a grant, and there is no fence")
	}
}

// atTarget: locks come to the target too, and there new grants are made of them.
func (h *halves) atTarget(t *testing.T) {
	t.Helper()
	for _, name := range []string{"{half}:waited", "{half}:taken", "{half}:renewed"} {
		h.move(name, h.from, h.to)
	}
	v, err := h.waits.Receive(rig.Patience)
	if err != nil {
		t.Fatal(err)
	}
	(&risingFences{last: h.fences["waited"]}).rose(t, v)
	h.patient.Want(t, "(integer) 1", "UNLOCK", "{half}:waited", "b")
	rising := &risingFences{last: h.fences["taken"]}
	rising.rose(t, h.patient.Must(t, "LOCK", "{half}:taken", "TOKEN", "new", "BREAK"))
	h.quick.Want(t, "(nil)", "UNLOCK", "{half}:taken", "old")
	h.quick.Want(t, "(integer) 1", "UNLOCK", "{half}:taken", "new")
	h.quick.Must(t, "RENEW", "{half}:renewed", "old", "PX", "900000")
	h.quick.Want(t, "(integer) 1", "UNLOCK", "{half}:renewed", "old")
}

// newOnes: locks that nobody has are at no node. Those who ask for them wait until finish has moved the rest
// of the slot, and then all goes on in the order of their commands.
func (h *halves) newOnes(t *testing.T, finish func()) {
	t.Helper()
	name := "{half}:new"
	h.patient.Must(t, "SET", name+":n", "0")
	h.waits.Send("LOCK", "{half}:other", "TOKEN", "o")
	for _, args := range [][]string{{"LOCK", name, "TOKEN", "a"}, {"RLOCK", name, "TOKEN", "a"}} {
		if v := h.quick.Call(t, args...); !v.IsError("TRYAGAIN") {
			t.Errorf("%q: %s", args, v)
		}
	}
	var all []byte
	for _, args := range [][]string{
		{"LOCK", name, "TOKEN", "p", "PX", "600000"}, {"RENEW", name, "p", "PX", "700000"},
		{"LOCKCTL", "CHECK", name, "p"}, {"UNLOCK", name, "p"},
		{"LOCK", name, "TOKEN", "g"}, {"GUARD", name, "g", "INCR", name + ":n"}, {"UNLOCK", name, "g"},
	} {
		all = append(all, rig.Encode(args...)...)
	}
	h.patient.Write(all)
	if !h.patient.Silent(time.Second) || !h.waits.Silent(10*time.Millisecond) {
		t.Error("an answer before the slot has moved")
	}
	finish()
	var replies []rig.Reply
	for range 7 {
		v, err := h.patient.Receive(rig.Patience)
		if err != nil {
			t.Fatal(err)
		}
		replies = append(replies, v)
	}
	fences := &risingFences{last: h.fences["kept"]}
	f := fences.rose(t, replies[0])
	if replies[1].Int() <= 600000 {
		t.Errorf("RENEW behind LOCK: %s", replies[1])
	}
	if v := replies[2]; len(v.Elems) != 3 || v.Elems[1].Int() != grantOf(f) {
		t.Errorf("CHECK behind LOCK: %s, want the fence %s", v, f)
	}
	if v := replies[3]; v.String() != "(integer) 1" {
		t.Errorf("UNLOCK behind LOCK: %s", v)
	}
	fences.rose(t, replies[4])
	if v := replies[5]; v.Int() != 1 {
		t.Errorf("GUARD behind LOCK: %s", v)
	}
	if v := replies[6]; v.String() != "(integer) 1" {
		t.Errorf("UNLOCK behind GUARD: %s", v)
	}
	if v, err := h.waits.Receive(rig.Patience); err != nil || len(v.Elems) != 4 {
		t.Errorf("LOCK of another client: %s %v", v, err)
	}
}

func grantOf(fence string) int64 {
	n, _ := strconv.ParseInt(fence, 10, 64)
	return n
}
