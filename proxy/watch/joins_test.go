package watch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/subscription"
)

// However many want to watch at once, each of them hears within the patience for one that nobody confirms it.
func TestJoinsAtASilentUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := new(upstream).hub()
		h.o.Subscribe = func(func(subscription.Change)) func() { return func() {} }
		const many = 20
		errs := make(chan error, many)
		for range many {
			go func() { errs <- h.Join(context.Background()) }()
		}
		time.Sleep(2 * patience)
		if n := len(errs); n != many {
			t.Errorf("%d of %d have heard after %v", n, many, 2*patience)
		}
		time.Sleep(many * patience)
	})
}
