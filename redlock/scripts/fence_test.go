package scripts_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/scripts"
)

// Whatever the clock of a master shows, and whatever is asked for, a fence has 16 digits and is higher than
// the last one; where none is left there is an error. R31
func TestFencesHave16Digits(t *testing.T) {
	year := func(n int) time.Time { return time.Date(n, 1, 1, 0, 0, 0, 0, time.UTC) }
	const used = "the fences of this slot are used up"
	for _, c := range []struct {
		name  string
		clock time.Time
		last  string
		want  string // of the stored fence, or of the error
	}{
		{"now", year(2026), "", "1767225600000000"},
		{"it stands still", year(2026), "1767225600000000", "1767225600000001"},
		{"in 1970", year(1970).Add(time.Second), "", "1000000000000000"},
		{"in 1970, and not the first", year(1970).Add(time.Second), "1767225600000000", "1767225600000001"},
		{"in 2290", year(2290), "", "1000000000000000"},
		{"in 2290, and not the first", year(2290), "1767225600000000", "1767225600000001"},
		{"in 2258", year(2258), "1767225600000000", "1767225600000001"},
		{"the last of all", year(2026), "9007199254740992", used},
		{"more than that", year(2026), "9223372036854775807", used},
	} {
		for _, script := range []scripts.Script{scripts.Acquire, scripts.Claim} {
			t.Run(script.Name+" "+c.name, func(t *testing.T) {
				s := rig.NewMini(t)
				s.Mini.SetTime(c.clock)
				if c.last != "" {
					s.Ask("SET", fenceKey, c.last)
				}
				id := strings.Repeat("a", 16)
				keys, args := []string{rig.LockKey, fenceKey}, []string{
					"t", "10000", "w", id, "0", "1767225599999999", "10", "", ""}
				if script.Name == "acquire" {
					args = []string{"lockproxy 1 1799999999999999 +" + id + " t", "10001"}
				}
				c2 := s.Connect()
				defer c2.Close()
				reply, err := c2.Do(evalSHA(script, keys, args...))
				got := s.Ask("GET", fenceKey).Text()
				refused := c.want == used && strings.Contains(string(reply), used) && got == c.last
				if err != nil || got != c.want && !refused {
					t.Errorf("%q %v: the last fence is %s, want %s", reply, err, got, c.want)
				}
			})
		}
	}
}

// What is no fence is not settled.
func TestNoFenceIsSettled(t *testing.T) {
	s := rig.NewMini(t)
	s.Ask("SET", rig.LockKey, "lockproxy 1 1767225600000000 +aaaaaaaaaaaaaaaa t")
	for _, fence := range []string{"9223372036854775807", "9007199254740993", "5", "", "10000000000000000"} {
		v := s.Ask(append([]string{"EVAL", scripts.Settle.Source, "2", rig.LockKey, fenceKey}, "t",
			"aaaaaaaaaaaaaaaa", fence, "1", "agreed")...)
		if got := s.Ask("GET", rig.LockKey).Text(); !regexp.MustCompile("no fence").MatchString(v.Err()) ||
			!strings.HasPrefix(got, "lockproxy 1 1767225600000000 ") {
			t.Errorf("%s: %q, then %q", fence, v.Err(), got)
		}
	}
}
