package proxy

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
	"lockproxy/internal/scripted"
)

// blockNodes are scripted nodes, each with lists of its own, that block connections as Redis does.
type blockNodes struct {
	*rig

	mu      sync.Mutex
	nodes   map[int]*blockNode
	version string
	modes   []cluster.Mode // of connections that are not as most
	// before may answer a command in place of the node: "" leaves it to the node, "cut" cuts the connection,
	// "-" keeps silent.
	before func(node int, command string) string
}

// blockNode is one of them.
type blockNode struct {
	down    bool
	lists   map[string][]string
	conns   []*blockConn
	blocked []*blockConn // the longest first
	lastID  int
	dials   int
}

// blockConn is one connection to a blockNode.
type blockConn struct {
	all      *blockNodes
	node     *blockNode
	number   int
	id       int
	nc       net.Conn
	out      chan string
	key      string // that it is blocked on
	timer    *time.Timer
	timedOut string // the reply then
	asking   bool
}

// inBlockBubble runs test before such nodes. Of three the first has the key b, the second c, the third a.
func inBlockBubble(t *testing.T, nodes int, o Options, test func(n *blockNodes)) {
	inBubble(t, nodes, o, echo, func(r *rig) {
		n := &blockNodes{rig: r, nodes: map[int]*blockNode{}, version: "7.0.15",
			before: func(int, string) string { return "" }}
		for i := 1; i <= nodes; i++ {
			n.nodes[i] = &blockNode{lists: map[string][]string{}, lastID: 100 * i}
		}
		r.node = n.dial
		test(n)
		synctest.Wait()
		n.mu.Lock()
		defer n.mu.Unlock()
		for i, node := range n.nodes {
			if len(node.blocked) > 0 {
				t.Errorf("node %d still blocks %d connections", i, len(node.blocked))
			}
		}
	})
}

// script sets before.
func (n *blockNodes) script(before func(node int, command string) string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.before = before
}

// once answers the next command that begins with prefix, on any node.
func (n *blockNodes) once(prefix, reply string) {
	done := false
	n.script(func(_ int, command string) string {
		if done || !strings.HasPrefix(command, prefix) {
			return ""
		}
		done = true
		return reply
	})
}

func (n *blockNodes) dial(number int, m cluster.Mode, _ bool, here, there net.Conn) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	node := n.nodes[number]
	if node.down {
		return nil, errors.New("connection refused")
	}
	here, there = halfPipes()
	node.dials++
	node.lastID++
	if m.Proto != 2 {
		n.modes = append(n.modes, m)
	}
	c := &blockConn{all: n, node: node, number: number, id: node.lastID, nc: there,
		out: make(chan string, 1000)}
	node.conns = append(node.conns, c)
	go func() {
		for reply := range c.out {
			if _, err := c.nc.Write([]byte(reply)); err != nil {
				return
			}
		}
		c.nc.Close()
	}()
	go c.serve()
	return here, nil
}

func (c *blockConn) serve() {
	scripted.Each(c.nc, func(words []string) bool {
		c.command(words)
		return true
	}, nil)
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	c.leave()
}

// leave forgets the connection; all.mu is held.
func (c *blockConn) leave() {
	c.unblock("")
	if i := slices.Index(c.node.conns, c); i >= 0 {
		c.node.conns = slices.Delete(c.node.conns, i, i+1)
		close(c.out)
	}
}

// cut ends the connection from the node's side.
func (c *blockConn) cut() {
	c.leave()
	c.nc.Close()
}

// unblock ends what the connection is blocked in, with reply if it is not "". It says
// whether it was.
func (c *blockConn) unblock(reply string) bool {
	i := slices.Index(c.node.blocked, c)
	if i < 0 {
		return false
	}
	c.node.blocked = slices.Delete(c.node.blocked, i, i+1)
	c.key = ""
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	if reply != "" {
		c.out <- reply
	}
	return true
}

func (c *blockConn) block(key, timeout string, unit time.Duration, timedOut string) {
	c.key, c.timedOut = key, timedOut
	c.node.blocked = append(c.node.blocked, c)
	if limit, _ := strconv.ParseFloat(timeout, 64); limit > 0 {
		c.timer = time.AfterFunc(time.Duration(limit*float64(unit)), func() {
			c.all.mu.Lock()
			defer c.all.mu.Unlock()
			c.unblock(timedOut)
		})
	}
}

func (c *blockConn) command(words []string) {
	n, node := c.all, c.node
	line := strings.Join(words, " ")
	n.rig.mu.Lock()
	n.rig.seen = append(n.rig.seen, fmt.Sprintf("%d: %s", c.number, line))
	n.rig.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Contains(node.conns, c) {
		return
	}
	if c.key != "" { // as Redis: it is read when the client is not blocked any more
		panic("a blocked connection was sent " + line)
	}
	switch reply := n.before(c.number, line); reply {
	case "":
		c.run(words)
	case "cut":
		c.cut()
	case "-":
	default:
		c.out <- reply
	}
}

func bulks(words ...string) string {
	return string(resp.AppendCommandStrings(nil, words...))
}

func (c *blockConn) run(words []string) {
	node := c.node
	switch words[0] {
	case "CLIENT":
		switch words[1] {
		case "ID":
			c.out <- fmt.Sprintf(":%d\r\n", c.id)
		case "UNBLOCK":
			c.out <- node.unblock(words[2], words[3])
		}
	case "INFO":
		text := "# Server\r\nredis_version:" + c.all.version + "\r\n# Clients\r\nblocked_clients:" +
			strconv.Itoa(len(node.blocked)) + "\r\n"
		c.out <- fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
	case "BLPOP":
		if elems := node.lists[words[1]]; len(elems) > 0 {
			node.lists[words[1]] = elems[1:]
			c.out <- bulks(words[1], elems[0])
			return
		}
		c.block(words[1], words[len(words)-1], time.Second, "*-1\r\n")
	case "RPUSH":
		for _, other := range node.blocked {
			if other.key == words[1] {
				other.unblock(bulks(words[1], words[2]))
				c.out <- ":1\r\n"
				return
			}
		}
		node.lists[words[1]] = append(node.lists[words[1]], words[2])
		c.out <- fmt.Sprintf(":%d\r\n", len(node.lists[words[1]]))
	case "LLEN":
		c.out <- fmt.Sprintf(":%d\r\n", len(node.lists[words[1]]))
	case "XREAD":
		c.block(words[len(words)-2], words[2], time.Millisecond, "*-1\r\n")
	case "WAIT":
		c.block("(WAIT)", words[2], time.Millisecond, ":0\r\n")
	case "EVAL":
		c.out <- ":1\r\n"
	case "PING":
		c.out <- "+PONG\r\n"
	default:
		c.out <- "+OK\r\n"
	}
}

func (n *blockNode) unblock(id, reason string) string {
	for _, c := range n.blocked {
		if strconv.Itoa(c.id) == id {
			reply := c.timedOut
			if reason == "ERROR" {
				reply = "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"
			}
			c.unblock(reply)
			return ":1\r\n"
		}
	}
	return ":0\r\n"
}

// blocks is how many connections node i blocks, once all is quiet.
func (n *blockNodes) blocks(i int) int {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.nodes[i].blocked)
}

// dialed is how often node i was connected to, once all is quiet.
func (n *blockNodes) dialed(i int) int {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nodes[i].dials
}

// reply has node i answer all that it blocks. Then closes says that it hangs up.
func (n *blockNodes) reply(i int, reply string, closes bool) {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range slices.Clone(n.nodes[i].blocked) {
		c.unblock(reply)
		if closes {
			c.leave()
		}
	}
}

// kill ends a node: nobody can connect to it any more.
func (n *blockNodes) kill(i int) {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nodes[i].down = true
	for _, c := range slices.Clone(n.nodes[i].conns) {
		c.cut()
	}
}

// move gives the slots of node from to node to.
func (n *blockNodes) move(from, to int) {
	synctest.Wait()
	done := make(chan bool)
	w := n.server.workers[0]
	w.loop.Post(func() {
		old := n.topology
		t := &cluster.Topology{Version: old.Version + 1, Kind: old.Kind, Server: old.Server, Slots: old.Slots}
		for s, node := range t.Slots {
			if node.Addr == fmt.Sprintf("node:%d", from) {
				t.Slots[s] = &cluster.Node{Addr: fmt.Sprintf("node:%d", to), Master: true}
			}
		}
		seen := map[string]*cluster.Node{}
		for s, node := range t.Slots {
			if seen[node.Addr] == nil {
				seen[node.Addr] = node
				t.Masters = append(t.Masters, node)
			}
			t.Slots[s] = seen[node.Addr]
		}
		n.topology = t
		w.pool.Update()
		close(done)
	})
	<-done
}

// drain has the proxy do what Drain does first.
func (n *blockNodes) drain() {
	synctest.Wait()
	for _, w := range n.server.workers {
		w.loop.Post(func() {
			w.draining = true
			for s := range w.sessions {
				s.drainSession()
			}
		})
	}
}

// asked is what of the commands was BLPOP, XREAD, ASKING, EVAL, WAIT or CLIENT UNBLOCK since the last time.
func (n *blockNodes) asked() string {
	synctest.Wait()
	n.rig.mu.Lock()
	defer n.rig.mu.Unlock()
	var all []string
	for _, line := range n.seen {
		_, command, _ := strings.Cut(line, ": ")
		for _, word := range []string{"BLPOP", "XREAD", "ASKING", "EVAL", "WAIT", "CLIENT UNBLOCK"} {
			if strings.HasPrefix(command, word) {
				if word == "EVAL" {
					line, _, _ = strings.Cut(line, " #")
				}
				all = append(all, line)
			}
		}
	}
	n.seen = nil
	return strings.Join(all, ", ")
}

func (n *blockNodes) wantAsked(what, want string) {
	n.Helper()
	if got := n.asked(); got != want {
		n.Errorf("%s: asked %q, want %q", what, got, want)
	}
}
