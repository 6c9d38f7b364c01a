package redlock

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/redlock/scripts"
)

// A lock has only so many readers: one more is refused by name, whether it may wait or not, and so is one
// that has waited for a writer. Who reads already is not, nor is one who comes when another has gone or its
// lease is over. R28 R29
func TestMostReaders(t *testing.T) {
	everywhere(t, func(t *testing.T, s *server) {
		p := s.proxies(t, 1, Options{MaxReaders: 3})[0]
		read := func(token string, lease, wait time.Duration) result {
			return p.lock(t.Context(), Acquire{Token: token, Mode: Read, Lease: lease, Wait: wait})
		}
		full := func(r result) {
			t.Helper()
			if r.ok || r.err == nil || !strings.HasPrefix(r.err.Error(), "QUEUEFULL 3 clients share this lock already") || !Refused(r.err) {
				t.Errorf("one reader more: %+v", r)
			}
		}
		for i := range 3 {
			if r := read(fmt.Sprint("r", i), time.Minute, 0); !r.ok {
				t.Fatalf("reader %d: %+v", i, r)
			}
		}
		full(read("more", time.Minute, 0))
		full(read("more", time.Minute, time.Minute))
		if r := read("r1", time.Minute, 0); !r.ok {
			t.Errorf("a reader, again: %+v", r)
		}
		if got := p.unlock("r1"); got != 1 {
			t.Errorf("UNLOCK: %d", got)
		}
		if r := read("short", 3*time.Second, 0); !r.ok {
			t.Errorf("in the place of one that has gone: %+v", r)
		}
		full(read("more", time.Minute, 0))
		time.Sleep(4100 * time.Millisecond) // its lease is over, and they have not been looked at for a second
		if r := read("more", time.Minute, 0); !r.ok {
			t.Errorf("in the place of one whose lease is over: %+v", r)
		}
		full(read("yet more", time.Minute, 0))
		for _, token := range []string{"r0", "r2", "more"} {
			if got := p.unlock(token); got != 1 {
				t.Errorf("UNLOCK %s: %d", token, got)
			}
		}
		if keys := s.keys(); len(keys) != 0 {
			t.Errorf("left: %v", keys)
		}
	})
}

// Readers that a proxy of an older version let in are in no list. They count as any others. R28
func TestReadersOfAnOlderVersion(t *testing.T) {
	everywhere(t, func(t *testing.T, s *server) {
		l := &teller{t: t, s: s, c: s.connect()}
		defer l.c.Close()
		must := func(line, want string) {
			t.Helper()
			if got := l.tell(line); got != want && !near(got, want) {
				t.Errorf("%s: %s, want %s", line, got, want)
			}
		}
		older := func() {
			t.Helper()
			must("redis HDEL lock:{job} m m:0", "2")
		}
		must("acquire a i1 r 5000", "[a F1 ~5000 1]")
		must("acquire b i2 r 60000", "[b F2 ~60000 1]")
		older()
		must("acquire c i3 r 5000", "[c F3 ~5000 1]")
		must("acquire c i4 w 5000 P1", "[0 ~60000 *]")
		must("release c u1", "1")
		must("acquire b i5 w 5000 P1", "[0 ~5000 ]")
		must("release a u2 - P1", "1")
		must("acquire b i5 w 5000 P1", "[b F4 ~60000 1]")
		must("release b u3", "1")
		must("exists", "0")

		must("acquire a i6 r 60000", "[a F5 ~60000 1]")
		older()
		must("acquire b i7 r 60000", "[b F6 ~60000 1]")
		if got := len(l.run(scripts.Inspect, []string{lockKey}).Elems); got != 1+2*2 {
			t.Errorf("INFO has %d parts, want the time and two readers", got)
		}
		must("break", "1")
		must("exists", "0")
	})
}

// INFO tells of all readers, and BREAK ends all their holds, though so long ones are read in several steps. Who waits
// gets the lock when the last one has gone. R21 R23 R28
func TestReadersWithLongMeta(t *testing.T) {
	const n = 450 // three steps
	meta := strings.Repeat("m", 1024)
	look := func(t *testing.T, l *Locker, k *asker) {
		t.Helper()
		for _, of := range []string{"", "r7"} {
			l.Inspect(k, "job", of, func(s State, err error) []byte {
				if want := map[string]int{"": n, "r7": 1}[of]; err != nil || len(s.Holders) != want {
					t.Errorf("%q sees %d readers, want %d: %v", of, len(s.Holders), want, err)
				}
				if h := s.Held("r7"); h == nil || h.Meta != meta {
					t.Errorf("%q does not see r7", of)
				}
				return nil
			})
		}
		if all, err := l.List(t.Context(), "job", 2); err != nil || len(all) != 1 || len(all[0].State.Holders) != n {
			t.Errorf("LIST sees %d locks: %v", len(all), err)
		}
	}
	everywhere(t, func(t *testing.T, s *server) {
		p := s.proxies(t, 2)
		for i := range n {
			if r := p[0].lock(t.Context(), Acquire{Token: fmt.Sprint("r", i), Mode: Read, Lease: time.Hour, Meta: meta}); !r.ok {
				t.Fatalf("reader %d: %+v", i, r)
			}
		}
		look(t, p[1].Locker, p[1].client())
		waits := p[1].begin(t.Context(), Acquire{Token: "w", Wait: time.Minute})
		waiting(t, waits)
		if broken, err := p[1].client().breaks("job"); err != nil || !broken {
			t.Errorf("BREAK: %v %v", broken, err)
		}
		granted(t, waits)
		if got := p[1].unlock("w"); got != 1 {
			t.Errorf("UNLOCK: %d", got)
		}
		s.empty(t)
	})
	t.Run("independent masters", func(t *testing.T) {
		atSea(t, 3, 1, func(t *testing.T, s *sea) {
			l := s.proxies[0]
			for i := range n {
				mustLock(t, l, Acquire{Token: fmt.Sprint("r", i), Mode: Read, Lease: time.Hour, Meta: meta})
			}
			look(t, l, &asker{l: l})
			if broken, err := (&asker{l: l}).breaks("job"); err != nil || !broken {
				t.Errorf("BREAK: %v %v", broken, err)
			}
			time.Sleep(time.Second)
			if err := s.free(); err != nil {
				t.Error(err)
			}
			if broken, err := (&asker{l: l}).breaks("job"); err != nil || broken {
				t.Errorf("BREAK of a free lock: %v %v", broken, err)
			}
		})
	})
}
