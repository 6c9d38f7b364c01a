package login

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestLoginsTakeTurns proves that a flood of one address keeps no other one waiting.
func TestLoginsTakeTurns(t *testing.T) {
	var l Queue
	var started []string
	enter := func(origin string) bool {
		return l.Enter(origin, func() { started = append(started, origin) })
	}
	for range 1000 {
		enter("flood")
	}
	enter("a")
	enter("b")
	if got := strings.Join(started, " "); got != "flood flood flood flood a b" {
		t.Errorf("at once: %s", got)
	}
	for range 8 {
		enter("c")
	}
	l.Leave("flood")
	l.Leave("a")
	enter("a")
	l.Leave("c")
	l.Leave("c")
	if got := strings.Join(started[6:], " "); got != "c c c flood c a" {
		t.Errorf("later: %s", got)
	}
	for l.waiting < maxWaiting {
		enter("flood")
	}
	if enter("d") {
		t.Error("any number may wait")
	}
	for len(l.origins) > 0 {
		for name, o := range l.origins {
			if o.running > 0 {
				l.Leave(name)
			}
		}
	}
	if l.running != 0 || l.waiting != 0 || len(l.turns) != 0 {
		t.Errorf("in the end %d run and %d wait", l.running, l.waiting)
	}
}

// TestOrigins proves what is taken for one address, and that the addresses are bounded.
func TestOrigins(t *testing.T) {
	for addr, want := range map[string]string{
		"10.1.2.3:5000": "10.1.2.3", "[::ffff:10.1.2.3]:5000": "10.1.2.3", "[::1]:5000": "::1",
		"[2001:db8:1:2:3:4:5:6]:1": "2001:db8:1:2::/64", "[fe80::1%eth0]:1": "fe80::/64",
		"/run/sock:0": "/run/sock:0",
	} {
		if got := Origin(addr); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
	a, now := NewAddresses(), time.Now()
	for i := range 2 * maxAddresses {
		a.Failed(fmt.Sprint(i), now)
	}
	if n := a.counts.Len(); n != maxAddresses {
		t.Errorf("%d addresses are remembered", n)
	}
}
