package redlock

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/resp"
)

// word is a reply as the table below spells it: nil, an integer, [a b], LOCKTYPE, "-" for none, "!" for one
// that does not count.
func word(s string) []byte {
	switch {
	case s == "nil":
		return []byte("$-1\r\n")
	case s == "LOCKTYPE":
		return []byte("-LOCKTYPE it is a list\r\n")
	case strings.HasPrefix(s, "["):
		words := strings.Split(strings.Trim(s, "[]"), ",")
		reply := fmt.Appendf(nil, "*%d\r\n", len(words))
		for _, w := range words {
			reply = append(reply, word(w)...)
		}
		return reply
	}
	return []byte(":" + s + "\r\n")
}

// How the replies of five nodes become one. R27
func TestCombination(t *testing.T) { synctest.Test(t, testCombination) }

func testCombination(t *testing.T) { // in fake time, of which none passes
	for _, c := range []struct {
		script  *Script
		replies string
		want    string
	}{
		// A majority speaks for all.
		{&releaseScript, "1 1 1 1 1", "1"},
		{&releaseScript, "1 1 1 - -", "1"},
		{&releaseScript, "nil nil nil 1 1", "nil"}, // a few leftovers are no hold
		{&releaseScript, "nil nil 1 1 1", "1"},
		{&releaseScript, "0 0 0 1 nil", "0"},
		{&releaseScript, "0 0 1 nil nil", "1"}, // off a majority: nobody holds it
		{&releaseScript, "0 0 1 - -", "-NOQUORUM"},
		{&releaseScript, "1 1 - - -", "-NOQUORUM"},
		{&releaseScript, "1 1 ! ! -", "-NOQUORUM"}, // those do not vote
		{&releaseScript, "nil nil ! ! 1", "1"},
		{&releaseScript, "1 1 LOCKTYPE - -", "-LOCKTYPE"},
		{&releaseScript, "LOCKTYPE 1 1 1 -", "1"},
		// What remains is what a majority has: 1000 ms less 1 % and 2 ms.
		{&renewScript, "[1000,0] [1000,0] [1000,0] [1000,0] [1000,0]", "988"},
		{&renewScript, "[9000,0] [9000,0] [1000,0] [0,0] [0,0]", "988"},
		{&renewScript, "[1000,0] [1000,0] [0,0] [0,0] [0,0]", "0"},
		{&renewScript, "[1000,0] [1000,0] [0,0] [0,0] -", "-NOQUORUM"}, // the silent one may have it
		{&renewScript, "[1000,0] [1000,0] [0,0] [0,0] !", "-NOQUORUM"},
		{&renewScript, "[0,0] [0,0] [0,0] - -", "0"},
		{&renewScript, "[1000,7] [1000,8] [1000,8] [0,0] [0,0]", "[988 8]"},
		{&renewScript, "[2,0] [2,0] [2,0] [2,0] [2,0]", "0"}, // less than the clocks may differ
		// Hold by hold.
		{&keepScript, "[1000,0] [1000,0] [1000,0] - -", "[988 0]"},
		{&keepScript, "[1000,-1] [1000,-1] [1000,-1] [0,1000] [0,1000]", "[988 -1]"},
		{&keepScript, "[1000] [1000] [0] [0] [0]", "[0]"},
		{&keepScript, "[1000] [1000] [-1] [-1] [0]", "[0]"},
		{&keepScript, "[1000] [1000] [0] [0] -", "-NOQUORUM"},
		{&keepScript, "[-1] [-1] [0] [-1] -", "[-1]"},
		{&keepScript, "[1000] [1000] - - -", "-NOQUORUM"},
		{&breakScript, "0 0 0 1 1", "0"},
		{&breakScript, "1 1 1 0 0", "1"},
		{&breakScript, "1 1 - - -", "-NOQUORUM"},
		{&detachScript, "0 0 0 - -", "0"},
		{&detachScript, "1 0 0 1 -", "1"},
		{&inspectScript, "nil nil nil - -", "nil"},
		{&inspectScript, "nil nil - - -", "-NOQUORUM"},
	} {
		p := NewRedlock(make([]Node, 5), QuorumOptions{}, Options{}).quorum().newPoll(call{script: c.script})
		p.began = time.Now()
		got := ""
		p.combine = func() (clear bool) {
			got, clear = together(p)
			return clear
		}
		for _, s := range strings.Fields(c.replies) {
			switch s {
			case "-":
				p.count(resp.Value{}, errors.New("it is away"))
			case "!":
				p.count(resp.Value{}, errors.New("it has lost its memory"))
			default:
				v, _, err := resp.Parse(word(s))
				if err != nil {
					t.Fatal(s, err)
				}
				p.count(v, nil)
			}
		}
		if !p.clear {
			t.Errorf("%s: %s: nothing", c.script.Name, c.replies)
			continue
		}
		if p.err != nil {
			word, _, _ := strings.Cut(p.err.Error(), " ")
			got = "-" + word
		}
		if got != c.want {
			t.Errorf("%s: %s: %s %v, want %s", c.script.Name, c.replies, got, p.err, c.want)
		}
	}
}

// together is what the nodes of p say together, as the table above spells it.
func together(p *poll) (said string, clear bool) {
	switch p.call.script {
	case &releaseScript:
		r, clear := p.released()
		switch {
		case !r.Held:
			return "nil", clear
		case r.Whole:
			return "1", clear
		}
		return "0", clear
	case &renewScript:
		r, clear := p.renewed()
		if r.Fence != 0 {
			return fmt.Sprintf("[%d %d]", r.Left.Milliseconds(), r.Fence), clear
		}
		return fmt.Sprint(r.Left.Milliseconds()), clear
	case &keepScript:
		left, clear := p.kept(len(p.said[0].Elems))
		return fmt.Sprint(left), clear
	case &inspectScript:
		s, clear := p.state()
		if len(s.Holders) == 0 {
			return "nil", clear
		}
		return fmt.Sprint(len(s.Holders)), clear
	}
	broken, clear := p.broken()
	if broken {
		return "1", clear
	}
	return "0", clear
}
