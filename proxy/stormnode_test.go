package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pubsub"
	"lockproxy/internal/scripted"
	"lockproxy/internal/subscription"
)

// stormTopology is one of n masters; of says whose a slot is, -1: nobody's.
func stormTopology(version uint64, n int, of func(slot int) int) *cluster.Topology {
	t := &cluster.Topology{Version: version, Kind: cluster.Cluster, Server: cluster.Server{Version: "7.2.0"}}
	for i := range n {
		t.Masters = append(t.Masters, &cluster.Node{Addr: fmt.Sprintf("node:%d", i+1), Master: true})
	}
	for s := range t.Slots {
		if i := of(s); i >= 0 {
			t.Slots[s] = t.Masters[i]
		}
	}
	return t
}

// move shows other topologies until stop is closed, and then the first one.
func (st *tempest) move(dice *rand.Rand, stop chan bool) {
	version := uint64(1)
	show := func(n int, of func(int) int) {
		version++
		t := stormTopology(version, n, of)
		st.mu.Lock()
		st.whole = t
		st.mu.Unlock()
		for _, w := range st.server.workers {
			w.loop.Post(w.pool.Update)
		}
	}
	for {
		select {
		case <-stop:
			show(3, func(s int) int { return s * 3 / 16384 })
			return
		case <-time.After(time.Duration(100+dice.IntN(3000)) * time.Millisecond):
		}
		n, shift := dice.IntN(4), dice.IntN(3)
		if dice.IntN(3) > 0 {
			n = 3
		}
		show(n, func(s int) int {
			if n == 0 {
				return -1
			}
			return (s*3/16384 + shift) % n
		})
	}
}

// Topology implements pipe.Control.
func (st *tempest) Topology() *cluster.Topology {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.whole
}

// roll is a number below n.
func (st *tempest) roll(n int) int {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.dice.IntN(n)
}

// bad says that it is one time in n, while it storms.
func (st *tempest) bad(n int) bool { return st.roll(n) == 0 && !st.calm.Load() }

func (st *tempest) dial(node int, m cluster.Mode, _ bool, here, there net.Conn) (net.Conn, error) {
	if st.bad(10) {
		time.Sleep(time.Duration(st.roll(3000)) * time.Millisecond)
	}
	if st.bad(20) {
		return nil, errors.New("connection refused")
	}
	st.mu.Lock()
	st.lastID++
	c := &stormConn{st: st, Conn: there, id: st.lastID}
	st.mu.Unlock()
	go c.serve()
	return here, nil
}

// stormConn is one connection to a node.
type stormConn struct {
	net.Conn
	st     *tempest
	id     int
	multi  bool
	queued int
	silent bool
}

func (c *stormConn) serve() {
	defer c.Close()
	scripted.Each(c, c.answer, nil)
}

var (
	stormErrors = []string{"-MOVED 1 node:1", "-MOVED 1 node:3", "-ASK 1 node:2",
		"-ASK 1 node:9", "-LOADING x",
		"-CLUSTERDOWN x", "-TRYAGAIN x", "-READONLY x",
		"-NOSCRIPT x", "-BUSY x", "-ERR x", "-NOPERM x", "-UNBLOCKED x",
		"-EXECABORT Transaction discarded because of: MOVED 1 node:2", "-MASTERDOWN x",
		"-UNKILLABLE x", "-WRONGTYPE x"}
	stormReplies = []string{":1\r\n", "*0\r\n", "$-1\r\n", "*-1\r\n", "_\r\n", "+QUEUED\r\n", "%0\r\n",
		"$3\r\nabc\r\n", "*2\r\n:1\r\n*0\r\n", "+OK\r\n", "*3\r\n$4\r\nbusy\r\n:600\r\n:0\r\n"}
	stormPushes = []string{">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n", ">2\r\n$10\r\ninvalidate\r\n_\r\n",
		">1\r\n+x\r\n"}
)

var mayBlock = map[string]bool{"BLPOP": true, "BLMOVE": true, "XREAD": true, "WAIT": true, "WAITAOF": true}

// answer answers one command; false: the connection ends.
func (c *stormConn) answer(words []string) bool {
	st, reply := c.st, cmp.Or(scripted.Prove(words), c.reply(words))
	switch {
	case st.bad(25):
		return false
	case c.silent || st.bad(40):
		c.silent = true
		return !mayBlock[strings.ToUpper(words[0])] // for which one waits for ever
	case st.bad(15):
		reply = stormErrors[st.roll(len(stormErrors))] + "\r\n"
	case st.bad(40):
		reply = stormReplies[st.roll(len(stormReplies))]
	case st.bad(60):
		io.WriteString(c, reply[:len(reply)/2])
		return false
	case st.bad(20):
		reply = stormPushes[st.roll(len(stormPushes))] + reply
	case st.bad(60):
		reply += reply
	case st.bad(30):
		io.WriteString(c, reply[:len(reply)/2])
		time.Sleep(time.Duration(st.roll(500)) * time.Millisecond)
		reply = reply[len(reply)/2:]
	}
	if st.bad(8) {
		time.Sleep(time.Duration(st.roll(1500)) * time.Millisecond)
	}
	_, err := io.WriteString(c, reply)
	return err == nil
}

// reply is what a node says.
func (c *stormConn) reply(words []string) string {
	st, word := c.st, strings.ToUpper(words[0])
	switch word {
	case "MULTI":
		c.multi, c.queued = true, 0
		return "+OK\r\n"
	case "DISCARD":
		c.multi = false
		return "+OK\r\n"
	case "EXEC":
		if !c.multi {
			return "-ERR EXEC without MULTI\r\n"
		}
		c.multi = false
		return fmt.Sprintf("*%d\r\n", c.queued) + strings.Repeat("+OK\r\n", c.queued)
	}
	if c.multi {
		c.queued++
		return "+QUEUED\r\n"
	}
	switch word {
	case "CLIENT":
		switch words[1] {
		case "ID":
			return fmt.Sprintf(":%d\r\n", c.id)
		case "UNBLOCK":
			id, _ := strconv.Atoi(words[2])
			return st.unblock(id)
		}
	case "BLPOP", "BLMOVE", "XREAD", "WAIT", "WAITAOF": // blocking
		st.block(c.id)
		switch word {
		case "WAIT":
			return ":0\r\n"
		case "WAITAOF":
			return "*2\r\n:0\r\n:0\r\n"
		}
		return "*-1\r\n"
	case "PING":
		return "+PONG\r\n"
	case "GET", "RANDOMKEY":
		if st.large && st.roll(10) == 0 {
			return bulkOf(1<<20 + st.roll(5)<<20)
		}
		return "$300\r\n" + strings.Repeat("x", 300) + "\r\n"
	case "MGET":
		return fmt.Sprintf("*%d\r\n", len(words)-1) + strings.Repeat("$-1\r\n", len(words)-1)
	case "DEL", "DBSIZE", "PUBLISH", "SPUBLISH", "INCR", "EVAL":
		return ":1\r\n"
	case "KEYS":
		return "*0\r\n"
	case "SCAN":
		return "*2\r\n$1\r\n0\r\n*0\r\n"
	case "INFO":
		return "$21\r\nredis_version:7.2.0\r\n\r\n"
	case "COMMAND":
		return "*1\r\n$1\r\na\r\n"
	case "HELLO":
		return "%0\r\n"
	case "SCRIPT":
		if strings.ToUpper(words[1]) == "EXISTS" {
			return fmt.Sprintf("*%d\r\n", len(words)-2) + strings.Repeat(":0\r\n", len(words)-2)
		}
		return "$40\r\n" + strings.Repeat("a", 40) + "\r\n"
	case "EVALSHA":
		return []string{nodeGrant, "*3\r\n$4\r\nbusy\r\n:600\r\n:0\r\n", ":1\r\n", ":0\r\n",
			"$-1\r\n"}[st.roll(5)]
	case "FUNCTION", "PUBSUB", "SLOWLOG", "CONFIG", "SORT":
		return "*0\r\n"
	}
	return "+OK\r\n"
}

// block waits for a while, or until unblock.
func (st *tempest) block(id int) {
	ended := make(chan bool, 1)
	st.mu.Lock()
	st.waits[id] = ended
	st.mu.Unlock()
	select {
	case <-ended:
	case <-time.After(time.Duration(st.roll(1500)) * time.Millisecond):
	}
	st.mu.Lock()
	delete(st.waits, id)
	st.mu.Unlock()
}

func (st *tempest) unblock(id int) string {
	st.mu.Lock()
	defer st.mu.Unlock()
	if ended := st.waits[id]; ended != nil {
		delete(st.waits, id)
		ended <- true
		return ":1\r\n"
	}
	return ":0\r\n"
}

// Join implements PubSub.
func (st *tempest) Join(ctx context.Context, kind pubsub.Kind, names []string,
	out pubsub.Outlet) ([]*pubsub.Topic, error) {
	st.pause(ctx)
	if st.bad(8) {
		return nil, pubsub.SubscribeError("NOPERM x")
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var all []*pubsub.Topic
	st.mu.Lock()
	for _, name := range names {
		key := fmt.Sprint(kind, name)
		if st.topics[key] == nil {
			st.topics[key] = &pubsub.Topic{TopicName: pubsub.TopicName{Kind: kind, Name: name}}
		}
		all = append(all, st.topics[key])
	}
	st.mu.Unlock()
	for _, t := range all {
		out.Deliver(t, []byte("*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$1\r\ny\r\n"))
	}
	return all, nil
}

// Leave implements PubSub.
func (st *tempest) Leave(ctx context.Context, topics []*pubsub.Topic, out pubsub.Outlet) {
	st.pause(ctx)
	for _, t := range topics {
		out.Deliver(t, []byte("*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$500\r\n"+strings.Repeat("y", 500)+"\r\n"))
	}
}

func (st *tempest) pause(ctx context.Context) {
	if st.bad(2) {
		select {
		case <-time.After(time.Duration(st.roll(2000)) * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// Subscribe implements Upstream.
func (st *tempest) Subscribe(_ int, _ string, notify func(subscription.Change)) (cancel func()) {
	if st.bad(3) {
		notify(subscription.Change{Kind: subscription.Refused, Err: errNoPubSub})
	} else {
		notify(subscription.Change{Kind: subscription.Live})
		notify(subscription.Change{})
	}
	return func() {}
}
