package holds

import (
	"fmt"
	"testing"
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
