package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
	"lockproxy/internal/scripted"
	"lockproxy/internal/slot"
	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

// lockNodes are two nodes on sockets that compare each request for a lock with what a client meant. They lose
// scripts, are slow, and cut connections, so that requests are sent again.
type lockNodes struct {
	*loopback
	t       *testing.T
	lns     []net.Listener
	scripts map[string]string // their names, by digest and by source
	seen    atomic.Int64      // requests for locks
	again   atomic.Int64      // replies that had them sent again
	conns   atomic.Uint64
}

func newLockNodes(t *testing.T) *lockNodes {
	n := &lockNodes{loopback: newLoopback(t), t: t, scripts: make(map[string]string)}
	for _, s := range scripts.All() {
		n.scripts[s.SHA], n.scripts[s.Source] = s.Name, s.Name
	}
	for i := range n.topology.Masters {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		n.lns = append(n.lns, ln)
		go func() { // ends with ln
			for {
				nc, err := ln.Accept()
				if err != nil {
					return
				}
				go n.serve(i, nc)
			}
		}()
	}
	return n
}

// Dial implements pipe.Control.
func (n *lockNodes) Dial(_ context.Context, addr string, _ cluster.Mode, _ *cluster.Identity) (net.Conn,
	error) {
	i := slices.IndexFunc(n.topology.Masters, func(m *cluster.Node) bool { return m.Addr == addr })
	return net.Dial("tcp", n.lns[i].Addr().String())
}

func (n *lockNodes) serve(i int, nc net.Conn) {
	defer nc.Close()
	dice := rand.New(rand.NewPCG(n.conns.Add(1), 0))
	w := bufio.NewWriter(nc)
	scripted.Each(nc, func(words []string) bool {
		reply := "+OK\r\n"
		if len(words) == 0 {
			n.t.Error("a command without words")
			return false
		}
		switch words[0] {
		case "EVALSHA", "EVAL":
			reply = n.check(i, words, dice)
		case "GET":
			reply = fmt.Sprintf("$%d\r\n%s\r\n", len(words[1]), words[1])
		case "SET":
			if strings.HasPrefix(words[1], "lock:") {
				n.t.Errorf("SET %s", words[1])
			}
		}
		if reply == "" {
			w.Flush()
			return false
		}
		w.WriteString(reply)
		return w.Flush() == nil
	}, nil)
}

// check compares a request for a lock with what was meant, and answers it.
func (n *lockNodes) check(i int, words []string, dice *rand.Rand) string {
	n.seen.Add(1)
	if len(words) < 5 {
		n.t.Errorf("%q", words)
		return ""
	}
	script := n.scripts[words[1]]
	if script == "" {
		n.t.Errorf("%.40q is no script", words[1])
		return "-ERR no script\r\n"
	}
	keys, most := 2, map[string][]int{"acquire": {2, 8, 11}, "release": {2, 3}, "cancel": {5},
		"renew": {6}}[script]
	plain := script == "release" && words[2] == "1"
	if script == "renew" || plain {
		keys = 1
	}
	args := words[min(3+keys, len(words)):]
	var name, word string
	if len(args) > 0 {
		fmt.Sscanf(strings.NewReplacer("lock:{", "", "}", "").Replace(words[3]), "%s", &name)
		word = args[0]
	}
	if script == "renew" && len(args) == 6 {
		word = args[2]
	}
	if script == "acquire" || plain { // the word stands last in the value of the lock
		word = word[strings.LastIndexByte(word, ' ')+1:]
	}
	tag := "lock:fence:{" + slot.Tag(slot.Of([]byte(words[3]))) + "}"
	switch {
	case !slices.Contains(most, len(args)) || words[2] != fmt.Sprint(keys):
		n.t.Errorf("%s: %d arguments: %q", script, len(args), words[2:])
	case !strings.HasPrefix(name, "n") || word != redlock.OwnerOf("token of "+name):
		n.t.Errorf("%s of %s by %s: %q", script, words[3], word, words[2:])
	case keys == 2 && words[4] != tag:
		n.t.Errorf("%s of %s with the fence %s, not %s", script, words[3], words[4], tag)
	case script == "acquire" && len(args) == 11 && args[9] != "" && args[9] != "meta of "+name:
		n.t.Errorf("%s of %s with the meta %q", script, words[3], args[9])
	case n.topology.Slots[slot.Of([]byte(words[3]))] != n.topology.Masters[i]:
		n.t.Errorf("%s of %s at node %d", script, words[3], i)
	}
	switch d := dice.IntN(100); {
	case d < 2:
		n.again.Add(1)
		return ""
	case d < 12 && words[0] == "EVALSHA":
		n.again.Add(1)
		return "-NOSCRIPT No matching script.\r\n"
	case script == "acquire" && d < 30:
		return "$-1\r\n"
	case script == "acquire" && len(args) > 5:
		return fmt.Sprintf("*4\r\n$%d\r\n%s\r\n:1795243679022620\r\n:30000\r\n:1\r\n", len(word), word)
	case script == "acquire":
		return ":1795243679022620\r\n"
	case script == "renew":
		return "*3\r\n:30000\r\n:0\r\n:1\r\n"
	}
	return ":1\r\n"
}

// Each request for a lock that reaches a node is one that a client meant: its keys, its fence, its token and
// its meta belong together, however many are under way, and however often they are sent again; and nothing
// else writes keys of locks.
func TestLocksAreSentAsMeant(t *testing.T) {
	n := newLockNodes(t)
	s, err := New(t.Context(), Options{Upstream: n, PubSub: n, Loops: 2})
	if err != nil {
		t.Fatal(err)
	}
	addr := serveClients(t, s)
	var clients sync.WaitGroup
	for i := range 12 {
		clients.Go(func() {
			dice := rand.New(rand.NewPCG(0, uint64(i)))
			for range 4 { // connections
				nc, err := net.Dial("tcp", addr.String())
				if err != nil {
					t.Error(err)
					return
				}
				lockAndGo(nc, i, dice)
				nc.Close()
			}
		})
	}
	clients.Wait()
	if err := s.Drain(context.Background()); err != nil {
		t.Error(err)
	}
	for _, ln := range n.lns {
		ln.Close()
	}
	if n.seen.Load() < 2000 || n.again.Load() < 100 {
		t.Errorf("%d requests for locks, %d of them sent again", n.seen.Load(), n.again.Load())
	}
	t.Logf("%d requests for locks, %d of them sent again", n.seen.Load(), n.again.Load())
}

// lockAndGo sends some batches, and leaves in the middle of the last one.
func lockAndGo(nc net.Conn, client int, dice *rand.Rand) {
	const batches = 20
	r := bufio.NewReader(nc)
	for batch := range batches {
		var out []byte
		add := func(words ...string) { out = resp.AppendCommandStrings(out, words...) }
		const commands = 8
		for range commands {
			name := fmt.Sprintf("n%d.%d", client, dice.IntN(50))
			token := "token of " + name
			switch dice.IntN(7) {
			case 0:
				add("SET", "k"+name, strings.Repeat("lock:{n} value ", dice.IntN(300)))
			case 1:
				add("GET", "k"+name)
			case 2:
				add("LOCK", name, "TOKEN", token, "PX", "30000", "META", "meta of "+name)
			case 3:
				add("LOCK", name, "TOKEN", token, "PX", "30000")
			case 4:
				add("RLOCK", name, "TOKEN", token, "PX", "30000")
			case 5:
				add("UNLOCK", name, "TOKEN", token)
			case 6:
				add("RENEW", name, "TOKEN", token, "PX", "30000")
			}
		}
		for len(out) > 0 { // in pieces that end anywhere
			n := min(1+dice.IntN(3000), len(out))
			if _, err := nc.Write(out[:n]); err != nil {
				return
			}
			out = out[n:]
		}
		if batch == batches-1 {
			return
		}
		for range commands {
			if !skipReply(r) {
				return
			}
		}
	}
}

// skipReply reads one reply.
func skipReply(r *bufio.Reader) bool {
	line, err := r.ReadString('\n')
	if err != nil {
		return false
	}
	var n int
	fmt.Sscanf(line[1:], "%d", &n)
	switch line[0] {
	case '$':
		if n >= 0 {
			_, err = io.CopyN(io.Discard, r, int64(n)+2)
		}
	case '*':
		for range n {
			if !skipReply(r) {
				return false
			}
		}
	}
	return err == nil
}
