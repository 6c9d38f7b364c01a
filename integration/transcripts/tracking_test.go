package transcripts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// trackingTalk is a conversation about tracking: a line of words is sent by t, which tracks and speaks RESP3,
// by o, another such client, or by w, which only writes; behind "<" stands what comes next, a push if nothing
// was sent.
const trackingTalk = `
t CLIENT TRACKING on                     < OK
w SET k 1                                < OK
t GET k                                  < "1"
w SET k 2                                < OK
t                                        < (push) ["invalidate", ["k"]]
w SET k 3                                < OK
t MGET k other                           < ["3", (nil)]
w MSET {k}1 v {k}2 v                     < OK
w SET other v                            < OK
t                                        < (push) ["invalidate", ["other"]]
t SET k 4                                < OK
t                                        < (push) ["invalidate", ["k"]]
t EVAL return(redis.call('get',KEYS[1])) 1 k < "4"
w DEL k                                  < (integer) 1
t                                        < (push) ["invalidate", ["k"]]
t SCRIPT LOAD return(redis.call('get',KEYS[1]))< "c77382aa965ed715a9230ae8a1d2409e254c2b00"
w RPUSH {k}l 2 1                         < (integer) 2
t MULTI                                  < OK
t SORT {k}l                              < QUEUED
t EVALSHA c77382aa965ed715a9230ae8a1d2409e254c2b00 1 k< QUEUED
t EXEC                                   < [["1", "2"], (nil)]
w SET k 1                                < OK
t                                        < (push) ["invalidate", ["k"]]
w DEL {k}l                               < (integer) 1
w DEL k                                  < (integer) 1
t CLIENT TRACKING on NOLOOP              < OK
t GET k                                  < (nil)
t SET k 1                                < OK
t GET k                                  < "1"
w SET k 2                                < OK
t                                        < (push) ["invalidate", ["k"]]
t CLIENT TRACKING on OPTIN               < OK
t GET k                                  < "2"
w SET k 3                                < OK
t CLIENT CACHING YES                     < OK
t CLIENT GETREDIR                        < (integer) 0
t GET k                                  < "3"
t GET other                              < "v"
w SET other 2                            < OK
w SET k 4                                < OK
t                                        < (push) ["invalidate", ["k"]]
t CLIENT CACHING YES                     < OK
t MULTI                                  < OK
t PTTL k                                 < QUEUED
t GET k                                  < QUEUED
t EXEC                                   < [(integer) -1, "4"]
t GET other                              < "2"
w SET other 2                            < OK
w SET k 4                                < OK
t                                        < (push) ["invalidate", ["k"]]
t MULTI                                  < OK
t GET {k}1                               < QUEUED
t CLIENT CACHING YES                     < QUEUED
t GET k                                  < QUEUED
t EXEC                                   < ["v", OK, "4"]
t GET other                              < "2"
w SET {k}1 v                             < OK
w SET other 2                            < OK
w SET k 4                                < OK
t                                        < (push) ["invalidate", ["k"]]
t CLIENT TRACKING off                    < OK
t CLIENT TRACKING on OPTOUT              < OK
t CLIENT CACHING NO                      < OK
t GET k                                  < "4"
t GET other                              < "2"
w SET k 5                                < OK
w SET other 3                            < OK
t                                        < (push) ["invalidate", ["other"]]
o CLIENT TRACKING on BCAST PREFIX a: PREFIX b: < OK
o CLIENT TRACKING on BCAST PREFIX c:     < OK
w SET x:1 v                              < OK
w SET b:1 v                              < OK
o                                        < (push) ["invalidate", ["b:1"]]
w SET c:1 v                              < OK
o                                        < (push) ["invalidate", ["c:1"]]
o SET a:1 v                              < OK
o                                        < (push) ["invalidate", ["a:1"]]
o CLIENT TRACKINGINFO                    < {"flags" => (set) ["on", "bcast"], "redirect" => (integer) 0, "prefixes" => ["a:", "b:", "c:"]}
o CLIENT TRACKING off                    < OK
w SET b:1 w                              < OK
t CLIENT TRACKING off                    < OK
t CLIENT TRACKING on REDIRECT o          < OK
t GET k                                  < "5"
w SET k 6                                < OK
o                                        < (push) ["invalidate", ["k"]]
t CLIENT TRACKING on                     < OK
t GET k                                  < "6"
t HELLO 2                                < <any>
t HELLO 3                                < <any>
w SET k 7                                < OK
t                                        < (push) ["invalidate", ["k"]]
t GET k                                  < "7"
w FLUSHALL                               < OK
t                                        < (push) ["invalidate", (nil)]
w MSET k 1 other 1                       < OK
t MULTI                                  < OK
t GET k                                  < QUEUED
t EXEC                                   < ["1"]
w SET k 2                                < OK
t                                        < (push) ["invalidate", ["k"]]
t WATCH k                                < OK
t MULTI                                  < OK
t GET k                                  < QUEUED
t EXEC                                   < ["2"]
w SET k 3                                < OK
t                                        < (push) ["invalidate", ["k"]]
t MULTI                                  < OK
t GET k                                  < QUEUED
t SET k 4                                < QUEUED
t EXEC                                   < ["3", OK]
t                                        < (push) ["invalidate", ["k"]]
t CLIENT TRACKING on OPTIN               < OK
t CLIENT CACHING YES                     < OK
t MULTI                                  < OK
t GET k                                  < QUEUED
t MGET k {k}1                            < QUEUED
t EXEC                                   < ["4", ["4", (nil)]]
t GET k                                  < "4"
w SET k 5                                < OK
t                                        < (push) ["invalidate", ["k"]]
w SET {k}1 1                             < OK
t                                        < (push) ["invalidate", ["{k}1"]]
t MULTI                                  < OK
t GET k                                  < QUEUED
t CLIENT CACHING yes                     < QUEUED
t GET {k}1                               < QUEUED
t EXEC                                   < ["5", OK, "1"]
t GET k                                  < "5"
w SET k 6                                < OK
w SET {k}1 2                             < OK
t                                        < (push) ["invalidate", ["{k}1"]]
t CLIENT CACHING YES                     < OK
t WATCH k                                < OK
t MULTI                                  < OK
t GET k                                  < QUEUED
t CLIENT CACHING no                      < QUEUED
t EXEC                                   < ["6", (error) ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.]
w SET k 7                                < OK
t CLIENT CACHING YES                     < OK
t MULTI                                  < OK
t GET k                                  < QUEUED
t DISCARD                                < OK
t GET k                                  < "7"
w SET k 8                                < OK
t CLIENT CACHING YES                     < OK
t XREAD BLOCK 1 STREAMS s 0              < (nil)
w XADD s 1-1 a b                         < "1-1"
t                                        < (push) ["invalidate", ["s"]]
t CLIENT TRACKING off                    < OK
t CLIENT TRACKING on OPTOUT              < OK
t CLIENT CACHING no                      < OK
t MULTI                                  < OK
t GET k                                  < QUEUED
t EXEC                                   < ["8"]
w SET k 9                                < OK
t XREAD BLOCK 1 STREAMS s 1-1            < (nil)
w XADD s 1-2 a b                         < "1-2"
t                                        < (push) ["invalidate", ["s"]]
t CLIENT TRACKING off                    < OK
t CLIENT TRACKING on NOLOOP              < OK
t MULTI                                  < OK
t GET k                                  < QUEUED
t SET k 1                                < QUEUED
t GET k                                  < QUEUED
t EXEC                                   < ["9", OK, "1"]
w SET k 2                                < OK
t                                        < (push) ["invalidate", ["k"]]
t CLIENT TRACKING off                    < OK
t CLIENT TRACKING on REDIRECT o          < OK
t MULTI                                  < OK
t GET k                                  < QUEUED
t EXEC                                   < ["2"]
w SET k 3                                < OK
o                                        < (push) ["invalidate", ["k"]]
t CLIENT TRACKING off                    < OK
t CLIENT CACHING YES                     < (error) ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled
t CLIENT TRACKING on BCAST               < OK
t MULTI                                  < OK
t SET k 4                                < QUEUED
t EXEC                                   < [OK]
t                                        < (push) ["invalidate", ["k"]]
t CLIENT TRACKING off                    < OK
t PING                                   < PONG
o PING                                   < PONG
`

// TestTracking proves that clients are told what Redis tells them, through a proxy, from one to another, and
// in front of a cluster.
func TestTracking(t *testing.T) {
	t.Parallel()
	bare := rig.StartRedis(t)
	redis := rig.StartRedis(t)
	nodes := rig.StartCluster(t, 3, 0)
	start := func(upstream string) string { return rig.StartProxy(t, "--upstream", upstream).Addr }
	one, two := start(redis.Addr), start(redis.Addr)
	first, second := start(nodes.Addrs()), start(nodes.Addrs())
	for name, addrs := range map[string][2]string{
		"bare": {bare.Addr, bare.Addr}, "single": {one, one}, "single, two proxies": {one, two},
		"cluster": {first, first}, "cluster, two proxies": {first, second},
	} {
		t.Run(name, func(t *testing.T) { talkOfTracking(t, addrs) })
	}
	t.Run("leaves nothing", func(t *testing.T) { trackingLeavesNothing(t, nodes, first) })
}

// talkOfTracking has the conversation, with w at the second of the addresses.
func talkOfTracking(t *testing.T, addrs [2]string) {
	conns := map[string]*rig.Conn{"t": rig.Connect(t, addrs[0]), "o": rig.Connect(t, addrs[0]),
		"w": rig.Connect(t, addrs[1])}
	conns["w"].Must(t, "FLUSHALL")
	conns["t"].Must(t, "HELLO", "3")
	other := conns["o"].Must(t, "HELLO", "3").Field("id").String()
	other = strings.TrimPrefix(other, "(integer) ")
	for n, line := range strings.Split(strings.TrimSpace(trackingTalk), "\n") {
		said, want, _ := strings.Cut(line, "<")
		words, want := strings.Fields(said), strings.TrimSpace(want)
		c := conns[words[0]]
		if words = words[1:]; len(words) > 0 {
			if i := slices.Index(words, "o"); i > 0 {
				words[i] = other
			}
			c.Send(words...)
		}
		got, err := c.Receive(rig.Patience)
		if err != nil || want != "<any>" && got.String() != want {
			t.Fatalf("line %d, %s: got %s (%v), want %s", n+1, strings.TrimSpace(said), got, err, want)
		}
	}
	for name, c := range conns {
		if !c.Silent(50 * time.Millisecond) {
			t.Errorf("%s is told more", name)
		}
	}
}

// cache is a client that believes what it has read until it is told otherwise.
type cache struct {
	*rig.Conn
	values map[string]string
	told   int // times that all was invalid
}

func newCache(t *testing.T, addr string, options ...string) *cache {
	c := &cache{Conn: rig.Connect(t, addr), values: make(map[string]string)}
	c.Must(t, "HELLO", "3")
	c.Must(t, append([]string{"CLIENT", "TRACKING", "ON"}, options...)...)
	return c
}

// hear takes a push into account, and says whether v is one.
func (c *cache) hear(v rig.Reply) bool {
	if v.Kind != '>' || v.Elems[0].Text != "invalidate" {
		return false
	}
	if v.Elems[1].Null {
		clear(c.values)
		c.told++
	}
	for _, key := range v.Elems[1].Elems {
		delete(c.values, key.Text)
	}
	return true
}

// get reads a key if it has to. Errors are left to the next time.
func (c *cache) get(key string) error {
	if _, ok := c.values[key]; ok {
		return nil
	}
	if err := c.Send("GET", key); err != nil {
		return err
	}
	for {
		v, err := c.Receive(rig.Patience)
		if err != nil {
			return err
		}
		if c.hear(v) {
			continue
		}
		if !v.IsError() {
			c.values[key] = v.String()
		}
		return nil
	}
}

// listen takes what comes within d.
func (c *cache) listen(d time.Duration) error {
	for end := time.Now().Add(d); time.Now().Before(end); {
		if c.Silent(time.Until(end)) {
			return nil
		}
		v, err := c.Receive(rig.Patience)
		if err != nil {
			return err
		}
		if !c.hear(v) {
			return fmt.Errorf("told %s", v)
		}
	}
	return nil
}

// old are the keys of which the cache believes something else than a reader finds.
func (c *cache) old(t *testing.T, reader *rig.Conn) (keys []string) {
	for key, value := range c.values {
		if now := reader.Call(t, "GET", key).String(); now != value {
			keys = append(keys, fmt.Sprintf("%s: %s, not %s", key, value, now))
		}
	}
	return keys
}

// neverOld has clients with caches read while others write through another proxy and trouble comes. Nothing
// that a client believes in the end may be old.
func neverOld(t *testing.T, reads, writes string, trouble func()) {
	t.Helper()
	var keys []string
	for i := range 60 {
		keys = append(keys, "key"+strconv.Itoa(i))
	}
	writer := rig.Connect(t, writes)
	for i, key := range keys {
		if i%3 > 0 { // the others are not there
			writer.Must(t, "SET", key, "first")
		}
	}
	modes := [][]string{{}, {"NOLOOP"}, {"OPTOUT"}, {"BCAST"}, {"BCAST", "PREFIX", "key"}}
	errs := make(chan error)
	end := make(chan struct{})
	caches := make([]*cache, len(modes))
	for i, mode := range modes {
		caches[i] = newCache(t, reads, mode...)
	}
	for _, c := range caches {
		go func() { // ends with end, or with the connection
			for i := 0; ; i++ {
				select {
				case <-end:
					errs <- c.listen(time.Millisecond)
					return
				default:
				}
				err := c.get(keys[i%len(keys)])
				if err == nil && i%len(keys) == 0 {
					err = c.listen(20 * time.Millisecond)
				}
				if err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	written := make(chan struct{})
	go func() { // ends with end
		defer close(written)
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			case <-time.After(2 * time.Millisecond):
			}
			writer.Call(t, "SET", keys[i*7%len(keys)], strconv.Itoa(i)) // whatever comes of it
		}
	}()
	time.Sleep(300 * time.Millisecond)
	trouble()
	time.Sleep(time.Second)
	close(end)
	<-written
	for range caches {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	reader := rig.Connect(t, writes)
	for i, c := range caches {
		var old []string
		// what is on its way arrives
		rig.Eventually(t, rig.Patience, fmt.Sprintf("%q knows better", modes[i]), func() bool {
			if err := c.listen(100 * time.Millisecond); err != nil {
				t.Fatal(err)
			}
			old = c.old(t, reader)
			return len(old) == 0
		})
		t.Logf("%q: %d keys known, all was invalid %d times", modes[i], len(c.values), c.told)
	}
}

// TestTrackedReadsAreNeverOld proves it while nodes die, fail over and give slots away.
func TestTrackedReadsAreNeverOld(t *testing.T) {
	t.Parallel()
	t.Run("restart", func(t *testing.T) {
		t.Parallel()
		redis := rig.StartRedis(t)
		a, b := rig.StartProxy(t, "--upstream", redis.Addr), rig.StartProxy(t, "--upstream", redis.Addr)
		neverOld(t, a.Addr, b.Addr, func() { redis.Restart(t) })
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		group := rig.StartSentinels(t)
		a, b := rig.StartProxy(t, "--upstream", group.Addrs()), rig.StartProxy(t, "--upstream", group.Addrs())
		neverOld(t, a.Addr, b.Addr, func() {
			group.Master.Kill()
			group.Promoted(t)
		})
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		nodes := rig.StartCluster(t, 3, 1)
		a, b := rig.StartProxy(t, "--upstream", nodes.Addrs()), rig.StartProxy(t, "--upstream", nodes.Addrs())
		t.Run("nothing", func(t *testing.T) { slotOfNothing(t, nodes, a.Addr, b.Addr) })
		t.Run("slots", func(t *testing.T) {
			neverOld(t, a.Addr, b.Addr, func() {
				for i := range 6 {
					key := "key" + strconv.Itoa(i*3)
					from := nodes.MasterOf(t, key)
					to := nodes.Nodes[0]
					if to == from {
						to = nodes.Nodes[1]
					}
					nodes.Migrate(t, nodes.SlotOf(t, key), from, to, 5*time.Millisecond)
				}
			})
		})
		t.Run("failover", func(t *testing.T) {
			neverOld(t, a.Addr, b.Addr, func() {
				master := nodes.MasterOf(t, "key0")
				replica := nodes.ReplicasOf(t, master)[0]
				replica.Promote(t)
				rig.Eventually(t, 2*rig.Patience, "fail-over",
					func() bool { return nodes.MasterOf(t, "key0") == replica })
			})
		})
		t.Run("kill", func(t *testing.T) {
			neverOld(t, a.Addr, b.Addr, func() {
				master := nodes.MasterOf(t, "key1")
				master.Kill()
				nodes.DeadAfter("2000")
				rig.Eventually(t, 3*rig.Patience, "fail-over",
					func() bool { return nodes.MasterOf(t, "key1") != master })
			})
		})
	})
}

// slotOfNothing proves that a client which knows that a key is not there learns when the slot has gone to
// another node, where the key may be made without a word of the first.
func slotOfNothing(t *testing.T, nodes *rig.Cluster, reads, writes string) {
	c := newCache(t, reads)
	if err := c.get("nothing"); err != nil || c.values["nothing"] != "(nil)" {
		t.Fatalf("%v (%v)", c.values, err)
	}
	from, to := nodes.Nodes[0], nodes.Nodes[1]
	if nodes.MasterOf(t, "nothing") == to {
		from, to = to, from
	}
	nodes.Migrate(t, nodes.SlotOf(t, "nothing"), from, to, 0)
	rig.Connect(t, writes).Must(t, "SET", "nothing", "something")
	rig.Eventually(t, rig.Patience, "told", func() bool {
		if err := c.listen(100 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		return len(c.values) == 0
	})
}

// trackingLeavesNothing proves that the connections of clients that track end with them. Nobody else uses the
// nodes.
func trackingLeavesNothing(t *testing.T, nodes *rig.Cluster, addr string) {
	connections := func() (n int64) {
		for _, node := range nodes.Nodes {
			n += int64(strings.Count(node.Do(t, "CLIENT", "LIST").Text, "name=lockproxy"))
		}
		return n
	}
	for i := range 30 { // the shared ones
		for _, proto := range []string{"2", "3"} {
			c := rig.Connect(t, addr)
			c.Must(t, "HELLO", proto)
			c.Must(t, "SET", "key"+strconv.Itoa(i), "v")
			c.Close()
		}
	}
	before := connections()
	ends := []func(c *rig.Conn){
		func(c *rig.Conn) { c.Must(t, "CLIENT", "TRACKING", "OFF") },
		func(c *rig.Conn) { c.Must(t, "RESET") },
		func(c *rig.Conn) { c.Must(t, "QUIT") },
		func(c *rig.Conn) { c.Send("GET", "key1"); c.Close() },
	}
	for i, end := range ends {
		target := rig.Connect(t, addr)
		id := target.Must(t, "CLIENT", "ID").Int()
		for _, options := range [][]string{{}, {"BCAST"}, {"REDIRECT", fmt.Sprint(id)},
			{"BCAST", "REDIRECT", fmt.Sprint(id)}} {
			c := rig.Connect(t, addr)
			c.Must(t, append([]string{"CLIENT", "TRACKING", "ON"}, options...)...)
			for j := range 30 {
				c.Must(t, "GET", "key"+strconv.Itoa(j))
			}
			if n := connections(); n < before+3 {
				t.Errorf("%d connections for %q, %d before", n, options, before)
			}
			end(c)
		}
		// Two idle ones may have been kept, for whoever needs one next.
		rig.Eventually(t, rig.Patience, fmt.Sprintf("connections gone, way %d", i),
			func() bool { return connections() <= before })
	}
}
