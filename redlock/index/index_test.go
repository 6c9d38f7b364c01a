package index

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
	"lockproxy/redlock"
)

// shelf is an upstream with sorted sets.
type shelf struct {
	mu    sync.Mutex
	sets  map[string]map[string]int64
	ends  map[string]time.Time
	asked []string // verbs
	fail  func(verb string) (reply string, err error)
	loses error // the replies to what has run; nil: they come
	delay time.Duration
	bytes int // of requests
}

func (s *shelf) Do(ctx context.Context, _ int, req []byte, resend bool) ([]byte, error) {
	v, _, _ := resp.Parse(req)
	var args []string
	for _, e := range v.Elems {
		args = append(args, e.Text())
	}
	time.Sleep(s.delay)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes += len(req)
	s.asked = append(s.asked, args[0])
	if s.fail != nil {
		if reply, err := s.fail(args[0]); reply != "" || err != nil {
			return []byte(reply), err
		}
	}
	set := s.sets[args[1]]
	if set == nil {
		set = map[string]int64{}
		s.sets[args[1]] = set
	}
	switch args[0] {
	case "ZADD":
		for i := 2; i < len(args); i += 2 {
			set[args[i+1]], _ = strconv.ParseInt(args[i], 10, 64)
		}
	case "ZREM":
		for _, member := range args[2:] {
			delete(set, member)
		}
	case "ZREMRANGEBYSCORE":
		last, _ := strconv.ParseInt(args[3], 10, 64)
		for member, score := range set {
			if score <= last {
				delete(set, member)
			}
		}
	case "PEXPIRE":
		ms, _ := strconv.ParseInt(args[2], 10, 64)
		s.ends[args[1]] = time.Now().Add(time.Duration(ms) * time.Millisecond)
	case "ZRANGE":
		return resp.AppendCommandStrings(nil, slices.Collect(maps.Keys(set))...), nil
	}
	return resp.One, s.loses
}

// names are what all sets have.
func (s *shelf) names() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, set := range s.sets {
		for member := range set {
			eachName([]byte(member), func(name []byte) { all = append(all, canonical(string(name))) })
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func (s *shelf) took() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.asked)
	s.asked = nil
	return n
}

func (s *shelf) failing(f func(verb string) (string, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = f
}

// run gives two proxies over one upstream, in fake time.
func run(t *testing.T, test func(t *testing.T, s *shelf, x, y *Index)) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{sets: map[string]map[string]int64{}, ends: map[string]time.Time{}}
		var both [2]*Index
		for i := range both {
			both[i] = New(s, Options{Prefix: "lock:", MaxLease: time.Hour})
			defer both[i].Close(context.Background())
		}
		test(t, s, both[0], both[1])
	})
}

func (x *Index) take(name, token string, lease time.Duration) {
	x.grant(&redlock.Acquire{Name: name, Token: token, Mode: redlock.Write, Lease: lease})
}

func (x *Index) read(name, token string, atLeast time.Duration) {
	x.grant(&redlock.Acquire{Name: name, Token: token, Mode: redlock.Read, Lease: time.Minute,
		AtLeast: atLeast})
}

// grant notes a grant that was made now.
func (x *Index) grant(a *redlock.Acquire) {
	now := time.Now()
	x.Granted(a, &redlock.Grant{At: now, TTL: a.Lease}, now, nil)
}

func (x *Index) renew(name, token string, lease time.Duration) {
	x.Renewed(name, token, time.Now().Add(lease), nil, false)
}

// eachSet calls f with each set, between two looks.
func (x *Index) eachSet(f func(to *sortedSet)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.looking.Wait()
	for i := range x.sets {
		f(&x.sets[i])
	}
}

func expect(t *testing.T, x *Index, pattern, want string) {
	t.Helper()
	names, err := x.Names(t.Context(), pattern)
	if got := strings.Join(names, " "); got != want || err != nil {
		t.Errorf("%q: %q, %v, want %q", pattern, got, err, want)
	}
}

// What is held for long is known to all, and what this proxy has granted to this one at once. R21
func TestNames(t *testing.T) {
	run(t, func(t *testing.T, s *shelf, x, y *Index) {
		x.take("b", "1", time.Minute)
		x.take("{a}", "1", time.Minute)
		x.take("{u}:c", "1", time.Minute)
		expect(t, x, "*", "a b {u}:c")
		expect(t, x, "a*", "a")
		expect(t, y, "*", "")
		time.Sleep(500 * time.Millisecond)
		expect(t, y, "*", "a b {u}:c")
		expect(t, y, "[ab]", "a b")
		x.Freed("b", "2", 0, nil) // some other hold
		x.Freed("{a}", "1", 0, nil)
		expect(t, x, "*", "b {u}:c")
		time.Sleep(3 * time.Second)
		expect(t, x, "*", "b {u}:c")
		expect(t, y, "*", "b {u}:c")
		time.Sleep(2 * time.Minute)
		if got := s.names(); got != "" {
			t.Errorf("%q is left of locks whose leases are over", got)
		}
		if x.armed.Load() {
			t.Error("the timer is set though there is nothing to do")
		}
	})
}

// A short lock costs the upstream nothing.
func TestShortLocks(t *testing.T) {
	run(t, func(t *testing.T, s *shelf, x, y *Index) {
		for i := range 100 {
			x.take(fmt.Sprint(i), "1", time.Minute)
			time.Sleep(200 * time.Millisecond)
			x.Freed(fmt.Sprint(i), "1", 0, nil)
		}
		time.Sleep(time.Second)
		if n := s.took(); n != 0 {
			t.Errorf("%d commands for locks that were held for 200 ms", n)
		}
		if n := &x.notes; n.anyNote() {
			t.Error("notes are left")
		}
	})
}

// The name of a lock that is free stays for two seconds. A lock that is taken again meanwhile keeps it. In
// the end no name is left, however short the last holds were. R21
func TestTakenAgain(t *testing.T) {
	run(t, func(t *testing.T, s *shelf, x, y *Index) {
		x.take("job", "1", time.Minute)
		time.Sleep(time.Second)
		x.Freed("job", "1", 0, nil)
		expect(t, x, "*", "")
		time.Sleep(1900 * time.Millisecond)
		expect(t, y, "*", "job")
		x.take("job", "2", time.Minute)
		for range 50 {
			time.Sleep(100 * time.Millisecond)
			expect(t, x, "*", "job")
			expect(t, y, "*", "job")
		}
		for i := range 20 { // too short to be written
			x.Freed("job", fmt.Sprint(2+i), 0, nil)
			time.Sleep(100 * time.Millisecond)
			x.take("job", fmt.Sprint(3+i), time.Minute)
			time.Sleep(100 * time.Millisecond)
		}
		x.Freed("job", "22", 0, nil)
		time.Sleep(5 * time.Second) // it may have been looked at while it was held
		if left := s.names(); left != "" {
			t.Errorf("%q is left", left)
		}
		if x.notes.anyNote() {
			t.Error("notes are left")
		}
	})
}

// However locks come and go, another proxy sees each that has been held for half a second, and none that has
// been free for three. Packs are full, but for one in each set. R21
func TestPacks(t *testing.T) {
	run(t, func(t *testing.T, s *shelf, x, y *Index) {
		dice := rand.New(rand.NewPCG(1, 0))
		changed, held := make(map[string]time.Time), make(map[string]bool)
		for range 200 {
			for range dice.IntN(30) {
				name := fmt.Sprint(dice.IntN(600))
				if dice.IntN(4) == 0 {
					name = fmt.Sprint("{h", dice.IntN(3), "}") // these change all the time
				}
				if held[name] {
					x.Freed(name, "t", 0, nil)
				} else {
					x.take(name, "t", 40*time.Second+time.Duration(dice.IntN(1e11)))
				}
				changed[name], held[name] = time.Now(), !held[name]
			}
			for name := range held {
				if held[name] && dice.IntN(100) == 0 {
					x.renew(name, "t", 40*time.Second)
				}
				if !time.Now().Before(changed[name].Add(40 * time.Second)) { // its lease may end
					x.Freed(name, "t", 0, nil)
					delete(held, name)
					delete(changed, name)
				}
			}
			time.Sleep(time.Duration(dice.IntN(600)) * time.Millisecond)
			names, err := y.Names(t.Context(), "*")
			if err != nil {
				t.Fatal(err)
			}
			seen := make(map[string]bool)
			for _, name := range names {
				seen[name] = true
			}
			for name, at := range changed {
				age := time.Since(at)
				if held[name] && age > 500*time.Millisecond && !seen[canonical(name)] ||
					!held[name] && age > 3*time.Second && seen[canonical(name)] {
					t.Fatalf("%s: held %v for %v, seen %v", name, held[name], age, seen[canonical(name)])
				}
			}
			s.mu.Lock()
			members := 0
			for _, set := range s.sets {
				members += len(set)
			}
			s.mu.Unlock()
			if members > len(names)/mostInPack+keys {
				t.Fatalf("%d packs of %d names", members, len(names))
			}
		}
	})
}

// Whatever of the upstream fails, or runs though its reply is lost, or is lost itself: once it works again,
// and the holds are renewed, the list has all that is held, and soon nothing else. Short leases and long ones
// share packs. R21
func TestPacksThatFail(t *testing.T) {
	for seed := range uint64(3) {
		run(t, func(t *testing.T, s *shelf, x, y *Index) {
			dice, away := rand.New(rand.NewPCG(seed, 0)), errors.New("no such node")
			refused := func(string) (string, error) { return "-OOM no\r\n", nil }
			held := make(map[string]bool)
			for i := range 1000 {
				s.mu.Lock()
				switch dice.IntN(20) {
				case 0:
					s.fail = func(string) (string, error) { return "", away }
				case 1:
					s.fail = refused
				case 2:
					s.loses = away
				case 3:
					clear(s.sets)
				case 4, 5:
					s.fail, s.loses = nil, nil
				}
				s.mu.Unlock()
				name, lease := fmt.Sprint(dice.IntN(300)), time.Hour
				if len(name) < 3 {
					lease = 10 * time.Second
				}
				if held[name] = dice.IntN(2) == 0; held[name] {
					x.take(name, "t", lease)
				} else {
					x.Freed(name, "t", 0, nil)
				}
				if i%10 == 0 {
					for name := range held {
						if held[name] && len(name) < 3 {
							x.renew(name, "t", 10*time.Second)
						}
					}
				}
				time.Sleep(time.Duration(dice.IntN(600)) * time.Millisecond)
			}
			s.mu.Lock()
			s.fail, s.loses = nil, nil
			clear(s.sets)
			s.mu.Unlock()
			maps.DeleteFunc(held, func(_ string, is bool) bool { return !is })
			for name := range held {
				x.renew(name, "t", 3*time.Hour)
			}
			time.Sleep(5 * time.Second)
			expect(t, y, "*", strings.Join(slices.Sorted(maps.Keys(held)), " "))
			x.eachSet(func(to *sortedSet) {
				s.mu.Lock()
				defer s.mu.Unlock()
				if len(to.add)+len(to.gone) > 0 || len(s.sets[to.key]) > 4 {
					t.Errorf("%d to add, %d to remove, of %d", len(to.add), len(to.gone), len(s.sets[to.key]))
				}
			})
		})
	}
}

// A slow upstream has all names in the end: what has been written is not written again. R21
func TestSlowUpstream(t *testing.T) {
	run(t, func(t *testing.T, s *shelf, x, y *Index) {
		s.delay = 300 * time.Millisecond
		for i := range 60_000 {
			x.take(fmt.Sprint(i), "t", time.Hour)
		}
		time.Sleep(30 * time.Second)
		if names, err := y.Names(t.Context(), "*"); len(names) != 60_000 || err != nil || s.bytes > 2<<20 {
			t.Errorf("%d names, %v, %d bytes", len(names), err, s.bytes)
		}
	})
}

// Where names cannot be removed sets do not grow for ever, since scores end. They are removed once that
// works, also if no lock is held then. Where none can be added LIST says so, whatever else works. R21
func TestOneCommandForbidden(t *testing.T) {
	run(t, func(t *testing.T, s *shelf, x, y *Index) {
		forbid := func(what string) {
			s.failing(func(verb string) (reply string, err error) {
				if verb == what {
					reply = "-NOPERM no\r\n"
				}
				return reply, nil
			})
		}
		forbid("ZREM")
		for i := range 1200 {
			x.take(fmt.Sprint(i), "t", 2*time.Second)
			time.Sleep(500 * time.Millisecond)
			x.Freed(fmt.Sprint(i), "t", 0, nil)
		}
		if n := len(strings.Fields(s.names())); n > 300 { // two minutes, and those of the notes twice
			t.Errorf("%d names", n)
		}
		time.Sleep(10 * time.Second)
		s.failing(nil)
		time.Sleep(2 * failPause)
		if left := s.names(); left != "" {
			t.Errorf("%q are left", left)
		}
		forbid("ZREMRANGEBYSCORE")
		x.take("b", "t", time.Minute)
		time.Sleep(time.Minute / 2)
		if names := s.names(); names != "b" {
			t.Errorf("%q are written", names)
		}
		x.Freed("b", "t", 0, nil)
		forbid("ZADD")
		x.take("a", "t", time.Minute)
		time.Sleep(time.Second)
		x.Freed("a", "t", 0, nil)
		time.Sleep(5 * time.Second)
		if _, err := x.Names(t.Context(), "*"); !errors.Is(err, ErrUnable) {
			t.Error(err)
		}
		forbid("ZREM") // a proxy that has nothing to do gives it up in the end
		time.Sleep(3 * time.Minute)
		x.eachSet(func(to *sortedSet) {
			if to.isDue() {
				t.Errorf("%d packs are to be added, %d to be removed", len(to.add), len(to.gone))
			}
		})
		if x.armed.Load() {
			t.Error("the timer is set")
		}
	})
}

// A long name costs those that come and go beside it nothing.
func TestLongNames(t *testing.T) {
	run(t, func(t *testing.T, s *shelf, x, y *Index) {
		for i := range 32 {
			x.take(strings.Repeat("x", 100_000+i), "t", time.Hour)
		}
		time.Sleep(time.Second)
		s.mu.Lock()
		before := s.bytes
		s.mu.Unlock()
		for i := range 100 {
			x.take(fmt.Sprint(i), "t", time.Minute)
			time.Sleep(500 * time.Millisecond)
			x.Freed(fmt.Sprint(i), "t", 0, nil)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if n := s.bytes - before; n > 200_000 {
			t.Errorf("%d bytes for a hundred short names", n)
		}
	})
}

// Of what is no pack nothing is read that it does not have.
func FuzzPack(f *testing.F) {
	f.Add([]byte("ABCDEFGH\x01\x03job\x00"))
	f.Add([]byte("ABCDEFGH\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Add([]byte("ABC"))
	f.Fuzz(func(t *testing.T, member []byte) {
		size := 0
		eachName(member, func(name []byte) { size += 1 + len(name) })
		if size > max(0, len(member)-idBytes) {
			t.Errorf("names of %d bytes in %d", size, len(member))
		}
	})
}

// A hold that is renewed stays, and is written with each third renewal at most.
func TestRenewals(t *testing.T) {
	run(t, func(t *testing.T, s *shelf, x, y *Index) {
		x.take("job", "1", 30*time.Second)
		time.Sleep(time.Second)
		s.took()
		for range 60 {
			time.Sleep(10 * time.Second)
			x.renew("job", "1", 30*time.Second)
			expect(t, y, "*", "job")
		}
		time.Sleep(time.Second)
		if n := s.took() - 60*keys; n > 60 { // ZADD, PEXPIRE and sweeps
			t.Errorf("%d commands for 60 renewals", n)
		}
		time.Sleep(time.Minute)
		expect(t, y, "*", "")
	})
}

// Readers have a hold each, and the name stays until the last is gone. A writer is alone.
func TestHolders(t *testing.T) {
	run(t, func(t *testing.T, s *shelf, x, y *Index) {
		for i := range 3 {
			x.read("doc", fmt.Sprint(i), 0)
		}
		time.Sleep(time.Second)
		x.Freed("doc", "0", 0, nil)
		x.Freed("doc", "2", 0, nil)
		time.Sleep(time.Second)
		expect(t, y, "*", "doc")
		y.take("doc", "3", time.Minute)
		x.Freed("doc", "1", 0, nil)
		time.Sleep(time.Second)
		expect(t, x, "*", "doc")
		y.take("doc", "4", time.Minute)
		y.Freed("doc", "4", 0, nil)
		time.Sleep(3 * time.Second)
		expect(t, x, "*", "")
		for i := range x.notes.shards {
			if s := &x.notes.shards[i]; s.count != 0 || s.bytes != 0 {
				t.Errorf("%d holds of %d bytes are counted", s.count, s.bytes)
			}
		}
	})
}

// What is freed early, but rests, stays until the rest is over, and is counted once. R21
func TestRests(t *testing.T) {
	run(t, func(t *testing.T, s *shelf, x, y *Index) {
		for i := range 4 {
			least := [...]time.Duration{0, 10 * time.Second, 20 * time.Second, time.Second}
			x.read("doc", strings.Repeat("t", i+1), least[i])
			x.renew("doc", strings.Repeat("t", i+1), time.Minute)
		}
		for i := range 4 {
			if i == 2 { // kept alive, until its connection broke
				x.Freed("doc", strings.Repeat("t", i+1), 0, nil)
			}
			x.Freed("doc", strings.Repeat("t", i+1), 0, nil)
			x.Freed("doc", strings.Repeat("t", i+1), 0, nil)
		}
		if holders, _ := x.Who("doc"); len(holders) > 0 {
			t.Errorf("%v hold what rests", holders)
		}
		time.Sleep(19 * time.Second)
		expect(t, x, "*", "doc")
		expect(t, y, "*", "doc")
		time.Sleep(15 * time.Second) // until it is noticed
		expect(t, x, "*", "")
		for i := range x.notes.shards {
			if s := &x.notes.shards[i]; s.count != 0 || s.bytes != 0 {
				t.Errorf("%d holds of %d bytes are counted", s.count, s.bytes)
			}
		}
	})
}

// What a proxy leaves that was killed goes with its lease, and the sets do not stay for ever.
func TestLeftBehind(t *testing.T) {
	run(t, func(t *testing.T, s *shelf, x, y *Index) {
		for i := range 100 {
			x.take(fmt.Sprint(i), "1", time.Minute)
		}
		time.Sleep(time.Second)
		x.mu.Lock()
		x.closed = true // it writes no more
		x.mu.Unlock()
		time.Sleep(5 * time.Minute)
		for i := range 2000 { // so many that each set gets some, however names are spread
			y.take(fmt.Sprint("y", i), "1", 10*time.Second)
		}
		time.Sleep(time.Second)
		if got := strings.Fields(s.names()); len(got) != 2000 || got[0] != "y0" {
			t.Errorf("%d names are left: %q", len(got), got)
		}
		for key := range s.sets {
			if left := time.Until(s.ends[key]); left < time.Hour || left > 3*time.Hour {
				t.Errorf("%s stays for %v", key, left)
			}
		}
	})
}

// A proxy that ends in good order leaves word of what is held.
func TestClose(t *testing.T) {
	run(t, func(t *testing.T, s *shelf, x, y *Index) {
		x.take("job", "1", time.Minute)
		x.Close(t.Context())
		expect(t, y, "*", "job")
		x.take("more", "1", time.Minute)
		time.Sleep(time.Second)
		expect(t, y, "*", "job")
	})
}

// What could not be written is written later. Where it is forbidden, whoever asks is told so.
func TestTrouble(t *testing.T) {
	run(t, func(t *testing.T, s *shelf, x, y *Index) {
		var text strings.Builder
		x.o.Log = slog.New(slog.NewTextHandler(&text, nil))
		away := errors.New("no such node")
		s.failing(func(string) (string, error) { return "", away })
		x.take("job", "1", time.Hour)
		time.Sleep(3 * time.Second)
		if _, err := x.Names(t.Context(), "*"); !errors.Is(err, away) {
			t.Errorf("%v", err)
		}
		s.failing(nil)
		time.Sleep(2 * time.Second)
		expect(t, y, "*", "job")

		s.failing(func(verb string) (string, error) {
			if verb == "ZADD" {
				return "-NOPERM no\r\n", nil
			}
			return "", nil
		})
		x.take("other", "1", time.Hour)
		for i := range 60 {
			x.renew("other", "1", time.Duration(i+2)*time.Hour)
			time.Sleep(time.Second)
		}
		x.eachSet(func(to *sortedSet) {
			if len(to.add) > 2 {
				t.Errorf("%d packs are to be added for two names", len(to.add))
			}
		})
		if _, err := x.Names(t.Context(), "*"); !errors.Is(err, ErrUnable) {
			t.Errorf("%v", err)
		}
		if n := strings.Count(text.String(), "LOCKCTL LIST looks"); n != 1 {
			t.Errorf("%d lines in the log: %s", n, text.String())
		}
		s.failing(nil)
		time.Sleep(time.Minute)
		expect(t, x, "*", "job other")
		expect(t, y, "*", "job other")

		s.failing(func(string) (string, error) { return "-WRONGTYPE no\r\n", nil })
		if _, err := y.Names(t.Context(), "*"); !errors.Is(err, ErrUnable) {
			t.Errorf("%v", err)
		}
	})
}

// Notes are bounded, and what they have no room for is counted.
func TestBounds(t *testing.T) {
	run(t, func(t *testing.T, s *shelf, x, y *Index) {
		x.take("short", "1", time.Minute)
		if n := x.Unnoted(); n != 0 {
			t.Errorf("%d unnoted", n)
		}
		long := strings.Repeat("x", mostBytes/8)
		for i := range 20 * shards {
			x.take(long[i:], "1", time.Minute)
			x.read("one", long[i:], 0)
		}
		noted := 0
		for i := range x.notes.shards {
			s := &x.notes.shards[i]
			if noted += s.count; s.bytes > mostBytes || s.count > mostNotes {
				t.Errorf("%d holds of %d bytes", s.count, s.bytes)
			}
		}
		if n := x.Unnoted(); n < 20*shards || n > 40*shards || n != x.Unmeasured() ||
			int(n)+noted != 40*shards+1 {
			t.Errorf("%d unnoted, %d unmeasured, %d noted", n, x.Unmeasured(), noted)
		}
		for i := range 20 * shards {
			x.Freed(long[i:], "1", 0, nil)
		}
	})
}

// The record of a grant costs no memory where others were freed: a LOCK and its UNLOCK use it four times.
func TestRecordsAreUsedAgain(t *testing.T) {
	x, n := New(nil, Options{}), 0
	names := strings.Repeat("name of a lock", 200)
	a := &redlock.Acquire{Token: "t", Mode: redlock.Write, Lease: time.Minute, Plain: true,
		ID: strings.Repeat("i", redlock.IDBytes)}
	pair := func() {
		n++
		a.Name = names[n:]
		now := time.Now()
		x.Ask(a, now)
		x.Granted(a, &redlock.Grant{At: now, TTL: a.Lease, Fence: 7}, now, nil)
		r := redlock.Release{Name: a.Name, Token: a.Token}
		if p := x.TakePlain(&r); string(p.ID[:]) != a.ID || p.Fence != 7 || x.PlainFence(&r, &p) != 7 {
			t.Errorf("%+v", p)
		}
		if p := x.TakePlain(&r); !p.Ends.IsZero() {
			t.Error("it is freed twice")
		}
		e, ok := x.Freed(a.Name, a.Token, 0, nil)
		if !ok || e.Fence != 7 || e.Mode != redlock.Write || e.Over {
			t.Errorf("%+v", e)
		}
	}
	for i := range x.notes.shards { // each has one to be used again
		s := &x.notes.shards[i]
		s.addNote("job", 0, &held{token: "t"}, 0)
		k := s.findNote("job", 0)
		s.removeHold(k, &k.holds[0])
		s.forgetFree(k, 0)
	}
	if n := testing.AllocsPerRun(1000, pair); n > 0 {
		t.Errorf("%v allocations", n)
	}
	for i := range x.notes.shards {
		if s := &x.notes.shards[i]; len(s.spare) > 1 || len(s.notes) != 0 {
			t.Errorf("%d records to be used again, of %d locks", len(s.spare), len(s.notes))
		}
	}
}

// A second holder makes a list, in which alone the first stands then. The last one needs no list.
func TestListOfHolders(t *testing.T) {
	x, now := New(nil, Options{}), time.Now()
	for _, token := range []string{"a", "b"} {
		a := &redlock.Acquire{Name: "job", Token: token, Mode: redlock.Read, Lease: time.Minute}
		x.Granted(a, &redlock.Grant{At: now, TTL: a.Lease, Fence: 7}, now, nil)
	}
	s, hash := x.notes.lockShard("job")
	k := s.findNote("job", hash)
	s.mu.Unlock()
	if len(k.holds) != 2 || k.space[0].token != "" {
		t.Errorf("two hold it: %+v", k)
	}
	x.Freed("job", "a", 0, nil)
	if len(k.holds) != 1 || &k.holds[0] != &k.space[0] || k.holds[0].token != "b" {
		t.Errorf("one holds it: %+v", k)
	}
}

// A lock whose new writer finds no room is noted no more: the holds of before have ended.
func TestNoRoomForTheNextWriter(t *testing.T) {
	x, now := New(nil, Options{}), time.Now()
	s, hash := x.notes.lockShard("job")
	s.bytes = mostBytes - 100
	s.mu.Unlock()
	for _, token := range []string{"short", strings.Repeat("long", 100)} {
		a := &redlock.Acquire{Name: "job", Token: token, Mode: redlock.Write, Lease: time.Minute}
		x.Granted(a, &redlock.Grant{At: now, TTL: a.Lease, Fence: 7}, now, nil)
	}
	if s.findNote("job", hash) != nil || s.bytes != mostBytes-100 || x.notes.unnoted.Load() != 1 {
		t.Errorf("%+v, %d bytes, %d not noted", s.findNote("job", hash), s.bytes, x.notes.unnoted.Load())
	}
	if noted := x.notes.noted(); len(noted) > 0 {
		t.Errorf("%q are noted", noted)
	}
}

// What ends by itself is told, with how long it was held, and what is kept alive is left to who keeps it.
func TestEndsAreTold(t *testing.T) {
	run(t, func(t *testing.T, s *shelf, x, y *Index) {
		var told []string
		x.Tell(func(name string, e Ended) { told = append(told, fmt.Sprint(name, e.Took, e.Over)) })
		x.take("job", "1", time.Second)
		x.take("kept", "1", time.Second)
		x.Renewed("kept", "1", time.Now().Add(time.Second), nil, true)
		x.read("doc", "1", 0)
		time.Sleep(10 * time.Second)
		x.take("doc", "2", time.Hour)
		x.Expire()
		if got := fmt.Sprint(told); got != "[job1s true doc10s false]" {
			t.Errorf("told %s", got)
		}
		if e, ok := x.Freed("kept", "1", 1, nil); ok {
			t.Errorf("a hold with another fence: %+v", e)
		}
		if e, ok := x.Freed("kept", "1", 0, nil); !ok || e.Took != 10*time.Second || e.Over {
			t.Errorf("%+v %v", e, ok)
		}
		if all := x.Broken("doc", "2", time.Now()); len(all) != 0 {
			t.Errorf("%+v", all)
		}
		if all := x.Broken("doc", "", time.Now().Add(1)); len(all) != 1 || all[0].Took != 0 {
			t.Errorf("%+v", all)
		}
	})
}

// BREAK ends what was granted before it was asked for, not what a waiter got by it. R12
func TestBrokenIsWhatWasThere(t *testing.T) {
	run(t, func(t *testing.T, s *shelf, x, y *Index) {
		x.take("job", "1", time.Minute)
		time.Sleep(time.Second)
		asked := time.Now()
		x.take("job", "2", time.Minute)
		if all := x.Broken("job", "", asked); len(all) != 0 {
			t.Errorf("%+v", all)
		}
		expect(t, x, "*", "job")
		time.Sleep(time.Second)
		if all := x.Broken("job", "", time.Now()); len(all) != 1 || all[0].Took != time.Second {
			t.Errorf("%+v", all)
		}
		expect(t, x, "*", "")
	})
}

// A LOCK whose client has not read the answer is given back, and the hold that the token had goes on.
func TestUndoneLeavesTheHold(t *testing.T) {
	run(t, func(t *testing.T, s *shelf, x, y *Index) {
		told := 0
		x.Tell(func(string, Ended) { told++ })
		x.take("job", "1", time.Minute)
		x.take("job", "1", time.Minute)
		x.Undone("job", "1", 7)
		k := x.notes.shards[x.notes.hash("job")%shards].findNote("job", x.notes.hash("job"))
		if !k.holds[0].measured() {
			t.Error("another grant was undone")
		}
		x.Undone("job", "1", 0)
		time.Sleep(time.Second)
		expect(t, x, "*", "job")
		expect(t, y, "*", "job")
		if e, ok := x.Freed("job", "1", 0, nil); ok || told > 0 {
			t.Errorf("%+v is measured, %d told", e, told)
		}
	})
}

// Who freed a hold may tell so when the next one is granted already: it is known still, and measured once.
func TestFreedLate(t *testing.T) {
	run(t, func(t *testing.T, s *shelf, x, y *Index) {
		told := 0
		x.Tell(func(string, Ended) { told++ })
		for i := range 3 {
			x.take("job", fmt.Sprint(i), time.Minute)
			time.Sleep(patience / 2)
		}
		e, ok := x.Freed("job", "1", 0, nil)
		if ok || e.Mode != redlock.Write || e.Took != patience/2 || told != 2 {
			t.Errorf("%+v %v, %d told", e, ok, told)
		}
		for _, token := range []string{"0", "1"} {
			if e, ok := x.Freed("job", token, 0, nil); ok || e.Mode != "" {
				t.Errorf("%s: %+v %v", token, e, ok)
			}
		}
		x.take("job", "3", time.Minute)
		time.Sleep(patience)
		if e, ok := x.Freed("job", "2", 0, nil); ok || e.Mode != "" {
			t.Errorf("long ago: %+v %v", e, ok)
		}
		expect(t, x, "*", "job")
	})
}

// An UNLOCK that is answered when its token has the lock anew ends the hold that there was. R12
func TestFreedIsWhatWasThere(t *testing.T) {
	run(t, func(t *testing.T, s *shelf, x, y *Index) {
		a := &redlock.Acquire{Name: "job", Token: "1", Mode: redlock.Write}
		for fence := range int64(2) {
			x.Granted(a, &redlock.Grant{At: time.Now(), TTL: time.Minute, Fence: 7 + fence}, time.Now(), nil)
		}
		if e, ok := x.Freed("job", "1", 7, nil); ok || x.Granting("job", "1") != 8 {
			t.Errorf("%+v was freed", e)
		}
		expect(t, x, "*", "job")
		if e, ok := x.Freed("job", "1", 8, nil); !ok || e.Fence != 8 || x.Granting("job", "1") != 0 {
			t.Errorf("%+v %v", e, ok)
		}
		expect(t, x, "*", "")
	})
}

// A RENEW that is told that its token holds nothing, after the token has got the lock, ends nothing. R12
func TestNotHeldIsWhatWasAskedAbout(t *testing.T) {
	run(t, func(t *testing.T, s *shelf, x, y *Index) {
		a := &redlock.Acquire{Name: "job", Token: "1", Mode: redlock.Write, Plain: true,
			ID: strings.Repeat("i", redlock.IDBytes)}
		was := x.Granting("job", "1") // RENEW is sent
		x.Ask(a, time.Now())          // so is LOCK, by another connection
		x.Granted(a, &redlock.Grant{At: time.Now(), TTL: time.Minute, Fence: 7}, time.Now(), nil)
		if e, ok := x.NotHeld("job", "1", was, nil); ok || x.Granting("job", "1") != 7 {
			t.Errorf("%+v has ended", e)
		}
		expect(t, x, "*", "job")
		if e, ok := x.NotHeld("job", "1", 7, nil); !ok || e.Fence != 7 {
			t.Errorf("%+v %v", e, ok)
		}
		expect(t, x, "*", "")
	})
}

// Nobody here knows the fence of a hold that was granted through another proxy, and it is forgotten as any.
func TestGoneElsewhereGranted(t *testing.T) {
	run(t, func(t *testing.T, s *shelf, x, y *Index) {
		x.Renewed("job", "1", time.Now().Add(time.Hour), nil, true)
		if e, ok := x.Freed("job", "1", 7, nil); ok {
			t.Errorf("%+v was granted here", e)
		}
		expect(t, x, "*", "")
	})
}

// A hold that was kept alive, and that nobody has told the end of, has lasted as long as its lease.
func TestKeptIsOverLater(t *testing.T) {
	run(t, func(t *testing.T, s *shelf, x, y *Index) {
		var told []Ended
		x.Tell(func(_ string, e Ended) { told = append(told, e) })
		x.take("job", "1", time.Second)
		x.Renewed("job", "1", time.Now().Add(2*time.Second), nil, true)
		time.Sleep(2*time.Second + keptFor)
		x.Expire()
		if len(told) != 1 || !told[0].Over || told[0].Took != 2*time.Second {
			t.Errorf("%+v", told)
		}
	})
}

// An Index without an upstream says so.
func TestNoUpstream(t *testing.T) {
	x := New(nil, Options{})
	x.take("job", "1", time.Minute)
	x.Close(t.Context())
	if _, err := x.Names(t.Context(), "*"); !errors.Is(err, ErrUnable) {
		t.Error(err)
	}
}

// No lock has the key of a set.
func TestKeysOfSets(t *testing.T) {
	x := New(&shelf{}, Options{Prefix: "lock:"})
	names := redlock.NewNames("lock:")
	slots := map[int]bool{}
	for _, set := range x.sets {
		slots[slot.Of([]byte(set.key))] = true
		if name, ok := names.LockOf(set.key); ok {
			t.Errorf("%s is the key of the lock %s", set.key, name)
		}
		if key := names.Place(strings.TrimPrefix(set.key, "lock:")).Key; key == set.key {
			t.Errorf("a lock has the key %s", key)
		}
	}
	if len(slots) != keys {
		t.Errorf("%d slots", len(slots))
	}
}
