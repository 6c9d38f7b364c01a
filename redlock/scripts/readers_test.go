//go:build !quick

package scripts_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/scripts"
)

// What the scripts ask of Redis about a lock with all its readers grows with their number in one place only:
// one HMGET for each 200 readers, and for BREAK one HDEL for each thousand.
func TestStepsAtMostReaders(t *testing.T) {
	s := rig.StartRedis(t)
	l := &teller{t: t, s: s, c: s.Connect()}
	defer l.c.Close()
	for _, script := range scripts.All() {
		s.Ask("SCRIPT", "LOAD", script.Source)
	}
	both := []string{rig.LockKey, fenceKey}
	const n = 1000
	for i := range n {
		l.run(scripts.Acquire, both, fmt.Sprint("t", i), "600000", "r", fmt.Sprintf("%016d", i), "0", "", "",
			fmt.Sprint(" ", n), "SPUBLISH")
	}
	for _, call := range []struct {
		name string
		most int
		run  func() string
	}{
		{"one reader more", 16, func() string {
			return l.show(l.run(scripts.Acquire, both, "more", "1000", "r", "id00000000000001", "0", "", "",
				fmt.Sprint(" ", n), "SPUBLISH"))
		}},
		{"a reader that wants to write", 10, func() string {
			return l.show(l.run(scripts.Acquire, both, "t1", "1000", "w", "id00000000000002", "0", "", "", "",
				"SPUBLISH"))
		}},
		{"a reader that goes", 12, func() string {
			return l.show(l.run(scripts.Release, both, "t2", "", "id00000000000003", "P1", "SPUBLISH"))
		}},
		{"a look", 14, func() string { return fmt.Sprint(len(l.run(scripts.Inspect, both[:1]).Elems)) }},
		{"a break", 20, func() string { return l.show(l.run(breakScript, both, "P1", "SPUBLISH")) }},
	} {
		s.Ask("CONFIG", "RESETSTAT")
		got := call.run()
		if calls, _ := spent(t, s); sum(calls) > call.most {
			t.Errorf("%s: %v commands (%s), want %d at most", call.name, calls, got, call.most)
		}
	}
	if keys := s.Keys(); len(keys) != 0 {
		t.Errorf("left: %v", keys)
	}
}

// In a full queue, each look for dead waiters covers a part of it, and in the end all of them are found.
func TestSweepOfALongQueue(t *testing.T) {
	s := rig.StartRedis(t)
	l := &teller{t: t, s: s, c: s.Connect()}
	defer l.c.Close()
	const n = 3500
	both := []string{rig.LockKey, fenceKey}
	acquire := func(token, id, proxy string, wait int) string {
		return l.show(l.run(scripts.Acquire, both, token, "600000", "w", id, "0", proxy, fmt.Sprint(wait),
			fmt.Sprint(n), "SPUBLISH"))
	}
	acquire("holder", "id00000000000001", "", 0)
	for i := range n {
		wait := 600_000
		if i == n-1 {
			wait = 1
		}
		acquire(fmt.Sprint("t", i), fmt.Sprintf("%016d", i), "P1", wait)
	}
	for round := 1; ; round++ {
		acquire("t0", fmt.Sprintf("%016d", 0), "P1", 600_000) // its proxy is alive
		s.Ask("CONFIG", "RESETSTAT")
		got := acquire("more", "id00000000000002", "P2", 600_000)
		if calls, _ := spent(t, s); sum(calls) > 2100 {
			t.Errorf("round %d: %v commands", round, calls)
		}
		if !strings.HasPrefix(got, "-QUEUEFULL") {
			break
		}
		if round > 6 {
			t.Fatalf("the place of the dead one was not found: %s", got)
		}
		time.Sleep(1100 * time.Millisecond)
	}
}

// The readers of a lock are listed, so that they are found without a look at all fields. The list has all of
// them, whoever came and went, and it does not grow with those who have gone.
func TestListOfReaders(t *testing.T) {
	s := rig.StartRedis(t)
	l := &teller{t: t, s: s, c: s.Connect()}
	defer l.c.Close()
	requests := 0
	id := func() string { requests++; return fmt.Sprintf("id%014d", requests) }
	reads, random := map[string]bool{}, rand.New(rand.NewPCG(1, 1))
	for round := range 1500 {
		token := fmt.Sprint("t", random.IntN(60))
		if reads[token] {
			l.tell("release " + token + " " + id())
			delete(reads, token)
		} else {
			l.tell("acquire " + token + " " + id() + " r 600000")
			reads[token] = true
		}
		if round%100 == 0 {
			var found []string
			for _, field := range l.run(scripts.Inspect, []string{rig.LockKey}).Elems {
				if name, ok := strings.CutPrefix(field.Text(), "r:"); ok {
					found = append(found, name)
				}
			}
			slices.Sort(found)
			if want := slices.Sorted(maps.Keys(reads)); !slices.Equal(found, want) {
				t.Fatalf("round %d: readers %v, want %v", round, found, want)
			}
			if n := rig.Integer(s.Ask("HGET", rig.LockKey, "m").Text()); n > 2*60+16 {
				t.Errorf("round %d: a list of %d", round, n)
			}
		}
	}
	if calls, _ := spent(t, s); calls["hkeys"] > 0 {
		t.Errorf("all fields were read %v times", calls["hkeys"])
	}
}
