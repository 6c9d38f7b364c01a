package quorum_test

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"lockproxy/internal/slot"
	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
)

// lie has the last masters answer a script in their own way, to all proxies.
func (s *network) lie(liars int, script string, reply func() string) {
	for _, links := range s.links {
		for _, l := range links[len(links)-liars:] {
			l.mu.Lock()
			l.instead = func(req []byte) (changed, said []byte) {
				if reply != nil && rig.ScriptOf(req) == script {
					return nil, []byte(strings.ReplaceAll(reply(), " ", "\r\n") + "\r\n")
				}
				return req, nil
			}
			l.mu.Unlock()
		}
	}
}

// granted is the reply of claim.lua that grants the lock with a fence.
func granted(fence int64) func() string {
	return func() string { return fmt.Sprintf("*5 :%d :10000 :1 :1 :%d", fence, time.Now().UnixMicro()) }
}

var (
	aFence   = regexp.MustCompile(`^\d{16}([ -][0-9a-v]{16})*$`)
	aPlain   = regexp.MustCompile(`^lockproxy 1 \d{16} `)
	aHold    = regexp.MustCompile(`^\d+ \d+ \d{16} \d+ `)
	aFenceIs = regexp.MustCompile(`^lock:fence:`)
)

// malformed says what a master has that no script may write.
func malformed(m *master) (wrong []string) {
	for _, key := range m.Mini.Keys() {
		value, err := m.Mini.Get(key)
		switch {
		case aFenceIs.MatchString(key) && aFence.MatchString(value), aPlain.MatchString(value):
			continue
		case err != nil:
			fields, _ := m.Mini.HKeys(key)
			for _, field := range fields {
				hold := m.Mini.HGet(key, field)
				if (field == "w" || field[:1] == "r") && !aHold.MatchString(hold) {
					wrong = append(wrong, fmt.Sprintf("%s %s: %q", key, field, hold))
				}
			}
			continue
		}
		wrong = append(wrong, fmt.Sprintf("%s: %q", key, value))
	}
	return wrong
}

// rising takes and frees the lock some times, by turns over all proxies, and fails unless the fences rise,
// are fences, and no honest master has kept anything else.
func (s *network) rising(
	fatalf func(string, ...any), last *int64, times, liars int, breaks bool,
) (grants int) {
	for i := range times {
		a := redlock.Acquire{Token: fmt.Sprint("t", *last, i), Lease: 10 * time.Second,
			Mode: []redlock.Mode{redlock.Write, redlock.Read}[i%2], Break: breaks}
		l := s.proxies[i%len(s.proxies)]
		r := lockAt(context.Background(), l, a)
		if r.OK {
			grants++
			if most := time.Now().Add(25 * time.Hour).UnixMicro(); r.Fence <= *last || r.Fence > most {
				fatalf("the fence %d behind %d", r.Fence, *last)
			}
			*last = r.Fence
		}
		unlockAt(l, a.Token, 0)
		time.Sleep(50 * time.Millisecond)
	}
	for i, m := range s.masters[:len(s.masters)-liars] {
		if wrong := malformed(m); len(wrong) > 0 {
			fatalf("master %d has %q", i, wrong)
		}
	}
	return grants
}

// One master of three, or two of five, that answer with what no fence can be: fences rise as before, none
// comes twice, what the others keep is well formed, and the liars are named and do not vote. R14 R27
func TestQuorumFencesWhateverAMasterSays(t *testing.T) {
	const far = 9_000_000_000_000_000 // has 16 digits, and can be counted
	fences := []int64{math.MaxInt64, math.MinInt64, 1<<53 + 1, 1e17, far, 0, -5, 999_999_999_999_999, 1e16}
	for _, masters := range []int{3, 5} {
		for _, script := range []string{"claim", "settle", "claim with BREAK"} {
			for _, fence := range fences {
				if script != "claim" && fence < far { // as a bound, that is a low one
					continue
				}
				if masters == 5 && fence != math.MaxInt64 && fence != far {
					continue
				}
				t.Run(fmt.Sprint(masters, script, fence), func(t *testing.T) {
					onNetwork(t, masters, 2, func(t *testing.T, s *network) {
						var last int64
						liars := masters / 2
						s.rising(t.Fatalf, &last, 2, liars, false)
						breaks := false
						switch script {
						case "claim":
							s.lie(liars, script, granted(fence))
						case "settle":
							for i, m := range s.masters { // so that there is something to settle
								m.stepUnseen(time.Duration(i) * 10 * time.Millisecond)
							}
							s.lie(liars, script, func() string { return fmt.Sprint(":", fence) })
						default:
							breaks = true
							s.lie(liars, "claim", func() string {
								return fmt.Sprintf("*4 :-2 :%d :0 :%d", fence, time.Now().UnixMicro())
							})
						}
						// Each proxy may ask a liar first to settle.
						got := s.rising(t.Fatalf, &last, 12, liars, breaks)
						if got < 10 || script != "settle" && got < 12 {
							t.Errorf("%d of 12 granted", got)
						}
						for i, l := range s.links[0] {
							liar, told := i >= masters-liars, strings.Join(l.distrusted, ", ")
							named := strings.Contains(told, fmt.Sprint(fence))
							if liar && script == "claim" && !named || !liar && told != "" {
								t.Errorf("master %d: %q", i, told)
							}
						}
						s.lie(liars, "", nil)
						time.Sleep(4 * time.Second)
						s.rising(t.Fatalf, &last, 4, liars, false)
					})
				})
			}
		}
	}
}

// Fences that all masters have are believed, however far they are ahead of the clocks: those may have been
// wrong once. R27
func TestQuorumFencesAheadOfTheClocks(t *testing.T) {
	onNetwork(t, 3, 2, func(t *testing.T, s *network) {
		for i, m := range s.masters {
			names, last := redlock.NewNames("lock:"), int64(4_000_000_000_000_000+500*i)
			m.Mini.Set(names.Fences+string(slot.Tag(names.Place("job").Slot))+"}", fmt.Sprint(last))
		}
		last := int64(4_000_000_000_000_000)
		for range 4 {
			r := mustLock(t, s.proxies[0], redlock.Acquire{Token: "a"})
			if r.Fence <= last {
				t.Errorf("the fence %d behind %d", r.Fence, last)
			}
			last = r.Fence
			mustUnlock(t, s.proxies[0], "a", r.Fence, 1)
		}
		for i, l := range s.links[0] {
			if len(l.distrusted) > 0 {
				t.Errorf("master %d: %q", i, l.distrusted)
			}
		}
	})
}

// Whatever one master of three answers to a claim and to what is to be settled, fences rise, and what the
// others keep is well formed. R14 R27
func TestQuorumFencesFuzzed(t *testing.T) {
	number := rapid.OneOf(rapid.SampledFrom([]int64{0, 1, 2, -1, -2, -3, 1e15, 1e16, 1e17, 1 << 53, 1<<53 + 1,
		math.MaxInt64, math.MinInt64, 9e15}), rapid.Int64(), rapid.Int64Range(1.57e15, 1.58e15))
	word := rapid.OneOf(
		rapid.Map(number, func(n int64) string { return fmt.Sprint(":", n) }),
		rapid.SampledFrom([]string{"$-1", "*-1", "*0", "+OK", "$1 x", "-ERR no", "-LOCKTYPE no", ":now"}))
	reply := rapid.Custom(func(r *rapid.T) string {
		n := rapid.IntRange(0, 6).Draw(r, "n")
		if n == 0 {
			return word.Draw(r, "word")
		}
		all := fmt.Sprint("*", n)
		for range n {
			all += " " + word.Draw(r, "word")
		}
		return all
	})
	rapid.Check(t, func(r *rapid.T) {
		claims := rapid.SliceOfN(reply, 1, 12).Draw(r, "claims")
		settles := rapid.SliceOfN(reply, 1, 3).Draw(r, "settles")
		var failed string
		synctest.Test(t, func(t *testing.T) {
			s := newNetwork(t, 3, 2, 3*time.Second)
			var n atomic.Int64
			for _, links := range s.links {
				links[2].instead = func(req []byte) (changed, said []byte) {
					all := map[string][]string{"claim": claims, "settle": settles}[rig.ScriptOf(req)]
					if all == nil {
						return req, nil
					}
					now := fmt.Sprint(":", time.Now().UnixMicro())
					text := strings.ReplaceAll(all[int(n.Add(1))%len(all)], ":now", now)
					return nil, []byte(strings.ReplaceAll(text, " ", "\r\n") + "\r\n")
				}
			}
			var last int64
			fails := func(format string, args ...any) { failed = fmt.Sprintf(format, args...) }
			s.rising(fails, &last, 16, 1, false)
			s.end()
		})
		if failed != "" {
			r.Fatal(failed)
		}
	})
}
