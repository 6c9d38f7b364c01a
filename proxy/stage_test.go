package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/cluster/discovery"
	"lockproxy/cluster/pubsub"
	"lockproxy/internal/glob"
	"lockproxy/internal/scripted"
)

// stage is one Redis over net.Pipe, with as much of it as publishing and subscribing need. "GET
// big" is answered in two halves, the second when the test says so.
type stage struct {
	*rig
	upstream *discovery.Upstream

	mu     sync.Mutex
	gate   chan struct{} // while there is one, SUBSCRIBE, UNSUBSCRIBE and PING wait until it is closed
	half   chan struct{} // the second half of "GET big"
	conns  map[*stageConn]bool
	closed bool
}

type stageConn struct {
	net.Conn
	topics map[string]bool // "SUBSCRIBE name"
	out    chan string
}

// inStageBubble runs test in fake time with a Server before a stage. In the end nobody may be
// subscribed any more.
func inStageBubble(t *testing.T, o Options, test func(st *stage)) {
	t.Helper()
	commandReply() // from a real socket, so before time stops
	synctest.Test(t, func(t *testing.T) {
		st := &stage{conns: make(map[*stageConn]bool), half: make(chan struct{})}
		var err error
		st.upstream, err = discovery.Find(t.Context(),
			discovery.Options{Addrs: []string{"10.0.0.1:6379"}, Dial: st.dial})
		if err != nil {
			t.Fatal(err)
		}
		running, stop := context.WithCancel(context.Background())
		go st.upstream.Run(running)
		st.rig = &rig{T: t}
		o.Upstream, o.Portable, o.Loops, o.Config = st.upstream, true, max(o.Loops, 1), noSettings{}
		if st.server, err = New(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		test(st)
		st.open()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := st.server.Drain(ctx); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		st.nothingLeft()
		stop()
		st.close()
		synctest.Wait()
	})
}

func (st *stage) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	c := &stageConn{Conn: there, topics: make(map[string]bool), out: make(chan string, 10_000)}
	st.mu.Lock()
	st.conns[c] = true
	st.mu.Unlock()
	go st.serve(c)
	go func() { // ends when c.out is closed
		for text := range c.out {
			io.WriteString(c, text)
		}
	}()
	return here, nil
}

func (st *stage) serve(c *stageConn) {
	scripted.Each(c, func(words []string) bool {
		st.answer(c, words)
		return true
	}, nil)
	st.mu.Lock()
	defer st.mu.Unlock()
	delete(st.conns, c)
	close(c.out)
	c.Close()
}

func (st *stage) answer(c *stageConn, words []string) {
	say := func(text string) { c.out <- text }
	command := strings.ToUpper(words[0])
	if strings.HasSuffix(command, "SUBSCRIBE") || command == "PING" {
		st.mu.Lock()
		gate := st.gate
		st.mu.Unlock()
		if gate != nil {
			<-gate
		}
	}
	switch command {
	case "INFO":
		say(string(redcon.AppendBulkString(nil,
			"redis_version:7.0.15\r\nredis_mode:standalone\r\nrole:master\r\n")))
	case "COMMAND":
		if len(words) > 1 { // INFO ssubscribe
			say("*1\r\n" + frame("*1", words[2]))
			break
		}
		say(string(commandReply()))
	case "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE":
		st.mu.Lock()
		defer st.mu.Unlock()
		topic := strings.Replace(command, "UNSUB", "SUB", 1) + " " + words[1]
		if topic == command+" "+words[1] {
			c.topics[topic] = true
		} else {
			delete(c.topics, topic)
		}
		say(frame("*3", strings.ToLower(command), words[1]) + ":1\r\n")
	case "HELLO":
		say("%0\r\n")
	case "PING":
		say(frame("*2", "pong", ""))
	case "PUBLISH", "SPUBLISH":
		say(fmt.Sprintf(":%d\r\n", st.publish(command == "SPUBLISH", words[1], words[2])))
	case "EVAL": // redis.call('publish', ARGV[1], ARGV[2]), and more
		st.publish(false, words[3], words[4])
		<-st.half
		say("+done\r\n")
	case "GET":
		if words[1] != "big" {
			say("$-1\r\n")
			return
		}
		say("$10\r\nfirst")
		<-st.half
		say("halff\r\n")
	default:
		say("-ERR unknown command\r\n")
	}
}

// frame is an array of bulk strings behind a header.
func frame(header string, words ...string) string {
	out := []byte(header + "\r\n")
	for _, word := range words {
		out = redcon.AppendBulkString(out, word)
	}
	return string(out)
}

// publish gives text to the subscribers of channel and counts them.
func (st *stage) publish(shard bool, channel, text string) (n int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for c := range st.conns {
		if shard {
			if c.topics["SSUBSCRIBE "+channel] {
				n++
				c.out <- frame("*3", "smessage", channel, text)
			}
			continue
		}
		if c.topics["SUBSCRIBE "+channel] {
			n++
			c.out <- frame("*3", "message", channel, text)
		}
		var patterns []string
		for topic := range c.topics {
			if p, ok := strings.CutPrefix(topic, "PSUBSCRIBE "); ok &&
				glob.Match([]byte(p), []byte(channel)) {
				patterns = append(patterns, p)
			}
		}
		slices.Sort(patterns)
		for _, p := range patterns {
			n++
			c.out <- frame("*4", "pmessage", p, channel, text)
		}
	}
	return n
}

// subscribed are the topics that connections are subscribed to, in order.
func (st *stage) subscribed() string {
	st.mu.Lock()
	defer st.mu.Unlock()
	var all []string
	for c := range st.conns {
		for topic := range c.topics {
			all = append(all, topic)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// shut has SUBSCRIBE and UNSUBSCRIBE wait until open.
func (st *stage) shut() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.gate = make(chan struct{})
}

func (st *stage) open() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.gate != nil {
		close(st.gate)
		st.gate = nil
	}
}

// cut breaks all connections that are subscribed to something.
func (st *stage) cut() {
	st.mu.Lock()
	defer st.mu.Unlock()
	for c := range st.conns {
		if len(c.topics) > 0 {
			c.Close()
		}
	}
}

func (st *stage) close() {
	st.mu.Lock()
	defer st.mu.Unlock()
	for c := range st.conns {
		c.Close()
	}
}

// nothingLeft says that neither the node nor the proxy knows of a subscription.
func (st *stage) nothingLeft() {
	st.Helper()
	if left := st.subscribed(); left != "" {
		st.Errorf("still subscribed: %s", left)
	}
	for kind := range pubsub.Shard + 1 {
		for _, topic := range st.server.topics.Topics(kind) {
			st.Errorf("topic %q is left, with %d listeners", topic.Name, topic.Listeners())
		}
	}
	for _, w := range st.server.workers {
		if !w.hub.Idle() {
			st.Errorf("the hub of loop %d is not idle", w.index)
		}
	}
	if now, _ := subscriptions(st.server.workers); now["channel"]+now["pattern"]+now["shard"] != 0 {
		st.Errorf("counted as subscriptions: %v", now)
	}
}
