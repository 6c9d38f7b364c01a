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
		l := New(nothing{}, Options{FailoverGrace: time.Minute})
		never := strings.Repeat("0", 40)
		l.single().grace.met(1, "before", never, time.Hour)
		if left := l.single().grace.met(2, "after", never, time.Hour); left != 0 {
			t.Errorf("a slot of which nothing is known: %v", left)
		}
		time.Sleep(time.Second)
		if left := l.single().grace.met(1, "after", never, time.Hour); left != 59*time.Second {
			t.Errorf("a slot that had another master: %v", left)
		}
		if left := l.single().grace.met(3, "after", never, time.Hour); left != 59*time.Second {
			t.Errorf("a slot of which nothing is known, once it is clear: %v", left)
		}
		time.Sleep(time.Hour)
		if left := l.single().grace.met(1, "after", never, time.Hour); left != 0 {
			t.Errorf("an hour later: %v", left)
		}
		if left := l.single().grace.met(1, "after", never, time.Hour); left != 0 {
			t.Errorf("an hour later, again: %v", left)
		}
		if left := l.single().grace.met(2, "before", never, time.Hour); left != 0 {
			t.Errorf("a slot that moved to a master that is known for long: %v", left)
		}
	})
}

// Without the grace no request names a master, and the plain one stays short.
func TestNoGrace(t *testing.T) {
	l := New(nothing{}, Options{})
	_, plain := l.single().acquireRequest(l.NewAcquire(Acquire{Name: "job", Mode: Write, Lease: time.Second}))
	l = New(nothing{}, Options{FailoverGrace: time.Second})
	_, named := l.single().acquireRequest(l.NewAcquire(Acquire{Name: "job", Mode: Write, Lease: time.Second}))
	if strings.Contains(string(plain), unmet) || !strings.HasSuffix(string(named), "$1\r\n?\r\n") {
		t.Errorf("%q and %q", plain, named)
	}
}
