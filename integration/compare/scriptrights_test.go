package compare

import (
	"crypto/sha1"
	"fmt"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// What a node denies to a client changes nothing for others: neither are their scripts forgotten, nor is one
// remembered that its sender may not run.
func TestScriptsThatNodesDeny(t *testing.T) {
	t.Parallel()
	for name, upstream := range map[string]string{"single": rig.StartRedis(t).Addr,
		"cluster": rig.StartCluster(t, 3, 0).Addrs()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := rig.StartProxy(t, "--upstream", upstream)
			c, bob, amy := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
			c.Must(t, "ACL", "SETUSER", "bob", "on", ">pw", "~*", "+@all", "-@scripting")
			c.Must(t, "ACL", "SETUSER", "amy", "on", ">pw", "~*", "+@all")
			bob.Must(t, "AUTH", "bob", "pw")
			amy.Must(t, "AUTH", "amy", "pw")
			lose := func() { // as nodes that restart
				for _, addr := range strings.Split(upstream, ",") {
					if _, err := rig.Ask(addr, "SCRIPT", "FLUSH"); err != nil {
						t.Fatal(err)
					}
				}
			}
			sha := func(source string) string { return fmt.Sprintf("%x", sha1.Sum([]byte(source))) }
			c.Want(t, "(integer) 7", "EVAL", "return 7", "1", "k")
			amy.Want(t, "(integer) 8", "EVAL", "return 8", "1", "k")
			amy.Want(t, fmt.Sprintf("%q", sha("return 9")), "SCRIPT", "LOAD", "return 9")
			for _, args := range [][]string{
				{"SCRIPT", "FLUSH"}, {"EVAL", "return 1", "1", "k"},
				{"SCRIPT", "LOAD", "return 2"}, {"EVAL_RO",
					"return 3", "0"},
			} {
				if v := bob.Call(t, args...); !v.IsError("NOPERM") {
					t.Errorf("bob: %q: %s", args, v)
				}
			}
			bob.Must(t, "MULTI")
			bob.Call(t, "EVAL", "return 4", "1", "k")
			bob.Call(t, "EXEC")
			lose()
			for _, n := range []int{7, 8, 9} {
				c.Want(t, fmt.Sprintf("(integer) %d", n), "EVALSHA", sha(fmt.Sprint("return ", n)), "1", "k")
			}
			for _, n := range []int{1, 2, 3, 4} {
				v := c.Call(t, "EVALSHA", sha(fmt.Sprint("return ", n)), "1", "k")
				if !v.IsError("NOSCRIPT") {
					t.Errorf("a script that bob may not run is served: %s", v)
				}
			}
			// What is flushed is gone for what comes behind it.
			for range 50 {
				c.Must(t, "SCRIPT", "LOAD", "return 9")
				c.Send("SCRIPT", "FLUSH")
				c.Send("EVALSHA", sha("return 9"), "1", "k")
				if v, err := c.Receive(rig.Patience); err != nil || v.Text != "OK" {
					t.Fatalf("SCRIPT FLUSH: %s %v", v, err)
				}
				if v, err := c.Receive(rig.Patience); err != nil || !v.IsError("NOSCRIPT") {
					t.Fatalf("EVALSHA behind SCRIPT FLUSH: %s %v", v, err)
				}
			}
		})
	}
}
