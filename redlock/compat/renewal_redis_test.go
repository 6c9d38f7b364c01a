//go:build !quick

package compat_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
)

// A renewal writes, also if it changes nothing: the WAIT of a SYNC counts from the last write of its
// connection. No lease gets shorter by it. R30
func TestRenewalWrites(t *testing.T) {
	s := rig.StartRedis(t)
	p := start(t, s, 1)[0]
	writes := func() (n int) {
		_, rest, _ := strings.Cut(s.Ask("INFO", "commandstats").Text(), "cmdstat_set:calls=")
		fmt.Sscan(rest, &n)
		return n
	}
	if got := p.Lock(t.Context(), redlock.Acquire{Token: "t", Lease: time.Minute}); !got.OK {
		t.Fatalf("%+v", got)
	}
	before := writes()
	kept, err := p.Client().Renew(&redlock.Renew{Name: "job", Token: "t", Lease: time.Second})
	if n := writes() - before; err != nil || kept.Left < 2*time.Second || n != 1 {
		t.Errorf("%d writes, %v left (%v)", n, kept.Left, err)
	}
}
