package scripts_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/scripts"
)

// A proxy that knows the fence of the grant saves release most of its work. The reply and what is left are
// the same, byte for byte, as for one that does not know it. R16 R25
func TestReleaseWithAKnownFence(t *testing.T) {
	steps, least := 3000, 40
	if testing.Short() {
		steps, least = 1000, 10
	}
	rig.InFakeTime(t, func(t *testing.T, first *rig.Server) {
		second := rig.NewMini(t)
		defer second.Mini.Close()
		one, other := first.Connect(), second.Connect()
		defer one.Close()
		defer other.Close()
		rng := rand.New(rand.NewPCG(11, 11))
		run := func(c *rig.Conn, s scripts.Script, args []string) resp.Value {
			t.Helper()
			reply, err := c.Do(evalSHA(s, []string{rig.LockKey, "lock:fence:{a}"}[:s.Keys], args...))
			if err != nil {
				t.Fatal(err)
			}
			v, _, err := resp.Parse(reply)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		pick := func(all ...string) string { return all[rng.IntN(len(all))] }
		handed, holder := 0, "a"
		fences := map[string]string{} // by token, of the last grant
		granted := func(token string, fence int64) {
			fences[token], holder = strconv.FormatInt(fence, 10), token
		}
		tokens := map[string]string{} // by request
		// Since the servers were empty:
		var asked [][]string
		type release struct{ token, want, id, proxy, fence string }
		var released []release
		for n := range steps {
			if n%40 == 0 {
				first.Ask("FLUSHALL")
				second.Ask("FLUSHALL")
				asked, released = nil, nil
			}
			token, proxy, id := pick("a", "b", "c", "d", "e", "f"), pick("P1", "P1", "P1", "P2"),
				fmt.Sprintf("p0000000%08d", n)
			switch rng.IntN(24) {
			case 0, 1:
				time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
			case 2, 3, 4, 5, 6, 7, 8, 9, 10:
				token = pick(holder, holder, holder, holder, holder, holder, token)
				r := release{token, pick("", "", fences[token], fences[holder]), id, proxy, fences[token]}
				if r.want != "" {
					r.fence = r.want
				}
				if released = append(released, r); rng.IntN(6) == 0 {
					r = released[rng.IntN(len(released))]
				}
				args := []string{r.token, r.want, r.id, r.proxy, "PUBLISH", "grant"}
				known := run(one, scripts.Release, append(slices.Clone(args), r.fence))
				unknown := run(other, scripts.Release, append(slices.Clone(args), ""))
				if a, b := textOf(known), textOf(unknown); a != b {
					t.Fatalf("%d: with the fence: %s, without: %s", n, a, b)
				}
				if len(known.Elems) >= 4 {
					handed++
					granted(tokens[known.Elems[1].Text()], known.Elems[2].Int)
				}
			default:
				tokens[id] = token
				args := []string{token, pick("50", "5000", "9000"), pick("w", "w", "w", "w", "r"), id,
					pick("0", "0", "0", "1"), proxy, pick("60", "5000", "5000"), "10 3", "PUBLISH"}
				if rng.IntN(5) == 0 {
					args = append(args, pick("", "P1:1"), pick("", "what for", "\t40 what for"), "")
				}
				if asked = append(asked, args); rng.IntN(4) == 0 {
					args = asked[rng.IntN(len(asked))]
				}
				a, b := run(one, scripts.Acquire, args), run(other, scripts.Acquire, args)
				if textOf(a) != textOf(b) {
					t.Fatalf("%d: acquire: %s and %s", n, textOf(a), textOf(b))
				}
				if a = whole(a, args); len(a.Elems) == 4 {
					granted(args[0], a.Elems[1].Int)
				}
			}
			if a, b := left(first), left(second); a != b {
				t.Fatalf("%d: with the fence there is %s\nwithout %s", n, a, b)
			}
		}
		if handed < least {
			t.Errorf("%d hand-overs prove little", handed)
		}
	})
}
