package compare

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// upstreams start one Redis, and a cluster.
var upstreams = map[string]func(t *testing.T) (nodes []*rig.Server, upstream string){
	"single": func(t *testing.T) ([]*rig.Server, string) {
		s := rig.StartRedis(t)
		return []*rig.Server{s}, s.Addr
	},
	"cluster": func(t *testing.T) ([]*rig.Server, string) {
		c := rig.StartCluster(t, 3, 0)
		return c.Nodes, c.Addrs()
	},
}

// TestEveryCommand sends every command and subcommand of the upstream with any
// number of arguments. Each must be answered soon, unless it is there to last, and none
// may leave a trace on the connections that all clients share.
func TestEveryCommand(t *testing.T) {
	for name, start := range upstreams {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes, upstream := start(t)
			p := rig.StartProxy(t, "--upstream", upstream, "--loops", "1")
			canary := rig.Watch(t, p, "")
			before := upstreamConnections(t, p, nodes)
			for command, lasts := range everyCommand(nodes[0].Do(t, "COMMAND").Elems) {
				if strings.HasPrefix(command, "flush") { // the canary's values are to stay
					continue
				}
				for n := range 6 {
					args := append(strings.Split(command, "|"), []string{"0", "0", "0", "0", "0", "0"}[:n]...)
					for _, args := range [][]string{args, append(strings.Split(command, "|"),
						[]string{"{x}", "YES", "STREAMS", "{x}2", "BLOCK", "0"}[:n]...)} {
						sendAny(t, p.Addr, args, lasts)
					}
				}
			}
			canary()
			if after := upstreamConnections(t, p, nodes); after != before {
				t.Errorf("connections at the nodes:\nbefore %s\nafter  %s", before, after)
			}
		})
	}
}

// everyCommand is each command and subcommand in what COMMAND says, and whether it lasts:
// it waits for something, or makes what follows on its connection something else.
func everyCommand(table []rig.Reply) map[string]bool {
	all := map[string]bool{}
	for _, row := range table {
		name, flags := row.Elems[0].Text, row.Elems[2].Strings()
		all[name] = slices.Contains(flags, "blocking") || slices.Contains(flags, "pubsub") || lasting[name]
		if len(row.Elems) > 9 {
			maps.Copy(all, everyCommand(row.Elems[9].Elems))
		}
	}
	return all
}

// lasting are those of which COMMAND does not tell it.
var lasting = map[string]bool{"multi": true, "monitor": true, "quit": true, "client|reply": true,
	"client|pause": true}

// sendAny runs a command on a connection of its own; unless it lasts the answer, whatever
// it is, must come, and the connection must then be as before or closed.
func sendAny(t *testing.T, addr string, args []string, lasts bool) {
	t.Helper()
	c, err := rig.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if last := len(args) - 1; args[0][0] == 'b' && args[last] == "0" {
		args[last] = "0.01" // for those that block: 0 is for ever
	}
	c.Send(args...)
	c.Send("ECHO", "after")
	if lasts {
		c.Receive(20 * time.Millisecond) //house:brief an answer or none
		return
	}
	if _, err := c.Receive(rig.Patience); err != nil {
		t.Errorf("%q: %v", args, err)
		return
	}
	if args[0] == "monitor" && len(args) == 1 { // what others do may be shown before the ECHO is answered
		return
	}
	v, err := c.Receive(rig.Patience)
	for strings.HasSuffix(args[0], "subscribe") && err == nil && v.Kind == '*' { // one reply a channel
		v, err = c.Receive(rig.Patience)
	}
	if strings.HasSuffix(args[0], "subscribe") && strings.HasPrefix(v.Text, "ERR Can't execute 'echo'") {
		return
	}
	if err != nil || v.Text != "after" {
		t.Errorf("%q: the ECHO behind it: %s %v", args, v, err)
	}
}

// upstreamConnections describes the proxy's connections as the nodes see them: how many
// there are, in which state.
func upstreamConnections(t *testing.T, p *rig.Proxy, nodes []*rig.Server) string {
	t.Helper()
	warm := rig.Connect(t, p.Addr)
	defer warm.Close()
	for i := range 32 {
		warm.Must(t, "SET", fmt.Sprint("warm:", i), "1")
	}
	states := map[string]int{}
	for i, n := range nodes {
		for line := range strings.Lines(n.Do(t, "CLIENT", "LIST").Text) {
			fields := map[string]string{}
			for _, f := range strings.Fields(line) {
				name, value, _ := strings.Cut(f, "=")
				fields[name] = value
			}
			if cmd := fields["cmd"]; cmd != "set" && cmd != "get" {
				continue // the test's own, the cluster's, the control plane's
			}
			states[fmt.Sprintf("node %d: flags=%s db=%s sub=%s psub=%s multi=%s resp=%s name=%s user=%s",
				i, fields["flags"], fields["db"], fields["sub"], fields["psub"], fields["multi"],
				fields["resp"], fields["name"], fields["user"])]++
		}
	}
	return strings.ReplaceAll(fmt.Sprint(states), "node", "\n  node")
}
