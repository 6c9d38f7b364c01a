package redlock

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
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
	names, a := newNaming("lock:"), &Acquire{Name: "job", Mode: Write, Lease: time.Second, ID: "id"}
	_, plain := newSingle(nothing{}, names, singleOptions{}).acquireRequest(nil, a)
	_, named := newSingle(nothing{}, names, singleOptions{failoverGrace: time.Second}).acquireRequest(nil, a)
	if strings.Contains(string(plain), unmet) || !strings.HasSuffix(string(named), "$1\r\n?\r\n") {
		t.Errorf("%q and %q", plain, named)
	}
}
