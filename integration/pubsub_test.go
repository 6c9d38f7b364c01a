package integration

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// listener is a client that listens to something, and all that it got.
type listener struct {
	*conn
	mu  sync.Mutex
	got []string // replies, as reply.String writes them
	end error
}

// listen connects, subscribes with command and collects what comes then.
func listen(l life, addr string, command ...string) *listener {
	l.Helper()
	c := &listener{conn: connect(l, addr)}
	c.send(command...)
	for range command[1:] {
		if v, err := c.receive(patience); err != nil || v.isError() {
			l.Fatalf("%q: %s %v", command, v, err)
		}
	}
	go func() { // ends with the connection
		for {
			c.SetReadDeadline(time.Time{})
			v, err := readReply(c.r)
			c.mu.Lock()
			if err != nil {
				c.end = err
				c.mu.Unlock()
				return
			}
			c.got = append(c.got, v.String())
			c.mu.Unlock()
		}
	}()
	return c
}

// heard is how often something came that contains text.
func (c *listener) heard(text string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, got := range c.got {
		if strings.Contains(got, text) {
			n++
		}
	}
	return n
}

// hears waits until every listener has heard text.
func hears(l life, text string, all ...*listener) {
	l.Helper()
	for i, c := range all {
		eventually(l, 2*patience, fmt.Sprintf("listener %d hears %s", i, text), func() bool { return c.heard(text) > 0 })
	}
}

// flows publishes again and again until every listener hears it: after a fail-over messages are
// lost for a while, as with Redis itself.
func flows(t *testing.T, what string, publish func(text string) error, all ...*listener) {
	t.Helper()
	began := time.Now()
	for i := 0; ; i++ {
		text := fmt.Sprintf("%s-%d.", strings.ReplaceAll(what, " ", "-"), i)
		err := publish(text)
		missing := 0
		for wait := time.Now().Add(200 * time.Millisecond); err == nil && time.Now().Before(wait); time.Sleep(5 * time.Millisecond) {
			missing = 0
			for _, c := range all {
				if c.heard(text) == 0 {
					missing++
				}
			}
			if missing == 0 {
				t.Logf("%s: everybody hears after %v", what, time.Since(began).Round(time.Millisecond))
				return
			}
		}
		if time.Since(began) > 3*patience {
			t.Fatalf("%s: after %v %d of %d hear nothing (%v)", what, time.Since(began), missing, len(all), err)
		}
	}
}

// Clients of two proxies hear what is published anywhere, once, and notifications about keys of all
// masters; shard channels follow their slot; after fail-overs messages flow again.
func TestPubSubCluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, 1, "--notify-keyspace-events", "KEA")
	p, q := startProxy(t, "--upstream", c.addrs(), "--loops", "2"), startProxy(t, "--upstream", c.addrs())
	pub := connect(t, p.addr)

	t.Run("anywhere", func(t *testing.T) {
		a, b := listen(t, p.addr, "SUBSCRIBE", "news"), listen(t, q.addr, "SUBSCRIBE", "news")
		d := listen(t, p.addr, "PSUBSCRIBE", "n?ws")
		for i, n := range c.nodes {
			n.do(t, "PUBLISH", "news", fmt.Sprintf("node-%d.", i))
		}
		pub.want(t, "(integer) 3", "PUBLISH", "news", "proxy-p.") // those of the other proxy count as one
		connect(t, q.addr).must(t, "PUBLISH", "news", "proxy-q.")
		for i := range c.nodes {
			hears(t, fmt.Sprintf("node-%d.", i), a, b, d)
		}
		hears(t, "proxy-p.", a, b, d)
		hears(t, "proxy-q.", a, b, d)
		for _, l := range []*listener{a, b, d} {
			if n := l.heard("."); n != len(c.nodes)+2 {
				t.Errorf("%d messages came, not %d: %q", n, len(c.nodes)+2, l.got)
			}
		}
		pub.want(t, `["news", (integer) 2]`, "PUBSUB", "NUMSUB", "news") // a, and the other proxy
	})

	t.Run("keys", func(t *testing.T) {
		all := listen(t, p.addr, "PSUBSCRIBE", "*")
		event := listen(t, p.addr, "SUBSCRIBE", "__keyevent@0__:set", "plain")
		for i := range 30 {
			pub.must(t, "SET", fmt.Sprintf("key:%d.", i), "v")
		}
		for i := range 30 {
			hears(t, fmt.Sprintf(`"__keyspace@0__:key:%d."`, i), all)
			hears(t, fmt.Sprintf(`"__keyevent@0__:set", "key:%d."`, i), all, event)
		}
		pub.want(t, "(integer) 2", "PUBLISH", "plain", "once.")
		hears(t, "once.", all, event)
		time.Sleep(100 * time.Millisecond) // a second one would come over another node
		for _, l := range []*listener{all, event} {
			if n := l.heard("once."); n != 1 {
				t.Errorf("a message came %d times", n)
			}
		}
		if n := event.heard("key:"); n != 30 {
			t.Errorf("%d notifications of 30 keys", n)
		}
	})

	shard := []*listener{listen(t, p.addr, "SSUBSCRIBE", "{job}"), listen(t, p.addr, "SSUBSCRIBE", "{job}"), listen(t, q.addr, "SSUBSCRIBE", "{job}")}
	classic := []*listener{listen(t, p.addr, "SUBSCRIBE", "news"), listen(t, q.addr, "PSUBSCRIBE", "new*")}
	spublish := func(text string) error { _, err := ask(q.addr, "SPUBLISH", "{job}", text); return err }
	publish := func(text string) error { _, err := ask(q.addr, "PUBLISH", "news", text); return err }
	for i := range 3 {
		from := c.masterOf(t, "{job}")
		to := c.nodes[i]
		if to == from {
			continue
		}
		c.migrate(t, c.slotOf(t, "{job}"), from, to, time.Millisecond)
		flows(t, "the slot has moved", spublish, shard...)
	}
	for _, master := range c.nodes[:3] {
		c.replicasOf(t, master)[0].do(t, "CLUSTER", "FAILOVER")
		eventually(t, 2*patience, "it is a replica", func() bool { return master.info(t, "replication", "role") == "slave" })
		flows(t, "shard channel after CLUSTER FAILOVER", spublish, shard...)
		flows(t, "channel after CLUSTER FAILOVER", publish, classic...)
	}
	victim := c.masterOf(t, "{job}")
	eventually(t, 2*patience, "a replica in sync", func() bool {
		r := c.replicasOf(t, victim)
		return len(r) > 0 && r[0].info(t, "replication", "master_link_status") == "up"
	})
	victim.kill()
	flows(t, "shard channel after a crash", spublish, shard...)
	flows(t, "channel after a crash", publish, classic...)
	for i, l := range append(shard, classic...) {
		if l.heard("sunsubscribe") > 0 || l.end != nil {
			t.Errorf("listener %d was told of it: %v", i, l.end)
		}
	}
}

// A thousand listeners share one subscription and get everything in its order; when they go, they
// leave nothing behind.
func TestThousandSubscribers(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	p := startProxy(t, "--upstream", s.addr)
	pub := connect(t, p.addr)
	pub.must(t, "PUBLISH", "news", "nobody")
	pub.must(t, "MULTI") // which needs a connection of its own, as it will below
	pub.must(t, "PUBLISH", "news", "nobody")
	pub.must(t, "EXEC")
	first := connect(t, p.addr)
	first.must(t, "SUBSCRIBE", "news") // over a connection to the node that stays for a while, with goroutines of its own
	first.Close()
	eventually(t, patience, "nobody listens", func() bool { return p.metric(t, "lockproxy_subscriptions") == 0 })
	before := p.usage(t)
	const listeners, messages = 1000, 100
	conns := make([]*conn, listeners)
	for i := range conns {
		conns[i] = connect(t, p.addr)
		conns[i].send("SUBSCRIBE", "news", fmt.Sprint("own:", i))
	}
	for _, c := range conns {
		for range 2 {
			if v, err := c.receive(2 * patience); err != nil || v.isError() {
				t.Fatalf("%s %v", v, err)
			}
		}
	}
	if got := s.do(t, "PUBSUB", "NUMSUB", "news").String(); got != `["news", (integer) 1]` {
		t.Errorf("at the node: %s", got)
	}
	pub.want(t, `["news", (integer) 1000]`, "PUBSUB", "NUMSUB", "news")
	for i := range messages {
		pub.want(t, "(integer) 1000", "PUBLISH", "news", fmt.Sprint(i))
	}
	pub.want(t, "OK", "MULTI")
	pub.want(t, "QUEUED", "PUBLISH", "news", fmt.Sprint(messages))
	pub.want(t, "QUEUED", "SET", "k", "x")
	pub.want(t, "QUEUED", "SPUBLISH", "news", "x")
	pub.want(t, "QUEUED", "PUBLISH", "nobody", "x")
	pub.want(t, "[(integer) 1000, OK, (integer) 0, (integer) 0]", "EXEC")
	pub.want(t, "(integer) 1", "PUBLISH", "own:7", "x")
	for n, c := range conns {
		for i := range messages + 1 {
			v, err := c.receive(2 * patience)
			if want := fmt.Sprintf(`["message", "news", "%d"]`, i); err != nil || v.String() != want {
				t.Fatalf("listener %d: %s %v, want %s", n, v, err, want)
			}
		}
	}
	if n := p.metric(t, "lockproxy_subscriptions", `kind="channel"`); n != 2*listeners {
		t.Errorf("%v subscriptions", n)
	}
	if n := p.metric(t, "lockproxy_messages_total"); n != listeners*(messages+1)+1 {
		t.Errorf("%v messages", n)
	}
	for i, c := range conns {
		if i%2 == 0 {
			c.send("QUIT")
		}
		c.Close()
	}
	eventually(t, 2*patience, "nobody listens any more", func() bool {
		return s.do(t, "PUBSUB", "CHANNELS").String() == "[]" && p.metric(t, "lockproxy_subscriptions") == 0
	})
	p.returnsTo(t, before)
}

// A listener that does not read is closed, and the others are not disturbed.
func TestSlowSubscriber(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	p := startProxy(t, "--upstream", s.addr, "--client-output-buffer-limit", "pubsub 2mb 0 0")
	fast := listen(t, p.addr, "SUBSCRIBE", "news")
	slow := connect(t, p.addr)
	slow.must(t, "SUBSCRIBE", "news")
	pub, big := connect(t, p.addr), strings.Repeat("x", 50_000)
	sent := 0
	for end := time.Now().Add(2 * patience); p.metric(t, "lockproxy_clients_closed_full_total", `class="pubsub"`) == 0; {
		if time.Now().After(end) {
			t.Fatalf("after %d messages of 50 kB it is still there", sent)
		}
		for range 10 { // the kernel's buffers take some of it
			sent++
			pub.must(t, "PUBLISH", "news", fmt.Sprintf("%d.%s", sent, big))
		}
	}
	p.logged(t, `msg="client closed: client-output-buffer-limit" client=\S+ class=pubsub`)
	pub.want(t, "(integer) 1", "PUBLISH", "news", "last.")
	hears(t, "last.", fast)
	if n := fast.heard("."); n != sent+1 {
		t.Errorf("%d messages of %d came to who reads", n, sent+1)
	}
	pub.want(t, "OK", "CONFIG", "SET", "client-output-buffer-limit", "pubsub 32mb 8mb 60")
	pub.want(t, `["client-output-buffer-limit", "normal 1073741824 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"]`,
		"CONFIG", "GET", "client-output-buffer-limit")
}

// SIGTERM ends listeners at once.
func TestSubscribersDrain(t *testing.T) {
	t.Parallel()
	p := startProxy(t, "--upstream", sharedRedis().addr, "--drain-timeout", "1m")
	c := listen(t, p.addr, "SUBSCRIBE", "drain:1", "drain:2")
	began := time.Now()
	p.drain(t)
	if took := time.Since(began); took > patience {
		t.Errorf("took %v", took)
	}
	eventually(t, patience, "closed", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.end != nil
	})
}

// RESET in the middle of a stream of messages: its reply is +RESET, and what comes before that comes as
// pushes.
func TestResetInTraffic(t *testing.T) {
	t.Parallel()
	for name, upstream := range map[string]string{"single": startRedis(t).addr, "cluster": sharedCluster().addrs()} {
		t.Run(name, func(t *testing.T) {
			p := startProxy(t, "--upstream", upstream)
			over := make(chan struct{})
			var all sync.WaitGroup
			defer all.Wait()
			defer close(over)
			all.Go(func() {
				for pub := connect(t, p.addr); ; {
					select {
					case <-over:
						return
					default:
					}
					if _, err := pub.do("PUBLISH", "reset-in-traffic", "m"); err != nil {
						t.Errorf("PUBLISH: %v", err)
						return
					}
				}
			})
			c := connect(t, p.addr)
			pushes := 0
			for i := range dose(300, 5000) {
				value := fmt.Sprint(i)
				c.Write(slices.Concat(encode("HELLO", "3"), encode("SUBSCRIBE", "reset-in-traffic")))
				for confirmed := false; !confirmed; {
					v, err := c.receive(patience)
					if err != nil {
						t.Fatal(err)
					}
					confirmed = v.kind == '>' && v.elems[0].text == "subscribe"
				}
				c.Write(slices.Concat(encode("RESET"), encode("ECHO", value)))
				v, err := c.receive(patience)
				for ; err == nil && v.kind == '>'; v, err = c.receive(patience) {
					pushes++
				}
				if err != nil || v.kind != '+' || v.text != "RESET" {
					t.Fatalf("round %d: RESET was answered %s (%v)", i, v, err)
				}
				if v, err = c.receive(patience); err != nil || v.text != value {
					t.Fatalf("round %d: ECHO was answered %s (%v)", i, v, err)
				}
			}
			if pushes == 0 {
				t.Error("no message came between SUBSCRIBE and RESET: nothing was tried")
			}
		})
	}
}
