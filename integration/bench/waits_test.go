package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/integration/rig"
)

// fakeLocks are locks of which each is taken in 2 ms and freed in 1 ms.
type fakeLocks struct {
	mu    sync.Mutex
	held  map[string]bool
	taken map[string]int
	fails int // the grant that fails; 0: none does
}

func (f *fakeLocks) way() way {
	f.held, f.taken = map[string]bool{}, map[string]int{}
	return way{name: "fake", locker: func(_ context.Context, key string, _ int) (locker, error) {
		return locker{lock: func(ctx context.Context) error {
			if err := rig.Pause(ctx, 2*time.Millisecond); err != nil {
				return err
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			f.taken[key]++
			if f.held[key] {
				return errors.New("held")
			}
			if f.fails > 0 && f.taken[key] == f.fails {
				return errors.New("no more")
			}
			f.held[key] = true
			return nil
		}, unlock: func(ctx context.Context) error {
			f.mu.Lock()
			f.held[key] = false
			f.mu.Unlock()
			return rig.Pause(ctx, time.Millisecond)
		}, close: func() {}}, nil
	}}
}

// Each client has a lock of its own and takes it as often as it is told, after some times that do not
// count; the latency is that of taking it, the rate that of taking and freeing it.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f fakeLocks
		s, err := f.way().alone(t, 4, 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(f.taken) != 4 {
			t.Errorf("%d locks of 4 clients", len(f.taken))
		}
		for key, n := range f.taken {
			if n != 1+10+100 || f.held[key] {
				t.Errorf("%s: taken %d times, held: %v", key, n, f.held[key])
			}
		}
		if s[p50] != 2000 || s[p99] != 2000 || int(s[rate]+0.5) != 4000/3 {
			t.Errorf("%v; want 2 ms and 1333 grants a second", s)
		}
	})
}

// A client that fails ends the measurement, and its reason is what is told.
func TestAloneFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fakeLocks{fails: 20}
		began := time.Now()
		if _, err := f.way().alone(t, 4, 1000); err == nil || err.Error() != "lock: no more" {
			t.Errorf("error %v", err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %v, as if the others had gone on", took)
		}
	})
}

// passedWay is a way to a lock that comes free 3 ms after it is given up, of which there are so many: one, or
// it is no lock.
func passedWay(locks int) way {
	free := make(chan struct{}, 10)
	for range locks {
		free <- struct{}{}
	}
	return way{name: "passed", locker: func(context.Context, string, int) (locker, error) {
		return passed(free), nil
	}}
}

func passed(free chan struct{}) locker {
	return locker{lock: func(ctx context.Context) error {
		select {
		case <-free:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}, unlock: func(context.Context) error {
		time.AfterFunc(3*time.Millisecond, func() { free <- struct{}{} })
		return nil
	}, close: func() {}}
}

// Whoever waits gets the lock once for each time that the queue drains, and the time that counts is from its
// being given up to the next one having it, without that for which it was held.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := passedWay(1).drain(t, 4, 10)
		if err != nil {
			t.Fatal(err)
		}
		if s[p50] != 3000 || s[p99] != 3000 || s[part(100)] != 3000 {
			t.Errorf("%+v", s)
		}
	})
}

// In a contest the same counts, from when all have had the lock, and so often as is wanted.
func TestContend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := passedWay(1).contend(t, 4, 100)
		if err != nil {
			t.Fatal(err)
		}
		if s[p50] != 3000 || s[p99] != 3000 || int(s[rate]+0.5) != 1000/3 {
			t.Errorf("%+v", s)
		}
	})
}

// Only one may hold the lock.
func TestNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := passedWay(2).drain(t, 4, 10)
		var h handovers
		l := passed(make(chan struct{}))
		l.lock = func(context.Context) error { return nil }
		_, first := h.take(t.Context(), l)
		_, also := h.take(t.Context(), l)
		if first != nil {
			t.Error(first)
		}
		for _, err := range []error{err, also} {
			if err == nil || !strings.Contains(err.Error(), "two hold the lock") {
				t.Errorf("two hold it and the error is %v", err)
			}
		}
	})
}

// ended is a life that says how it ended.
type ended struct {
	testing.TB
	told string
}

func (e *ended) Fatalf(format string, args ...any) { e.told = fmt.Sprintf(format, args...) }

// A waiter that is lost ends the measurement. It is left out where it is a yardstick's, and no lockproxy's.
func TestDrainLosesAWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := passedWay(1)
		others := w.locker
		w.locker = func(ctx context.Context, key string, i int) (locker, error) {
			if i == 2 {
				return passed(make(chan struct{})), nil
			}
			return others(ctx, key, i)
		}
		_, err := w.drain(t, 4, 10)
		if err == nil {
			t.Fatal("nobody is missed")
		}
		l := &ended{TB: t}
		if w.measured(l, nil, err); l.told != "" {
			t.Errorf("a yardstick may not lose a waiter: %s", l.told)
		}
		w.queued = func(string) (int, error) { return 0, nil }
		if w.measured(l, nil, err); l.told == "" {
			t.Error("a lockproxy may lose a waiter")
		}
	})
}

// Each target is of the ratio that its row names, from the rounds of its own number of masters.
func TestIndependentTargets(t *testing.T) {
	r := results{}
	for _, n := range quorums {
		us, whats := float64(n), over(n)
		r.add(whats[0], oneProxy, sample{p50: 90 * us, cpu: 40 * us})
		r.add(whats[0], redsyncName, sample{p50: 100 * us})
		r.add(whats[0], plainName, sample{cpu: 20 * us})
		r.add(whats[1], oneProxy, sample{rate: 199, cpu: 15 * us})
		r.add(whats[1], redsyncName, sample{rate: 100})
		r.add(whats[1], plainName, sample{cpu: 10 * us})
	}
	var rep report
	independentTargets(&rep, r)
	var words []string
	for _, v := range rep.Targets {
		words = append(words, v.Word())
	}
	if want := []string{"reached", "not reached", "reached", "not reached",
		"reached", "not reached", "reached", "reached"}; !slices.Equal(words, want) {
		t.Errorf("got %v, want %v", words, want)
	}
}

// A go-redis client says what it should, keeps the token, and a wait of its ends with the measurement.
func TestLibraryLocker(t *testing.T) {
	const lock, unlock = "*6\r\n$4\r\nLOCK\r\n$3\r\njob\r\n$4\r\nWAIT\r\n$1\r\n0\r\n$2\r\nPX\r\n$5\r\n" +
		"10000\r\n", "*3\r\n$6\r\nUNLOCK\r\n$3\r\njob\r\n$3\r\nabc\r\n"
	addr, said := conversation(t, map[string]string{
		lock:   "*4\r\n$3\r\nabc\r\n:17\r\n:9000\r\n:1\r\n",
		unlock: ":1\r\n",
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := way{doors: []string{addr}}.withLibrary(independentLease)
	l, _ := w.locker(ctx, "job", 0)
	defer l.close()
	if err := errors.Join(l.lock(ctx), l.unlock(ctx)); err != nil {
		t.Fatal(err)
	}
	if got := <-said + <-said; got != lock+unlock {
		t.Errorf("said %q", got)
	}
	waiter, _ := w.locker(ctx, "other", 0)
	defer waiter.close()
	ended := make(chan error, 1)
	go func() { ended <- waiter.lock(ctx) }()
	if got := <-said; !strings.Contains(got, "other") { // it is not answered
		t.Fatalf("said %q", got)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("a grant that nobody gave")
	}
}

// Who frees a lock that it does not have any more has not freed it.
func TestLibraryLockerLate(t *testing.T) {
	for _, reply := range []string{":0\r\n", "$-1\r\n", "-ERR no\r\n"} {
		addr, _ := conversation(t, map[string]string{"*3\r\n$6\r\nUNLOCK\r\n$3\r\njob\r\n$0\r\n\r\n": reply})
		l, _ := way{doors: []string{addr}}.withLibrary(lease).locker(t.Context(), "job", 0)
		if err := l.unlock(t.Context()); err == nil {
			t.Errorf("%q is no error", reply)
		}
		l.close()
	}
}

// conversation is a server that knows some requests and tells all that it hears after the
// handshake of a library, which it refuses.
func conversation(t *testing.T, replies map[string]string) (addr string, said chan string) {
	said = make(chan string, 10)
	return served(t, func(conn net.Conn) {
		in := bufio.NewReader(conn)
		for {
			request, err := rig.ReadReply(in) // a request is framed like a reply
			if err != nil {
				return
			}
			if verb := request.Elems[0].Text; verb == "hello" || verb == "client" {
				conn.Write([]byte("-ERR unknown command\r\n"))
				continue
			}
			said <- string(request.Raw)
			conn.Write([]byte(replies[string(request.Raw)]))
		}
	}), said
}
