package compat_test

import (
	"errors"
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
)

// What CHECK or RENEW has told of is not taken back any more: while that is going on, they say so. R33
func TestWhatIsToldIsNotTakenBack(t *testing.T) {
	for _, verb := range []string{"CHECK", "RENEW"} {
		t.Run(verb, func(t *testing.T) {
			everywhere(t, func(t *testing.T, l library) {
				p := start(t, l.s, 1)[0]
				lost, asked := errors.New("the reply was lost"), 0
				p.Up.Set(func(u *rig.Upstream) {
					u.Faults = func(string) (before, after error) {
						switch asked++; asked {
						case 1: // LOCK runs, and its reply is lost
							return nil, lost
						case 2: // it cannot be taken back yet
							return lost, nil
						}
						return nil, nil
					}
				})
				a := p.NewAcquire(redlock.Acquire{Name: "job", Token: "t", Mode: redlock.Write,
					Lease: time.Minute})
				if _, ok, err := p.Client().Acquire(a); ok || err == nil {
					t.Fatal(ok, err)
				}
				p.Undo(a)
				for seen := 0; seen < 2; time.Sleep(time.Millisecond) {
					p.Up.Set(func(*rig.Upstream) { seen = asked })
				}
				told := false
				if verb == "RENEW" {
					r, err := p.Client().Renew(&redlock.Renew{Name: "job", Token: "t", Lease: time.Minute})
					told = err == nil && r.Left > 0
				} else {
					s, err := redlock.Ask(p.Client().By(),
						func(by *redlock.Patient, then func(redlock.State, error) []byte) {
							p.Inspect(by, "job", "t", then) // LOCKCTL CHECK job t
						})
					told = err == nil && s.Held("t") != nil
				}
				time.Sleep(time.Second)
				if s := p.State(); told && s.Held("t") == nil {
					t.Errorf("%s said that the token holds the lock, and then it was taken back", verb)
				}
			})
		})
	}
}
