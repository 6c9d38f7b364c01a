package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/cluster"
	"lockproxy/internal/scripted"
)

// troubled is a cluster of the masters a, b and c, where x is the replica of a, in a bubble of fake time.
type troubled struct {
	*testing.T
	u *Upstream

	mu      sync.Mutex
	of      map[string]string        // the master of the slots of a, as each node says
	silent  map[string]bool          // nodes that answer nothing
	refuses map[string]bool          // nodes that cannot be reached
	late    map[string]time.Duration // how late the answers of nodes are
	failing string                   // what b calls fail?
	secret  bool                     // x does not tell its role
	hidden  bool                     // CLUSTER SLOTS does not show x as a replica
	cut     string                   // the question at which nodes close the connection
	asked   map[string]int           // questions, by their first word
}

// inTroubleBubble runs test in a bubble, where the cluster has been watched for a while.
func inTroubleBubble(t *testing.T, test func(c *troubled)) {
	synctest.Test(t, func(t *testing.T) {
		c := &troubled{T: t, of: map[string]string{"a": "a", "b": "a", "c": "a", "x": "a"},
			silent: make(map[string]bool), refuses: make(map[string]bool),
			late: make(map[string]time.Duration), asked: make(map[string]int)}
		u, err := Find(t.Context(), Options{Addrs: []string{"b:1"}, Dial: c.dial})
		if err != nil {
			t.Fatal(err)
		}
		c.u = u
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); u.Run(ctx) }()
		time.Sleep(10 * time.Second)
		if n := c.count("ROLE"); n > 0 {
			t.Errorf("all is well, and %d replicas were asked for their role", n)
		}
		test(c)
		cancel()
		<-done
		time.Sleep(time.Second) // the nodes have still something to say
	})
}

func (c *troubled) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *troubled) count(question string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked[question]
}

func (c *troubled) dial(_ context.Context, _, addr string) (net.Conn, error) {
	name := strings.TrimSuffix(addr, ":1")
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuses[name] {
		return nil, errors.New("connection refused")
	}
	n := &scripted.Node{Answer: func(question string) string { return c.answer(name, question) }}
	return n.Dial(), nil
}

// answer is what a node says.
func (c *troubled) answer(name, question string) string {
	c.mu.Lock()
	word, _, _ := strings.Cut(question, " ")
	c.asked[word]++
	late := c.late[name]
	c.mu.Unlock()
	time.Sleep(late)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.silent[name]:
		return scripted.Silence
	case c.refuses[name], c.cut == question:
		return scripted.Cut
	}
	switch question {
	case "PING":
		return "+PONG\r\n"
	case "CLUSTER MYID":
		return bulk("id-" + name)
	case "CLUSTER INFO":
		failing := 0
		if name == "b" && c.failing != "" {
			failing = 5461
		}
		return bulk(fmt.Sprintf("cluster_state:ok\r\ncluster_slots_pfail:%d\r\ncluster_slots_fail:0\r\n"+
			"cluster_current_epoch:7\r\ncluster_known_nodes:4\r\n", failing))
	case "CLUSTER NODES":
		lines := ""
		for _, n := range []string{"a", "b", "c"} {
			flags := "master"
			if n == c.failing {
				flags = "master,fail?"
			}
			lines += fmt.Sprintf("id-%s %s:1@2 %s - 0 0 7 connected\n", n, n, flags)
		}
		if c.of[name] == "a" {
			lines += "id-x x:1@2 slave id-a 0 0 7 connected\n"
		}
		return bulk(lines)
	case "CLUSTER SLOTS":
		first := node("a") + node("x")
		switch {
		case c.of[name] == "x":
			first = node("x")
		case c.hidden:
			first = node("a")
		}
		return fmt.Sprintf("*3\r\n*%d\r\n:0\r\n:5460\r\n%s"+
			"*3\r\n:5461\r\n:10922\r\n%s*3\r\n:10923\r\n:16383\r\n%s",
			2+strings.Count(first, "*3"), first, node("b"), node("c"))
	case "ROLE":
		switch {
		case c.secret:
			return "-NOPERM this user has no permissions to run the 'role' command\r\n"
		case c.of[name] == "x":
			return "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"
		}
		return "*5\r\n$5\r\nslave\r\n$1\r\na\r\n:1\r\n$9\r\nconnected\r\n:0\r\n"
	}
	if strings.HasPrefix(question, "INFO") {
		return bulk("redis_version:7.0.15\r\nredis_mode:cluster\r\n")
	}
	return "-ERR unknown command\r\n"
}

func bulk(s string) string { return string(redcon.AppendBulkString(nil, s)) }

// node is a node as CLUSTER SLOTS shows it.
func node(name string) string { return "*3\r\n$1\r\n" + name + "\r\n:1\r\n" + bulk("id-"+name) }

// promote has x take over from a. For a moment nobody else knows of it.
func (c *troubled) promote() {
	c.change(func() { c.of["x"] = "x" })
	time.AfterFunc(300*time.Millisecond, func() {
		c.change(func() { c.of["b"], c.of["c"] = "x", "x" })
	})
}

// A master is in trouble, and nobody but the control plane asks for it. As soon as its replica has taken over
// that is known, though others still say what was before; and when it is, nobody is asked any more.
func TestPromotionIsSeenAtOnce(t *testing.T) {
	for name, trouble := range map[string]func(c *troubled){
		"silent":               func(c *troubled) { c.silent["a"] = true },
		"refuses":              func(c *troubled) { c.refuses["a"] = true },
		"others call it fail?": func(c *troubled) { c.failing = "a" },
		"young":                func(c *troubled) { c.silent["a"], c.hidden = true, true },
		"young, and half of what is asked gets no answer": func(c *troubled) {
			c.silent["a"], c.hidden, c.cut = true, true, "CLUSTER NODES"
			time.AfterFunc(4*time.Second, func() { c.change(func() { c.cut = "" }) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inTroubleBubble(t, func(c *troubled) {
				c.change(func() { trouble(c) })
				time.Sleep(8 * time.Second)
				c.promote()
				time.Sleep(50 * time.Millisecond)
				if at := c.u.Topology().Slots[0].Addr; at != "x:1" {
					t.Errorf("50 ms after the promotion the master is %s", at)
				}
				if n := c.count("ROLE"); n < 8000/2/15 || n > 8050/15 {
					t.Errorf("its role was asked for %d times in 8 s", n)
				}
				c.change(func() { c.failing = "" })
				time.Sleep(5 * time.Second)
				before := c.count("ROLE")
				time.Sleep(10 * time.Second)
				if n := c.count("ROLE") - before; n > 0 {
					t.Errorf("all is well again, and %d replicas were asked for their role", n)
				}
				if at := c.u.Topology().Slots[0].Addr; at != "x:1" {
					t.Errorf("in the end the master is %s", at)
				}
			})
		})
	}
}

// A replica that must not tell its role takes a little longer, for the topology is asked for.
func TestPromotionOfASecretReplica(t *testing.T) {
	inTroubleBubble(t, func(c *troubled) {
		c.change(func() { c.silent["a"], c.secret = true, true })
		time.Sleep(8 * time.Second)
		c.change(func() { c.of["x"], c.of["b"], c.of["c"] = "x", "x", "x" })
		time.Sleep(100 * time.Millisecond)
		if at := c.u.Topology().Slots[0].Addr; at != "x:1" {
			t.Errorf("100 ms after the promotion the master is %s", at)
		}
	})
}

// A master that never comes back is asked about less and less.
func TestVigilGetsTired(t *testing.T) {
	inTroubleBubble(t, func(c *troubled) {
		c.change(func() { c.refuses["a"] = true })
		time.Sleep(5 * time.Minute)
		if n := c.count("ROLE"); n > 4500 {
			t.Errorf("its role was asked for %d times in 5 minutes", n)
		}
		roles, topologies := c.count("ROLE"), c.count("CLUSTER")
		time.Sleep(time.Minute)
		if n := c.count("ROLE") - roles; n > 200 {
			t.Errorf("its role was asked for %d times in a minute", n)
		}
		if n := c.count("CLUSTER") - topologies; n > 12*61 { // as while all is well
			t.Errorf("the topology was asked for %d times in a minute", n)
		}
	})
}

// A master that is slow by habit is not in doubt. One that has been in doubt, and answers, is so no longer,
// and who waits for it is told.
func TestHabitOfAMaster(t *testing.T) {
	inTroubleBubble(t, func(c *troubled) {
		var told atomic.Int64
		c.u.OnChange(func(*cluster.Topology) { told.Add(1) })
		c.change(func() { c.late["a"] = 200 * time.Millisecond })
		time.Sleep(3 * time.Second)
		if told.Load() == 0 {
			t.Error("nobody was told that it answers")
		}
		before := c.count("ROLE")
		if before == 0 {
			t.Error("it answers late for the first time, and nobody minds")
		}
		time.Sleep(time.Minute)
		if n := c.count("ROLE") - before; n > 0 {
			t.Errorf("it is always slow, and its role was asked for %d times", n)
		}
	})
}
