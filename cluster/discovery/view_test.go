package discovery

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/redis/go-redis/v9"

	"lockproxy/cluster"
	"lockproxy/internal/scripted"
	"lockproxy/internal/slot"
)

// halves is a view of two masters, a with the first half of the slots.
func halves(a, b cluster.Node, replicas ...cluster.Node) *view {
	return &view{kind: cluster.Cluster, from: a.Addr, ok: true, epoch: 1, shares: []share{
		{8192, slot.Count - 1, []cluster.Node{b}},
		{0, 8191, append([]cluster.Node{a}, replicas...)},
	}}
}

func TestTopologyKeepsPointers(t *testing.T) {
	a, b := cluster.Node{Addr: "a:1", ID: "a"}, cluster.Node{Addr: "b:1", ID: "b"}
	c := cluster.Node{Addr: "c:1", ID: "c"}
	first := halves(a, b, c).topology(&cluster.Topology{}, cluster.Server{Version: "7.0.15"})
	if first.Version != 1 || len(first.Masters) != 2 || first.Masters[0].Addr != "a:1" ||
		first.Slots[8191] != first.Masters[0] ||
		first.Slots[8192] != first.Masters[1] || first.Served() != slot.Count || first.Replicas[0].Master {
		t.Fatalf("%+v", first)
	}
	if again := halves(a, b, c).topology(first, cluster.Server{Version: "7.0.15"}); again != first {
		t.Error("nothing changed, and yet there is a new topology")
	}
	if next := halves(a, b, c).topology(first, cluster.Server{Version: "7.2.0"}); next == first ||
		!slices.Equal(next.Masters, first.Masters) {
		t.Error("the version of Redis changed")
	}
	// c takes over from a.
	next := halves(c, b, a).topology(first, cluster.Server{Version: "7.0.15"})
	if next.Version != 2 || next.Masters[1] != first.Masters[1] || next.Slots[0].Addr != "c:1" ||
		next.Slots[0] == first.Replicas[0] {
		t.Errorf("%+v", next.Masters)
	}
	// b is gone, its slots have no master.
	left := &view{kind: cluster.Cluster, shares: []share{{0, 8191, []cluster.Node{c}}}}
	if last := left.topology(next, cluster.Server{Version: "7.0.15"}); last.Slots[9000] != nil ||
		last.Served() != 8192 || last.Slots[0] != next.Slots[0] {
		t.Errorf("%+v", last.Masters)
	}
}

// One master may have many ranges, and its replica stands in each of them.
func TestTopologyFragments(t *testing.T) {
	v := &view{kind: cluster.Cluster}
	for k := slot.Count - 2; k >= 0; k -= 2 {
		v.shares = append(v.shares, share{k, k + 1,
			[]cluster.Node{{Addr: "a:1", ID: "a"}, {Addr: "z:1", ID: "z"}, {Addr: "c:1", ID: "c"}}})
	}
	top := v.topology(&cluster.Topology{}, cluster.Server{})
	if len(top.Masters) != 1 || len(top.Replicas) != 2 || top.Replicas[0].Addr != "c:1" ||
		top.Served() != slot.Count {
		t.Errorf("%d masters, %d replicas", len(top.Masters), len(top.Replicas))
	}
}

func TestBestView(t *testing.T) {
	a, b := cluster.Node{Addr: "a:1", ID: "a"}, cluster.Node{Addr: "b:1", ID: "b"}
	c := cluster.Node{Addr: "c:1", ID: "c"}
	with := func(v *view, change func(*view)) *view {
		change(v)
		return v
	}
	old := halves(a, b)
	for _, test := range []struct {
		name  string
		views []*view
		want  int
	}{
		{"one", []*view{old}, 0},
		{"a higher epoch", []*view{old, with(halves(c, b), func(v *view) { v.epoch = 2 })}, 1},
		{"the most votes in one epoch", []*view{old, halves(c, b), halves(c, b)}, 1},
		{"more slots beat the epoch", []*view{old, with(halves(a, c),
			func(v *view) { v.epoch, v.shares = 9, v.shares[:1] })}, 0},
		{"one that is cut off is not believed", []*view{with(halves(c, b),
			func(v *view) { v.ok, v.epoch = false, 7 }), old}, 1},
		{"another cluster", []*view{with(halves(cluster.Node{Addr: "x:1", ID: "x"},
			cluster.Node{Addr: "y:1", ID: "y"}), func(v *view) { v.epoch = 99 }), old}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t0 := old.topology(&cluster.Topology{}, cluster.Server{})
			if got := best(test.views, t0, nil); got != test.views[test.want] {
				t.Errorf("%+v", got)
			}
		})
	}
}

// The address of a learnt node may pass to a node of another cluster.
func TestTrust(t *testing.T) {
	u := newUpstream(Options{Addrs: []string{"seed:1"}})
	stranger := halves(cluster.Node{Addr: "x:1", ID: "x"}, cluster.Node{Addr: "y:1", ID: "y"})
	if !u.trusts(stranger) {
		t.Error("while nothing is known everything is news")
	}
	u.topology.Store(halves(cluster.Node{Addr: "a:1", ID: "a"},
		cluster.Node{Addr: "b:1", ID: "b"}).topology(&cluster.Topology{}, cluster.Server{}))
	if u.trusts(stranger) {
		t.Error("a stranger is believed")
	}
	stranger.from = "seed:1"
	if !u.trusts(stranger) {
		t.Error("a node that was named is not believed")
	}
}

// A cluster that was made anew at the same addresses is found by the node that was named, which is none of
// its masters.
func TestClusterMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Int64
		u := newUpstream(Options{Addrs: []string{"seed:1"},
			Dial: func(_ context.Context, _, addr string) (net.Conn, error) {
				n := &scripted.Node{Answer: func(question string) string {
					id := func(name string) string { return bulk(fmt.Sprint(name, made.Load())) }
					switch question {
					case "CLUSTER MYID":
						return id(strings.TrimSuffix(addr, ":1"))
					case "CLUSTER SLOTS":
						slots := "*4\r\n"
						for i, name := range []string{"a", "b", "c", "d"} {
							slots += fmt.Sprintf("*3\r\n:%d\r\n:%d\r\n*3\r\n%s:1\r\n%s", i, i,
								bulk(name), id(name))
						}
						return slots
					case "INFO server":
						return bulk("redis_version:7.0.15\r\nredis_mode:cluster\r\n")
					}
					return "-ERR unknown command\r\n"
				}}
				return n.Dial(), nil
			}})
		defer u.Close()
		redis.SetLogger(redisLog{u.o.Log})
		if err := u.discover(t.Context()); err != nil {
			t.Fatal(err)
		}
		made.Add(1)
		if err := u.lookUpstream(t.Context()); err != nil || u.Topology().Masters[0].ID != "a1" {
			t.Errorf("%v, and the first master is %s", err, u.Topology().Masters[0].ID)
		}
	})
}
