package proxy

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
	"lockproxy/proxy/large"
)

// manyKeys are words that make a command longer than client.LongFrom, of all slots.
func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, " %0100d", i)
	}
	return b.String()
}

// deleted answers DEL with the number of its keys.
func deleted(_ int, command string) string {
	words := strings.Fields(command)
	if words[0] != "DEL" {
		return "+" + words[0] + "\r\n"
	}
	return fmt.Sprintf(":%d\r\n", len(words)-1)
}

// A long command is taken apart, sent and answered in its place among the others of its client.
func TestLongCommandKeepsItsPlace(t *testing.T) {
	inBubble(t, 3, Options{}, deleted, func(r *rig) {
		const keys = 20_000
		c := r.connect()
		c.send("GET a", "DEL"+manyKeys(keys), "GET b", "DEL"+manyKeys(keys), "PING")
		c.expect(fmt.Sprintf("+GET\r\n:%d\r\n+GET\r\n:%[1]d\r\n+PONG\r\n", keys))
		if n := strings.Count(r.commands(), "DEL"); n < 2*8_000 {
			r.Errorf("%d parts", n)
		}
	})
}

// Between the parts of a long command the loop does what else there is.
func TestLongCommandIsSentInRounds(t *testing.T) {
	inBubble(t, 3, Options{}, deleted, func(r *rig) {
		const keys = 20_000
		c := r.connect()
		w := r.server.workers[0]
		rounds, sending := 0, true
		var look func()
		look = func() {
			for s := range w.sessions {
				if s.hold&client.HoldLong != 0 && s.answers.len() > 0 {
					rounds++
				}
			}
			if sending {
				w.loop.Post(look)
			}
		}
		done := make(chan struct{})
		w.loop.Post(look)
		go func() {
			c.send("DEL" + manyKeys(keys))
			c.expect(fmt.Sprintf(":%d\r\n", keys))
			close(done)
		}()
		<-done
		w.loop.Post(func() { sending = false })
		synctest.Wait()
		if rounds < 3 { // for 2 MB of parts
			r.Errorf("%d rounds of the loop while it was sent", rounds)
		}
	})
}

// Of a long command that no node answers the parts are counted for its client, and no more once it is
// answered.
func TestMemoryOfLongCommand(t *testing.T) {
	inBubble(t, 3, Options{}, deleted, func(r *rig) {
		c := r.connect()
		c.tell("+PONG\r\n", "PING")
		before := r.used()
		for _, keys := range []string{manyKeys(20_000), strings.ReplaceAll(manyKeys(20_000), " ", " {a}")} {
			c.tell(":20000\r\n", "DEL"+keys)
			if n := r.used(); n != before {
				r.Errorf("%d bytes are counted, %d before", n, before)
			}
			for s := range r.server.workers[0].sessions {
				if s.kept != 0 {
					r.Errorf("%d bytes of long commands are counted", s.kept)
				}
			}
		}
	})
}

// Where one Redis takes keys of all slots nobody asks for them.
func TestLongCommandOfOneRedisIsNotCut(t *testing.T) {
	inBubble(t, 1, Options{}, deleted, func(r *rig) {
		raw := resp.AppendCommandStrings(nil, strings.Fields("DEL"+manyKeys(5_000))...)
		cmd := r.server.workers[0].table.Lookup([]byte("DEL"))
		for _, bySlot := range []bool{false, true} {
			var l large.LongCommand
			l.Read(r.server.workers[0].table, r.server.shared.Scripts, raw, bySlot)
			if len(l.Args) != 5_001 || l.Err != nil || (l.PlaceOf(cmd) != nil) != bySlot {
				r.Errorf("%d arguments, %v, it is cut: %v", len(l.Args), l.Err, l.PlaceOf(cmd) != nil)
			}
		}
	})
}

// Long answers that are put together come whole and in their place.
func TestLongAnswers(t *testing.T) {
	inBubble(t, 3, Options{}, func(_ int, command string) string {
		words := strings.Fields(command)
		if words[0] != "MGET" {
			return "+" + words[0] + "\r\n"
		}
		return string(resp.AppendCommandStrings(nil, words[1:]...))
	}, func(r *rig) {
		keys := manyKeys(5_000)
		want := string(resp.AppendCommandStrings(nil, strings.Fields(keys)...))
		c := r.connect()
		c.send("MGET"+keys, "GET a", "MGET"+keys, "PING")
		c.expect(want + "+GET\r\n" + want + "+PONG\r\n")
		synctest.Wait()
		for s := range r.server.workers[0].sessions {
			if s.out.waitingBytes() != 0 {
				r.Errorf("%d bytes wait", s.out.waitingBytes())
			}
		}
	})
}

// A client that ends its side behind a long command gets its answer, and one that goes leaves nothing.
func TestEndBehindLongCommand(t *testing.T) {
	inBubble(t, 3, Options{}, deleted, func(r *rig) {
		const keys = 20_000
		gone := r.connect()
		gone.send("DEL" + manyKeys(keys))
		gone.Close()
		synctest.Wait()
		c := r.connect()
		c.send("DEL" + manyKeys(keys))
		c.expect(fmt.Sprintf(":%d\r\n", keys))
		if n := len(r.server.workers[0].sessions); n != 1 {
			r.Errorf("%d sessions", n)
		}
	})
}

// In a transaction a long command is queued as a short one.
func TestLongCommandInTransaction(t *testing.T) {
	inBubble(t, 1, Options{}, func(_ int, command string) string {
		switch words := strings.Fields(command); words[0] {
		case "MULTI":
			return "+OK\r\n"
		case "EXEC":
			return "*1\r\n:7\r\n"
		}
		return "+QUEUED\r\n"
	}, func(r *rig) {
		c := r.connect()
		c.send("MULTI", "DEL"+manyKeys(5_000), "EXEC")
		c.expect("+OK\r\n+QUEUED\r\n*1\r\n:7\r\n")
	})
}
