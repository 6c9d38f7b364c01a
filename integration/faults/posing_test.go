package faults

import (
	"flag"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

var valkey = flag.String("valkey", "valkey9", "the server of what is Valkey's alone, one of rig.Products")

// A Valkey that tells its clients it is Redis (extended-redis-compatibility) tells those of the proxy so too,
// and can do through it what it can without.
func TestValkeyThatSaysItIsRedis(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"single", "cluster"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			args := []string{"--extended-redis-compatibility", "yes"}
			var node *rig.Server
			if kind == "single" {
				node = rig.StartRedis(rig.On(t, *valkey), args...)
			} else {
				if *valkey == "valkey9" {
					args = append(args, "--cluster-databases", "4")
				}
				node = rig.StartCluster(rig.On(t, *valkey), 3, 0, args...).Nodes[0]
			}
			p := rig.StartProxy(t, "--upstream", node.Addr)
			p.Logged(t, `(msg="topology changed".*product=valkey)`)
			c, direct := rig.Connect(t, p.Addr), rig.Connect(t, node.Addr)
			for _, field := range []string{"server", "version"} {
				got, want := c.Must(t, "HELLO", "3").Field(field), direct.Must(t, "HELLO", "3").Field(field)
				if got.Text != want.Text || want.Text == "" || want.Text == "valkey" {
					t.Errorf("HELLO: %s %v, and %v without the proxy", field, got, want)
				}
			}
			for _, command := range []string{"READONLY", "CLIENT CAPA redirect", "CLUSTER MYSHARDID"} {
				args := strings.Fields(command)
				got, err := c.Do(args...)
				want, _ := direct.Do(args...)
				if kind == "single" && (err != nil || got.String() != want.String()) {
					t.Errorf("%s: %v %v, and %v without the proxy", command, got, err, want)
				}
			}
			if kind == "single" || *valkey == "valkey9" {
				c.Must(t, "SELECT", "1")
			}
			c.Want(t, "OK", "SET", "k", "v")
			if v := c.Must(t, "LOCK", "job", "PX", "50000"); len(v.Elems) != 4 {
				t.Errorf("LOCK: %v", v)
			}
		})
	}
}
