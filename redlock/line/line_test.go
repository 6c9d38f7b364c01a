package line

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var mutantFlag = flag.String("mutant", "", "walk with this mutant, and tell the shortest walk that shows it")

// Random walks: nobody is overtaken, nobody sleeps whose turn it is, no two hold the lock who must not. More
// of them with -rapid.checks. R9, R14, R25, R29
func TestWalks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if wrong, trace := run(plans.Draw(t, "plan"), *mutantFlag); wrong != "" {
			t.Fatalf("%s\n%s", wrong, strings.Join(trace, "\n"))
		}
	})
}

// The same with more clients, which come again at once. R9, R25, R29
func TestBusyWalks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := plans.Draw(t, "plan")
		for i, visits := range p.Clients {
			for j := range visits {
				visits[j].Gap %= 30
			}
			p.Clients[i] = slices.Repeat(visits, 3)
		}
		p.Clients = slices.Repeat(p.Clients, 2)
		if wrong, trace := run(p, *mutantFlag); wrong != "" {
			t.Fatalf("%s\n%s", wrong, strings.Join(trace, "\n"))
		}
	})
}

// Each of these changes of the rules is caught by a walk. R9, R25, R29
func TestWalksCatchMutants(t *testing.T) {
	for _, m := range []struct {
		name  string
		first int    // the plan that shows it
		want  string // what the walk says
	}{
		{"passed over at once", 7, "overtaken"},
		{"nobody is passed over", 0, "sleeps"},
		{"passed over for ever", 3724, "overtaken"},
		{"nobody dies", 11, "without waiters"},
		{"alive is not renewed", 591, "overtaken"},
		{"readers wait for readers", 540, "sleeps"},
		{"readers pass writers", 1, "overtaken"},
		{"writers pass readers", 18, "overtaken"},
		{"an offer for each permit", 0, "overtaken"},
		{"LOCK goes before who waits here", 1, "overtaken"},
		{"no DEADLOCK", 438, "readers wait for each other"},
		{"tickets are counted", 443, "is drawn while"},
		{"shorter leases are not told", 136, "sleeps"},
		{"an offer is told to one", 823, "sleeps"},
		{"an early offer is forgotten", 54, ""},
		{"a LOCK is not told of an offer", 0, "sleeps"},
		{"late copies count", 4, "counts behind later ones"},
		{"a LOCK says no number", 10, "counts behind later ones"},
		{"sent again under the same number", 4, "counts behind later ones"},
		{"numbers begin anew", 10, "stale"},
		{"several moves at a time", 4, "stale"},
		{"the next is not said", 16, "overtaken"},
		{"who joins meanwhile is forgotten", 16209, "overtaken"},
		{"who joined and left is forgotten", 9552, "sleeps"},
		{"leaving is not told", 1, "sleeps"},
		{"the second first", 1, "overtaken"},
		{"the reader that is left is waited for", 0, "asks ten times"},
	} {
		const most = 2000 // plans
		wrong := ""
		caught := false
		for seed := m.first; seed < m.first+most && !caught; seed++ {
			wrong, _ = run(plans.Example(seed), m.name)
			caught = wrong != "" && strings.Contains(wrong, m.want)
		}
		if !caught {
			t.Errorf("%s: not caught, but %q", m.name, wrong)
		}
	}
}

// scene is a walk by hand.
type scene struct {
	*walk
	in []string // the tokens that were granted the lock, in this order
}

func newScene(proxies int, mutant string) *scene {
	return &scene{walk: newWalk(plan{Proxies: proxies, MaxQueue: 10000, Slow: 1}, mutant)}
}

// lock has a token ask through a proxy, and returns how many requests that took.
func (s *scene) lock(proxy int, token string, mode Mode) int {
	p, before := s.proxies[proxy], s.trips
	p.on(s.now, func() {
		p.lock(&ask{proxy: p, want: want{id: token, token: token, mode: mode, lease: 60000 * ms, wait: true},
			granted: func() { s.in = append(s.in, token) }})
	})
	s.until(s.now + 50*ms)
	return s.trips - before
}

// unlock frees a token's hold, and returns how many requests passed until the next ones had the lock.
func (s *scene) unlock(proxy int, token string) int {
	p, before := s.proxies[proxy], s.trips
	p.on(s.now, func() { p.unlock(token) })
	s.until(s.now + 50*ms)
	return s.trips - before
}

// How many requests LOCK, UNLOCK and a hand-over take. R9, R12
func TestRoundTrips(t *testing.T) {
	trips := func(mutant string) string {
		s := newScene(2, mutant)
		got := fmt.Sprint("LOCK ", s.lock(0, "a", Write))
		got += fmt.Sprint(", waits ", s.lock(0, "b", Write), s.lock(1, "c", Write))
		got += fmt.Sprint(", hands over within a proxy ", s.unlock(0, "a"), ", to another ", s.unlock(0, "b"))
		got += fmt.Sprint(", UNLOCK ", s.unlock(1, "c"))
		for i := range 200 {
			s.lock(i%2, fmt.Sprint(i), Write)
		}
		before := s.trips
		s.until(s.now + 30000*ms)
		return got + fmt.Sprint(", 199 wait for 30 s ", s.trips-before, fmt.Sprint(s.in[:4]))
	}
	want := "LOCK 1, waits 1 1, hands over within a proxy 1, to another 2, UNLOCK 1, " +
		"199 wait for 30 s 12[a b c 0]"
	if got := trips(""); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, mutant := range []string{"UNLOCK goes alone", "all waiters ask"} {
		if trips(mutant) == want {
			t.Errorf("%s: not caught", mutant)
		}
	}
}

// While 20 clients lock and unlock, a grant takes two requests if they share a proxy: its LOCK, and the
// UNLOCK before it. Of several proxies, the one that is next must ask for itself. R12
func TestRequestsOfABusyLock(t *testing.T) {
	for proxies, want := range map[int]int{1: 400, 2: 440, 4: 500} {
		p := plan{Proxies: proxies, MaxQueue: 100, Slow: 1}
		for i := range 20 {
			p.Clients = append(p.Clients, slices.Repeat([]visit{{Hold: 5, Lease: 20000, Wait: 60000, Proxy: i,
				End: "unlock"}}, 10))
		}
		w := newWalk(p, "")
		w.begin()
		for w.clients > 0 {
			w.step()
		}
		if most := want + 20; w.trips > most {
			t.Errorf("%d proxies: %d requests for 200 grants", proxies, w.trips)
		}
	}
}

// Readers of several proxies go in together, those of one proxy with one request; behind the lowest writer
// they wait. R29, R30
func TestReadersGoInTogether(t *testing.T) {
	s := newScene(4, "")
	s.lock(0, "w", Write)
	for i := range 8 {
		s.lock(i%4, fmt.Sprint("r", i), Read)
	}
	s.lock(3, "w2", Write)
	s.lock(2, "r8", Read)
	if n := s.unlock(0, "w"); n != 4 || len(s.in) != 9 {
		t.Errorf("%d requests for %v", n, s.in)
	}
	for i := range 8 {
		s.unlock(i%4, fmt.Sprint("r", i))
	}
	if s.unlock(3, "w2"); !slices.Equal(s.in[9:], []string{"w2", "r8"}) {
		t.Error("behind the readers:", s.in[9:])
	}
}

// A reply that its proxy reads late, because that stood still, counts from when the request was sent.
func TestLateReplies(t *testing.T) {
	sent, l := time.UnixMilli(0), New(0)
	l.Join(sent)
	l.Joined(&Waiter{Mode: Write}, Reply{Ticket: 1, Last: 1, Place: Place{1, 1}, After: time.Second}, sent)
	if _, ok := l.Move(sent.Add(999 * time.Millisecond)); ok {
		t.Error("it asks too early")
	}
	m, ok := l.Move(sent.Add(3 * time.Second))
	if !ok {
		t.Fatal("it does not ask")
	}
	l.Moved(m, Reply{Last: 1, Place: Place{1, 1}, After: time.Second})
	if due := l.Due().Sub(m.Sent); due > time.Second+late {
		t.Error("it asks again after", due)
	}
}

// While Redis stands still nobody can take what is offered, so the offer is made again. R25
func TestRedisStandsStill(t *testing.T) {
	for mutant, granted := range map[string]int{"": 0, "nobody looks whether Redis was away": 1} {
		r := &redis{holds: map[string]*hold{}, publish: func(message) {}, mutant: mutant,
			grants: func(string, string, int64, Mode) {}}
		lock := func(proxy, token string) Reply {
			w := want{id: token, token: token, mode: Write, lease: 3000 * ms, wait: true}
			y, _ := r.lock(proxy, w, 0, 0)
			return y
		}
		lock("p", "a")
		lock("q", "b")
		r.release("p", "a", nil, nil)
		r.now += 1200 * ms
		if y := lock("p", "c"); y.Granted != granted {
			t.Errorf("%s: behind b comes %+v", mutant, y)
		}
	}
}
