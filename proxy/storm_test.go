package proxy

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/cluster/pubsub"
	"lockproxy/internal/resp"
	"lockproxy/proxy/memory"
)

var (
	stormSeed   = flag.Uint64("storm.seed", 1, "seed of the storms; 0: the time")
	stormRounds = flag.Int("storm.rounds", 10, "rounds of each storm; of transactions three times as many")
)

// tempest is clients that send everything there is, in pieces, and go at any moment, and nodes that answer
// wrongly, late or not at all, and go too.
type tempest struct {
	*rig
	calm  atomic.Bool // nodes do as they should from now on
	large bool        // some values are large

	mu     sync.Mutex
	dice   *rand.Rand // of the nodes
	lastID int
	waits  map[int]chan bool // connections that block, by id
	topics map[string]*pubsub.Topic
	whole  *cluster.Topology
}

// TestStorm proves that whatever clients and nodes do, and whenever they go, nothing panics, no client that
// stays is left without an answer, and of those that have gone nothing is left.
func TestStorm(t *testing.T) { inStormBubbles(t, false) }

// The same with values that are passed on as they come, of which some are broken off.
func TestStormOfLargeValues(t *testing.T) { inStormBubbles(t, true) }

func inStormBubbles(t *testing.T, large bool) {
	seed := firstStorm()
	commandReply() // from a real socket, so before time stops
	for i := range *stormRounds {
		this := seed + uint64(i)
		fmt.Printf("storm: -storm.seed=%d -storm.rounds=1\n", this) // seen when it panics
		synctest.Test(t, func(t *testing.T) { storms(t, this, large) })
		if t.Failed() {
			t.Fatalf("-storm.seed=%d", this)
		}
	}
}

// firstStorm is the seed of the first round.
func firstStorm() uint64 {
	if *stormSeed == 0 {
		return uint64(time.Now().UnixNano())
	}
	return *stormSeed
}

// A client is read again when its replies have gone another way than to it. Otherwise it would stay for ever
// if it ended its side.
func TestStormOfUnreadOutput(t *testing.T) {
	commandReply() // from a real socket, so before time stops
	synctest.Test(t, func(t *testing.T) { storms(t, 1795459512075735765, false) })
}

// storms is one storm. In the end it gets calm, or the proxy drains in the middle of it.
func storms(t *testing.T, seed uint64, large bool) {
	dice := rand.New(rand.NewPCG(seed, 0))
	r := &rig{T: t}
	st := &tempest{rig: r, dice: rand.New(rand.NewPCG(seed, 1)), waits: map[int]chan bool{},
		topics: map[string]*pubsub.Topic{}, large: large}
	r.node = st.dial
	st.calm.Store(true)
	st.whole = stormTopology(1, 3, func(s int) int { return s * 3 / 16384 })
	r.topology = st.whole
	o := Options{Upstream: st, PubSub: st, Portable: true, Loops: 1 + dice.IntN(2), MaxOwn: 1 + dice.IntN(20),
		Settings: Settings{MaxPipeline: 1 + dice.IntN(20)}, Config: noSettings{},
		Pipes: pipe.Options{Budget: time.Second, Timeout: 2 * time.Second,
			QueueLimit: 100 << dice.IntN(10)}}
	if dice.IntN(4) == 0 {
		o.Output.PubSub = memory.Limit{Hard: 3000}
		o.Output.Normal = memory.Limit{Hard: 20000, Soft: 1000, SoftFor: time.Second}
	}
	var err error
	if r.server, err = New(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	st.calm.Store(false)
	var clients sync.WaitGroup
	var all []*testClient
	for i := range 2 + dice.IntN(5) {
		c := r.connectHalves()
		all = append(all, c)
		clients.Go(func() { st.listen(c, rand.New(rand.NewPCG(seed, uint64(i+200)))) })
		clients.Go(func() { st.client(c, rand.New(rand.NewPCG(seed, uint64(i+2)))) })
	}
	stop := make(chan bool)
	clients.Go(func() { st.move(rand.New(rand.NewPCG(seed, 100)), stop) })
	time.Sleep(time.Duration(dice.IntN(8000)) * time.Millisecond)
	if dice.IntN(3) == 0 {
		close(stop)
		st.drain()
		for _, c := range all {
			c.Close()
		}
		clients.Wait()
		return
	}
	st.calm.Store(true)
	close(stop)
	time.Sleep(time.Minute)
	synctest.Wait()
	st.nobodyWaits()
	for _, c := range all {
		c.Close()
	}
	clients.Wait()
	time.Sleep(time.Minute)
	synctest.Wait()
	st.nothingLeft()
	st.drain()
}

// drain proves that the proxy ends in good order.
func (st *tempest) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	look := time.AfterFunc(50*time.Second, st.nobodyWaits)
	defer look.Stop()
	if err := st.server.Drain(ctx); err != nil {
		st.Error(err)
	}
	if own := st.server.Stats().Own; own != (owned.Stats{}) {
		st.Errorf("connections are left: %+v", own)
	}
	time.Sleep(10 * time.Second) // nodes that are slow
}

// onLoops has f run on each loop.
func (st *tempest) onLoops(f func(w *worker)) {
	var done sync.WaitGroup
	for _, w := range st.server.workers {
		done.Add(1)
		w.loop.Post(func() { f(w); done.Done() })
	}
	done.Wait()
}

// nobodyWaits says that each client that is there has all its answers.
func (st *tempest) nobodyWaits() {
	st.onLoops(func(w *worker) {
		for s := range w.sessions {
			if n := s.answers.len(); n > 0 || s.blocking.Waits() || s.hold != 0 {
				name := ""
				if s.last != nil {
					name = s.last.Name
				}
				for tag := s.answers.head; tag != s.answers.tail; tag++ {
					a := s.answers.at(tag)
					what := "?"
					if a.counter != nil {
						what = a.counter.Name
					}
					st.Logf("%s: then %v, started %v, touched %v, done %v, since %v", what,
						a.then != nil, a.started,
						a.touched, a.done, w.loop.Now().Sub(a.start))
				}
				st.Errorf("client %d: %d answers to come, holds %b, waits in %v, half-closed %v, draining "+
					"%v, last %s, %d bytes, transaction %+v, own %v, as %v, tracking %+v, turning %v",
					s.ID, n, s.hold, s.blocking.Waits(), s.eof, s.draining, name, s.out.waitingBytes(),
					s.tx.IsOpen(), s.own.Set() != nil, s.own.User(), s.Tracking, s.own.Turning())
			}
		}
	})
}

// nothingLeft says that nothing is left of clients that have gone.
func (st *tempest) nothingLeft() {
	st.onLoops(func(w *worker) {
		if len(w.sessions) > 0 || !w.hub.Idle() || w.alert() {
			st.Errorf("left: sessions %d, hub idle %v, monitored or paused %v",
				len(w.sessions), w.hub.Idle(), w.alert())
		}
	})
	s := st.server
	all := &s.shared
	c, b, q := s.Clients(), all.Blocked.AtNode.Load(), all.Blocked.Queued.Load()
	h, tr := all.Clients.Held.Load(), all.Trackers.On.Load()
	if c != 0 || b != 0 || q != 0 || h != 0 || tr != 0 {
		st.Errorf("counted still: clients %d, blocked %d, queued %d, held %d, tracking %d", c, b, q, h, tr)
	}
	if own := s.Stats().Own; own != (owned.Stats{}) {
		st.Errorf("connections are left: %+v", own)
	}
	for name, topic := range st.topics {
		if topic.Listeners() != 0 {
			st.Errorf("topic %s has %d listeners", name, topic.Listeners())
		}
	}
}

// listen reads what c gets, not always at once, until its connection ends.
func (st *tempest) listen(c *testClient, dice *rand.Rand) {
	buf := make([]byte, 1000)
	if st.large {
		buf = make([]byte, 64<<10)
	}
	for {
		if !st.calm.Load() && dice.IntN(20) == 0 {
			time.Sleep(time.Second)
		}
		if _, err := c.Conn.Read(buf); err != nil {
			return
		}
	}
}

// client sends pipelines, and goes or stays.
func (st *tempest) client(c *testClient, dice *rand.Rand) {
	deck := stormLines
	if dice.IntN(3) > 0 { // few kinds of commands meet one another more often
		deck = []string{"MULTI", "EXEC"}[:2*dice.IntN(2)]
		for range 3 + dice.IntN(8) {
			deck = append(deck, stormLines[dice.IntN(len(stormLines))])
		}
	}
	for range 1 + dice.IntN(12) {
		var b []byte
		for range 1 + dice.IntN(8) {
			line := deck[dice.IntN(len(deck))]
			if strings.Contains(line, "%d") {
				line = fmt.Sprintf(line, 1+dice.IntN(7))
			}
			b = resp.AppendCommandStrings(b, strings.Fields(line)...)
		}
		cut := false
		if st.large && dice.IntN(3) == 0 {
			b = resp.AppendCommandStrings(b, "SET", []string{"a", "b"}[dice.IntN(2)], largeValue)
			if cut = dice.IntN(3) == 0; cut {
				b = b[:len(b)-1-dice.IntN(len(largeValue)/2)]
			}
		}
		c.SetWriteDeadline(time.Now().Add(time.Second))
		_, err := c.Write(b)
		if st.large && (cut || err != nil) {
			time.Sleep(time.Duration(dice.IntN(1000)) * time.Millisecond)
			c.Close()
			return
		}
		if err != nil {
			break // the rest of it would be no command
		}
		if dice.IntN(2) == 0 {
			time.Sleep(time.Duration(dice.IntN(1000)) * time.Millisecond)
		}
	}
	switch dice.IntN(4) {
	case 0:
		c.Close()
	case 1:
		c.closeWrite()
	case 2:
		c.closeWrite()
		time.Sleep(time.Duration(dice.IntN(100)) * time.Millisecond)
		c.Close()
	}
}

// stormLines is what clients send; %d is a client.
var stormLines = strings.Split(`PING
GET a
GET b
GET c
SET a 1
SET b 1
INCR a
GET a
MGET a b c
DEL a b c
MSET a 1 b 2
MULTI
MULTI
MULTI
EXEC
EXEC
EXEC
EXEC
DISCARD
WATCH a
WATCH b
UNWATCH
DBSIZE
FLUSHALL
KEYS *
SCAN 0
RANDOMKEY
PUBLISH x y
SPUBLISH x y
SCRIPT LOAD x
SCRIPT EXISTS a
EVALSHA 11f6ad8ec52a2984abaafd7c3b516503785c2072 1 a
EVALSHA 11f6ad8ec52a2984abaafd7c3b516503785c2072 1 a
EVAL x 1 a
FCALL f 1 a
FUNCTION STATS
FUNCTION LIST
BLPOP a 1
BLPOP b 0
BLPOP a c 1
BLMOVE a a LEFT LEFT 1
XREAD BLOCK 500 STREAMS a $
XREAD BLOCK 0 STREAMS b $
WAIT 1 0
WAIT 1 500
WAITAOF 0 1 500
SUBSCRIBE x y
SUBSCRIBE z
PSUBSCRIBE x*
SSUBSCRIBE x
UNSUBSCRIBE
UNSUBSCRIBE x
PUNSUBSCRIBE
SUNSUBSCRIBE x
PUBSUB NUMSUB x
PUBSUB CHANNELS
CLIENT TRACKING ON
CLIENT TRACKING ON
CLIENT TRACKING ON BCAST
CLIENT TRACKING ON OPTIN
CLIENT TRACKING ON REDIRECT %d
CLIENT TRACKING OFF
CLIENT CACHING YES
CLIENT PAUSE 300
CLIENT PAUSE 300 WRITE
CLIENT UNPAUSE
CLIENT REPLY SKIP
CLIENT REPLY OFF
CLIENT REPLY ON
CLIENT LIST
CLIENT INFO
CLIENT ID
CLIENT KILL ID %d
CLIENT UNBLOCK %d
CLIENT UNBLOCK %d
CLIENT UNBLOCK %d ERROR
CLIENT UNBLOCK %d TIMEOUT
MONITOR
RESET
RESET
HELLO 3
HELLO 2
HELLO 3 AUTH bob x
HELLO 2 AUTH default x
AUTH bob x
AUTH default x
SELECT 0
SELECT 1
LOCK job
LOCK job PX 1000 WAIT 2000
LOCK job WAIT 500 KEEPALIVE
RLOCK job KEEPALIVE
WLOCK job WAIT 500 SYNC 1
LOCK job TRIES 3 EVERY 100
UNLOCK job
RENEW job
RENEW job KEEPALIVE
LOCKCTL INFO job
LOCKCTL LIST
LOCKCTL BREAK job
LOCKCTL STATS
INFO
CONFIG GET maxmemory
CONFIG SET maxmemory 1
SLOWLOG GET
SLOWLOG RESET
MEMORY USAGE a
SORT a BY x
COMMAND COUNT
LATENCY RESET
NOSUCH
GET
READONLY
READWRITE
ASKING
QUIT`, "\n")
