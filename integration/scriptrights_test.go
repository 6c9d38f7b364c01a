package integration

import (
	"crypto/sha1"
	"fmt"
	"strings"
	"testing"
)

// What a node denies to a client changes nothing for others: neither are their scripts forgotten, nor is one
// remembered that its sender may not run.
func TestScriptsThatNodesDeny(t *testing.T) {
	t.Parallel()
	for name, upstream := range map[string]string{"single": startRedis(t).addr, "cluster": startCluster(t, 3, 0).addrs()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startProxy(t, "--upstream", upstream)
			c, bob, amy := connect(t, p.addr), connect(t, p.addr), connect(t, p.addr)
			c.must(t, "ACL", "SETUSER", "bob", "on", ">pw", "~*", "+@all", "-@scripting")
			c.must(t, "ACL", "SETUSER", "amy", "on", ">pw", "~*", "+@all")
			bob.must(t, "AUTH", "bob", "pw")
			amy.must(t, "AUTH", "amy", "pw")
			lose := func() { // as nodes that restart
				for _, addr := range strings.Split(upstream, ",") {
					if _, err := ask(addr, "SCRIPT", "FLUSH"); err != nil {
						t.Fatal(err)
					}
				}
			}
			sha := func(source string) string { return fmt.Sprintf("%x", sha1.Sum([]byte(source))) }
			c.want(t, "(integer) 7", "EVAL", "return 7", "1", "k")
			amy.want(t, "(integer) 8", "EVAL", "return 8", "1", "k")
			amy.want(t, fmt.Sprintf("%q", sha("return 9")), "SCRIPT", "LOAD", "return 9")
			for _, args := range [][]string{
				{"SCRIPT", "FLUSH"}, {"EVAL", "return 1", "1", "k"}, {"SCRIPT", "LOAD", "return 2"}, {"EVAL_RO", "return 3", "0"},
			} {
				if v := bob.call(t, args...); !v.isError("NOPERM") {
					t.Errorf("bob: %q: %s", args, v)
				}
			}
			bob.must(t, "MULTI")
			bob.call(t, "EVAL", "return 4", "1", "k")
			bob.call(t, "EXEC")
			lose()
			for _, n := range []int{7, 8, 9} {
				c.want(t, fmt.Sprintf("(integer) %d", n), "EVALSHA", sha(fmt.Sprint("return ", n)), "1", "k")
			}
			for _, n := range []int{1, 2, 3, 4} {
				if v := c.call(t, "EVALSHA", sha(fmt.Sprint("return ", n)), "1", "k"); !v.isError("NOSCRIPT") {
					t.Errorf("a script that bob may not run is served: %s", v)
				}
			}
			// What is flushed is gone for what comes behind it.
			for range 50 {
				c.must(t, "SCRIPT", "LOAD", "return 9")
				c.send("SCRIPT", "FLUSH")
				c.send("EVALSHA", sha("return 9"), "1", "k")
				if v, err := c.receive(patience); err != nil || v.text != "OK" {
					t.Fatalf("SCRIPT FLUSH: %s %v", v, err)
				}
				if v, err := c.receive(patience); err != nil || !v.isError("NOSCRIPT") {
					t.Fatalf("EVALSHA behind SCRIPT FLUSH: %s %v", v, err)
				}
			}
		})
	}
}
