package holds

import (
	"context"
	"fmt"
	"testing"
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
		s.Keep(l, keepalive.Hold{
			Name: name, Token: "t", Fence: 1, Lease: time.Hour, Until: time.Now().Add(time.Hour),
			Keeper: keeper,
		}, func(func(int) []byte) {})
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
