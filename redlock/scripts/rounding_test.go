package scripts_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/scripts"
)

// leases are the ways to a hold of token a, or to a longer one. Each ends with the reply that says how long
// it lasts: the array of a grant, or a number.
var leases = map[string]func(l *teller) resp.Value{
	"LOCK":      func(l *teller) resp.Value { return l.acquire("a", "25", "w", "1", "") },
	"RLOCK":     func(l *teller) resp.Value { return l.acquire("a", "25", "r", "1", "") },
	"LOCK META": func(l *teller) resp.Value { return l.acquire("a", "25", "w", "1", "meta") },
	"the same token again": func(l *teller) resp.Value {
		l.acquire("a", "10", "w", "1", "")
		time.Sleep(3300 * time.Microsecond)
		return l.acquire("a", "25", "w", "2", "")
	},
	"RENEW": func(l *teller) resp.Value {
		l.acquire("a", "10", "r", "1", "")
		time.Sleep(3300 * time.Microsecond)
		return renewedIn(l.run(renewScript, []string{rig.LockKey}, "a", "25", ""))
	},
	"what is left, asked later": func(l *teller) resp.Value {
		l.acquire("a", "25", "w", "1", "")
		time.Sleep(3300 * time.Microsecond)
		return l.run(keepScript, []string{rig.LockKey}, "a", "0", "", "").Elems[0]
	},
	"what is left of a hash, asked later": func(l *teller) resp.Value {
		l.acquire("a", "25", "r", "1", "")
		time.Sleep(3300 * time.Microsecond)
		return l.run(keepScript, []string{rig.LockKey}, "a", "0", "", "").Elems[0]
	},
	"handed on": func(l *teller) resp.Value {
		l.acquire("z", "1000", "w", "1", "")
		l.run(scripts.Acquire, []string{rig.LockKey, fenceKey}, "a", "25", "w", "id00000000000009", "0",
			"P1", "5000", "100", l.publish())
		time.Sleep(3300 * time.Microsecond)
		return l.run(scripts.Release, []string{rig.LockKey, fenceKey}, "z", "", "id00000000000008",
			"P1", l.publish())
	},
}

// acquire takes the lock, or tries to, with an id for each n.
func (l *teller) acquire(token, lease, mode, n, meta string) resp.Value {
	l.t.Helper()
	args := []string{token, lease, mode, "id0000000000000" + n, "0", "", "", "", l.publish(), "", meta}
	return whole(l.run(scripts.Acquire, []string{rig.LockKey, fenceKey}, args...), args)
}

// free says that another token gets the lock.
func (l *teller) free() bool {
	v := l.acquire("b", "1000", "w", "7", "")
	return v.Kind == '*' && len(v.Elems) == 4
}

// A hold lasts at least as long as the reply to the grant or the check said, whatever part of a millisecond
// had passed then, and hardly longer. R2
func TestLeasesAreNotCutShort(t *testing.T) {
	for name, take := range leases {
		for _, part := range []int{0, 1, 500, 700, 999} { // of the ms in which it is taken
			t.Run(name+" "+strconv.Itoa(part), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := rig.NewMini(t)
					l := &teller{t: t, s: s, c: s.Connect()}
					defer l.c.Close()
					time.Sleep(time.Duration(part) * time.Microsecond)
					v := take(l)
					taken, ttl := time.Now(), milliseconds(v.Int)
					if v.Kind == '*' {
						ttl = milliseconds(v.Elems[len(v.Elems)/2].Int) // of {token, fence, ttl, count}
						if v.Elems[0].Kind == ':' {
							ttl = milliseconds(v.Elems[3].Int) // of {1, id, fence, ttl}
						}
					}
					if ttl < 20*time.Millisecond || ttl > 25*time.Millisecond {
						t.Fatalf("a ttl of %v", ttl)
					}
					time.Sleep(time.Until(taken.Add(ttl - time.Microsecond)))
					if l.free() {
						t.Error("it was over before its time")
					}
					time.Sleep(3 * time.Millisecond)
					if !l.free() {
						t.Error("3 ms later it still lasts")
					}
				})
			})
		}
	}
}
