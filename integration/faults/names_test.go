package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// A cluster whose nodes announce host names, or no host at all, is served as any other: commands, SCAN,
// subscriptions and locks, also while slots move.
func TestAnnouncedEndpoints(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"hostname", "unknown-endpoint"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := rig.StartCluster(t, 3, 0, "--cluster-announce-hostname", "localhost",
				"--cluster-preferred-endpoint-type", kind)
			announcedEndpoints(t, c)
		})
	}
}

func announcedEndpoints(t *testing.T, cluster *rig.Cluster) {
	p := rig.StartProxy(t, "--upstream", strings.Replace(cluster.Nodes[0].Addr, "127.0.0.1", "localhost", 1))
	c := rig.Connect(t, p.Addr)
	sub := rig.Connect(t, p.Addr)
	sub.Must(t, "SSUBSCRIBE", "{foo}news")
	const keys = 60
	for i := range keys {
		c.Must(t, "SET", fmt.Sprint("{foo}", i), "1")
		c.Must(t, "SET", fmt.Sprint("key", i), "1")
	}
	h := leaveHalfMoved(t, t, cluster, "foo")
	h.migrate("{foo}0", h.from, h.to)
	followed := func() bool { return p.Metric(t, "lockproxy_redirects_total", `kind="ask"`) > 0 }
	moved := make(chan struct{})
	go func() { // ends when the slot has moved
		defer close(moved)
		rig.Eventually(t, rig.Patience, "an ASK is followed", followed)
		cluster.Migrate(t, h.slot, h.from, h.to, 50*time.Millisecond)
	}()
	for over := false; !over; {
		select {
		case <-moved:
			over = true
		default:
		}
		found := make(map[string]bool)
		for _, pattern := range []string{"key*", "{foo}*"} {
			for cursor := "begin"; cursor != "0"; {
				if cursor == "begin" {
					cursor = "0"
				}
				v := c.Must(t, "SCAN", cursor, "COUNT", "50", "MATCH", pattern)
				for _, key := range v.Elems[1].Strings() {
					found[key] = true
				}
				cursor = v.Elems[0].Text
			}
		}
		if len(found) != 2*keys {
			t.Fatalf("SCAN found %d keys of %d", len(found), 2*keys)
		}
		for i := range keys {
			if v := c.Must(t, "GET", fmt.Sprint("{foo}", i)); v.Text != "1" {
				t.Fatalf("{foo}%d: %v", i, v)
			}
		}
		if v := c.Must(t, "LOCK", "{foo}job", "PX", "600000", "TOKEN", "mine"); len(v.Elems) != 4 {
			t.Fatalf("LOCK: %v", v)
		}
		c.Must(t, "UNLOCK", "{foo}job", "mine")
	}
	rig.Eventually(t, rig.Patience, "the subscription has followed its slot", func() bool {
		return c.Must(t, "SPUBLISH", "{foo}news", "hello").Int() == 1
	})
	for _, n := range cluster.Nodes {
		p.Logged(t, fmt.Sprintf(`msg="topology changed" .*masters="\[[^]]*\b(localhost:%d)\b`, n.Port))
	}
	if text := p.Log.String(); strings.Contains(text, fmt.Sprint("127.0.0.1:", h.to.Port)) {
		t.Errorf("the nodes are not known by their name:\n%s", text)
	}
}

// A node that prefers host names says "?" of one that has none. Such a node is known by its IP address, and a
// redirect to it is followed, also before it serves any slot.
func TestRedirectToANodeWithoutAName(t *testing.T) {
	t.Parallel()
	cluster := rig.StartCluster(t, 3, 0, "--cluster-announce-hostname", "localhost",
		"--cluster-preferred-endpoint-type", "hostname")
	from := cluster.MasterOf(t, "{foo}")
	to := cluster.Nodes[0]
	if to == from {
		to = cluster.Nodes[1]
	}
	to.Do(t, "CONFIG", "SET", "cluster-announce-hostname", "")
	rig.Eventually(t, rig.Patience, "the name is forgotten", func() bool {
		return strings.Contains(from.Do(t, "CLUSTER", "SLOTS").String(), `"?"`)
	})
	p := rig.StartProxy(t, "--upstream", strings.Replace(from.Addr, "127.0.0.1", "localhost", 1),
		"--retry-budget", "2m")
	c := rig.Connect(t, p.Addr)
	c.Must(t, "SET", "{foo}", "here")
	slot := fmt.Sprint(cluster.SlotOf(t, "{foo}"))
	to.Do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", from.Do(t, "CLUSTER", "MYID").Text)
	from.Do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", to.Do(t, "CLUSTER", "MYID").Text)
	c.Want(t, "OK", "SET", "{foo}new", "there")
	c.Want(t, `"there"`, "GET", "{foo}new")
	if p.Metric(t, "lockproxy_redirects_total", `kind="ask"`) == 0 {
		t.Error("no ASK was followed")
	}
}
