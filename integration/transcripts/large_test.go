package transcripts

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"lockproxy/integration/rig"
)

// Commands that the server finds too large break nobody's connection but their sender's.
func TestTooLargeCommandsHarmNobody(t *testing.T) {
	for _, limit := range []string{"client-query-buffer-limit", "proto-max-bulk-len"} {
		for _, told := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s told %v", limit, told), func(t *testing.T) {
				t.Parallel()
				s := rig.StartRedis(t, "--"+limit, "1mb")
				s.Do(t, "ACL", "SETUSER", "proxy", "on", ">pw", "~*", "&*", "+@all")
				if !told {
					s.Do(t, "ACL", "SETUSER", "proxy", "-config")
				}
				p := rig.StartProxy(t, "--upstream", s.Addr, "--upstream-user", "proxy",
					"--upstream-password", "pw",
					"--loops", "1")
				if told {
					p.Logged(t, `msg="limits of the upstream" .*(`+limit+`=1048576)`)
				}
				harmless(t, p, 3<<20, func(v rig.Reply, err error) error {
					switch {
					case told &&
						(err != nil || !strings.HasPrefix(v.Text, "ERR Protocol error: invalid bulk length")):
						return fmt.Errorf("SET of 3 MB: %s, %v", v, err)
					case err == nil && !v.IsError():
						return fmt.Errorf("SET of 3 MB: %s", v)
					}
					return nil
				})
			})
		}
	}
}

// harmless has two clients send values of size bytes, whose replies it gives to judge, while four others do a
// little each.
func harmless(t *testing.T, p *rig.Proxy, size int, judge func(rig.Reply, error) error) {
	t.Helper()
	over := make(chan struct{})
	var all, senders sync.WaitGroup
	var counts [4]atomic.Int64
	for i := range counts {
		c := rig.Connect(t, p.Addr)
		all.Go(func() {
			for n := int64(1); ; n++ {
				select {
				case <-over:
					return
				default:
				}
				if v, err := c.Do("INCR", fmt.Sprint("counter:", i)); err != nil ||
					v.IsError() || v.Int() != n {
					t.Errorf("INCR %d of another client: %s, %v", n, v, err)
					return
				}
				counts[i].Add(1)
			}
		})
	}
	value := strings.Repeat("v", size)
	for i := range 2 {
		senders.Go(func() {
			for range rig.Dose(10, 200) {
				c, err := rig.Dial(p.Addr)
				if err != nil {
					t.Error(err)
					return
				}
				go c.Send("SET", fmt.Sprint("large:", i), value) // ends with the connection
				v, err := c.Receive(rig.Patience)
				c.Close()
				if err := judge(v, err); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	senders.Wait()
	rig.Eventually(t, rig.Patience, "the others have gone on", func() bool {
		for i := range counts {
			if counts[i].Load() < 100 {
				return false
			}
		}
		return true
	})
	close(over)
	all.Wait()
}

// Large commands and small ones of one pipeline are run in their order, whatever they are, and whichever
// connections they go over.
func TestLargeCommandsKeepTheirPlace(t *testing.T) {
	for name, upstream := range map[string]string{"single": rig.SharedRedis().Addr,
		"cluster": rig.SharedCluster().Addrs()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := rig.StartProxy(t, "--upstream", upstream)
			c := rig.Connect(t, p.Addr)
			c.Must(t, "HELLO", "3")
			large := strings.Repeat("L", 2<<20)
			key := func(n int) string { return fmt.Sprintf("place:%s:%d", name, n) }
			for round := range rig.Dose(4, 50) {
				value := fmt.Sprint(large, round)
				script := "return ARGV[1] --" + large
				steps := []struct {
					args []string
					want string
				}{
					{[]string{"SET", key(1), "small"}, "OK"}, {[]string{"SET", key(1), value},
						"OK"}, {[]string{"GET", key(1)}, value},
					{[]string{"SET", key(1), "small"}, "OK"}, {[]string{"GET", key(1)}, "small"},
					{[]string{"MSET", key(1), value, key(2), value, key(3), "x"}, "OK"},
					{[]string{"GET", key(2)},
						value}, {[]string{"GET", key(3)}, "x"},
					{[]string{"EVAL", script, "1", key(1), "mine"}, "mine"}, {[]string{"ECHO", value},
						value}, {[]string{"DEL", key(1)}, ""},
					{[]string{"APPEND", key(1), value}, ""}, {[]string{"APPEND", key(1), value},
						""}, {[]string{"STRLEN", key(1)}, fmt.Sprint(2 * len(value))},
					{[]string{"MULTI"}, "OK"}, {[]string{"SET", key(1), value}, "QUEUED"},
					{[]string{"EXEC"}, ""},
					{[]string{"GET", key(1)}, value}, {[]string{"PUBLISH", "nobody", value},
						"0"}, {[]string{"DEL", key(1), key(2), key(3)}, "3"},
				}
				var all []byte
				for _, step := range steps {
					all = append(all, rig.Encode(step.args...)...)
				}
				go c.Write(all) // ends when all is answered
				for _, step := range steps {
					v, err := c.Receive(rig.Patience)
					if err != nil || v.IsError() || step.want != "" && v.Text != step.want {
						t.Fatalf("%.40q: got %.60q (%v), want %.60q", step.args, v.Text, err, step.want)
					}
				}
			}
			rig.Eventually(t, rig.Patience, "no connection is left", func() bool {
				return p.Metric(t, "lockproxy_own_connections", `state="used"`) == 0
			})
		})
	}
}

// The first element of a new key may be large, whatever the type of the key.
func TestLargeElementsOfNewKeys(t *testing.T) {
	for name, args := range map[string][]string{"dev": {"--dev"},
		"single":  {"--upstream", rig.SharedRedis().Addr},
		"cluster": {"--upstream", rig.SharedCluster().Addrs()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := rig.Connect(t, rig.StartProxy(t, args...).Addr)
			large := strings.Repeat("L", 2<<20)
			for _, command := range []string{"SET", "APPEND", "RPUSH", "SADD", "HSET f", "XADD * f",
				"ZADD 1"} {
				words := strings.Fields(command)
				key := "large:" + name + ":" + words[0]
				c.Must(t, append(append([]string{words[0], key}, words[1:]...), large)...)
				c.Want(t, "(integer) 1", "DEL", key)
			}
		})
	}
}
