package holds

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/subscription"
	"lockproxy/redlock"
	"lockproxy/redlock/keepalive"
	"lockproxy/redlock/locks"
)

// deaf is an upstream that never confirms a subscription, so it is asked about no hold.
type deaf struct{ redlock.Upstream }

func (deaf) Sharded() bool { return false }

func (deaf) DeleteIf() string { return "" }

func (deaf) Subscribe(int, string, func(subscription.Change)) func() { return func() {} }

// slow is an upstream that does not answer, and takes its time to subscribe.
type slow struct{ deaf }

func (slow) Subscribe(int, string, func(subscription.Change)) func() {
	time.Sleep(time.Minute)
	return func() {}
}

func (slow) Do(context.Context, int, []byte, bool) ([]byte, error) {
	return nil, errors.New("it is away")
}

func (slow) Master(int) string    { return "" }
func (slow) Evicts(int) error     { return nil }
func (slow) Parted(int) time.Time { return time.Time{} }

// A hold that is lost before Keep has returned is pushed as any other, behind the answer of the verb that
// began to keep it alive, also if the connection kept the token's earlier hold alive. R10
func TestLossAtOnceIsPushed(t *testing.T) {
	for _, earlier := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var k Keepalives
			s, l, pushes := k.Open(), locks.New(slow{}, locks.Options{}), ""
			before := locks.New(deaf{}, locks.Options{})
			if earlier {
				s.Keep(before, keepalive.Hold{Name: "job", Token: "t", Lease: time.Hour,
					Until: time.Now().Add(time.Hour)}, func(func(int) []byte) { pushes += "earlier " })
			}
			kept := s.Keep(l, keepalive.Hold{Name: "job", Token: "t", Fence: 1, Lease: time.Second,
				Until: time.Now().Add(time.Second), Keeper: l.NewKeeper()},
				func(func(int) []byte) { pushes += "push" })
			if !kept.Ended() || pushes != "push" || len(s.holds) > 0 || s.memory.Load() != 0 {
				t.Errorf("ended: %v, %q, %d holds in %d bytes", kept.Ended(), pushes, len(s.holds),
					s.memory.Load())
			}
			l.Close(t.Context())
			before.Close(t.Context())
		})
	}
}

// Two verbs of a connection that begin to keep the same hold alive end one another: the end of the connection
// frees what is left, whichever of them says so last.
func TestLaterKeepStays(t *testing.T) {
	var k Keepalives
	s, l := k.Open(), locks.New(deaf{}, locks.Options{})
	keep := func() *keepalive.Kept {
		return s.Keep(l, keepalive.Hold{Name: "job", Token: "t", Fence: 1, Lease: time.Hour,
			Until: time.Now().Add(time.Hour), Keeper: l.NewKeeper()}, func(func(int) []byte) {})
	}
	as := holdKey{"job", "t"}
	ended, goesOn := keep(), keep()
	s.addHold(as, own{ended, nil})
	s.dropEnded(as)
	if !ended.Ended() || goesOn.Ended() || s.holds[as].Kept != goesOn {
		t.Errorf("%v %v, %d holds are known", ended.Ended(), goesOn.Ended(), len(s.holds))
	}
	l.Unlocked("job", "t", goesOn.Keeper()[1:], 0, nil)
}

// What a connection remembers is bounded, by what it kept.
func TestKeptIsBounded(t *testing.T) {
	var k Keepalives
	s, l := k.Open(), locks.New(deaf{}, locks.Options{})
	for i := range 100 { // as a pool of connections does
		name, keeper := fmt.Sprintf("job%d", i), l.NewKeeper()
		s.Keep(l, keepalive.Hold{
			Name: name, Token: "t", Fence: 1, Lease: time.Hour, Until: time.Now().Add(time.Hour),
			Keeper: keeper,
		}, func(func(int) []byte) {})
		l.Unlocked(name, "t", keeper, 0, nil)
	}
	if n := len(s.holds); n > 0 || s.memory.Load() != 0 {
		t.Errorf("%d holds are remembered, and none is kept", n)
	}
}
