package proxy

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Commands whose answers are silenced are run like others, in order with those that are answered.
func TestRepliesOff(t *testing.T) {
	inBubble(t, 2, Options{}, echo, func(r *rig) {
		r.likeRedis7()
		c := r.connect()
		c.send("GET a", "CLIENT REPLY OFF", "GET b", "MGET b foo", "PING", "NOSUCH", "GET",
			"DBSIZE", "CLIENT LIST",
			"CLIENT REPLY ON", "GET b")
		c.expect("+2 GET a\r\n+OK\r\n+1 GET b\r\n")
		for _, want := range []string{"1: MGET b", "2: MGET foo", ": GET,", "1: DBSIZE", "2: DBSIZE"} {
			if !strings.Contains(r.commands(), want) {
				t.Errorf("%s is not among %s", want, r.commands())
			}
		}
		c.send("CLIENT REPLY SKIP", "GET b", "GET b", "CLIENT REPLY SKIP", "MGET b foo", "PING")
		c.expect("+1 GET b\r\n+PONG\r\n")
	})
}

// A node that is lost in the middle of a reply that nobody gets ends nobody's connection.
func TestSilentReplyIsCutOff(t *testing.T) {
	var cut chan struct{} // made in the bubble
	answer := func(node int, command string) string {
		switch command {
		case "HGETALL k":
			<-cut
			return "*2\r\n$1\r\na\r\n$5\r\nab" // and no more before the pipe gives up
		}
		return echo(node, command)
	}
	inBubble(t, 1, Options{}, answer, func(r *rig) {
		cut = make(chan struct{})
		c := r.connect()
		c.send("CLIENT REPLY SKIP", "HGETALL k")
		synctest.Wait()
		close(cut)
		time.Sleep(time.Minute) // it is asked for twice, and each time upstream-timeout goes by
		c.send("PING")
		c.expect("+PONG\r\n")
	})
}

// Errors before AUTH, a protocol error and QUIT are silent, too; pushes are not.
func TestSilenceAndOtherOutput(t *testing.T) {
	inBubble(t, 1, Options{Settings: Settings{Password: "x"}}, echo, func(r *rig) {
		c := r.connect()
		c.send("AUTH x", "CLIENT REPLY OFF", "RESET", "PING", "AUTH x")
		c.expect("+OK\r\n+RESET\r\n-NOAUTH Authentication required.\r\n+OK\r\n")
		c.send("CLIENT REPLY OFF")
		synctest.Wait()
		w := r.server.workers[0]
		w.loop.Post(func() {
			for s := range w.sessions {
				s.Push(s.answers.head-1, []byte(">1\r\n+told\r\n"))
			}
		})
		c.expect(">1\r\n+told\r\n")
		c.send("PING", "QUIT", "PING")
		c.expectClosed()
		d := r.connect()
		d.send("AUTH x", "CLIENT REPLY OFF")
		d.expect("+OK\r\n")
		d.Write([]byte("*1\r\n+\r\n"))
		d.expectClosed()
	})
}
