package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fakeLocks are locks of which each is taken in 2 ms and freed in 1 ms.
type fakeLocks struct {
	mu    sync.Mutex
	held  map[string]bool
	taken map[string]int
	fails int // the grant that fails; 0: none does
}

type fakeLocker struct {
	all *fakeLocks
	key string
}

func (f *fakeLocks) way() lockWay {
	f.held, f.taken = map[string]bool{}, map[string]int{}
	return lockWay{name: "fake", locker: func(_ context.Context, key string, _ int) (locker, error) {
		return fakeLocker{f, key}, nil
	}}
}

func (l fakeLocker) lock(ctx context.Context) error {
	if err := pause(ctx, 2*time.Millisecond); err != nil {
		return err
	}
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	l.all.taken[l.key]++
	if l.all.held[l.key] {
		return errors.New("held")
	}
	if l.all.fails > 0 && l.all.taken[l.key] == l.all.fails {
		return errors.New("no more")
	}
	l.all.held[l.key] = true
	return nil
}

func (l fakeLocker) unlock(ctx context.Context) error {
	l.all.mu.Lock()
	l.all.held[l.key] = false
	l.all.mu.Unlock()
	return pause(ctx, time.Millisecond)
}

func (fakeLocker) close() {}

// Each client has a lock of its own and takes it as often as it is told, after some times that do not
// count; the latency is that of taking it, the rate that of taking and freeing it.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f fakeLocks
		s, err := f.way().alone(t.Context(), 4, 100)
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
		if s.p50 != 2*time.Millisecond || s.p99 != 2*time.Millisecond || int(s.rate+0.5) != 4000/3 {
			t.Errorf("p50 %v, p99 %v, %.1f grants a second; want 2 ms and 1333", s.p50, s.p99, s.rate)
		}
	})
}

// A client that fails ends the measurement, and its reason is what is told.
func TestAloneFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fakeLocks{fails: 20}
		began := time.Now()
		if _, err := f.way().alone(t.Context(), 4, 1000); err == nil || err.Error() != "lock: no more" {
			t.Errorf("error %v", err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %v, as if the others had gone on", took)
		}
	})
}

// CPU on the side of the lock is the client's and the proxy's, shared out among the grants, and not that of
// Redis.
func TestPerCPU(t *testing.T) {
	first := burnt{client: time.Second, proxy: 2 * time.Second, redis: 3 * time.Second}
	last := burnt{client: 2 * time.Second, proxy: 5 * time.Second, redis: 13 * time.Second}
	s := sample{}.withBurnt(first, last, 1000)
	if s.client != time.Millisecond || s.cpu != 3*time.Millisecond || s.redis != 10*time.Millisecond {
		t.Errorf("%+v", s)
	}
	if got := perCPU(s); got != 250 {
		t.Errorf("%v grants a CPU second, want 250", got)
	}
}

// What this program has burnt is seen, and a process that is no more is an error.
func TestBurnt(t *testing.T) {
	w := lockWay{nodePIDs: []int{os.Getpid(), os.Getpid()}, proxyPIDs: []int{os.Getpid()}}
	b, err := w.burnt()
	if err != nil || b.client <= 0 || b.proxy < b.client || b.redis < 2*b.client {
		t.Errorf("%+v, %v", b, err)
	}
	w.proxyPIDs = append(w.proxyPIDs, 1<<23) // above what a system hands out
	if _, err := w.burnt(); err == nil {
		t.Error("no such process and no error")
	}
}

// Each target is of the ratio that its row names, from the rounds of its own number of masters.
func TestIndependentTargets(t *testing.T) {
	r := results{}
	for _, n := range quorums {
		us := time.Duration(n) * time.Microsecond
		r.add(over(n, alone1), oneProxy, sample{p50: 90 * us, cpu: 40 * us})
		r.add(over(n, alone1), redsyncName, sample{p50: 100 * us})
		r.add(over(n, alone1), plainName, sample{cpu: 20 * us})
		r.add(over(n, apart), oneProxy, sample{rate: 199, cpu: 15 * us})
		r.add(over(n, apart), redsyncName, sample{rate: 100})
		r.add(over(n, apart), plainName, sample{cpu: 10 * us})
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
	l := newLibraryLocker(ctx, addr, "job")
	defer l.close()
	if err := errors.Join(l.lock(ctx), l.unlock(ctx)); err != nil {
		t.Fatal(err)
	}
	if got := <-said + <-said; got != lock+unlock {
		t.Errorf("said %q", got)
	}
	waiter := newLibraryLocker(ctx, addr, "other")
	defer waiter.close()
	ended := make(chan error, 1)
	go func() { ended <- waiter.lock(ctx) }()
	if got := <-said; !strings.Contains(got, "other") { // it is not answered
		t.Fatalf("said %q", got)
	}
	cancel()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a grant that nobody gave")
		}
	case <-time.After(patience):
		t.Error("the wait goes on")
	}
}

// Who frees a lock that it does not have any more has not freed it.
func TestLibraryLockerLate(t *testing.T) {
	for _, reply := range []string{":0\r\n", "$-1\r\n", "-ERR no\r\n"} {
		addr, _ := conversation(t, map[string]string{"*3\r\n$6\r\nUNLOCK\r\n$3\r\njob\r\n$0\r\n\r\n": reply})
		l := newLibraryLocker(t.Context(), addr, "job")
		if err := l.unlock(t.Context()); err == nil {
			t.Errorf("%q is no error", reply)
		}
		l.close()
	}
}

// conversation is a server that knows some requests and tells all that it hears after the
// handshake of a library, which it refuses.
func conversation(t *testing.T, replies map[string]string) (addr string, said chan string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	said = make(chan string, 10)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				var got []byte
				buf := make([]byte, 4096)
				for {
					n, err := conn.Read(buf)
					if err != nil {
						return
					}
					got = append(got, buf[:n]...)
					// a request is framed like a reply
					for size := replySize(got); size > 0; size = replySize(got) {
						request := string(got[:size])
						got = got[size:]
						if verb := strings.Split(request, "\r\n")[2]; verb == "hello" || verb == "client" {
							conn.Write([]byte("-ERR unknown command\r\n"))
							continue
						}
						said <- request
						conn.Write([]byte(replies[request]))
					}
				}
			}()
		}
	}()
	return ln.Addr().String(), said
}

// The proxy of a quorum is told all its masters, and leases and timeouts that go together.
func TestIndependentSettings(t *testing.T) {
	got := strings.Join(independentSettings([]string{"a:1", "b:1", "c:1"}), " ")
	want := "--redlock a:1,b:1,c:1 --redlock-node-timeout 500ms --lock-lease 10s --lock-max-lease 10s"
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Nothing is measured while a master does not vote.
func TestVoting(t *testing.T) {
	var asked atomic.Int32
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		vote := 0
		if asked.Add(1) >= 3 {
			vote = 1
		}
		fmt.Fprintf(w, "lockproxy_redlock_node_votes{node=\"a\"} 1\n"+
			"lockproxy_redlock_node_votes{node=\"b\"} %d\nlockproxy_redlock_node_votes{node=\"c\"} 1\n", vote)
	}))
	defer page.Close()
	admin := page.Listener.Addr().String()
	y := &yard{quorums: map[int]quorum{3: {admin: admin}}}
	if err := y.voting(t.Context()); err != nil || asked.Load() != 3 {
		t.Errorf("asked %d times, want 3: %v", asked.Load(), err)
	}
	y.quorums[5] = quorum{admin: admin}                                   // which has but three
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond) //house:brief it never votes
	defer cancel()
	if err := y.voting(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}
