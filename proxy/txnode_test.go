package proxy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// txNodes are scripted nodes that know MULTI and WATCH. They share their keys, so that it does not matter
// which of them runs a command.
type txNodes struct {
	r *rig
	// before may answer a command in place of the node: run is false then. An error makes the
	// transaction fail, as in Redis.
	before func(node int, command string) (reply string, run bool)

	mu      sync.Mutex
	keys    map[string]string
	changes map[string]int
	scripts map[string]bool
	own     int // connections of one client's own
	ran     []string
}

// noKey is what a node says of GET alone.
const noKey = "-ERR wrong number of arguments for 'get' command\r\n"

// txNodeConn is one connection to a txNode.
type txNodeConn struct {
	n       *txNodes
	node    int
	multi   bool
	dirty   bool
	own     bool
	queue   []string
	watched map[string]int
}

// inTxBubble runs test before such nodes.
func inTxBubble(t *testing.T, nodes int, o Options, test func(r *rig, n *txNodes)) {
	inBubble(t, nodes, o, echo, func(r *rig) {
		n := &txNodes{r: r, keys: map[string]string{}, changes: map[string]int{}, scripts: map[string]bool{}}
		n.before = func(int, string) (string, bool) { return "", true }
		r.converse = n.connect
		test(r, n)
	})
}

// intercept sets before.
func (n *txNodes) intercept(before func(int, string) (string, bool)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.before = before
}

func (n *txNodes) connect(node int) (func(string) string, func()) {
	c := &txNodeConn{n: n, node: node, watched: map[string]int{}}
	return c.answer, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if c.own {
			n.own--
		}
	}
}

func (c *txNodeConn) answer(command string) string {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	word, rest, _ := strings.Cut(command, " ")
	if command == "CLIENT ID" {
		c.own = true
		c.n.own++
		return ":7\r\n"
	}
	if reply, run := c.n.before(c.node, command); !run {
		if word == "EXEC" || word == "DISCARD" {
			c.reset()
		} else if strings.HasPrefix(reply, "-") && c.multi {
			c.dirty = true
		}
		return reply
	}
	switch word {
	case "MULTI":
		if c.multi {
			return "-ERR MULTI calls can not be nested\r\n"
		}
		c.multi = true
		return "+OK\r\n"
	case "DISCARD":
		c.reset()
		return "+OK\r\n"
	case "EXEC":
		return c.exec()
	case "WATCH":
		if c.multi {
			return "-ERR WATCH inside MULTI is not allowed\r\n"
		}
		for _, key := range strings.Fields(rest) {
			c.watched[key] = c.n.changes[key]
		}
		return "+OK\r\n"
	case "UNWATCH":
		if !c.multi {
			clear(c.watched)
			return "+OK\r\n"
		}
	}
	if command == "GET" {
		c.dirty = c.multi
		return noKey
	}
	if c.multi {
		c.queue = append(c.queue, command)
		return "+QUEUED\r\n"
	}
	return c.n.run(c.node, command)
}

func (c *txNodeConn) reset() {
	c.multi, c.dirty, c.queue = false, false, nil
	clear(c.watched)
}

func (c *txNodeConn) exec() string {
	defer c.reset()
	if !c.multi {
		return "-ERR EXEC without MULTI\r\n"
	}
	if c.dirty {
		return execAbortedReply
	}
	for key, change := range c.watched {
		if c.n.changes[key] != change {
			return "*-1\r\n"
		}
	}
	reply := fmt.Sprintf("*%d\r\n", len(c.queue))
	for _, command := range c.queue {
		reply += c.n.run(c.node, command)
	}
	return reply
}

func (n *txNodes) run(node int, command string) string {
	words := strings.Fields(command)
	if words[0] == "SCRIPT" && words[1] == "LOAD" { // the source is one word
		words = strings.SplitN(command, " ", 3)
	}
	n.ran = append(n.ran, fmt.Sprintf("%d: %s", node, command))
	switch words[0] {
	case "SET":
		n.keys[words[1]] = words[2]
		n.changes[words[1]]++
	case "INCR":
		v, _ := strconv.Atoi(n.keys[words[1]])
		n.keys[words[1]] = strconv.Itoa(v + 1)
		n.changes[words[1]]++
		return fmt.Sprintf(":%d\r\n", v+1)
	case "GET":
		return fmt.Sprintf("$%d\r\n%s\r\n", len(n.keys[words[1]]), n.keys[words[1]])
	case "PING":
		return "+PONG\r\n"
	case "SCRIPT":
		if words[1] == "EXISTS" {
			reply := fmt.Sprintf("*%d\r\n", len(words)-2)
			for _, sha := range words[2:] {
				reply += map[bool]string{true: ":1\r\n", false: ":0\r\n"}[n.scripts[sha]]
			}
			return reply
		}
		n.scripts[shaOf(words[2])] = true
		return fmt.Sprintf("$40\r\n%s\r\n", shaOf(words[2]))
	case "EVALSHA":
		if !n.scripts[words[1]] {
			return "-NOSCRIPT No matching script. Please use EVAL.\r\n"
		}
		return "+ran\r\n"
	}
	return "+OK\r\n"
}

// seen is what the nodes were sent, without what belongs to every connection of one's own.
func (n *txNodes) seen() string {
	synctest.Wait()
	n.r.mu.Lock()
	defer n.r.mu.Unlock()
	return strings.Join(slices.DeleteFunc(slices.Clone(n.r.seen),
		func(s string) bool { return strings.HasSuffix(s, "CLIENT ID") }), ", ")
}

// executed is what the nodes ran, in the order in which they did.
func (n *txNodes) executed() string {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.ran, ", ")
}

// value is that of a key.
func (n *txNodes) value(key string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.keys[key]
}

// connections is how many connections of one's own there are.
func (n *txNodes) connections() int {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.own
}

// once answers a command with reply the first times that it comes.
func once(times int, command, reply string) func(int, string) (string, bool) {
	return func(_ int, got string) (string, bool) {
		if got == command && times > 0 {
			times--
			return reply, false
		}
		return "", true
	}
}

// What the proxy itself says about transactions.
const (
	otherProtocolReply = "-ERR HELLO with another protocol is not available through lockproxy inside a " +
		"transaction: send it before MULTI\r\n"
	noExecReply       = "-ERR EXEC without MULTI\r\n"
	nestedMultiReply  = "-ERR MULTI calls can not be nested\r\n"
	watchInMultiReply = "-ERR WATCH inside MULTI is not allowed\r\n"
	noDiscardReply    = "-ERR DISCARD without MULTI\r\n"
	execAbortedReply  = "-EXECABORT Transaction discarded because of previous errors.\r\n"
)
