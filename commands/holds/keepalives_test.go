package holds

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/subscription"
	"lockproxy/redlock/keepalive"
	"lockproxy/redlock/locks"
	"lockproxy/redlock/single"
)

// deaf is an upstream over which no message comes.
type deaf struct{ single.Upstream }

func (deaf) Sharded() bool { return false }

func (deaf) Subscribe(context.Context, int, string, func(subscription.Event)) (func(), error) {
	return func() {}, nil
}

// What a connection remembers is bounded, by what it kept.
func TestKeptIsBounded(t *testing.T) {
	var k Keepalives
	s, l := k.Open(), locks.New(deaf{}, locks.Options{})
	for i := range 10 * firstSweep { // as a pool of connections does
		name, keeper := fmt.Sprintf("job%d", i), l.NewKeeper()
		if err := s.Keep(l, keepalive.Hold{
			Name: name, Token: "t", Fence: 1, Lease: time.Hour, Until: time.Now().Add(time.Hour),
			Keeper: keeper,
		}, Held{}, func(func(int) []byte) {}); err != nil {
			t.Fatal(err)
		}
		l.Unlocked(name, "t", keeper)
	}
	if n := len(s.holds); n > firstSweep {
		t.Errorf("%d holds are remembered, and none is kept", n)
	}
	for i := range 2 * leastLosses {
		s.tell(2, fmt.Sprintf("lost%d", i%(leastLosses+7)), "t", loss{int64(i + 1), keepalive.Gone})
	}
	if n := len(s.order); n != leastLosses || len(s.lost) > n {
		t.Errorf("%d losses of %d locks are remembered", n, len(s.lost))
	}
	told := 0
	for i := range leastLosses + 7 {
		for k.Refuse(fmt.Sprintf("lost%d", i)) != nil {
			told++
		}
	}
	if told != leastLosses || len(s.order) != 0 || len(s.lost) != 0 {
		t.Errorf("%d losses were told, %d are left", told, len(s.order))
	}
}

// mute is an upstream that answers nothing.
type mute struct{ deaf }

func (mute) Master(int) string { return "" }

func (mute) Evicts(int) error { return nil }

func (mute) Moving(int) bool { return false }

func (mute) Do(ctx context.Context, _ int, _ []byte, _ bool) ([]byte, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// A hold ends for its proxy, which cannot renew it, while a verb that takes it again is on its way, or just
// before. Its client is told that it is lost, once, and what the verb took is let go. R19
func TestLostWhileTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := locks.New(mute{}, locks.Options{})
		defer l.Close(t.Context())
		var k Keepalives
		s := k.Open()
		var told []func(int) []byte // on their way to the connection
		keep := func(relies Held) error {
			return s.Keep(l, keepalive.Hold{
				Name: "job", Token: "t", Fence: 7, Lease: time.Second, Until: time.Now().Add(time.Second),
				Keeper: l.NewKeeper(),
			}, relies, func(tell func(int) []byte) { told = append(told, tell) })
		}
		if err := keep(Held{}); err != nil {
			t.Fatal(err)
		}
		if err := keep(k.Held("job", "t")); err != nil {
			t.Errorf("taken again in time: %v", err)
		}
		for _, before := range []bool{false, true} {
			relies := k.Held("job", "t")
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if before {
				relies = k.Held("job", "t")
			}
			err := keep(relies)
			if err == nil || !strings.HasPrefix(err.Error(), "LOCKLOST job was lost while") {
				t.Errorf("lost before: %v: %v", before, err)
			}
			if n := l.Renewer.Stats().Kept; n != 0 || k.Any() {
				t.Errorf("lost before: %v: %d holds are kept alive", before, n)
			}
			for _, tell := range told {
				tell(2)
			}
			told = nil
			if err := k.Refuse("job"); err != nil {
				t.Errorf("lost before: %v: told twice: %v", before, err)
			}
			if err := keep(Held{}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
