package pipe

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/internal/resp"
	"lockproxy/internal/scripted"
)

// keeper owns a pipe and writes down what comes over it.
type keeper struct{ heard []string }

func (k *keeper) note(format string, args ...any) {
	k.heard = append(k.heard, fmt.Sprintf(format, args...))
}

func (k *keeper) Receive(tag uint32, chunk []byte, _ bool) { k.note("%d %q", tag, chunk) }
func (k *keeper) Discard(uint32) bool                      { return true }
func (k *keeper) Detour(uint32)                            {}
func (k *keeper) Push(chunk []byte, _ bool)                { k.note("push %q", chunk) }
func (k *keeper) Lost(err error)                           { k.note("lost") }

func (k *keeper) Fail(tag uint32, err error) {
	outcome := "not run"
	if errors.Is(err, cluster.ErrUnknownOutcome) {
		outcome = "unknown"
	}
	k.note("%d %s", tag, outcome)
}

func (k *keeper) want(t *testing.T, what string, heard ...string) {
	t.Helper()
	if got, want := strings.Join(k.heard, "; "), strings.Join(heard, "; "); got != want {
		t.Errorf("%s: heard %s, want %s", what, got, want)
	}
	k.heard = nil
}

// ownNode answers as a node does over owned pipes.
func ownNode() *scripted.Node {
	var next atomic.Int64
	return &scripted.Node{Answer: func(command string) string {
		switch command {
		case "CLIENT ID":
			return fmt.Sprintf(":%d\r\n", 40+next.Add(1))
		case "MOVED":
			return "-MOVED 7 b:1\r\n"
		case "PUSH":
			return ">1\r\n+x\r\n+OK\r\n"
		case "BLOCK":
			return "-"
		case "CUT":
			return ""
		}
		return "+OK\r\n"
	}}
}

func inOwnBubble(t *testing.T, o Options, test func(t *testing.T, r *rig, node *scripted.Node)) {
	synctest.Test(t, func(t *testing.T) {
		node := ownNode()
		test(t, newRig(t, o, map[string]*scripted.Node{"a:1": node}), node)
	})
}

// own calls f with a pipe of k, and waits until all is quiet.
func (r *rig) own(f func()) {
	r.on(f)
	synctest.Wait()
}

func command(words ...string) []byte { return resp.AppendCommandStrings(nil, words...) }

// TestOwn proves that an owned pipe passes on replies as they came, knows its id, has one owner at a time,
// and is used again.
func TestOwn(t *testing.T) {
	inOwnBubble(t, Options{}, func(t *testing.T, r *rig, node *scripted.Node) {
		var k, other keeper
		var pipe, second *Pipe
		r.own(func() {
			pipe = r.pool.Own(r.pool.MasterOf(7), Mode{Proto: 3}, &k)
			for i, word := range []string{"GET", "MOVED", "PUSH"} {
				pipe.Request(command(word), &k, uint32(i))
			}
			second = r.pool.Own("a:1", Mode{Proto: 3}, &other)
			second.Request(command("GET"), &other, 9)
		})
		k.want(t, "first owner", `0 "+OK\r\n"`, `1 "-MOVED 7 b:1\r\n"`, `push ">1\r\n+x\r\n"`, `2 "+OK\r\n"`)
		other.want(t, "second owner", `9 "+OK\r\n"`)
		if a, b := pipe.ClientID(), second.ClientID(); a == b || a < 41 || b < 41 {
			t.Errorf("ids %d and %d", a, b)
		}
		r.own(func() {
			pipe.Release()
			again := r.pool.Own("a:1", Mode{Proto: 3}, &other)
			if again != pipe {
				t.Error("another connection although one was idle")
			}
			if r.pool.Own("a:1", Mode{Proto: 2}, &k) == pipe {
				t.Error("the same connection for another mode")
			}
			again.Request(command("BLOCK"), &other, 1)
		})
		r.own(func() { pipe.Release(); pipe.Request(command("GET"), &other, 2) })
		other.want(t, "released while a reply was to come", "1 unknown", "2 not run")
	})
}

// TestOwnLost proves what becomes of requests when the connection is lost or cannot be had.
func TestOwnLost(t *testing.T) {
	inOwnBubble(t, Options{Timeout: 5 * time.Second}, func(t *testing.T, r *rig, node *scripted.Node) {
		var k keeper
		var pipe *Pipe
		r.own(func() {
			pipe = r.pool.Own("a:1", Mode{Proto: 2}, &k)
			pipe.Request(command("CUT"), &k, 1)
			pipe.Request(command("GET"), &k, 2)
		})
		k.want(t, "cut", "1 unknown", "2 unknown", "lost")
		r.own(func() { pipe.Request(command("GET"), &k, 3); pipe.Release(); pipe.End() })
		k.want(t, "dead", "3 not run")

		r.own(func() { r.pool.Own("nowhere:1", Mode{Proto: 2}, &k).Request(command("GET"), &k, 4) })
		k.want(t, "unreachable", "4 not run", "lost")

		r.own(func() {
			pipe = r.pool.Own("a:1", Mode{Proto: 2}, &k)
			pipe.Request(command("BLOCK"), &k, 5)
			pipe.SetPatient(true)
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		k.want(t, "a silent node that may be silent")
		r.own(func() { pipe.SetPatient(false) })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		k.want(t, "a silent node", "5 unknown", "lost")

		r.own(func() {
			pipe = r.pool.Own("a:1", Mode{Proto: 2}, &k)
			pipe.Request(command("BLOCK"), &k, 6)
		})
		r.mu.Lock()
		r.topology = oneMaster("b:1", 2)
		r.mu.Unlock()
		r.on(r.pool.Update)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		k.want(t, "the node has left", "6 unknown", "lost")
	})
}

// leaver ends the use of its pipe when a request fails.
type leaver struct {
	*keeper
	leave func()
}

func (l leaver) Fail(tag uint32, err error) {
	l.keeper.Fail(tag, err)
	l.leave()
}

// TestOwnLeftWhenLost proves that an owner that leaves when its request fails does not hear of the connection
// again.
func TestOwnLeftWhenLost(t *testing.T) {
	inOwnBubble(t, Options{}, func(t *testing.T, r *rig, node *scripted.Node) {
		for name, leave := range map[string]func(*Pipe){"End": (*Pipe).End, "Release": (*Pipe).Release} {
			var k keeper
			r.own(func() {
				pipe := r.pool.Own("a:1", Mode{Proto: 2}, &k)
				pipe.Request(command("CUT"), leaver{&k, func() { leave(pipe) }}, 1)
			})
			k.want(t, name, "1 unknown")
		}
	})
}

// TestOwnBounded proves that no more connections are made than allowed, that owners who wait for one are
// served in turn, and that idle connections are closed after a while.
func TestOwnBounded(t *testing.T) {
	inOwnBubble(t, Options{MaxOwn: 1, Budget: 2 * time.Second},
		func(t *testing.T, r *rig, node *scripted.Node) {
			var a, b, c, d keeper
			var pa, pb, pc *Pipe
			r.own(func() {
				pa = r.pool.Own("a:1", Mode{Proto: 2}, &a)
				pb = r.pool.Own("a:1", Mode{Proto: 2}, &b)
				pc = r.pool.Own("a:1", Mode{Proto: 2}, &c)
				pb.Request(command("GET"), &b, 1)
				pc.Request(command("GET"), &c, 2)
			})
			b.want(t, "no place")
			r.own(func() { pb.End(); pa.Release() })
			b.want(t, "gave up waiting", "1 not run")
			c.want(t, "next in turn", `2 "+OK\r\n"`)
			r.own(func() { r.pool.Own("a:1", Mode{Proto: 2}, &d).Request(command("GET"), &d, 3) })
			time.Sleep(3 * time.Second)
			synctest.Wait()
			d.want(t, "none came free", "3 not run", "lost")
			r.own(func() { pc.Release() })
			r.on(func() {
				if now, _ := r.pool.own.Now(); now != (owned.Stats{Idle: 1}) {
					t.Errorf("%+v", now)
				}
			})
			time.Sleep(time.Minute)
			synctest.Wait()
			r.on(func() {
				if now, _ := r.pool.own.Now(); now != (owned.Stats{}) {
					t.Errorf("%+v", now)
				}
			})
			// An idle connection makes room for one in another mode.
			r.own(func() { r.pool.Own("a:1", Mode{Proto: 2}, &a).Release() })
			r.own(func() { r.pool.Own("a:1", Mode{Proto: 3}, &b).Request(command("GET"), &b, 4) })
			b.want(t, "instead of an idle one", `4 "+OK\r\n"`)
		})
}
