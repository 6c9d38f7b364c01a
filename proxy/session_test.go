package proxy

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe"
	"lockproxy/proxy/large"
	"lockproxy/proxy/memory"
)

// With three nodes the key "foo" lies on node 3, "bar" and "hello" on node 1,
// "a" on node 3, "b" on node 1, "mykey" on node 3, "key2" on node 1, "k" on node 2.

// echo answers with the node and the command.
func echo(node int, command string) string {
	return fmt.Sprintf("+%d %s\r\n", node, command)
}

func TestRepliesComeInTheOrderOfTheCommands(t *testing.T) {
	var slow chan struct{} // made in the bubble
	answer := func(node int, command string) string {
		if command == "GET foo" {
			<-slow
		}
		return echo(node, command)
	}
	inBubble(t, 3, Options{}, answer, func(r *rig) {
		slow = make(chan struct{})
		c := r.connect()
		c.send("GET foo", "GET bar", "PING", "GET k", "GET foo2")
		synctest.Wait()
		// The others were sent although the first is not answered yet.
		if got := r.commands(); !strings.Contains(got, "1: GET bar") || !strings.Contains(got, "2: GET k") {
			r.Errorf("the nodes saw only %s", got)
		}
		close(slow)
		c.expect("+3 GET foo\r\n+1 GET bar\r\n+PONG\r\n+2 GET k\r\n")
	})
}

// A command never overtakes an earlier one of its client that is redirected.
func TestNoCommandOvertakesARedirectedOne(t *testing.T) {
	answer := func(node int, command string) string {
		if node == 3 {
			return "-MOVED 12182 node:1\r\n"
		}
		return "+OK\r\n"
	}
	inBubble(t, 3, Options{}, answer, func(r *rig) {
		c := r.connect()
		c.send("SET foo 1")
		c.send("SET foo 2")
		c.expect("+OK\r\n+OK\r\n")
		got := r.commands()
		if i := strings.Index(got, "1: SET foo 1"); i < 0 || !strings.Contains(got[i:], "1: SET foo 2") {
			r.Errorf("the nodes saw %s", got)
		}
	})
}

// When the topology changes, what goes by the new one waits for what went by
// the old one.
func TestNoCommandOvertakesAcrossATopologyChange(t *testing.T) {
	hold, answer := holding("SET foo 1", func(int, string) string { return "+OK\r\n" })
	inBubble(t, 3, Options{}, answer, func(r *rig) {
		hold.begin()
		c := r.connect()
		c.send("SET foo 1")
		synctest.Wait()
		next := *r.topology
		next.Version++
		for s := range next.Slots {
			next.Slots[s] = next.Masters[0]
		}
		w := r.server.workers[0]
		w.loop.Post(func() { r.topology = &next; w.pool.Update() })
		synctest.Wait()
		c.send("SET foo 2")
		synctest.Wait()
		if got := r.commands(); got != "3: SET foo 1" {
			r.Errorf("the nodes saw %s", got)
		}
		hold.release()
		c.expect("+OK\r\n+OK\r\n")
		if got := r.commands(); got != "3: SET foo 1, 1: SET foo 2" {
			r.Errorf("the nodes saw %s", got)
		}
	})
}

func TestSplitAcrossSlots(t *testing.T) {
	answer := func(node int, command string) string {
		words := strings.Fields(command)
		switch words[0] {
		case "MGET":
			reply := fmt.Sprintf("*%d\r\n", len(words)-1)
			for _, key := range words[1:] {
				reply += fmt.Sprintf("$%d\r\n%s\r\n", len(key)+1, "="+key)
			}
			return reply
		case "DEL", "EXISTS":
			return fmt.Sprintf(":%d\r\n", len(words)-1)
		}
		return "+OK\r\n"
	}
	inBubble(t, 3, Options{}, answer, func(r *rig) {
		c := r.connect()
		c.send("MGET foo bar k {foo}2 bar", "DEL foo bar k", "MSET foo 1 bar 2 foo 3")
		c.expect("*5\r\n$4\r\n=foo\r\n$4\r\n=bar\r\n$2\r\n=k\r\n$7\r\n={foo}2\r\n$4\r\n=bar\r\n:3\r\n+OK\r\n")
		seen := r.commands()
		for _, want := range []string{"3: MGET foo {foo}2", "1: MGET bar bar", "2: MGET k",
			"3: MSET foo 1 foo 3",
			"1: MSET bar 2"} {
			if !strings.Contains(seen, want) {
				r.Errorf("no %q in %s", want, seen)
			}
		}
		c.send("RENAME foo bar")
		c.expect("-CROSSSLOT Keys in request don't hash to the same slot\r\n")
	})
}

func TestLostReplies(t *testing.T) {
	cut := map[string]bool{}
	answer := func(_ int, command string) string {
		if !cut[command] {
			cut[command] = true
			return ""
		}
		return "$1\r\nv\r\n"
	}
	inBubble(t, 1, Options{}, answer, func(r *rig) {
		c := r.connect()
		c.send("GET k")
		c.expect("$1\r\nv\r\n") // a read is sent again
		c.send("INCR k")
		c.expect("-ERR the connection was lost after the command was sent: it may or may not have run") // R33
	})
}

// A reply that breaks off in its middle cannot be mended: the client is closed.
func TestReplyCutInItsMiddle(t *testing.T) {
	n := 0
	answer := func(int, string) string {
		if n++; n == 1 {
			return "$10\r\nabc"
		}
		return ""
	}
	inBubble(t, 1, Options{}, answer, func(r *rig) {
		c := r.connect()
		c.send("GET k")
		c.expect("$10\r\nabc")
		c.send("GET k")
		c.expectClosed()
	})
}

func TestAuthentication(t *testing.T) {
	inBubble(t, 1, Options{Settings: Settings{Password: "secret"}}, echo, func(r *rig) {
		c := r.connect()
		c.send("GET k", "PING", "AUTH wrong", "AUTH secret", "GET k")
		c.expect("-NOAUTH Authentication required.\r\n-NOAUTH Authentication required.\r\n" +
			"-WRONGPASS invalid username-password pair or user is disabled.\r\n+OK\r\n+1 GET k\r\n")
		if seen := r.commands(); seen != "1: GET k" {
			r.Errorf("the node saw %s", seen)
		}
		// Limits are tighter before AUTH, as in Redis.
		c = r.connect()
		go c.Write([]byte("*11\r\n"))
		c.expect("-ERR Protocol error: unauthenticated multibulk length\r\n")
		c.expectClosed()
	})
}

func TestFramingThatRedisRefuses(t *testing.T) {
	inBubble(t, 1, Options{}, echo, func(r *rig) {
		for _, bytes := range []string{
			"*1\r\n$9223372036854775807\r\n", "*1\r\n$-2\r\n", "*1000000000\r\n",
			"*1\r\n$04\r\nPING\r\n", "*1\r\n:4\r\n",
		} {
			c := r.connect()
			go c.Write([]byte("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n" + bytes))
			c.expect("+1 GET k\r\n-ERR Protocol error: ")
			c.r.ReadString('\n')
			c.expectClosed()
		}
	})
}

// QUIT ends the connection behind the replies to what came before it.
func TestQuit(t *testing.T) {
	inBubble(t, 1, Options{}, func(int, string) string { return "+OK\r\n" }, func(r *rig) {
		c := r.connect()
		c.send("SET k v", "QUIT", "SET k w")
		c.expect("+OK\r\n+OK\r\n")
		c.expectClosed()
		if seen := r.commands(); seen != "1: SET k v" {
			r.Errorf("the node saw %s", seen)
		}
	})
}

// A client that goes while its replies are on their way harms nobody.
func TestClientGoesAway(t *testing.T) {
	hold, answer := holding("GET slow", echo)
	inBubble(t, 1, Options{}, answer, func(r *rig) {
		hold.begin()
		gone, stays := r.connect(), r.connect()
		gone.send("GET slow", "GET k", "MGET k k2")
		synctest.Wait()
		gone.Close()
		stays.send("GET mine")
		synctest.Wait()
		hold.release()
		stays.expect("+1 GET mine\r\n")
		synctest.Wait()
		if n := r.server.Clients(); n != 1 {
			r.Errorf("%d clients are left", n)
		}
	})
}

func TestDrain(t *testing.T) {
	hold, answer := holding("GET slow", echo)
	inBubble(t, 1, Options{}, answer, func(r *rig) {
		hold.begin()
		idle, busy := r.connect(), r.connect()
		busy.send("GET slow", "GET k")
		synctest.Wait()
		drained := make(chan struct{})
		go func() {
			r.server.Drain(r.Context())
			close(drained)
		}()
		idle.expectClosed()
		hold.release()
		busy.expect("+1 GET slow\r\n+1 GET k\r\n")
		busy.expectClosed()
		<-drained
	})
}

func TestIdleClientsAreClosed(t *testing.T) {
	inBubble(t, 1, Options{Settings: Settings{IdleTimeout: 10 * time.Second}}, echo, func(r *rig) {
		c := r.connect()
		time.Sleep(9 * time.Second)
		c.send("PING")
		c.expect("+PONG\r\n")
		time.Sleep(9 * time.Second)
		c.send("PING")
		c.expect("+PONG\r\n")
		start := time.Now()
		c.expectClosed()
		if idle := time.Since(start); idle > 12*time.Second {
			r.Errorf("closed after %v", idle)
		}
	})
}

func TestMaxClients(t *testing.T) {
	var o Options
	o.MaxClients = 1
	inBubble(t, 1, o, echo, func(r *rig) {
		r.connect().send("PING")
		synctest.Wait()
		here := r.connect()
		here.expect("-ERR max number of clients reached\r\n")
		here.expectClosed()
	})
}

// A client that does not read its replies is not read from either.
func TestBackpressure(t *testing.T) {
	big := strings.Repeat("x", 100<<10)
	answer := func(int, string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(big), big) }
	o := Options{Settings: Settings{Output: memory.Limits{Normal: memory.Limit{Hard: 32 << 20}}}}
	inBubble(t, 1, o, answer, func(r *rig) {
		c := r.connect()
		go func() {
			for range 1000 {
				if _, err := c.Write([]byte("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n")); err != nil {
					return
				}
			}
		}()
		synctest.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		if n := strings.Count(r.commands(), "GET"); n > large.FirstWindow+large.WindowBytes/len(big)+1 {
			r.Errorf("%d replies of 100 KiB were fetched for a client that reads none", n)
		}
		c.Close()
	})
}

// A slot that nobody serves is waited for; in the end its client hears so.
func TestUnservedSlot(t *testing.T) {
	o := Options{Pipes: pipe.Options{Budget: time.Second, MaxWait: 3 * time.Second}}
	inBubble(t, 1, o, echo, func(r *rig) {
		next := *r.topology
		next.Version++
		next.Slots[12182] = nil
		w := r.server.workers[0]
		two := append([]*cluster.Node{{Addr: "node:2", Master: true}}, next.Masters...)
		next.Masters = two
		w.loop.Post(func() { r.topology = &next; w.pool.Update() })
		c := r.connect()
		start := time.Now()
		c.send("SET foo 1")
		c.expect("-CLUSTERDOWN Hash slot not served\r\n")
		if took := time.Since(start); took < 3*time.Second || took > 4*time.Second {
			r.Errorf("it took %v", took)
		}
	})
}

// Commands of one client that any node may get go to one node: subscribers see
// its messages in order.
func TestPublishStaysInOrder(t *testing.T) {
	inBubble(t, 3, Options{}, func(int, string) string { return ":0\r\n" }, func(r *rig) {
		c := r.connect()
		c.send("PUBLISH news 1", "PUBLISH news 2", "PUBLISH news 3", "PUBLISH news 4")
		c.expect(":0\r\n:0\r\n:0\r\n:0\r\n")
		nodes := map[byte]bool{}
		for _, seen := range strings.Split(r.commands(), ", ") {
			nodes[seen[0]] = true
		}
		if len(nodes) != 1 {
			r.Errorf("the nodes saw %s", r.commands())
		}
	})
}

// Each protocol has connections of its own: what follows HELLO does not overtake
// what went before.
func TestNoCommandOvertakesAcrossHello(t *testing.T) {
	hold, answer := holding("SET foo 1", func(int, string) string { return "+OK\r\n" })
	inBubble(t, 1, Options{}, answer, func(r *rig) {
		hold.begin()
		c := r.connect()
		c.send("SET foo 1", "HELLO 3", "SET foo 2")
		synctest.Wait()
		if got := r.commands(); got != "1: SET foo 1" {
			r.Errorf("the nodes saw %s", got)
		}
		hold.release()
		c.expect("+OK\r\n%7\r\n")
		synctest.Wait()
		if got := r.commands(); got != "1: SET foo 1, 1: SET foo 2" {
			r.Errorf("the nodes saw %s", got)
		}
		c.Close()
	})
}
