package compat_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/proxies"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/locks"
)

// A waiter whose grant is in doubt is told that its token may hold the lock. R33
func TestGrantInDoubtSaysSo(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		up := &rig.Upstream{S: s}
		p := &proxies.Proxy{
			Locker: locks.NewCompat(loading{movingSlot{up}, new(int)}, locks.Options{}), Up: up, T: t}
		a := p.NewAcquire(redlock.Acquire{
			Name: "job", Mode: redlock.Write, Token: "a", Lease: time.Minute, Wait: time.Minute})
		g, ok, err := p.Wait(t.Context(), a)
		if ok || err == nil {
			t.Fatalf("%+v %v", g, err)
		}
		if s.Ask("EXISTS", "job").Int == 1 && !errors.Is(err, redlock.ErrMayHold) {
			t.Errorf("it holds the lock, and is told %v", err)
		}
		time.Sleep(time.Second)
		p.Close(context.Background())
		up.Close()
	})
}
