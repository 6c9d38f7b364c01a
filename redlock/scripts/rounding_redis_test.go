//go:build !quick

package scripts_test

import (
	"testing"
	"time"

	"lockproxy/redlock/internal/rig"
)

// The same on a real server, whose clock no test sets: by that clock a lease outlasts its ttl, counted from
// the request, however hard a writer tries; and so does the lease of a plain lock that becomes a hash. R2
func TestNoWriterInsideALease(t *testing.T) {
	s := rig.StartRedis(t)
	for _, mode := range []string{"r", "w"} {
		l := &teller{t: t, s: s, c: s.Connect()}
		defer l.c.Close()
		for range 50 {
			s.Ask("DEL", rig.LockKey)
			asked := clockOf(s)
			ttl := milliseconds(l.acquire("a", "5", mode, "1", "").Elems[2].Int)
			l.acquire("a", "1", mode, "2", "")
			for !l.free() {
			}
			if over := clockOf(s); over.Before(asked.Add(ttl)) {
				t.Fatalf("%s: a ttl of %v, counted from the request, was over after %v", mode, ttl,
					over.Sub(asked))
			}
		}
	}
}

// clockOf is what the clock of a server shows.
func clockOf(s *rig.Server) time.Time {
	v := s.Ask("TIME").Elems
	return time.UnixMicro(rig.Integer(v[0].Text())*1e6 + rig.Integer(v[1].Text()))
}
