package proxy

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/proxy/memory"
)

func confirmation(word, name string, n int) string {
	return frame("*3", word, name) + fmt.Sprintf(":%d\r\n", n)
}

// subscribe has a client listen to channels, the first that it listens to.
func (c *testClient) subscribe(channels ...string) {
	c.Helper()
	c.send("SUBSCRIBE " + strings.Join(channels, " "))
	for i, ch := range channels {
		c.expect(confirmation("subscribe", ch, i+1))
	}
}

// A subscription is confirmed when it stands. What comes behind it waits, other clients do not.
func TestConfirmationWaits(t *testing.T) {
	inStageBubble(t, Options{}, func(st *stage) {
		a, b := st.connect(), st.connect()
		st.shut()
		a.send("SUBSCRIBE x y x", "PING", "GET k", "PSUBSCRIBE z*", "UNSUBSCRIBE x", "PING hi")
		b.send("PING", "PUBLISH x 0")
		b.expect("+PONG\r\n:0\r\n")
		synctest.Wait()
		time.Sleep(5 * time.Second)
		if n := a.r.Buffered(); n > 0 {
			st.Errorf("%d bytes came before the node had confirmed", n)
		}
		st.open()
		a.expect(confirmation("subscribe", "x", 1) + confirmation("subscribe", "y", 2) +
			confirmation("subscribe", "x", 2) +
			frame("*2", "pong", "") +
			"-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are " +
			"allowed in this context\r\n" +
			confirmation("psubscribe", "z*", 3) + confirmation("unsubscribe", "x", 2) +
			frame("*2", "pong", "hi"))
		synctest.Wait() // the node has been told of UNSUBSCRIBE too, for which nobody waits
		b.send("PUBLISH x 1", "PUBLISH y 2", "PUBLISH zz 3")
		b.expect(":0\r\n:1\r\n:1\r\n")
		a.expect(frame("*3", "message", "y", "2") + frame("*4", "pmessage", "z*", "zz", "3"))
		if got := st.subscribed(); got != "PSUBSCRIBE z*, SUBSCRIBE y" {
			st.Error(got)
		}
	})
}

// A node that does not confirm in time: an error, and the connection goes on.
func TestNotConfirmed(t *testing.T) {
	inStageBubble(t, Options{}, func(st *stage) {
		a := st.connect()
		st.shut()
		a.send("SUBSCRIBE x", "PING")
		a.expect("-ERR cluster: subscribe: no node confirmed it in time")
		a.r.ReadString('\n')
		a.expect("+PONG\r\n")
		st.open()
		synctest.Wait()
		st.nothingLeft()
		a.subscribe("x")
	})
}

// The clients of all loops share one subscription, and PUBLISH counts clients.
func TestPublishCounts(t *testing.T) {
	inStageBubble(t, Options{Loops: 2}, func(st *stage) {
		a, b, c, pub := st.connect(), st.connect(), st.connect(), st.connect()
		for _, cl := range []*testClient{a, b, c} {
			cl.subscribe("x")
		}
		a.send("PSUBSCRIBE x*", "SSUBSCRIBE x")
		a.expect(confirmation("psubscribe", "x*", 2) + confirmation("ssubscribe", "x", 1))
		foreign, _ := st.dial(nil, "", "")
		go foreign.Write([]byte("*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nx\r\n"))
		buf := make([]byte, 100)
		foreign.Read(buf)
		go func() {
			for {
				if _, err := foreign.Read(buf); err != nil {
					return
				}
			}
		}()
		if got := st.subscribed(); got != "PSUBSCRIBE x*, SSUBSCRIBE x, SUBSCRIBE x, SUBSCRIBE x" {
			st.Error(got)
		}
		pub.send("PUBLISH x 1", "PUBLISH xy 2", "PUBLISH other 3", "SPUBLISH x 4", "SPUBLISH xy 5")
		pub.expect(":5\r\n:1\r\n:0\r\n:1\r\n:0\r\n")
		foreign.Close()
		one := frame("*3", "message", "x", "1")
		a.expect(one + frame("*4", "pmessage", "x*", "x", "1") + frame("*4", "pmessage", "x*", "xy",
			"2") + frame("*3", "smessage", "x", "4"))
		b.expect(one)
		c.expect(one)
		c.Close()
		synctest.Wait()
		st.shut()
		b.send("UNSUBSCRIBE")
		synctest.Wait()
		pub.send("PUBLISH x 6") // before the node has confirmed: it does not count, and comes all the same
		pub.expect(":2\r\n")
		st.open()
		b.expect(frame("*3", "message", "x", "6") + confirmation("unsubscribe", "x", 0))
		a.expect(frame("*3", "message", "x", "6") + frame("*4", "pmessage", "x*", "x", "6"))
	})
}

// A client that goes away leaves nothing behind, whatever it was about.
func TestSubscriberGone(t *testing.T) {
	for name, prepare := range map[string]func(st *stage, c *testClient){
		"while it waits to be confirmed": func(st *stage, c *testClient) {
			st.shut()
			c.send("SUBSCRIBE x y")
		},
		"while it listens": func(st *stage, c *testClient) { c.subscribe("x", "y") },
		"while more is confirmed": func(st *stage,
			c *testClient) {
			c.subscribe("x")
			st.shut()
			c.send("SUBSCRIBE y x z")
		},
		"while its end is confirmed": func(st *stage,
			c *testClient) {
			c.subscribe("x", "y")
			st.shut()
			c.send("UNSUBSCRIBE x")
		},
		"while its reset is confirmed": func(st *stage,
			c *testClient) {
			c.subscribe("x", "y")
			st.shut()
			c.send("RESET")
		},
		"with a pipeline behind it": func(st *stage, c *testClient) {
			st.shut()
			c.send("SUBSCRIBE x", "PSUBSCRIBE y", "SSUBSCRIBE z", "UNSUBSCRIBE")
		},
		"while the connection is away": func(st *stage, c *testClient) {
			c.subscribe("x")
			st.cut()
			st.shut()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inStageBubble(t, Options{}, func(st *stage) {
				other := st.connect()
				other.subscribe("x")
				c := st.connect()
				prepare(st, c)
				synctest.Wait()
				c.Close()
				synctest.Wait()
				st.open()
				time.Sleep(5 * time.Second)
				if got := st.subscribed(); got != "SUBSCRIBE x" {
					st.Errorf("subscribed: %s", got)
				}
				pub := st.connect()
				pub.send("PUBLISH x 1")
				pub.expect(":1\r\n")
				other.expect(frame("*3", "message", "x", "1"))
			})
		})
	}
}

// Subscriptions end with RESET and QUIT, and when the proxy is shut down.
func TestSubscriptionsEnd(t *testing.T) {
	inStageBubble(t, Options{}, func(st *stage) {
		a, b, c := st.connect(), st.connect(), st.connect()
		for _, cl := range []*testClient{a, b, c} {
			cl.subscribe("x", "y")
		}
		a.send("RESET", "GET k")
		a.expect("+RESET\r\n$-1\r\n")
		b.send("QUIT")
		b.expect("+OK\r\n")
		b.expectClosed()
		synctest.Wait()
		a.send("PUBLISH x 1")
		a.expect(":1\r\n")
		c.expect(frame("*3", "message", "x", "1"))
		go st.server.Drain(st.Context())
		c.expectClosed()
	})
}

// What a client of RESP3 hears before its RESET is answered comes as pushes: as an array it would be taken
// for the reply.
func TestMessagesBeforeReset(t *testing.T) {
	inStageBubble(t, Options{}, func(st *stage) {
		c, pub := st.connect(), st.connect()
		c.send("HELLO 3")
		for line := ""; line != "*0\r\n"; {
			line, _ = c.r.ReadString('\n')
		}
		c.send("SUBSCRIBE x")
		c.expect(">" + confirmation("subscribe", "x", 1)[1:])
		st.shut()
		c.send("RESET", "GET k", "SUBSCRIBE x")
		synctest.Wait()
		pub.send("PUBLISH x 1")
		pub.expect(":0\r\n") // it does not count any more, and hears until the node has confirmed
		c.expect(frame(">3", "message", "x", "1"))
		st.open()
		c.expect("+RESET\r\n$-1\r\n" + confirmation("subscribe", "x", 1))
		pub.send("PUBLISH x 2")
		pub.expect(":1\r\n")
		c.expect(frame("*3", "message", "x", "2"))
	})
}

// Subscriptions begin, and end, when all earlier commands of the client are answered, and so does QUIT: what
// the client has published before, by whatever command, counts and comes as if it were alone.
func TestSubscriptionsInTheirTurn(t *testing.T) {
	inStageBubble(t, Options{}, func(st *stage) {
		c := st.connect()
		c.send("GET big", "GET k", "SUBSCRIBE x")
		c.expect("$10\r\nfirst")
		synctest.Wait()
		if n := st.publish(false, "x", "1"); n != 0 {
			t.Errorf("%d got a message before the subscription", n)
		}
		synctest.Wait()
		st.half <- struct{}{}
		c.expect("halff\r\n$-1\r\n" + confirmation("subscribe", "x", 1))
		st.publish(false, "x", "2")
		c.expect(frame("*3", "message", "x", "2"))
	})
	for end, answer := range map[string]string{
		"UNSUBSCRIBE x": ">" + confirmation("unsubscribe", "x", 0)[1:],
		"UNSUBSCRIBE":   ">" + confirmation("unsubscribe", "x", 0)[1:],
		"RESET":         "+RESET\r\n",
		"QUIT":          "+OK\r\n",
	} {
		inStageBubble(t, Options{}, func(st *stage) {
			c := st.connect()
			c.hello3()
			c.send("SUBSCRIBE x", "GET big", "EVAL script 0 x 1", end)
			c.expect(">" + confirmation("subscribe", "x", 1)[1:] + "$10\r\nfirst")
			synctest.Wait()
			if n := st.publish(false, "x", "2"); n != 1 {
				t.Errorf("%s: %d listen before its turn", end, n)
			}
			synctest.Wait()
			st.half <- struct{}{}
			c.expect("halff\r\n")
			synctest.Wait()
			st.half <- struct{}{}
			c.expect("+done\r\n" + frame(">3", "message", "x", "2") + frame(">3", "message", "x", "1") +
				answer)
			if end == "QUIT" {
				c.expectClosed()
			}
		})
	}
}

// Whoever ends its side of the connection is told of its subscription, and of its end, as at Redis.
func TestSubscriptionOfAHalfClosedClient(t *testing.T) {
	inStageBubble(t, Options{}, func(st *stage) {
		c := st.connectHalves()
		st.shut()
		c.send("SUBSCRIBE x", "UNSUBSCRIBE", "PING", "SUBSCRIBE y", "QUIT")
		c.closeWrite()
		synctest.Wait()
		st.open()
		c.expect(confirmation("subscribe", "x", 1) + confirmation("unsubscribe", "x", 0) + "+PONG\r\n" +
			confirmation("subscribe", "y", 1) + "+OK\r\n")
		c.expectClosed()
	})
}

// What is published before a node has heard that a subscriber has ended its side still reaches it, unless the
// node takes too long.
func TestLastMessagesOfAHalfClosedClient(t *testing.T) {
	inStageBubble(t, Options{}, func(st *stage) {
		alone, beside, other := st.connectHalves(), st.connectHalves(), st.connect()
		for c, x := range map[*testClient]string{alone: "alone", beside: "x", other: "x"} {
			c.send("SUBSCRIBE " + x)
			c.expect(confirmation("subscribe", x, 1))
		}
		st.shut()
		alone.closeWrite()
		beside.closeWrite()
		synctest.Wait()
		st.publish(false, "alone", "last")
		st.publish(false, "x", "last")
		st.open()
		alone.expect(frame("*3", "message", "alone", "last"))
		beside.expect(frame("*3", "message", "x", "last"))
		alone.expectClosed()
		beside.expectClosed()
		other.expect(frame("*3", "message", "x", "last"))

		alone = st.connectHalves()
		alone.send("SUBSCRIBE x")
		alone.expect(confirmation("subscribe", "x", 1))
		st.shut()
		alone.closeWrite()
		alone.expectClosed()
	})
}

// Long messages, which clients share, come to each in its protocol, between short ones in their order and
// never inside a reply.
func TestLongMessages(t *testing.T) {
	text := func(i int) string { return strings.Repeat(string(rune('a'+i)), 1+i%3*70_000) }
	inStageBubble(t, Options{}, func(st *stage) {
		two, three, inside := st.connect(), st.connect(), st.connect()
		three.send("HELLO 3")
		for line := ""; line != "*0\r\n"; {
			line, _ = three.r.ReadString('\n')
		}
		for c, kind := range map[*testClient]string{two: "*", three: ">", inside: "*"} {
			c.send("SUBSCRIBE x")
			c.expect(strings.Replace(confirmation("subscribe", "x", 1), "*", kind, 1))
		}
		three.send("GET big", "PING")
		three.expect("$10\r\nfirst")
		for i := range 9 {
			st.publish(false, "x", text(i))
		}
		for i := range 9 {
			two.expect(frame("*3", "message", "x", text(i)))
			inside.expect(frame("*3", "message", "x", text(i)))
		}
		st.half <- struct{}{}
		three.expect("halff\r\n")
		for i := range 9 {
			three.expect(frame(">3", "message", "x", text(i)))
		}
		three.expect("+PONG\r\n")
		synctest.Wait()
		for s := range st.server.workers[0].sessions {
			if s.out.held != 0 {
				st.Errorf("%d bytes are held", s.out.held)
			}
		}
	})
}

// Messages come in their order, and never inside a reply.
func TestMessagesKeepOutOfReplies(t *testing.T) {
	inStageBubble(t, Options{}, func(st *stage) {
		c, pub := st.connect(), st.connect()
		c.send("HELLO 3")
		for line := ""; line != "*0\r\n"; {
			line, _ = c.r.ReadString('\n')
		}
		c.send("SUBSCRIBE x")
		c.expect(strings.Replace(confirmation("subscribe", "x", 1), "*", ">", 1))
		c.send("GET big", "PING")
		c.expect("$10\r\nfirst")
		for i := range 100 {
			st.publish(false, "x", fmt.Sprint(i))
		}
		synctest.Wait()
		if n := c.r.Buffered(); n > 0 {
			st.Errorf("%d bytes came inside a reply", n)
		}
		st.half <- struct{}{}
		c.expect("halff\r\n")
		for i := range 100 {
			c.expect(frame(">3", "message", "x", fmt.Sprint(i)))
		}
		c.expect("+PONG\r\n")
		st.publish(false, "x", "last")
		c.expect(frame(">3", "message", "x", "last"))
		synctest.Wait()
		for s := range st.server.workers[0].sessions {
			if s.out.held != 0 {
				st.Errorf("%d bytes wait", s.out.held)
			}
		}
		c.send("GET big") // and the client goes
		c.expect("$10\r\nfirst")
		st.publish(false, "x", "in vain")
		synctest.Wait()
		c.Close()
		st.half <- struct{}{}
		pub.send("PING")
		pub.expect("+PONG\r\n")
	})
}

// A subscriber that does not read is closed by the hard limit, or by the soft one after its time;
// the others get everything.
func TestSlowSubscriber(t *testing.T) {
	limits := memory.Limits{PubSub: memory.Limit{Hard: 1 << 20, Soft: 100 << 10, SoftFor: time.Minute}}
	inStageBubble(t, Options{Settings: Settings{Output: limits}}, func(st *stage) {
		closed := func() uint64 { return st.server.Stats().ClosedFull["pubsub"] }
		text := strings.Repeat("m", 10_000)
		reader := st.connect()
		reader.subscribe("x")
		reader.SetReadDeadline(time.Time{})
		read := 0
		go func() {
			buf := make([]byte, 64<<10)
			for {
				n, err := reader.r.Read(buf)
				if err != nil {
					return
				}
				read += n
			}
		}()
		publish := func(n int) {
			for range n {
				st.publish(false, "x", text)
				synctest.Wait()
			}
		}
		slow := st.connect()
		slow.subscribe("x")
		publish(5)
		time.Sleep(5 * time.Minute) // below the soft limit it may take all day
		if closed() != 0 {
			st.Fatal("closed below its limits")
		}
		publish(10)
		time.Sleep(50 * time.Second)
		if closed() != 0 {
			st.Fatal("closed before its time")
		}
		time.Sleep(15 * time.Second)
		if closed() != 1 {
			st.Fatal("not closed by the soft limit")
		}
		slow = st.connect()
		slow.subscribe("x")
		publish(150)
		if closed() != 2 {
			st.Fatal("not closed by the hard limit")
		}
		if want := 165 * len(frame("*3", "message", "x", text)); read != want {
			st.Errorf("who reads got %d bytes of %d", read, want)
		}
		st.change(func(o *Options) { o.Output = memory.Limits{PubSub: memory.Limit{Hard: 20 << 10}} })
		slow = st.connect()
		slow.subscribe("x")
		publish(11)
		if closed() != 3 {
			st.Fatal("not closed by a limit that was changed")
		}
	})
}

// Who listens is never idle.
func TestSubscriberIsNotIdle(t *testing.T) {
	inStageBubble(t, Options{Settings: Settings{IdleTimeout: time.Minute}}, func(st *stage) {
		a, b := st.connect(), st.connect()
		a.subscribe("x")
		b.send("PING")
		b.expect("+PONG\r\n")
		time.Sleep(2 * time.Minute)
		b.expectClosed()
		st.publish(false, "x", "1")
		a.expect(frame("*3", "message", "x", "1"))
	})
}

// A lost subscription is made again, and its clients are told nothing.
func TestSubscriptionIsRestored(t *testing.T) {
	inStageBubble(t, Options{}, func(st *stage) {
		a := st.connect()
		a.subscribe("x", "y")
		for i := range 3 {
			st.cut()
			time.Sleep(5 * time.Second)
			st.publish(false, "y", fmt.Sprint(i))
			a.expect(frame("*3", "message", "y", fmt.Sprint(i)))
		}
		st.cut()
		a.send("UNSUBSCRIBE x") // while it is away
		a.expect(confirmation("unsubscribe", "x", 1))
	})
}
