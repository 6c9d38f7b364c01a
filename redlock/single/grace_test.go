package single

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
)

// A master that came back without its memory is met first for a slot that nobody has asked for
// before: the others wait all the same.
func TestFailoverGraceOfAnotherSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := grace{period: time.Minute}
		never := strings.Repeat("0", 40)
		g.met(1, "before", never, time.Hour)
		if left := g.met(2, "after", never, time.Hour); left != 0 {
			t.Errorf("a slot of which nothing is known: %v", left)
		}
		time.Sleep(time.Second)
		if left := g.met(1, "after", never, time.Hour); left != 59*time.Second {
			t.Errorf("a slot that had another master: %v", left)
		}
		if left := g.met(3, "after", never, time.Hour); left != 59*time.Second {
			t.Errorf("a slot of which nothing is known, once it is clear: %v", left)
		}
		time.Sleep(time.Hour)
		if left := g.met(1, "after", never, time.Hour); left != 0 {
			t.Errorf("an hour later: %v", left)
		}
		if left := g.met(1, "after", never, time.Hour); left != 0 {
			t.Errorf("an hour later, again: %v", left)
		}
		if left := g.met(2, "before", never, time.Hour); left != 0 {
			t.Errorf("a slot that moved to a master that is known for long: %v", left)
		}
	})
}

// Without the grace no request names a master, and the plain one stays short.
func TestNoGrace(t *testing.T) {
	a := &redlock.Acquire{Name: "job", Mode: redlock.Write, Lease: time.Second, ID: "id"}
	request := func(o Options) []byte {
		return New(rig.Nothing{}, redlock.NewNames("lock:"), o).acquireCall(nil, a, time.Now()).Req
	}
	plain, named := request(Options{}), request(Options{FailoverGrace: time.Second})
	if strings.Contains(string(plain), unmet) || !strings.HasSuffix(string(named), "$1\r\n?\r\n") {
		t.Errorf("%q and %q", plain, named)
	}
}

// A proxy that starts cannot know since when a promoted master has been one.
func TestFailoverGraceAtStart(t *testing.T) {
	g := grace{period: time.Minute}
	promoted := strings.Repeat("a", 40)
	never := strings.Repeat("0", 40)
	if left := g.met(7, "one", never, time.Hour); left != 0 {
		t.Errorf("a master that was never promoted: %v", left)
	}
	if left := g.met(8, "two", promoted, time.Hour); left < 59*time.Second {
		t.Errorf("a promoted one: %v", left)
	}
	if left := g.met(9, "one", promoted, time.Hour); left != 0 {
		t.Errorf("a slot that moved to a known master: %v", left)
	}
	if left := g.met(7, "three", never, time.Hour); left < 59*time.Second {
		t.Errorf("one that came back without its memory: %v", left)
	}
	if left := g.met(7, "one", never, time.Hour); left != 0 {
		t.Errorf("the slot moved back: %v", left)
	}
	if left := g.met(10, "four", never, 20*time.Second); left < 39*time.Second || left > 40*time.Second {
		t.Errorf("one that came back without its memory before the proxy started: %v", left)
	}
	if left := g.met(11, "five", promoted, 20*time.Second); left < 59*time.Second {
		t.Errorf("one that was promoted, nobody knows when: %v", left)
	}
}
