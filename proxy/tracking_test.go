package proxy

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster/pipe"
	"lockproxy/cluster/pubsub"
	"lockproxy/internal/slot"
)

const (
	allInvalid = ">2\r\n$10\r\ninvalidate\r\n_\r\n"
	trackOn    = "CLIENT TRACKING ON"
)

// invalid is the push that tells of a key of one letter.
func invalid(key string) string {
	return ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\n" + key + "\r\n"
}

// keyAt is a key of one letter, the n-th that node i of nodes serves.
func keyAt(i, nodes, n int) string {
	for c := 'a'; ; c++ {
		if slot.Of([]byte(string(c)))*nodes/slot.Count == i-1 {
			if n--; n < 0 {
				return string(c)
			}
		}
	}
}

// trackingNode answers what every test needs, and the rest with answer.
func trackingNode(answer func(node int, command string) string) func(int, string) string {
	return func(node int, command string) string {
		switch {
		case command == "CLIENT ID":
			return fmt.Sprintf(":%d\r\n", 70+node)
		case strings.HasPrefix(command, "CLIENT "), strings.HasPrefix(command, "HELLO"):
			return "+OK\r\n"
		case command == "PING":
			return "+PONG\r\n"
		case strings.HasPrefix(command, "ACL DRYRUN "):
			return "+OK\r\n"
		}
		return answer(node, command)
	}
}

// hello3 has c speak RESP3.
func (c *testClient) hello3() {
	c.Helper()
	c.send("HELLO 3")
	for {
		line, err := c.r.ReadString('\n')
		if err != nil {
			c.Fatal(err)
		}
		if line == "*0\r\n" {
			return
		}
	}
}

// tell sends commands and reads what is wanted.
func (c *testClient) tell(want string, lines ...string) {
	c.Helper()
	c.send(lines...)
	c.expect(want)
}

// newTracker is a client of RESP3 that tracks.
func (r *rig) newTracker(options string) *testClient {
	c := r.connect()
	c.hello3()
	c.tell("+OK\r\n", strings.TrimSpace(trackOn+" "+options))
	return c
}

// sessionOf is the session of the client that has come as the n-th, from 1.
func (r *rig) sessionOf(n int64) *session {
	return r.server.shared.Clients.Find(n).(otherClient).s
}

// on has f run on the loop, and waits until all is quiet.
func (r *rig) on(f func()) {
	r.server.workers[0].loop.Post(f)
	synctest.Wait()
}

// An invalidation overtakes neither the answer that it is about nor part of one.
func TestInvalidationBehindAnswers(t *testing.T) {
	slow, quick, other := keyAt(1, 2, 0), keyAt(2, 2, 0), keyAt(2, 2, 1)
	inBubble(t, 2, Options{}, trackingNode(func(node int, command string) string {
		switch command {
		case "GET " + slow, "MGET " + slow:
			time.Sleep(time.Second)
			return "$4\r\nslow\r\n"
		case "GET " + quick:
			return "$5\r\nquick\r\n" + invalid(quick)
		case "MGET " + quick:
			return "*1\r\n$5\r\nquick\r\n" + invalid(quick)
		case "GET " + other:
			return invalid(other) + "$5\r\nother\r\n"
		}
		return "+OK\r\n"
	}), func(r *rig) {
		c := r.newTracker("")
		c.tell("$4\r\nslow\r\n$5\r\nquick\r\n"+invalid(quick), "GET "+slow, "GET "+quick)
		// What comes before the reply stays before it, where nothing else is waited for.
		c.tell(invalid(other)+"$5\r\nother\r\n", "GET "+other)
		// The halves of a divided command belong together.
		c.send("MGET " + slow + " " + quick)
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		if c.r.Buffered() > 0 {
			r.Error("an invalidation overtook the answer that it is about")
		}
		c.r.ReadString('\n')
		c.expect(invalid(quick))
	})
}

// The commands of a client that tracks are redirected and asked again as those of others, over connections
// that track too.
func TestTrackedCommandsAreRedirected(t *testing.T) {
	here, there, tries := keyAt(1, 2, 0), keyAt(2, 2, 0), 0
	var r *rig
	inBubble(t, 2, Options{}, trackingNode(func(node int, command string) string {
		switch {
		case command == "GET "+here && node == 1:
			return fmt.Sprintf("-MOVED %d node:2\r\n", slot.Of([]byte(here)))
		case command == "GET x" && node != 2:
			return fmt.Sprintf("-ASK %d node:2\r\n", slot.Of([]byte("x")))
		case command == "GET "+there:
			if tries++; tries == 1 {
				return "-LOADING Redis is loading the dataset in memory\r\n"
			}
		}
		return fmt.Sprintf(":%d\r\n", node)
	}), func(rig *rig) {
		r = rig
		c := r.newTracker("NOLOOP")
		c.tell(allInvalid+":2\r\n", "GET "+here) // node 1 has lost slots
		c.tell(":2\r\n:2\r\n", "GET "+there, "GET "+keyAt(2, 2, 1))
		if tries != 2 {
			r.Errorf("asked %d times", tries)
		}
		for node := 1; node <= 2; node++ {
			want := fmt.Sprintf("%d: CLIENT TRACKING ON NOLOOP", node)
			if !strings.Contains(r.commands(), want) {
				r.Errorf("%s is not among %s", want, r.commands())
			}
		}
	})
	// What was read where ASK said is not looked after if the slot stays where it was.
	asked := keyAt(1, 2, 1)
	inBubble(t, 2, Options{}, trackingNode(func(node int, command string) string {
		if command == "GET "+asked && node == 1 {
			return fmt.Sprintf("-ASK %d node:2\r\n", slot.Of([]byte(asked)))
		}
		return "$1\r\nv\r\n"
	}), func(r *rig) {
		c := r.newTracker("OPTIN")
		c.tell("+OK\r\n$1\r\nv\r\n"+allInvalid, "CLIENT CACHING YES", "GET "+asked)
		if want := "2: ASKING, 2: GET " + asked; !strings.Contains(r.commands(), want) {
			r.Errorf("%s is not among %s", want, r.commands())
		}
	})
}

// When a connection is lost the client is told that all it knows is old; reads are asked again, writes are
// not.
func TestTrackedConnectionIsLost(t *testing.T) {
	cuts := 0
	inBubble(t, 1, Options{}, trackingNode(func(_ int, command string) string {
		switch command {
		case "GET k":
			if cuts++; cuts == 1 {
				return ""
			}
			return "$1\r\nv\r\n"
		case "SET k v":
			return ""
		}
		return "+OK\r\n"
	}), func(r *rig) {
		c := r.newTracker("")
		c.tell(allInvalid+"$1\r\nv\r\n", "GET k")
		c.send("SET k v", "PING")
		line, _ := c.r.ReadString('\n')
		if !strings.Contains(line, "may or may not have run") {
			r.Errorf("the answer is %q", line)
		}
		c.expect("+PONG\r\n" + allInvalid)
		if got := strings.Count(r.commands(), trackOn); got != 2 {
			r.Errorf("%d connections tracked: %s", got, r.commands())
		}
	})
}

// When slots leave a node what was read there is old, whether or not anything is asked.
func TestTrackedSlotMoves(t *testing.T) {
	key := keyAt(1, 2, 0)
	inBubble(t, 2, Options{}, trackingNode(func(node int, command string) string {
		return fmt.Sprintf(":%d\r\n", node)
	}), func(r *rig) {
		c := r.newTracker("")
		c.tell(":1\r\n", "GET "+key)
		moved := *r.topology
		moved.Version++
		moved.Slots[slot.Of([]byte(key))] = moved.Masters[1]
		r.on(func() {
			r.topology = &moved
			r.server.workers[0].pool.Update()
		})
		c.expect(allInvalid)
		c.tell(":2\r\n", "GET "+key)
	})
}

// CLIENT CACHING stands in front of the command behind it, wherever that goes and however often, and of no
// other.
func TestCaching(t *testing.T) {
	key, cut := keyAt(2, 2, 0), true
	inBubble(t, 2, Options{}, trackingNode(func(_ int, command string) string {
		if command == "GET "+key && cut {
			cut = false
			return ""
		}
		return "$1\r\nv\r\n"
	}), func(r *rig) {
		c := r.newTracker("OPTIN")
		c.tell("+OK\r\n"+allInvalid+"$1\r\nv\r\n$1\r\nv\r\n", "CLIENT CACHING yes", "GET "+key,
			"GET "+keyAt(2, 2, 1))
		want := fmt.Sprintf("2: CLIENT CACHING YES, 2: GET %[1]s, 2: CLIENT ID, 2: CLIENT TRACKING ON "+
			"OPTIN, 2: CLIENT CACHING YES, 2: GET %[1]s", key)
		if got := r.commands(); !strings.Contains(got, want) || strings.Count(got, "CACHING") != 2 {
			r.Errorf("sent %s", got)
		}
	})
}

// A node that refuses to track is not taken for one that does.
func TestTrackingRefused(t *testing.T) {
	for _, options := range []string{"", "BCAST", "REDIRECT 1"} {
		refuses := true
		inBubble(t, 2, Options{}, func(node int, command string) string {
			switch {
			case refuses && strings.HasPrefix(command, trackOn):
				return "-NOPERM no tracking for you\r\n"
			case command == "CLIENT ID":
				return ":7\r\n"
			}
			return "+OK\r\n"
		}, func(r *rig) {
			c := r.connect()
			c.tell("-NOPERM no tracking for you\r\n+OK\r\n:-1\r\n",
				strings.TrimSpace(trackOn+" "+options), "GET k",
				"CLIENT GETREDIR")
			r.on(func() {
				if s := r.sessionOf(1); s.own.Set() != nil || s.Tracking.On {
					r.Error("it tracks")
				}
			})
			refuses = false
			c.tell("+OK\r\n", strings.TrimSpace(trackOn+" "+options))
			refuses = true
			if options == "" { // options that the node does not like end it
				c.tell("-NOPERM no tracking for you\r\n:-1\r\n", trackOn+" NOLOOP", "CLIENT GETREDIR")
			}
		})
	}
}

// Invalidations for another client reach it in its protocol, and if it is gone the client that redirects
// learns that.
func TestTrackingRedirect(t *testing.T) {
	inBubble(t, 1, Options{}, trackingNode(func(_ int, command string) string { return "$1\r\nv\r\n" }),
		func(r *rig) {
			source := r.connect()
			synctest.Wait() // or it may come second
			target := r.connect()
			synctest.Wait()
			source.tell("+OK\r\n$1\r\nv\r\n", "CLIENT TRACKING ON REDIRECT 2", "GET k")
			if want := "1: CLIENT TRACKING ON REDIRECT 71"; !strings.Contains(r.commands(), want) {
				r.Errorf("%s is not among %s", want, r.commands())
			}
			told := func(text string) { r.on(func() { r.sessionOf(1).tracking.Push([]byte(text)) }) }
			told(invalid("k")) // it is lost: nothing is subscribed to
			r.on(func() { r.sessionOf(2).Topics[pubsub.Classic] = 1 })
			told(invalid("k"))
			target.expect("*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*1\r\n$1\r\nk\r\n")
			r.on(func() { r.sessionOf(1).tracking.Stale() })
			target.expect("*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n$-1\r\n")
			r.on(func() { r.sessionOf(2).Topics[pubsub.Classic] = 0 })
			target.hello3()
			told(invalid("k"))
			target.expect(invalid("k"))
			target.Close()
			synctest.Wait()
			told(invalid("k")) // RESP2 is not told that nobody hears it
			source.tell("*6\r\n$5\r\nflags\r\n*2\r\n$2\r\non\r\n$15\r\nbroken_redirect\r\n$8\r\n"+
				"redirect\r\n:2\r\n",
				"CLIENT TRACKINGINFO")
			source.expect("$8\r\nprefixes\r\n*0\r\n")
			source.hello3()
			told(invalid("k"))
			source.expect(">2\r\n$21\r\ntracking-redir-broken\r\n:2\r\n")
			// Not redirected any more: what was read before stays tracked, over the same connection.
			source.tell("+OK\r\n", trackOn)
			told(invalid("k"))
			source.expect(invalid("k"))
			if got := strings.Count(r.commands(), "CLIENT ID"); got != 2 {
				r.Errorf("%d connections of its own were made", got)
			}
			if s := r.commands(); !strings.Contains(s, "1: HELLO 3, 1: CLIENT TRACKING ON") {
				r.Errorf("sent %s", s)
			}
		})
}

// However tracking ends, the connections of the client end, and what was sent is answered.
func TestTrackingEnds(t *testing.T) {
	for name, end := range map[string]func(c *testClient){
		"off": func(c *testClient) {
			c.tell("$1\r\nv\r\n+OK\r\n$1\r\nv\r\n", "GET k", "CLIENT TRACKING OFF",
				"GET k")
		},
		"reset": func(c *testClient) {
			c.tell("$1\r\nv\r\n+RESET\r\n$1\r\nv\r\n", "GET k", "RESET", "GET k")
		},
		"quit":  func(c *testClient) { c.tell("$1\r\nv\r\n+OK\r\n", "GET k", "QUIT"); c.expectClosed() },
		"close": func(c *testClient) { c.send("GET k"); c.Close() },
	} {
		for _, options := range []string{"", "BCAST", "REDIRECT 1"} {
			inBubble(t, 2, Options{}, trackingNode(func(_ int, command string) string {
				time.Sleep(100 * time.Millisecond)
				return "$1\r\nv\r\n"
			}), func(r *rig) {
				end(r.newTracker(options))
				time.Sleep(time.Second)
				synctest.Wait()
				for _, n := range r.server.Stats().Nodes {
					if n.Connections > 1 { // the shared one
						r.Errorf("%s %s: %d connections to %s", name, options, n.Connections, n.Addr)
					}
				}
				if got := strings.Count(r.commands(), "GET k"); name == "close" && got != 1 {
					r.Errorf("%s %s: the command ran %d times", name, options, got)
				}
			})
		}
	}
}

// In broadcasting mode each master is listened to from the answer on; one that is lost is listened to again,
// and until then anything may have changed.
func TestTrackingBroadcast(t *testing.T) {
	inBubble(t, 3, Options{}, trackingNode(func(_ int, command string) string {
		if command == "GET cut" {
			return ""
		}
		return "+OK\r\n"
	}), func(r *rig) {
		c := r.newTracker("BCAST PREFIX a PREFIX b")
		for node := 1; node <= 3; node++ {
			if want := fmt.Sprintf("%d: CLIENT TRACKING ON BCAST PREFIX a PREFIX b",
				node); !strings.Contains(r.commands(), want) {
				r.Errorf("%s is not among %s", want, r.commands())
			}
		}
		c.tell("+OK\r\n", trackOn+" BCAST PREFIX c")
		if got := strings.Count(r.commands(), "CLIENT TRACKING ON BCAST PREFIX c"); got != 3 {
			r.Errorf("%d nodes know of the new prefix", got)
		}
		r.on(func() {
			p := r.server.workers[0].pool.Own("node:1", r.sessionOf(1).Mode(), lostOwner{})
			p.End()
		})
		c.expect(allInvalid) // lost
		c.expect(allInvalid) // and there again
		want := "1: CLIENT TRACKING ON BCAST PREFIX a PREFIX b PREFIX c"
		if !strings.Contains(r.commands(), want) {
			r.Errorf("%s is not among %s", want, r.commands())
		}
	})
}

type lostOwner struct{}

func (lostOwner) Push([]byte, bool) {}
func (lostOwner) Lost(error)        {}

// The connections of clients that track count among those that are not shared.
func TestTrackingIsBounded(t *testing.T) {
	o := Options{Pipes: pipe.Options{MaxOwn: 1, Budget: time.Second}}
	inBubble(t, 1, o, trackingNode(func(int, string) string { return "+OK\r\n" }), func(r *rig) {
		first, second := r.newTracker(""), r.connect()
		second.send(trackOn)
		line, _ := second.r.ReadString('\n')
		if !strings.Contains(line, "all connections that are not shared are in use") {
			r.Errorf("the answer is %q", line)
		}
		second.tell("+OK\r\n:-1\r\n", "GET k", "CLIENT GETREDIR")
		first.Close()
		synctest.Wait()
		second.tell("+OK\r\n:0\r\n", trackOn, "CLIENT GETREDIR")
	})
}

// HELLO is answered when the nodes push in the new protocol, behind earlier answers and before later ones.
func TestTrackingHello(t *testing.T) {
	inBubble(t, 1, Options{}, func(_ int, command string) string {
		switch command {
		case "CLIENT ID":
			return ":7\r\n"
		case "GET slow":
			time.Sleep(time.Second)
			return "$4\r\nslow\r\n"
		case "HELLO 3":
			time.Sleep(time.Second)
		case "GET k":
			return "$1\r\nv\r\n"
		}
		return "+OK\r\n"
	}, func(r *rig) {
		c := r.connect()
		c.tell("+OK\r\n", trackOn)
		began := time.Now()
		c.send("GET slow", "HELLO 3 SETNAME me", "GET k", "HELLO 4", "HELLO")
		c.expect("$4\r\nslow\r\n%7\r\n")
		if took := time.Since(began); took < 2*time.Second {
			r.Errorf("answered after %v", took)
		}
		for line := ""; line != "*0\r\n"; {
			line, _ = c.r.ReadString('\n')
		}
		c.expect("$1\r\nv\r\n-NOPROTO unsupported protocol version\r\n%7\r\n")
		for line := ""; line != "*0\r\n"; {
			line, _ = c.r.ReadString('\n')
		}
		c.tell("+PONG\r\n", "PING")
		r.on(func() {
			if s := r.sessionOf(1); s.answers.len() != 0 || s.hold != 0 || s.own.Turning() {
				r.Errorf("%d answers, hold %b", s.answers.len(), s.hold)
			}
		})
		if !strings.HasSuffix(r.commands(), "1: GET slow, 1: HELLO 3, 1: GET k") {
			r.Errorf("sent %s", r.commands())
		}
	})
}
