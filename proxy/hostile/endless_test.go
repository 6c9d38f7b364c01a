package hostile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/internal/resp"
)

// What is kept of a reply until it is whole has a bound, for each kind of connection and of question. The
// client that waits for it gets an error.
func TestEndless(t *testing.T) {
	const own = 16 << 20
	if resp.Answer.Bytes != own {
		t.Errorf("%d bytes", resp.Answer.Bytes)
	}
	begin := []string{"MULTI", "GET KEY", "EXEC"}
	lost := to("EVALSHA", "-NOSCRIPT No matching script. Please use EVAL.\r\n")
	for _, c := range []struct {
		ask     []string
		command string
		most    int
		last    time.Duration               // until the proxy has asked for sure
		before  func(words []string) string // nil: nothing is said before
		shapes  bool                        // it is tried with others than lines, too
	}{
		{ask: []string{"LOCK KEY PX 1000"}, command: "EVALSHA", most: own, shapes: true},
		{ask: []string{"LOCK KEY PX 1000"}, command: "SCRIPT", most: own, before: lost},
		{ask: []string{"UNLOCK KEY t"}, command: "EVALSHA", most: own},
		{ask: []string{"DBSIZE"}, command: "DBSIZE", most: own},
		{ask: []string{"DEL KEY key0 key1 key2"}, command: "DEL", most: own},
		{ask: begin, command: "MULTI", most: 1 << 20},
		{ask: begin, command: "GET", most: 1 << 20, shapes: true},
		{ask: []string{"SSUBSCRIBE KEY"}, command: "SSUBSCRIBE", most: 33 << 20},
		{ask: askPlainly, command: "COMMAND", most: own, last: 2 * time.Minute},
		{ask: askPlainly, command: "HELLO", most: own, last: 2 * time.Second},
		{ask: askPlainly, command: "INFO", most: own, last: 2 * time.Second, shapes: true},
		{ask: askPlainly, command: "PING", most: own, last: 2 * time.Second},
		{ask: askPlainly, command: "CLUSTER SLOTS", most: own, last: 2 * time.Second},
		{ask: askPlainly, command: "CLUSTER INFO", most: own, last: 2 * time.Second},
		{ask: askPlainly, command: "CLIENT", most: 1 << 20, before: to("GET", cut), shapes: true},
	} {
		replies := []string{"+" + endless + "x"}
		if c.shapes {
			replies = append(replies, "*999999999\r\n"+endless+":1\r\n",
				"$15000000\r\n"+strings.Repeat("x", 15e6)+"\r\n$999999999999\r\n"+endless+"x")
		}
		for _, reply := range replies {
			t.Run(fmt.Sprint(c.ask[0], "/", c.command, "/", reply[:1]), func(t *testing.T) {
				withLiar(t, func(s *stage) {
					s.round(askPlainly)
					s.tell(to(c.command, reply), c.before)
					s.round(c.ask)
					if c.last > 0 {
						s.wait(c.last)
						s.round(c.ask)
					}
					s.tell(nil, nil)
					for _, key := range keys {
						replies, whole, err := frames(s.clients[key].got)
						if s.clients[key].isClosed() || len(replies) != len(c.ask) || !whole || err != nil {
							t.Errorf("%s got %.100q, %v", key, s.clients[key].got, err)
						}
					}
					const piece = 512 << 10 // is read at once
					if s.taken > c.most+piece || s.taken == 0 && reply[0] != '$' {
						t.Errorf("%d bytes were read, and %d are bearable", s.taken, c.most)
					}
					s.recovers()
				})
			})
		}
	}
}
