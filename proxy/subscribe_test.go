package proxy

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	topics "lockproxy/cluster/pubsub"
	"lockproxy/proxy/pubsub"
)

// manyTopics are more names than are subscribed to in one round of the loop, some of them twice.
func manyTopics(front string) (command string, names []string) {
	for i := range 2*pubsub.PerRound + 100 {
		names = append(names, fmt.Sprint(front, i), fmt.Sprint(front, i-i%5))
	}
	return strings.Join(names, " "), names
}

// Thousands of names in one command are confirmed as few are, and left as few are.
func TestManyNames(t *testing.T) {
	words, names := manyTopics("ch")
	for _, verb := range []string{"subscribe", "psubscribe", "ssubscribe"} {
		t.Run(verb, func(t *testing.T) {
			inStageBubble(t, Options{}, func(st *stage) {
				a, kind := st.connect(), strings.TrimSuffix(verb, "subscribe")
				a.send(strings.ToUpper(verb)+" ch0 ch5", strings.ToUpper(verb)+" "+words)
				a.expect(confirmation(verb, "ch0", 1) + confirmation(verb, "ch5", 2))
				listens := map[string]bool{"ch0": true, "ch5": true}
				for _, name := range names {
					listens[name] = true
					a.expect(confirmation(verb, name, len(listens)))
				}
				leave := kind + "unsubscribe"
				a.send(strings.ToUpper(leave) + " other " + words + " ch1")
				a.expect(confirmation(leave, "other", len(listens)))
				for _, name := range names {
					delete(listens, name)
					a.expect(confirmation(leave, name, len(listens)))
				}
				a.expect(confirmation(leave, "ch1", 0))
				a.send("PING")
				a.expect("+PONG\r\n")
				synctest.Wait()
				st.nothingLeft()
			})
		})
	}
}

// when runs do on the loop of st as soon as a client listens to so many topics: not fewer, and not more.
func (st *stage) when(least, most int, do func(s *session)) {
	w := st.server.workers[0]
	var look func()
	look = func() {
		for s := range w.sessions {
			if n := s.Topics[topics.Classic]; n >= least && n <= most {
				do(s)
				return
			}
		}
		w.loop.Post(look)
	}
	w.loop.Post(look)
}

// What is published while a client subscribes to thousands comes behind the confirmations.
func TestMessagesWhileManyAreJoined(t *testing.T) {
	words, names := manyTopics("ch")
	inStageBubble(t, Options{}, func(st *stage) {
		a := st.connect()
		st.when(1, 2*pubsub.PerRound, func(*session) { st.publish(false, names[0], "meanwhile") })
		a.send("SUBSCRIBE " + words)
		listens := map[string]bool{}
		for _, name := range names {
			listens[name] = true
			a.expect(confirmation("subscribe", name, len(listens)))
		}
		st.publish(false, names[0], "behind")
		a.expect(frame("*3", "message", names[0], "meanwhile") + frame("*3", "message", names[0], "behind"))
	})
}

// What a client of RESP3 publishes to itself comes behind the answer to that command.
func TestPublishToSelf(t *testing.T) {
	inStageBubble(t, Options{}, func(st *stage) {
		a := st.connect()
		a.hello3()
		a.send("SUBSCRIBE own")
		a.expect(">" + confirmation("subscribe", "own", 1)[1:])
		a.send("EVAL script 0 own first", "PING")
		synctest.Wait()
		st.publish(false, "own", "second")
		synctest.Wait()
		st.half <- struct{}{}
		a.expect("+done\r\n" + frame(">3", "message", "own", "first") +
			frame(">3", "message", "own", "second") + "+PONG\r\n")
		st.publish(false, "own", "third")
		a.expect(frame(">3", "message", "own", "third"))
		a.send("UNSUBSCRIBE")
		a.expect(">" + confirmation("unsubscribe", "own", 0)[1:])
		synctest.Wait()
		st.nothingLeft()
	})
}

// A client that goes while it subscribes to thousands, or leaves them, leaves nothing behind.
func TestGoneWhileManyAreJoined(t *testing.T) {
	words, names := manyTopics("ch")
	for _, leaves := range []bool{false, true} {
		inStageBubble(t, Options{}, func(st *stage) {
			a := st.connect()
			if leaves {
				a.send("SUBSCRIBE " + words)
				for range 6 * len(names) {
					a.r.ReadString('\n')
				}
			}
			st.when(1, 2*pubsub.PerRound, func(s *session) { s.conn.Close() })
			a.send(map[bool]string{false: "SUBSCRIBE ", true: "UNSUBSCRIBE "}[leaves] + words)
			synctest.Wait()
			st.nothingLeft()
		})
	}
}
