package quorum_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/proxies"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/keepalive"
	"lockproxy/redlock/locks"
)

// beginAt is lockAt in the background. It returns when the request waits, or is through.
func beginAt(ctx context.Context, l *locks.Locker, a redlock.Acquire) chan proxies.Result {
	done := make(chan proxies.Result, 1)
	go func() { done <- lockAt(ctx, l, a) }()
	time.Sleep(5 * time.Millisecond)
	return done
}

// Clients of one proxy get the lock in the order in which they came, each a round or two after the
// release before; a newcomer does not overtake them, who holds the lock already does not wait. R14 R27
func TestQuorumWaitsInOrder(t *testing.T) {
	onNetwork(t, 5, 2, func(t *testing.T, s *network) {
		l := s.proxies[0]
		mustLock(t, l, redlock.Acquire{Token: "0", Lease: 20 * time.Second})
		var queue []chan proxies.Result
		for i := range 5 {
			queue = append(queue, beginAt(t.Context(), l, redlock.Acquire{
				Token: fmt.Sprint(i + 1), Wait: time.Minute, Lease: 20 * time.Second,
			}))
		}
		mustLock(t, l, redlock.Acquire{Token: "0", Wait: time.Minute, Lease: 20 * time.Second})
		for i, done := range queue {
			time.Sleep(100 * time.Millisecond)
			proxies.Waiting(t, queue[i:]...)
			began := time.Now()
			newcomer := make(chan proxies.Result, 1)
			go func() { newcomer <- lockAt(t.Context(), l, redlock.Acquire{Token: "newcomer"}) }()
			mustUnlock(t, l, fmt.Sprint(i), 0, 1)
			r := proxies.Granted(t, done)
			if took := r.At.Sub(began); took > 6*time.Millisecond {
				t.Errorf("the hand-over to number %d took %v", i+1, took)
			}
			if r := <-newcomer; r.OK || r.Err != nil {
				t.Errorf("a newcomer overtook number %d: %+v", i+1, r)
			}
		}
		mustUnlock(t, l, "5", 0, 1)
	})
}

// Readers that wait together go in together, with a writer before and behind them. R28 R27
func TestQuorumReadersTogether(t *testing.T) {
	onNetwork(t, 3, 1, func(t *testing.T, s *network) {
		l := s.proxies[0]
		mustLock(t, l, redlock.Acquire{Token: "w", Lease: 20 * time.Second})
		r1 := beginAt(t.Context(), l, redlock.Acquire{
			Token: "r1", Mode: redlock.Read, Wait: time.Minute, Lease: 20 * time.Second,
		})
		r2 := beginAt(t.Context(), l, redlock.Acquire{
			Token: "r2", Mode: redlock.Read, Wait: time.Minute, Lease: 20 * time.Second,
		})
		w := beginAt(t.Context(), l, redlock.Acquire{Token: "w2", Wait: time.Minute, Lease: 20 * time.Second})
		began := time.Now()
		mustUnlock(t, l, "w", 0, 1)
		proxies.Granted(t, r1)
		if r := proxies.Granted(t, r2); r.At.Sub(began) > 6*time.Millisecond {
			t.Errorf("the second reader came %v later", r.At.Sub(began))
		}
		proxies.Waiting(t, w)
		// One of them becomes the writer before who waits already; a second cannot.
		up := beginAt(t.Context(), l, redlock.Acquire{
			Token: "r1", Wait: time.Minute, Lease: 20 * time.Second,
		})
		if r := lockAt(t.Context(), l, redlock.Acquire{Token: "r2", Wait: time.Minute}); r.Err == nil ||
			!strings.HasPrefix(r.Err.Error(), "DEADLOCK ") {
			t.Errorf("the second upgrader: %+v", r)
		}
		mustUnlock(t, l, "r2", 0, 1)
		proxies.Granted(t, up)
		proxies.Waiting(t, w)
		mustUnlock(t, l, "r1", 0, 1)
		proxies.Granted(t, w)
		mustUnlock(t, l, "w2", 0, 1)
	})
}

// A wait ends at its deadline, or with its client, also while nodes are silent, and leaves nothing. A lock
// whose lease runs out is got soon after. R14 R27
func TestQuorumWaitEnds(t *testing.T) {
	onNetwork(t, 5, 2, func(t *testing.T, s *network) {
		l, other := s.proxies[0], s.proxies[1]
		mustLock(t, other, redlock.Acquire{Token: "a", Lease: 4 * time.Second})
		if r := lockAt(t.Context(), l, redlock.Acquire{Token: "b", Wait: 700 * time.Millisecond}); r.OK ||
			r.Err != nil || r.Took != 700*time.Millisecond {
			t.Errorf("a wait of 700 ms: %v %v after %v", r.OK, r.Err, r.Took)
		}
		ctx, leave := context.WithCancelCause(t.Context())
		gone := beginAt(ctx, l, redlock.Acquire{Token: "c", Wait: time.Minute})
		second := beginAt(t.Context(), l, redlock.Acquire{Token: "d", Wait: time.Minute, Lease: time.Second})
		leave(fmt.Errorf("it has gone"))
		if r := <-gone; r.Err == nil || r.Err.Error() != "it has gone" {
			t.Errorf("%+v", r)
		}
		began := time.Now()
		r := proxies.Granted(t, second)
		if took := r.At.Sub(began); took < 3*time.Second || took > 3300*time.Millisecond {
			t.Errorf("the lease ran out after %v", took)
		}
		mustUnlock(t, l, "d", 0, 1)
		for n := range 3 {
			s.links[0][n].fails(func(string) fault { return silence })
		}
		if r := lockAt(t.Context(), l, redlock.Acquire{Token: "e", Wait: time.Second}); r.OK ||
			!noQuorum(r.Err) {
			t.Errorf("without a majority: %+v", r)
		}
		for n := range 3 {
			s.links[0][n].fails(nil)
		}
		time.Sleep(10 * time.Millisecond)
		l = s.anew(0, locks.Options{Lease: time.Second, MaxQueue: 1})
		mustLock(t, other, redlock.Acquire{Token: "f", Lease: 2 * time.Second})
		first := beginAt(t.Context(), l, redlock.Acquire{Token: "g", Wait: 500 * time.Millisecond})
		if r := lockAt(t.Context(), l, redlock.Acquire{Token: "h", Wait: time.Second}); r.Err == nil ||
			!strings.HasPrefix(r.Err.Error(), "QUEUEFULL ") {
			t.Errorf("one too many: %+v", r)
		}
		<-first
		mustUnlock(t, other, "f", 0, 1)
	})
}

// Proxies that get an equal share of the nodes give it back, and one gets the lock soon. R27
func TestQuorumSplitVote(t *testing.T) {
	onNetwork(t, 5, 5, func(t *testing.T, s *network) {
		for i, links := range s.links { // each is nearest to another node
			for n, l := range links {
				l.delay = func() time.Duration {
					if i == n {
						return 100 * time.Microsecond
					}
					return 2 * time.Millisecond
				}
			}
		}
		var all []chan proxies.Result
		began := time.Now()
		for i, l := range s.proxies {
			done := make(chan proxies.Result, 1)
			go func() {
				r := lockAt(t.Context(), l, redlock.Acquire{
					Token: fmt.Sprint(i), Wait: 10 * time.Second, Lease: 30 * time.Second,
				})
				if r.OK {
					unlockAt(l, r.Token, 0)
				}
				done <- r
			}()
			all = append(all, done)
		}
		for _, done := range all {
			proxies.Granted(t, done)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("five proxies had the lock once each in %v", took)
		} else {
			t.Logf("five proxies had the lock once each in %v", took)
		}
		time.Sleep(100 * time.Millisecond)
		if err := s.free(); err != nil {
			t.Error(err)
		}
	})
}

// A hold that is kept alive lasts, over restarts of single nodes, is freed when its client goes, and reported
// when it is broken by another proxy, or when a majority has lost it. R18 R31 R27
func TestQuorumKeeps(t *testing.T) {
	onNetwork(t, 5, 2, func(t *testing.T, s *network) {
		l, other := s.proxies[0], s.proxies[1]
		keep := func(token string) (*keepalive.Kept, chan keepalive.Loss) {
			a := l.NewAcquire(redlock.Acquire{
				Name: "job", Token: token, Mode: redlock.Write, Lease: time.Second, Keep: true,
			})
			g, ok, err := (&rig.Asker{L: l}).Acquire(a)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			lost := make(chan keepalive.Loss, 1)
			return l.Keep(keepalive.Hold{Name: "job", Token: token, Fence: g.Fence, Lease: time.Second,
				Until: time.Now().Add(g.TTL), Keeper: a.Keeper,
				Lost: func(how keepalive.Lost) { lost <- how.Why }}), lost
		}
		kept, lost := keep("a")
		s.masters[0].crash()
		time.Sleep(5 * time.Second)
		s.masters[0].up()
		time.Sleep(5 * time.Second)
		if r := lockAt(t.Context(), other, redlock.Acquire{Token: "b"}); r.OK || len(lost) > 0 {
			t.Fatalf("the hold was not kept: %+v", r)
		}
		kept.Release()
		time.Sleep(10 * time.Millisecond)
		mustLock(t, other, redlock.Acquire{Token: "b"})
		mustUnlock(t, other, "b", 0, 1)

		_, lost = keep("c")
		time.Sleep(50 * time.Millisecond)
		(&rig.Asker{L: other}).Breaks("job")
		time.Sleep(10 * time.Millisecond)
		if len(lost) == 0 || <-lost != keepalive.Broken {
			t.Error("nobody was told that the hold was broken")
		}
		_, lost = keep("d")
		for n := range 3 {
			s.masters[n].crash()
		}
		time.Sleep(2 * time.Second)
		if len(lost) == 0 || <-lost != keepalive.Expired {
			t.Error("nobody was told that the hold was lost")
		}
	})
}
