package pipe

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/internal/scripted"
)

// Push and Stale make a keeper an owned.SetOwner.
type privateKeeper struct{ *keeper }

func (k privateKeeper) Push(message []byte) { k.note("push %q", message) }
func (k privateKeeper) Stale()              { k.note("stale") }

// setup says a word on each connection.
func setup(word string) owned.Setup {
	return owned.Setup{
		Requests: func(fresh bool, redirect int64) [][]byte {
			return [][]byte{command(word, fmt.Sprint(fresh), fmt.Sprint(redirect))}
		},
		Before: command("BEFORE"),
	}
}

func (r *rig) private(k *keeper, s owned.Setup) (o *owned.Set) {
	r.own(func() {
		o = r.pool.Private(Mode{Proto: 3}, privateKeeper{k}, nil)
		o.Configure(s, nil)
	})
	return o
}

// TestPrivate proves that requests over a set go the same ways as others, over connections that are set up
// first and closed last.
func TestPrivate(t *testing.T) {
	inOwnBubble(t, Options{}, func(t *testing.T, r *rig, node *scripted.Node) {
		var k keeper
		o := r.private(&k, setup("ONE"))
		send := func(word string, tag uint32) { r.send(ModeOf(o), &k, tag, true, word) }
		r.own(func() { send("GET", 1); send("PUSH", 2) })
		k.want(t, "set", `1 "+OK\r\n"`, `push ">1\r\n+x\r\n"`, `2 "+OK\r\n"`)
		if now := r.stats.Own(); now != (owned.Stats{Used: 1}) {
			t.Errorf("%+v are told", now)
		}
		if got, want := node.Commands(), "CLIENT ID, ONE true 0, GET, PUSH"; got != want {
			t.Errorf("sent %s, want %s", got, want)
		}
		// Another state, another protocol, a command in front of requests: all on the same connection.
		r.own(func() {
			o.Configure(setup("TWO"), func() { k.note("done") })
			o.SetMode(2, 3, nil)
			o.Precede(true)
			send("GET", 3)
			o.Precede(false)
			send("GET", 4)
		})
		k.want(t, "turned", "done", `3 "+OK\r\n"`, `4 "+OK\r\n"`)
		want := "CLIENT ID, ONE true 0, GET, PUSH, TWO false 0, HELLO 2, SELECT 3, BEFORE, GET, GET"
		if got := node.Commands(); got != want {
			t.Errorf("sent %s, want %s", got, want)
		}
		// A connection that is lost is made again in the latest state.
		r.own(func() { r.send(ModeOf(o), &k, 5, false, "CUT") })
		k.want(t, "lost", "5 unknown", "stale")
		r.own(func() { send("GET", 6); send("GET", 7); o.End() })
		k.want(t, "ended", `6 "+OK\r\n"`, `7 "+OK\r\n"`)
		if !strings.HasSuffix(node.Commands(), "CUT, CLIENT ID, TWO true 0, GET, GET") {
			t.Errorf("sent %s", node.Commands())
		}
		r.on(func() {
			if now, sets := r.pool.own.Now(); now != (owned.Stats{}) || sets != 0 {
				t.Errorf("%+v, %d sets", now, sets)
			}
		})
	})
}

// TestPrivateLent proves that Own gives a client with a set the connection of that set, and takes it back.
func TestPrivateLent(t *testing.T) {
	inOwnBubble(t, Options{}, func(t *testing.T, r *rig, node *scripted.Node) {
		var k, b keeper
		o := r.private(&k, setup("ONE"))
		var pipe *Pipe
		r.own(func() {
			pipe = r.pool.Own("a:1", ModeOf(o), &b)
			pipe.Request(command("MOVED"), &b, 1)
			r.send(ModeOf(o), &k, 2, true, "GET")
		})
		b.want(t, "owner", `1 "-MOVED 7 b:1\r\n"`)
		k.want(t, "set", `2 "+OK\r\n"`)
		if got, want := node.Commands(), "CLIENT ID, ONE true 0, MOVED, GET"; got != want {
			t.Errorf("sent %s, want %s", got, want)
		}
		if pipe.ClientID() == 0 {
			t.Error("its id is not known")
		}
		r.own(func() { // given back while others wait for replies
			r.send(ModeOf(o), &k, 3, true, "GET")
			pipe.Release()
			if again := r.pool.Own("a:1", ModeOf(o), &b); again != pipe {
				t.Error("another connection")
			}
			pipe.Request(command("BLOCK"), &b, 4)
		})
		k.want(t, "set", `3 "+OK\r\n"`)
		r.own(func() { pipe.Release() }) // while it waits for a reply
		b.want(t, "released early", "4 unknown")
		k.want(t, "set", "stale")
		r.own(func() {
			pipe = r.pool.Own("a:1", ModeOf(o), &b)
			pipe.Request(command("CUT"), &b, 5)
		})
		b.want(t, "cut", "5 unknown", "lost")
		r.own(func() { pipe.Request(command("GET"), &b, 6); pipe.Release(); pipe.End() })
		b.want(t, "dead", "6 not run")
	})
}

// TestPrivateSilence proves that a connection which only listens is closed when its node is dead.
func TestPrivateSilence(t *testing.T) {
	inOwnBubble(t, Options{Timeout: 10 * time.Second}, func(t *testing.T, r *rig, node *scripted.Node) {
		var k keeper
		answer, silent := node.Answer, false
		node.Answer = func(command string) string {
			if silent {
				return "-"
			}
			return answer(command)
		}
		s := setup("ONE")
		s.Redirect = true
		o := r.private(&k, s)
		r.own(func() { r.send(ModeOf(o), &k, 1, true, "GET") })
		k.want(t, "set", `1 "+OK\r\n"`)
		if got := node.Commands(); !strings.Contains(got, "ONE true 41, CLIENT ID, GET") {
			t.Errorf("sent %s", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		k.want(t, "alive")
		r.own(func() {
			silent = true
			r.send(Mode{Proto: 2}, &keeper{}, 0, true, "GET")
		})
		time.Sleep(20 * time.Second)
		synctest.Wait()
		k.want(t, "silent", "stale")
		r.on(func() {
			if now, _ := r.pool.own.Now(); now != (owned.Stats{}) {
				t.Errorf("%+v", now)
			}
		})
	})
}

// TestPrivateRefused proves that a node which refuses the state is not asked again and again.
func TestPrivateRefused(t *testing.T) {
	inOwnBubble(t, Options{}, func(t *testing.T, r *rig, node *scripted.Node) {
		answer := node.Answer
		node.Answer = func(command string) string {
			if strings.HasPrefix(command, "ONE") {
				return "-ERR no\r\n"
			}
			return answer(command)
		}
		var k keeper
		o := r.private(&k, setup("ONE"))
		r.own(func() { r.send(ModeOf(o), &k, 1, true, "GET") })
		if len(k.heard) != 1 || !strings.HasPrefix(k.heard[0], "1 ") || string(o.Refused()) != "-ERR no\r\n" {
			t.Errorf("heard %q, refused %q", k.heard, o.Refused())
		}
	})
}

// again sends another request when one fails.
type again struct {
	*keeper
	send func()
}

func (a again) Fail(tag uint32, err error) {
	a.keeper.Fail(tag, err)
	a.send()
}

// TestPrivateSentWhenLost proves that a request takes a new connection if its sender has just heard that the
// one of the set was lost.
func TestPrivateSentWhenLost(t *testing.T) {
	inOwnBubble(t, Options{QueueLimit: 10}, func(t *testing.T, r *rig, node *scripted.Node) {
		var k keeper
		o := r.private(&k, setup("ONE"))
		send := func(tag uint32) *Pipe { return r.send(ModeOf(o), &k, tag, false, "GET") }
		r.own(func() {
			pipe := r.send(ModeOf(o), again{&k, func() { send(2) }}, 1, false, "CUT")
			pipe.WhenReady(func() { send(3) })
		})
		time.Sleep(time.Second)
		synctest.Wait()
		k.want(t, "lost", "1 unknown", "stale", `2 "+OK\r\n"`, `3 "+OK\r\n"`)
	})
}

// TestPrivateRaisedRedirect proves that a redirect which a script has made up does not reach a client, which
// might follow it.
func TestPrivateRaisedRedirect(t *testing.T) {
	inOwnBubble(t, Options{}, func(t *testing.T, r *rig, node *scripted.Node) {
		answer := node.Answer
		node.Answer = func(line string) string {
			if strings.HasPrefix(line, "EVAL") {
				return "-MOVED 7 evil:1\r\n"
			}
			return answer(line)
		}
		var k keeper
		o := r.private(&k, setup("ONE"))
		r.own(func() { r.send(ModeOf(o), &k, 1, false, "EVAL", "...", "0") })
		k.want(t, "raised", `1 "-ERR MOVED 7 evil:1\r\n"`)
	})
}

// TestPrivateEndedWaits proves that a request of a client that has left, which its node refuses for the
// moment, is sent again after pauses, and not as often as a connection can be made.
func TestPrivateEndedWaits(t *testing.T) {
	inOwnBubble(t, Options{Budget: 2 * time.Second}, func(t *testing.T, r *rig, node *scripted.Node) {
		const most = 1000
		asked, answer := 0, node.Answer
		node.Answer = func(line string) string {
			if line != "GET" || asked > most {
				return answer(line)
			}
			asked++
			return "-LOADING Redis is loading the dataset in memory\r\n"
		}
		var k keeper
		o := r.private(&k, setup("ONE"))
		r.own(func() { r.send(ModeOf(o), &k, 1, true, "GET"); o.End() })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		k.want(t, "given up", `1 "-LOADING Redis is loading the dataset in memory\r\n"`)
		if asked > most {
			t.Errorf("it was sent %d times within 2 s", asked)
		}
	})
}

// TestPrivateUserEnds proves that the only request of a client's user, which waits for its connection, goes
// over that one, although the client is another user by then.
func TestPrivateUserEnds(t *testing.T) {
	inOwnBubble(t, Options{}, func(t *testing.T, r *rig, node *scripted.Node) {
		var k keeper
		r.own(func() {
			o := r.pool.Private(Mode{Proto: 2}, privateKeeper{&k}, &cluster.Login{User: "tom"})
			r.send(ModeOf(o), &k, 1, false, "GET")
			o.End()
		})
		k.want(t, "ended", `1 "+OK\r\n"`)
	})
}

// TestPrivateUserSelects proves that what a client's user sends behind SELECT goes over a connection to that
// database, although the one before is needed still: its user may not be allowed SELECT.
func TestPrivateUserSelects(t *testing.T) {
	inOwnBubble(t, Options{}, func(t *testing.T, r *rig, node *scripted.Node) {
		var k, b keeper
		r.own(func() {
			o := r.pool.Private(Mode{Proto: 2}, privateKeeper{&k}, &cluster.Login{User: "tom"})
			lent := r.pool.Own("a:1", ModeOf(o), &b) // as by WATCH
			o.SetMode(2, 3, func() { k.note("done") })
			if pipe := r.send(ModeOf(o), &k, 1, false, "GET"); pipe == lent || pipe.mode.DB != 3 {
				t.Errorf("sent to database %d", pipe.mode.DB)
			}
			lent.Release()
			if pipe := r.send(ModeOf(o), &k, 2, false, "GET"); pipe.mode.DB != 3 {
				t.Errorf("then to database %d", pipe.mode.DB)
			}
			o.End()
		})
		k.want(t, "selected", "done", `1 "+OK\r\n"`, `2 "+OK\r\n"`)
		r.on(func() {
			if now, sets := r.pool.own.Now(); now != (owned.Stats{}) || sets != 0 {
				t.Errorf("%+v, %d sets", now, sets)
			}
		})
	})
}
