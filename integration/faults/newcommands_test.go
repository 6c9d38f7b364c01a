package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// What Valkey 8 and 9 have beside Redis, before a cluster: one log of all masters, and a
// refusal by name of what belongs to one server.
func TestCommandsOfValkey(t *testing.T) {
	t.Parallel()
	cluster := rig.StartCluster(rig.On(t, *valkey), 3, 0,
		"--commandlog-execution-slower-than", "0")
	p := rig.StartProxy(t, "--upstream", cluster.Addrs(), "--cluster-mode", "yes")
	c := rig.Connect(t, p.Addr)
	for i := range 30 {
		c.Must(t, "SET", fmt.Sprint("key", i), strings.Repeat("x", i))
	}
	log := c.Must(t, "COMMANDLOG", "GET", "20", "slow")
	var times []int64
	for _, entry := range log.Elems {
		times = append(times, -entry.Elems[1].Int())
	}
	if len(times) != 20 || !slices.IsSorted(times) {
		t.Errorf("COMMANDLOG GET: %d entries, sorted: %v", len(times), slices.IsSorted(times))
	}
	if all := c.Must(t, "COMMANDLOG", "GET", "-1", "slow"); len(all.Elems) < 30 {
		t.Errorf("COMMANDLOG GET -1: %d entries", len(all.Elems))
	}
	wantError(t, c, "", "COMMANDLOG", "GET", "x", "slow")

	wantError(t, c, "ask that server", "CLUSTER", "SLOT-STATS", "SLOTSRANGE", "0", "16383")
	wantError(t, c, "not available through lockproxy", "CLIENT", "IMPORT-SOURCE", "ON")
}

// wantError sends a command that is to be refused, with that text.
func wantError(t *testing.T, c *rig.Conn, text string, args ...string) {
	t.Helper()
	if v, err := c.Do(args...); err != nil || !v.IsError() || !strings.Contains(v.String(), text) {
		t.Errorf("%s: %v %v", strings.Join(args, " "), v, err)
	}
}

// A client cannot lock the proxy out of its upstream: what would is refused, with what to do, and everything
// else is done.
func TestUserOfTheProxyItself(t *testing.T) {
	t.Parallel()
	s := rig.StartRedis(t)
	s.Do(t, "ACL", "SETUSER", "shop", "on", ">own", "~*", "&*", "+@all")
	open := rig.StartProxy(t, "--upstream", s.Addr)
	named := rig.StartProxy(t, "--upstream", s.Addr, "--upstream-user", "shop",
		"--upstream-password", "own")
	works := func(p *rig.Proxy) { // over connections that are new
		t.Helper()
		rig.Connect(t, p.Addr).Must(t, "SET", "k", "v")
		c := rig.Connect(t, p.Addr)
		c.Must(t, "MULTI")
		c.Must(t, "SET", "k", "v")
		c.Must(t, "EXEC")
	}
	o, n := rig.Connect(t, open.Addr), rig.Connect(t, named.Addr)
	for _, rules := range []string{">pw", "off", "resetpass", "reset"} {
		wantError(t, o, "lockproxy itself, which is user 'default'",
			"ACL", "SETUSER", "default", rules, "+@all")
	}
	o.Must(t, "ACL", "SETUSER", "default", "reset", "on", "nopass", "~*", "&*", "+@all")
	o.Must(t, "MULTI")
	o.Do("ACL", "SETUSER", "default", ">pw")
	o.Do("EXEC")
	works(open)
	for _, rules := range []string{"<own", "off", "resetpass"} {
		wantError(t, n, "upstream-password", "ACL", "SETUSER", "shop", rules)
	}
	wantError(t, n, "lockproxy itself is user 'shop'", "ACL", "DELUSER", "other", "shop")
	n.Must(t, "ACL", "SETUSER", "shop", ">next")
	n.Must(t, "ACL", "SETUSER", "shop", "resetpass", ">own")
	n.Must(t, "ACL", "SETUSER", "other", "on", ">x")
	n.Must(t, "ACL", "DELUSER", "other")
	works(named)
	n.Must(t, "ACL", "SETUSER", "default", ">pw") // not the user of this proxy
}
