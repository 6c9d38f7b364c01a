package proxy

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/loop"
	"lockproxy/internal/resp"
	"lockproxy/proxy/execution"
	"lockproxy/proxy/pubsub"
)

// rounds looks at what the rounds of the only loop of a server do. How long they take is measured in
// integration/rounds.
type rounds struct {
	server atomic.Pointer[Server]
	topics int    // that clients have subscribed to, at the end of the last round
	given  uint64 // messages that clients were given until then
	most   round
}

// round is what one round does.
type round struct {
	took   time.Duration // in fake time, which passes while a costly command is run
	topics int           // made or ended
	given  uint64
}

// look is called on the loop at the end of each round.
func (r *rounds) look() {
	s := r.server.Load()
	if s == nil {
		return // it is just being made
	}
	w := s.workers[0]
	r.most.took = max(r.most.took, time.Since(w.loop.Now()))
	now, given := w.hub.Counts()
	topics := 0
	for _, n := range now {
		topics += int(n)
	}
	r.most.topics, r.topics = max(r.most.topics, topics-r.topics, r.topics-topics), topics
	r.most.given, r.given = max(r.most.given, given-r.given), given
}

// take is the most that a round has done since it was called last, and how many topics and messages there
// were up to now.
func (r *rounds) take() (most, all round) {
	synctest.Wait()
	done := make(chan bool)
	r.server.Load().workers[0].loop.Post(func() {
		most, r.most = r.most, round{}
		all = round{topics: r.topics, given: r.given}
		close(done)
	})
	<-done
	return most, all
}

// costly are settings of which each question takes a millisecond.
type costly struct{ noSettings }

const cost = time.Millisecond

func (costly) Get(string) [][2]string {
	time.Sleep(cost)
	return [][2]string{{"maxclients", "10000"}}
}

// However many costly commands a client sends at once, a loop deals with few of them in a round, and others
// have their turn.
func TestCostlyCommandsTakeTurns(t *testing.T) {
	const n = 300
	get, reply := "CONFIG GET maxclients", frame("*2", "maxclients", "10000")
	for name, test := range map[string]struct {
		before, last string // commands around those
		most         time.Duration
	}{
		// a round serves its input, and then what was posted to it meanwhile: each has its time
		"pipeline":    {most: loop.RoundTime + 2*roundCommands*cost},
		"transaction": {before: "MULTI", last: "EXEC", most: 2 * (execution.FollowUpTime + cost)},
	} {
		t.Run(name, func(t *testing.T) {
			r := new(rounds)
			inTxBubble(t, 3, Options{Config: costly{}, WatchRounds: r.look}, func(rg *rig, _ *txNodes) {
				r.server.Store(rg.server)
				c, other := rg.connect(), rg.connect()
				all := bytes.Repeat(resp.AppendCommandStrings(nil, strings.Fields(get)...), n)
				if test.before != "" {
					c.tell(ok, test.before)
					for range n {
						c.tell(queuedOK, get)
					}
					all = resp.AppendCommandStrings(nil, test.last)
				}
				r.take()
				began := time.Now()
				go c.Write(all) // ends when it is taken
				time.Sleep(5 * cost)
				other.tell("+PONG\r\n", "PING")
				if waited := time.Since(began); waited > 4*test.most+5*cost {
					t.Errorf("another client waited for %v", waited)
				}
				if test.before != "" {
					c.expect(fmt.Sprintf("*%d\r\n", n))
				}
				c.expect(strings.Repeat(reply, n))
				if most, _ := r.take(); most.took > test.most || most.took < cost {
					t.Errorf("a round took %v, want at most %v", most.took, test.most)
				}
			})
		})
	}
}

// Of the thousands of topics that one command or the end of a client is about, a round makes or ends a
// bounded number.
func TestTopicsTakeTurns(t *testing.T) {
	var names []string
	for i := range 3 * pubsub.PerRound {
		names = append(names, fmt.Sprint("channel", i))
	}
	words := " " + strings.Join(names, " ")
	for name, end := range map[string]func(c *testClient){
		"UNSUBSCRIBE": func(c *testClient) { c.send("UNSUBSCRIBE") },
		"by name":     func(c *testClient) { c.send("UNSUBSCRIBE" + words) },
		"RESET":       func(c *testClient) { c.send("RESET") },
		"end":         func(c *testClient) { c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			r := new(rounds)
			inStageBubble(t, Options{WatchRounds: r.look}, func(st *stage) {
				r.server.Store(st.server)
				c := st.connect()
				go io.Copy(io.Discard, c.r) // ends with the connection
				c.send("SUBSCRIBE" + words)
				most, all := r.take()
				if most.topics > pubsub.PerRound || all.topics != len(names) {
					t.Errorf("%d of %d topics were subscribed to in a round", most.topics, all.topics)
				}
				end(c)
				if most, all = r.take(); most.topics > pubsub.PerRound || all.topics != 0 {
					t.Errorf("%d topics were left in a round, %d are left", most.topics, all.topics)
				}
			})
		})
	}
}

// A message for many clients is given to some of them in each round.
func TestMessagesTakeTurns(t *testing.T) {
	const subscribers, most, mostBytes = 600, 300, 8 << 20
	for _, size := range []int{10, 60_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			r := new(rounds)
			inStageBubble(t, Options{WatchRounds: r.look}, func(st *stage) {
				r.server.Store(st.server)
				for range subscribers {
					c := st.connect()
					c.send("SUBSCRIBE x")
					go io.Copy(io.Discard, c.r) // ends with the connection
				}
				r.take()
				c := st.connect()
				c.send("PUBLISH x " + strings.Repeat("m", size))
				c.expect(fmt.Sprintf(":%d\r\n", subscribers))
				seen, all := r.take()
				if n := int(seen.given); n > most || n*size > mostBytes || all.given != subscribers {
					t.Errorf("%d of %d messages were given in one round", n, all.given)
				}
			})
		})
	}
}
