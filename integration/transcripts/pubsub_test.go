package transcripts

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// listener is a client that listens to something, and all that it got.
type listener struct {
	*rig.Conn
	mu  sync.Mutex
	got []string // replies, as reply.String writes them
	end error
}

// listen connects, subscribes with command and collects what comes then.
func listen(l rig.Life, addr string, command ...string) *listener {
	l.Helper()
	c := &listener{Conn: rig.Connect(l, addr)}
	c.Send(command...)
	for range command[1:] {
		if v, err := c.Receive(rig.Patience); err != nil || v.IsError() {
			l.Fatalf("%q: %s %v", command, v, err)
		}
	}
	go func() { // ends with the connection
		for {
			c.SetReadDeadline(time.Time{})
			v, err := rig.ReadReply(c.Reader)
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
func hears(l rig.Life, text string, all ...*listener) {
	l.Helper()
	for i, c := range all {
		rig.Eventually(l, 2*rig.Patience, fmt.Sprintf("listener %d hears %s", i, text),
			func() bool { return c.heard(text) > 0 })
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
		for wait := time.Now().Add(200 * time.Millisecond); err == nil &&
			time.Now().Before(wait); time.Sleep(5 * time.Millisecond) {
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
		if time.Since(began) > 3*rig.Patience {
			t.Fatalf("%s: after %v %d of %d hear nothing (%v)", what, time.Since(began),
				missing, len(all), err)
		}
	}
}

// Clients of two proxies hear what is published anywhere, once, and notifications about keys of all
// masters; shard channels follow their slot; after fail-overs messages flow again.
func TestPubSubCluster(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 3, 1, "--notify-keyspace-events", "KEA")
	p, q := rig.StartProxy(t, "--upstream", c.Addrs(), "--loops", "2"), rig.StartProxy(t, "--upstream",
		c.Addrs())
	pub := rig.Connect(t, p.Addr)

	t.Run("anywhere", func(t *testing.T) {
		a, b := listen(t, p.Addr, "SUBSCRIBE", "news"), listen(t, q.Addr, "SUBSCRIBE", "news")
		d := listen(t, p.Addr, "PSUBSCRIBE", "n?ws")
		for i, n := range c.Nodes {
			n.Do(t, "PUBLISH", "news", fmt.Sprintf("node-%d.", i))
		}
		pub.Want(t, "(integer) 3", "PUBLISH", "news", "proxy-p.") // those of the other proxy count as one
		rig.Connect(t, q.Addr).Must(t, "PUBLISH", "news", "proxy-q.")
		for i := range c.Nodes {
			hears(t, fmt.Sprintf("node-%d.", i), a, b, d)
		}
		hears(t, "proxy-p.", a, b, d)
		hears(t, "proxy-q.", a, b, d)
		for _, l := range []*listener{a, b, d} {
			if n := l.heard("."); n != len(c.Nodes)+2 {
				t.Errorf("%d messages came, not %d: %q", n, len(c.Nodes)+2, l.got)
			}
		}
		pub.Want(t, `["news", (integer) 2]`, "PUBSUB", "NUMSUB", "news") // a, and the other proxy
	})

	t.Run("keys", func(t *testing.T) {
		all := listen(t, p.Addr, "PSUBSCRIBE", "*")
		event := listen(t, p.Addr, "SUBSCRIBE", "__keyevent@0__:set", "plain")
		for i := range 30 {
			pub.Must(t, "SET", fmt.Sprintf("key:%d.", i), "v")
		}
		for i := range 30 {
			hears(t, fmt.Sprintf(`"__keyspace@0__:key:%d."`, i), all)
			hears(t, fmt.Sprintf(`"__keyevent@0__:set", "key:%d."`, i), all, event)
		}
		pub.Want(t, "(integer) 2", "PUBLISH", "plain", "once.")
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

	if !rig.Since(t, p.Addr, "redis 7.0") {
		return // there are no shard channels
	}
	shard := []*listener{listen(t, p.Addr, "SSUBSCRIBE", "{job}"), listen(t, p.Addr, "SSUBSCRIBE", "{job}"),
		listen(t, q.Addr, "SSUBSCRIBE", "{job}")}
	classic := []*listener{listen(t, p.Addr, "SUBSCRIBE", "news"), listen(t, q.Addr, "PSUBSCRIBE", "new*")}
	spublish := func(text string) error { _, err := rig.Ask(q.Addr, "SPUBLISH", "{job}", text); return err }
	publish := func(text string) error { _, err := rig.Ask(q.Addr, "PUBLISH", "news", text); return err }
	for i := range 3 {
		from := c.MasterOf(t, "{job}")
		to := c.Nodes[i]
		if to == from {
			continue
		}
		c.Migrate(t, c.SlotOf(t, "{job}"), from, to, time.Millisecond)
		flows(t, "the slot has moved", spublish, shard...)
	}
	for _, master := range c.Nodes[:3] {
		c.ReplicasOf(t, master)[0].Promote(t)
		rig.Eventually(t, 2*rig.Patience, "it is a replica",
			func() bool { return master.Info(t, "replication", "role") == "slave" })
		flows(t, "shard channel after CLUSTER FAILOVER", spublish, shard...)
		flows(t, "channel after CLUSTER FAILOVER", publish, classic...)
	}
	var victim *rig.Server
	rig.Eventually(t, 2*rig.Patience, "a replica in sync", func() bool {
		victim = c.MasterOf(t, "{job}") // as a node has it, which may learn late of a fail-over
		r := c.ReplicasOf(t, victim)
		return len(r) > 0 && r[0].Info(t, "replication", "master_link_status") == "up"
	})
	victim.Kill()
	c.DeadAfter("2000")
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
	s := rig.StartRedis(t)
	p := rig.StartProxy(t, "--upstream", s.Addr)
	pub := rig.Connect(t, p.Addr)
	pub.Must(t, "PUBLISH", "news", "nobody")
	pub.Must(t, "MULTI") // which needs a connection of its own, as it will below
	pub.Must(t, "PUBLISH", "news", "nobody")
	pub.Must(t, "EXEC")
	first := rig.Connect(t, p.Addr)
	// over a connection to the node that stays for a while, with goroutines of its own
	first.Must(t, "SUBSCRIBE", "news")
	first.Close()
	rig.Eventually(t, rig.Patience, "nobody listens",
		func() bool { return p.Metric(t, "lockproxy_subscriptions") == 0 })
	before := p.Usage(t)
	const listeners, messages = 1000, 100
	conns := make([]*rig.Conn, listeners)
	for i := range conns {
		conns[i] = rig.Connect(t, p.Addr)
		conns[i].Send("SUBSCRIBE", "news", fmt.Sprint("own:", i))
	}
	for _, c := range conns {
		for range 2 {
			if v, err := c.Receive(2 * rig.Patience); err != nil || v.IsError() {
				t.Fatalf("%s %v", v, err)
			}
		}
	}
	if got := s.Do(t, "PUBSUB", "NUMSUB", "news").String(); got != `["news", (integer) 1]` {
		t.Errorf("at the node: %s", got)
	}
	pub.Want(t, `["news", (integer) 1000]`, "PUBSUB", "NUMSUB", "news")
	for i := range messages {
		pub.Want(t, "(integer) 1000", "PUBLISH", "news", fmt.Sprint(i))
	}
	pub.Want(t, "OK", "MULTI")
	pub.Want(t, "QUEUED", "PUBLISH", "news", fmt.Sprint(messages))
	pub.Want(t, "QUEUED", "SET", "k", "x")
	pub.Want(t, "QUEUED", "SPUBLISH", "news", "x")
	pub.Want(t, "QUEUED", "PUBLISH", "nobody", "x")
	pub.Want(t, "[(integer) 1000, OK, (integer) 0, (integer) 0]", "EXEC")
	pub.Want(t, "(integer) 1", "PUBLISH", "own:7", "x")
	for n, c := range conns {
		for i := range messages + 1 {
			v, err := c.Receive(2 * rig.Patience)
			if want := fmt.Sprintf(`["message", "news", "%d"]`, i); err != nil || v.String() != want {
				t.Fatalf("listener %d: %s %v, want %s", n, v, err, want)
			}
		}
	}
	if n := p.Metric(t, "lockproxy_subscriptions", `kind="channel"`); n != 2*listeners {
		t.Errorf("%v subscriptions", n)
	}
	if n := p.Metric(t, "lockproxy_messages_total"); n != listeners*(messages+1)+1 {
		t.Errorf("%v messages", n)
	}
	for i, c := range conns {
		if i%2 == 0 {
			c.Send("QUIT")
		}
		c.Close()
	}
	rig.Eventually(t, 2*rig.Patience, "nobody listens any more", func() bool {
		return s.Do(t, "PUBSUB", "CHANNELS").String() == "[]" && p.Metric(t, "lockproxy_subscriptions") == 0
	})
	p.ReturnsTo(t, before)
}

// A listener that does not read is closed, and the others are not disturbed.
func TestSlowSubscriber(t *testing.T) {
	t.Parallel()
	s := rig.StartRedis(t)
	p := rig.StartProxy(t, "--upstream", s.Addr, "--client-output-buffer-limit", "pubsub 2mb 0 0")
	fast := listen(t, p.Addr, "SUBSCRIBE", "news")
	slow := rig.Connect(t, p.Addr)
	slow.Must(t, "SUBSCRIBE", "news")
	pub, big := rig.Connect(t, p.Addr), strings.Repeat("x", 50_000)
	sent := 0
	for end := time.Now().Add(2 * rig.Patience); p.Metric(t, "lockproxy_clients_closed_full_total",
		`class="pubsub"`) == 0; {
		if time.Now().After(end) {
			t.Fatalf("after %d messages of 50 kB it is still there", sent)
		}
		for range 10 { // the kernel's buffers take some of it
			sent++
			pub.Must(t, "PUBLISH", "news", fmt.Sprintf("%d.%s", sent, big))
		}
	}
	p.Logged(t, `msg="client closed: client-output-buffer-limit" client=\S+ class=pubsub`)
	pub.Want(t, "(integer) 1", "PUBLISH", "news", "last.")
	hears(t, "last.", fast)
	if n := fast.heard("."); n != sent+1 {
		t.Errorf("%d messages of %d came to who reads", n, sent+1)
	}
	pub.Want(t, "OK", "CONFIG", "SET", "client-output-buffer-limit", "pubsub 32mb 8mb 60")
	pub.Want(t, `["client-output-buffer-limit", "normal 1073741824 0 0 slave 268435456 67108864 60 pubsub `+
		`33554432 8388608 60"]`,
		"CONFIG", "GET", "client-output-buffer-limit")
}

// SIGTERM ends listeners at once.
func TestSubscribersDrain(t *testing.T) {
	t.Parallel()
	// a drain that waited for them would last longer than the test is patient
	p := rig.StartProxy(t, "--upstream", rig.SharedRedis().Addr, "--drain-timeout", "10m")
	c := listen(t, p.Addr, "SUBSCRIBE", "drain:1", "drain:2")
	p.Drain(t)
	rig.Eventually(t, rig.Patience, "closed", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.end != nil
	})
}

// RESET in the middle of a stream of messages: its reply is +RESET, and what comes before that comes as
// pushes.
func TestResetInTraffic(t *testing.T) {
	t.Parallel()
	for name, upstream := range map[string]string{"single": rig.StartRedis(t).Addr,
		"cluster": rig.SharedCluster().Addrs()} {
		t.Run(name, func(t *testing.T) {
			p := rig.StartProxy(t, "--upstream", upstream)
			over := make(chan struct{})
			var all sync.WaitGroup
			defer all.Wait()
			defer close(over)
			all.Go(func() {
				for pub := rig.Connect(t, p.Addr); ; {
					select {
					case <-over:
						return
					default:
					}
					if _, err := pub.Do("PUBLISH", "reset-in-traffic", "m"); err != nil {
						t.Errorf("PUBLISH: %v", err)
						return
					}
				}
			})
			c := rig.Connect(t, p.Addr)
			pushes := 0
			for i := range rig.Dose(300, 5000) {
				value := fmt.Sprint(i)
				c.Write(slices.Concat(rig.Encode("HELLO", "3"), rig.Encode("SUBSCRIBE", "reset-in-traffic")))
				for confirmed := false; !confirmed; {
					v, err := c.Receive(rig.Patience)
					if err != nil {
						t.Fatal(err)
					}
					confirmed = v.Kind == '>' && v.Elems[0].Text == "subscribe"
				}
				c.Write(slices.Concat(rig.Encode("RESET"), rig.Encode("ECHO", value)))
				v, err := c.Receive(rig.Patience)
				for ; err == nil && v.Kind == '>'; v, err = c.Receive(rig.Patience) {
					pushes++
				}
				if err != nil || v.Kind != '+' || v.Text != "RESET" {
					t.Fatalf("round %d: RESET was answered %s (%v)", i, v, err)
				}
				if v, err = c.Receive(rig.Patience); err != nil || v.Text != value {
					t.Fatalf("round %d: ECHO was answered %s (%v)", i, v, err)
				}
			}
			if pushes == 0 {
				t.Error("no message came between SUBSCRIBE and RESET: nothing was tried")
			}
		})
	}
}

// TestSubscriptionCountsFromItsCommand: what is published on another connection behind SUBSCRIBE, before that
// is answered, reaches the subscriber and is counted, as at Redis, which serves commands in the order in
// which they come.
func TestSubscriptionCountsFromItsCommand(t *testing.T) {
	t.Parallel()
	p := rig.StartProxy(t, "--upstream", rig.SharedCluster().Addrs(), "--loops", "1")
	sub, pub := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
	sub.Must(t, "HELLO", "3")
	counted := 0
	for i := range 100 {
		verb, publish, channel := "SUBSCRIBE", "PUBLISH", fmt.Sprintf("at-once:%d.", i)
		name := channel
		switch i % 3 {
		case 1:
			verb, name = "PSUBSCRIBE", channel+"*"
		case 2:
			verb, publish = "SSUBSCRIBE", "SPUBLISH"
		}
		sub.Send(verb, name)
		heard := pub.Must(t, publish, channel, "x").String()
		if v, err := sub.Receive(rig.Patience); err != nil || !strings.Contains(v.String(), "subscribe") {
			t.Fatalf("%s: %s %v", verb, v, err)
		}
		if heard == "(integer) 0" { // it waits for a second at most: proxy/TestPublishDoesNotWaitForEver
			continue
		}
		counted++
		if v, err := sub.Receive(rig.Patience); err != nil || !strings.Contains(v.String(), "message") {
			t.Fatalf("%s: %s %v", verb, v, err)
		}
	}
	if counted == 0 {
		t.Error("nobody hears what is published behind a subscription")
	}
	sub.Send("SUBSCRIBE", "at-once:counted")
	pub.Want(t, `["at-once:counted", (integer) 1]`, "PUBSUB", "NUMSUB", "at-once:counted")
}
