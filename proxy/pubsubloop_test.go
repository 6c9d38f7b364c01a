package proxy

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"lockproxy/proxy/pubsub"
)

// asked answers PUBSUB as a node does that knows one channel.
func asked(node int, command string) string {
	switch {
	case command == "PUBSUB CHANNELS":
		return frame("*1", "x")
	case strings.HasPrefix(command, "PUBSUB NUMSUB"):
		return frame("*2", "x") + ":1\r\n"
	case command == "PUBSUB NUMPAT":
		return ":1\r\n"
	}
	return echo(node, command)
}

// However long it takes to look for topics: the loop goes on, and the answers keep their order.
func TestTopicsAreLookedUpBesideTheLoop(t *testing.T) {
	for command, want := range map[string]string{
		"PUBSUB CHANNELS": frame("*1", "x"),
		"PUBSUB NUMSUB x": frame("*2", "x") + ":1\r\n",
		"PUBSUB NUMPAT":   ":1\r\n",
		"PUBLISH x 1":     "+1 PUBLISH x 1\r\n",
	} {
		t.Run(command, func(t *testing.T) {
			inBubble(t, 1, Options{}, asked, func(r *rig) {
				r.likeRedis7()
				gate := make(chan struct{})
				r.look = func() { <-gate }
				a, b, gone := r.connect(), r.connect(), r.connect()
				a.send(command, "ECHO behind", command)
				gone.send(command)
				synctest.Wait()
				gone.Close()
				b.send("PING")
				b.expect("+PONG\r\n")
				if n := a.r.Buffered(); n > 0 {
					r.Errorf("%d bytes before the topics are known", n)
				}
				close(gate)
				a.expect(want + "$6\r\nbehind\r\n" + want)
			})
		})
	}
}

// A channel that only many steps can compare with a pattern: what is published on it is counted, and comes in
// its order.
func TestPublishBesideTheLoop(t *testing.T) {
	long := strings.Repeat("a", 3_000)
	slow := "*" + strings.Repeat("?a", 120) + "b*" // which nearly fits at every place
	inStageBubble(t, Options{}, func(st *stage) {
		a, pub := st.connect(), st.connect()
		a.send("PSUBSCRIBE a* " + slow)
		a.expect(confirmation("psubscribe", "a*", 1) + confirmation("psubscribe", slow, 2))
		if _, left := st.server.topics.Concerned([]byte(long), false, pubsub.PublishSteps); left >= 0 {
			t.Fatalf("%d steps are left of %d", left, pubsub.PublishSteps)
		}
		pub.send("PUBLISH "+long+" 1", "PUBLISH ab 2", "GET k", "PUBLISH "+long+" 3")
		pub.expect(":1\r\n:1\r\n$-1\r\n:1\r\n")
		for i, channel := range []string{long, "ab", long} {
			a.expect(frame("*4", "pmessage", "a*", channel, string(rune('1'+i))))
		}
		gone := st.connect()
		gone.send("PUBLISH " + long + " 4")
		synctest.Wait()
		gone.Close()
		a.expect(frame("*4", "pmessage", "a*", long, "4"))
	})
}

// What a transaction published is counted beside the loop too.
func TestTransactionIsRecountedBesideTheLoop(t *testing.T) {
	inBubble(t, 1, Options{}, func(node int, command string) string {
		switch command {
		case "MULTI":
			return "+OK\r\n"
		case "EXEC":
			return "*2\r\n:7\r\n:8\r\n"
		case "PUBLISH x 1", "PUBLISH x 2":
			return "+QUEUED\r\n"
		}
		return echo(node, command)
	}, func(r *rig) {
		gate := make(chan struct{})
		r.look = func() { <-gate }
		a, b := r.connect(), r.connect()
		a.send("MULTI", "PUBLISH x 1", "PUBLISH x 2", "EXEC", "ECHO behind")
		a.expect("+OK\r\n+QUEUED\r\n+QUEUED\r\n")
		synctest.Wait()
		b.send("PING")
		b.expect("+PONG\r\n")
		close(gate)
		a.expect("*2\r\n:7\r\n:8\r\n$6\r\nbehind\r\n")
	})
}

// The replies of nodes count as memory of the client for as long as a goroutine puts them together.
func TestTopicsThatAreLookedUpCount(t *testing.T) {
	var names []string
	for i := range 4_000 {
		names = append(names, fmt.Sprintf("%0100d", i))
	}
	reply := frame("*4000", names...)
	inBubble(t, 1, Options{}, func(node int, command string) string {
		if command == "PUBSUB CHANNELS" {
			return reply
		}
		return echo(node, command)
	}, func(r *rig) {
		r.likeRedis7()
		gate := make(chan struct{})
		r.look = func() { <-gate }
		held := func() (n int) {
			done := make(chan int)
			w := r.server.workers[0]
			w.loop.Post(func() {
				for s := range w.sessions {
					n += s.out.held
				}
				done <- n
			})
			return <-done
		}
		a := r.connect()
		a.send("PUBSUB CHANNELS")
		synctest.Wait()
		if n := held(); n < len(reply) {
			t.Errorf("%d bytes count while %d are looked at", n, len(reply))
		}
		close(gate)
		a.expect(reply)
		synctest.Wait()
		if n := held(); n != 0 {
			t.Errorf("%d bytes count in the end", n)
		}
	})
}
