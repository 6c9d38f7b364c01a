package quorum

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

// word is a reply as the table below spells it: nil, an integer, [a b], LOCKTYPE, "-" for none, "!" for one
// that does not count.
func word(s string) []byte {
	switch {
	case s == "nil":
		return []byte("$-1\r\n")
	case s == "LOCKTYPE":
		return []byte("-LOCKTYPE it is a list\r\n")
	case s[0] == 'w': // a writer with so many ms left
		left, _ := strconv.Atoi(s[1:])
		hold := fmt.Sprintf("%d 1 7 0 - id", 1001+left)
		return resp.AppendBulks([]byte("*5\r\n"), "1000000", "o", "a", "w", hold)
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

// What renew.lua is asked by a client and by a keeper, release.lua by a keeper, and cancel.lua for BREAK.
var (
	renewing  = scripts.Script{Name: "client"}
	keeping   = scripts.Script{Name: "keeper"}
	detaching = scripts.Script{Name: "detach"}
	breaking  = scripts.Script{Name: "break"}
)

// How the replies of five nodes become one. R27
func TestCombination(t *testing.T) { synctest.Test(t, testCombination) }

func testCombination(t *testing.T) { // in fake time, of which only .. takes any
	for _, c := range []struct {
		script  *scripts.Script
		replies string
		want    string
	}{
		// A majority speaks for all.
		{&scripts.Release, "1 1 1 1 1", "1"},
		{&scripts.Release, "1 1 1 - -", "1"},
		{&scripts.Release, "nil nil nil 1 1", "nil"}, // a few leftovers are no hold
		{&scripts.Release, "1 1 nil nil nil", "nil"}, // whoever answers first
		{&scripts.Release, "nil nil 1 1 1", "1"},
		{&scripts.Release, "1 nil nil 1 -", "1"},
		{&scripts.Release, "0 0 0 1 nil", "0"},
		{&scripts.Release, "0 0 1 nil nil", "1"}, // off a majority: nobody holds it
		{&scripts.Release, "0 0 1 - -", "-NOQUORUM"},
		{&scripts.Release, "1 1 - - -", "-NOQUORUM"},
		{&scripts.Release, "1 1 ! ! -", "-NOQUORUM"}, // those do not vote
		{&scripts.Release, "nil nil ! ! 1", "1"},
		{&scripts.Release, "1 1 LOCKTYPE - -", "-LOCKTYPE"},
		{&scripts.Release, "LOCKTYPE 1 1 1 -", "1"},
		// What remains is what a majority has: 1000 ms less 1 % and 2 ms.
		{&renewing, "[1000,0] [1000,0] [1000,0] [1000,0] [1000,0]", "988"},
		{&renewing, "[9000,0] [9000,0] [1000,0] [0,0] [0,0]", "988"},
		{&renewing, "[1000,0] [1000,0] [0,0] [0,0] [0,0]", "0"},
		{&renewing, "[1000,0] [1000,0] [0,0] [0,0] -", "-NOQUORUM"}, // the silent one may have it
		{&renewing, "[1000,0] [1000,0] [0,0] [0,0] !", "-NOQUORUM"},
		{&renewing, "[0,0] [0,0] [0,0] - -", "0"},
		{&renewing, "[1000,7] [1000,8] [1000,8] [0,0] [0,0]", "[988 8]"},
		// a majority is waited for
		{&renewing, "[1000,7] [1000,8] [1000,9] [1000,7] [1000,7]", "[988 7]"},
		{&renewing, "[1000,7] [1000,8] [1000,9] [1000,7] -", "[988 7]"},
		{&renewing, "[2,0] [2,0] [2,0] [2,0] [2,0]", "0"}, // less than the clocks may differ
		// Hold by hold.
		{&keeping, "[1000,0] [1000,0] [1000,0] - -", "[988 0]"},
		{&keeping, "[2] [1] [2] - -", "[1]"}, // they have it, though for no time that counts
		{&keeping, "[1000,-1] [1000,-1] [1000,-1] [0,1000] [0,1000]", "[988 -1]"},
		{&keeping, "[1000] [1000] [0] [0] [0]", "[0]"},
		{&keeping, "[1000] [1000] [-1] [-1] [0]", "[0]"},
		{&keeping, "[1000] [1000] [0] [0] -", "-NOQUORUM"},
		{&keeping, "[-1] [-1] [0] [-1] -", "[-1]"},
		{&keeping, "[1000] [1000] - - -", "-NOQUORUM"},
		{&breaking, "0 0 0 1 1", "0"},
		{&breaking, "1 1 1 0 0", "1"},
		{&breaking, "1 1 0 0 0", "0"},
		{&breaking, "1 1 - - -", "-NOQUORUM"},
		{&detaching, "0 0 0 - -", "0"},
		{&detaching, "1 0 0 1 -", "1"},
		{&scripts.Inspect, "nil nil nil - -", "nil"},
		{&scripts.Inspect, "nil nil - - -", "-NOQUORUM"},
		// One node has missed a renewal, and does not speak for those that are late.
		{&scripts.Inspect, "w1100 w1100 w2 w1100 nil", "1"},
		{&scripts.Inspect, "w1100 w1100 w2 nil nil", "nil"},
		{&scripts.Inspect, "w1100 w1100 w2 nil -", "-NOQUORUM"},
		{&scripts.Inspect, "w1100 w2 w2 nil -", "nil"},
		// What is told late was there all the same.
		{&scripts.Inspect, "nil nil .. w1100 w1100 w1100", "1"},
	} {
		p := newPoll(New(make([]Node, 5), redlock.NewNames("lock:"), Options{}), scripts.Call{},
			func(p *nodeReplies) (said string, clear bool) { return together(c.script, p) })
		p.began = time.Now()
		var got string
		var failed error
		p.then = func(said string, err error) { got, failed = said, err }
		for _, s := range strings.Fields(c.replies) {
			switch s {
			case "..":
				time.Sleep(2 * time.Second)
			case "-":
				p.countAnswer(resp.Value{}, errors.New("it is away"))
			case "!":
				p.countAnswer(resp.Value{}, errors.New("it has lost its memory"))
			default:
				v, _, err := resp.Parse(word(s))
				if err != nil {
					t.Fatal(s, err)
				}
				p.countAnswer(v, nil)
			}
		}
		if !p.clear {
			t.Errorf("%s: %s: nothing", c.script.Name, c.replies)
			continue
		}
		if failed != nil {
			word, _, _ := strings.Cut(failed.Error(), " ")
			got = "-" + word
		}
		if got != c.want {
			t.Errorf("%s: %s: %s %v, want %s", c.script.Name, c.replies, got, failed, c.want)
		}
	}
}

// together is what the nodes say together to a script, as the table above spells it.
func together(script *scripts.Script, p *nodeReplies) (said string, clear bool) {
	switch script {
	case &scripts.Release:
		r, clear := p.released()
		switch {
		case !r.Held:
			return "nil", clear
		case r.Whole:
			return "1", clear
		}
		return "0", clear
	case &renewing:
		r, clear := p.renewed()
		if r.Fence != 0 {
			return fmt.Sprintf("[%d %d]", r.Left.Milliseconds(), r.Fence), clear
		}
		return fmt.Sprint(r.Left.Milliseconds()), clear
	case &keeping:
		left, clear := p.kept(len(p.said[0].Elems))
		return fmt.Sprint(left), clear
	case &scripts.Inspect:
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
