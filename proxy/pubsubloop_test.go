package proxy

import (
	"strings"
	"testing"
	"testing/synctest"
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
