package redlock

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"lockproxy/internal/resp"
)

// On one master claim does what acquire does for those who do not wait: the same is granted and refused, and the same
// is left. R14 R27 R29
func TestClaimDoesWhatAcquireDoes(t *testing.T) {
	inFakeTime(t, func(t *testing.T, first *server) {
		second := newMini(t)
		defer second.mini.Close()
		one, other := first.connect(), second.connect()
		defer one.Close()
		defer other.Close()
		rng := rand.New(rand.NewPCG(7, 7))
		run := func(c *conn, s Script, args []string) resp.Value {
			t.Helper()
			reply, err := c.do(eval(s, []string{lockKey, "lock:fence:{a}"}[:s.keys], args...))
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
		granted, refused := 0, 0
		var asked func() (a, b string) // the last request, to be sent again
		for n := range 2000 {
			token, lease, id := pick("a", "b", "c"), pick("50", "500", "5000"), fmt.Sprintf("p0000000%08d", n)
			switch rng.IntN(8) {
			case 0:
				time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
			case 1, 2:
				args := []string{token, "", id, "proxy", "PUBLISH", "0"}
				if a, b := text(run(one, releaseScript, args)), text(run(other, releaseScript, args)); a != b {
					t.Fatalf("%d: release: %s, and after claim %s", n, a, b)
				}
				asked = nil
			default:
				if asked == nil || rng.IntN(8) > 0 {
					mode, reentrant := pick("w", "w", "r"), pick("0", "1")
					keeper, meta := pick("", "", "proxy:1", "=proxy:1"), pick("", "", "what for")
					asked = func() (a, b string) {
						was := run(one, acquireScript, []string{token, lease, mode, id, reentrant, "", "", " 2", "PUBLISH", keeper, meta, ""})
						is := run(other, claimScript, []string{token, lease, mode, id, reentrant, "1", "2", keeper, meta})
						return outcomeOf(was, lease, true), outcomeOf(is, lease, false)
					}
				}
				a, b := asked()
				if a != b {
					t.Fatalf("%d: acquire: %s, claim: %s", n, a, b)
				}
				if strings.HasPrefix(a, "granted") {
					granted++
				} else {
					refused++
				}
			}
			if a, b := heldIn(t, run(one, inspectScript, nil)), heldIn(t, run(other, inspectScript, nil)); a != b {
				t.Fatalf("%d: acquire leaves %s, claim %s", n, a, b)
			}
		}
		if granted < 200 || refused < 200 {
			t.Errorf("%d granted and %d refused prove little", granted, refused)
		}
	})
}

// outcomeOf is what a reply of acquire, or of claim, says.
func outcomeOf(v resp.Value, lease string, acquire bool) string {
	switch n := len(v.Elems); {
	case v.Err() != "":
		word, _, _ := strings.Cut(v.Err(), " ")
		return word
	case v.Kind == ':': // the fence alone
		return "granted " + lease + " 1"
	case acquire && n == 4:
		return fmt.Sprint("granted ", v.Elems[2].Int, " ", v.Elems[3].Int)
	case !acquire && n == 5:
		return fmt.Sprint("granted ", v.Elems[1].Int, " ", v.Elems[2].Int)
	}
	return "refused"
}

// heldIn is who holds a lock, without fences.
func heldIn(t *testing.T, v resp.Value) string {
	t.Helper()
	if v.Null() {
		return "nothing"
	}
	s, err := readState(v)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, h := range s.Holders {
		all = append(all, fmt.Sprint(h.Owner, h.Mode, h.TTL, " ", h.Count, h.Kept, h.Meta, " ", h.Age))
	}
	return strings.Join(all, ", ")
}
