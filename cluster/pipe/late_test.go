package pipe

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/scripted"
)

// A node that owes a reply for longer than it uses to is suspected, once.
func TestLateReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := time.Duration(0)
		a := &scripted.Node{Answer: func(command string) string {
			if strings.HasPrefix(command, "GET") {
				time.Sleep(late)
			}
			return "+OK\r\n"
		}}
		r := newOutageRig(t, Options{}, map[string]*scripted.Node{"a:1": a})
		ask := func(times int) {
			t.Helper()
			for range times {
				if reply, err := r.do("GET k", true); err != nil || reply != "+OK\r\n" {
					t.Fatalf("%q %v", reply, err)
				}
			}
		}
		ask(100)
		if n := r.suspected(); n > 0 {
			t.Errorf("suspected %d times though it answers at once", n)
		}
		late = 300 * time.Millisecond
		began := time.Now()
		done := r.start("GET k", true)
		for r.suspected() == 0 && time.Since(began) < late {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(began); took < lateLeast || took > lateLeast+2*lateTick {
			t.Errorf("suspected after %v", took)
		}
		<-done
		ask(10)
		if n := r.suspected(); n != 1 {
			t.Errorf("suspected %d times though it is always as late as that", n)
		}
		late = 2 * time.Second
		ask(1)
		if n := r.suspected(); n != 2 {
			t.Errorf("suspected %d times after it was later than ever", n)
		}
	})
}

// sleeper is a node that can be stopped, and goes on later with what it was asked meanwhile.
type sleeper struct {
	scripted.Node
	asleep atomic.Pointer[chan struct{}] // closed when it goes on; nil: it is awake
}

func newSleeper() *sleeper {
	n := &sleeper{}
	n.Answer = func(string) string {
		if asleep := n.asleep.Load(); asleep != nil {
			<-*asleep
		}
		return "+OK\r\n"
	}
	return n
}

func (n *sleeper) sleep() { n.asleep.Store(new(make(chan struct{}))) }

func (n *sleeper) wake() {
	if asleep := n.asleep.Swap(nil); asleep != nil {
		close(*asleep)
	}
}

// A master hangs, and another node takes its place. At this moment what was asked of the old one goes to the
// new one, or fails if it may have run.
func TestSilentMasterIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newSleeper(), &scripted.Node{Answer: ok}
		r := newOutageRig(t, Options{Budget: time.Second},
			map[string]*scripted.Node{"a:1": &a.Node, "b:1": b})
		if _, err := r.do("GET k", true); err != nil {
			t.Fatal(err)
		}
		a.sleep()
		read, write := r.start("GET k", true), r.start("SET k 1", false)
		time.Sleep(200 * time.Millisecond)
		r.outages.Doubt("a:1", true)
		time.Sleep(20 * time.Second) // longer than the budget
		at := time.Since(r.pool.born)
		r.lead("b:1")
		if got := <-read; got.reply != "+OK\r\n" || got.err != nil || got.at != at {
			t.Errorf("GET: %q %v after %v, want it after %v", got.reply, got.err, got.at, at)
		}
		if got := <-write; !errors.Is(got.err, cluster.ErrUnknownOutcome) || got.at != at {
			t.Errorf("SET: %q %v after %v, want it after %v", got.reply, got.err, got.at, at)
		}
		if seen := b.Commands(); seen != "GET k" {
			t.Errorf("the new master saw %s", seen)
		}
		a.wake()
	})
}

// Nothing is written to a master that has hung for a while, for nobody would know whether it has run. It goes
// to whoever is the master in the end, in the order in which it came.
func TestSilentMasterGetsNothing(t *testing.T) {
	for _, master := range []string{"a:1", "b:1"} {
		t.Run(master, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := newSleeper(), &scripted.Node{Answer: ok}
				r := newOutageRig(t, Options{Budget: time.Second, MaxWait: time.Minute},
					map[string]*scripted.Node{"a:1": &a.Node, "b:1": b})
				if _, err := r.do("PING", true); err != nil {
					t.Fatal(err)
				}
				a.sleep()
				r.outages.Doubt("a:1", true)
				all := []<-chan outcome{r.start("GET k", true)}
				time.Sleep(2 * holdAfter)
				all = append(all, r.start("SET k 1", false))
				time.Sleep(10 * time.Millisecond)
				all = append(all, r.start("GET k", true))
				time.Sleep(20 * time.Second)
				want := "GET k, SET k 1, GET k"
				if seen := a.Commands(); seen != "PING, GET k" {
					t.Errorf("it saw %s", seen)
				}
				at := time.Since(r.pool.born)
				seen := b.Commands
				if master == "a:1" {
					a.wake()
					r.trust("a:1")
					want, seen = "PING, GET k, SET k 1, GET k", a.Commands
				} else {
					r.lead("b:1")
				}
				for _, done := range all {
					if got := <-done; got.reply != "+OK\r\n" || got.err != nil || got.at != at {
						t.Errorf("%q %v after %v, want it after %v", got.reply, got.err, got.at, at)
					}
				}
				if got := seen(); got != want {
					t.Errorf("%s saw %s, want %s", master, got, want)
				}
				a.wake()
			})
		})
	}
}

// A master that gives up its slots and answers still is not left before it has.
func TestAnsweringMasterIsNotLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &scripted.Node{Answer: func(command string) string {
			if strings.HasPrefix(command, "SET") {
				time.Sleep(500 * time.Millisecond)
			}
			return "+OK\r\n"
		}}
		r := newOutageRig(t, Options{}, map[string]*scripted.Node{"a:1": a, "b:1": {Answer: ok}})
		write := r.start("SET k 1", false)
		time.Sleep(200 * time.Millisecond)
		r.lead("b:1")
		if got := <-write; got.reply != "+OK\r\n" || got.err != nil {
			t.Errorf("SET: %q %v", got.reply, got.err)
		}
	})
}
