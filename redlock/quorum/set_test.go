package quorum_test

import (
	"context"
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/locks"
)

// setAt makes a set of locks of l.
func setAt(l *locks.Locker, a redlock.Acquire, names ...string) *locks.LockSet {
	return locks.NewSet(func(string) *locks.Locker { return l }, names, a)
}

// leftOf says for how long a token holds a lock.
func leftOf(t *testing.T, l *locks.Locker, name, token string) time.Duration {
	t.Helper()
	s, err := (&rig.Asker{L: l}).State(name)
	if err != nil {
		t.Fatal(err)
	}
	if h := s.Held(token); h != nil {
		return h.TTL
	}
	return 0
}

// Several locks are taken together while one of three masters is down, and while another one is: all of them
// or none, with fences that rise. R27
func TestQuorumSet(t *testing.T) {
	names := []string{"a", "b", "{a}c"}
	for _, down := range []bool{false, true} {
		onNetwork(t, 3, 2, func(t *testing.T, s *network) {
			one, two := s.proxies[0], s.proxies[1]
			if down {
				s.masters[1].crash()
			}
			first := setAt(one, redlock.Acquire{Token: "t", Lease: 5 * time.Second}, names...)
			taken(t, first)
			least := first.Left(time.Now())
			for i, part := range first.Given() { // it takes a while to ask
				if left := leftOf(t, two, names[i], "t"); part.Grant.Fence == 0 ||
					left < least-20*time.Millisecond {
					t.Errorf("%s: %v are left, %v was told; %+v", names[i], left, least, part.Grant)
				}
			}
			again := setAt(two, redlock.Acquire{Token: "t", Lease: 6 * time.Second}, names...)
			taken(t, again)
			for i, part := range again.Given() {
				if was := first.Given()[i].Grant; part.Grant.Fence != was.Fence {
					t.Errorf("%s again: %+v, before %+v", names[i], part.Grant, was)
				}
			}
			vain := setAt(two, redlock.Acquire{Token: "u"}, "free", "b")
			if ok, by, err := vain.Take(t.Context()); ok || err != nil || by.Name != "b" {
				t.Errorf("others hold one: %v %+v %v", ok, by, err)
			}
			if left := leftOf(t, one, "free", "u"); left > 0 {
				t.Errorf("an attempt in vain has left one for %v", left)
			}
			if err := again.Renew(t.Context()); err != nil || again.Parts()[0].Renewed.Left < 5*time.Second {
				t.Errorf("renewed: %+v %v", again.Parts()[0].Renewed, err)
			}
			if s.masters[1].up(); down {
				time.Sleep(4 * time.Second) // until it votes
			}
			s.masters[2].crash()
			time.AfterFunc(time.Second, func() { first.Release(context.Background()) })
			next := setAt(two, redlock.Acquire{Token: "u", Lease: 2 * time.Second, Wait: time.Minute},
				names...)
			began := time.Now()
			taken(t, next)
			if took := time.Since(began); took < time.Second || took > 2*time.Second {
				t.Errorf("it waited %v", took)
			}
			for i, part := range next.Given() {
				if was := first.Given()[i].Grant; part.Grant.Fence <= was.Fence {
					t.Errorf("%s: the fence %d behind %d", names[i], part.Grant.Fence, was.Fence)
				}
			}
			if err := next.Release(t.Context()); err != nil {
				t.Error(err)
			}
			s.masters[2].up()
			time.Sleep(10 * time.Second) // what a master has missed ends with its lease
			if err := s.free(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Without a majority no lock is granted, and none stays where it was taken. A master that goes away while a
// set waits does not matter.
func TestQuorumSetInTrouble(t *testing.T) {
	onNetwork(t, 3, 2, func(t *testing.T, s *network) {
		one, two := s.proxies[0], s.proxies[1]
		holder := setAt(one, redlock.Acquire{Token: "h", Lease: 30 * time.Second}, "b")
		taken(t, holder)
		time.AfterFunc(2*time.Second, s.masters[0].crash)
		time.AfterFunc(4*time.Second, func() { holder.Release(context.Background()) })
		set := setAt(two, redlock.Acquire{Token: "t", Lease: 3 * time.Second, Wait: time.Minute},
			"b", "a", "c")
		taken(t, set)
		for _, name := range []string{"a", "b", "c"} {
			if left := leftOf(t, one, name, "t"); left < 2500*time.Millisecond {
				t.Errorf("%s is held for %v", name, left)
			}
		}
		s.masters[1].crash()
		ok, _, err := setAt(two, redlock.Acquire{Token: "u"}, "d", "e").Take(t.Context())
		if ok || !noQuorum(err) {
			t.Errorf("one of three: %v %v", ok, err)
		}
		s.masters[0].up()
		s.masters[1].up()
		time.Sleep(5 * time.Second)
		if err := s.free(); err != nil {
			t.Error(err)
		}
	})
}

// taken takes a set, and fails unless it is granted.
func taken(t *testing.T, set *locks.LockSet) {
	t.Helper()
	if ok, by, err := set.Take(t.Context()); !ok || err != nil {
		t.Fatalf("not granted: %+v %v", by, err)
	}
}
