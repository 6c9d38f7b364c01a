package scripts_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/scripts"
)

// On one master, claim does the same as acquire for requests that do not wait: it grants, refuses and leaves
// the same, byte for byte. R14 R27 R29
func TestClaimDoesWhatAcquireDoes(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, first *rig.Server) {
		second := rig.NewMini(t)
		defer second.Mini.Close()
		one, other := first.Connect(), second.Connect()
		defer one.Close()
		defer other.Close()
		rng := rand.New(rand.NewPCG(7, 7))
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
		granted, refused := 0, 0
		var asked func() (a, b string) // the last request, to be sent again
		for n := range 2000 {
			token, lease, id := pick("a", "b", "c"), pick("50", "500", "5000"), fmt.Sprintf("p0000000%08d", n)
			if rng.IntN(3) == 0 {
				id += fmt.Sprintf(",n%07d", rng.IntN(3)) // named by its client
			}
			switch rng.IntN(8) {
			case 0:
				time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
			case 1, 2:
				args := []string{token, "", id, "proxy", "PUBLISH", "tell"}
				a, b := textOf(run(one, scripts.Release, args)), textOf(run(other, scripts.Release, args))
				if a != b {
					t.Fatalf("%d: release: %s, and after claim %s", n, a, b)
				}
				asked = nil
			default:
				if asked == nil || rng.IntN(8) > 0 {
					mode, reentrant := pick("w", "w", "r"), pick("0", "1")
					keeper := pick("", "", "proxy:1", "=proxy:1")
					meta := pick("", "", "what for", "\t40 what for")
					breaks := rng.IntN(6) == 0
					asked = func() (a, b string) {
						args := []string{token, lease, mode, id, reentrant, "", "", " 2", "PUBLISH",
							keeper, meta, ""}
						wanted := []string{token, lease, mode, id, reentrant, "1", "2", keeper, meta}
						if breaks { // wanted is the fence that acquire makes
							args = append(args, "1")
							last := rig.Integer(first.Ask("GETRANGE", "lock:fence:{a}", "0", "15").Text())
							wanted[5] = fmt.Sprint(max(last+1, time.Now().UnixMicro()))
							wanted = append(wanted, "1")
						}
						was := run(one, scripts.Acquire, args)
						is := run(other, scripts.Claim, wanted)
						return outcomeOf(was, lease, true), outcomeOf(is, lease, false)
					}
				}
				// acquire knows what was answered before that
				upgraded := upgrades.MatchString(textOf(first.Ask("HGETALL", rig.LockKey)))
				a, b := asked()
				if a != b &&
					!(upgraded && strings.HasPrefix(a, "granted") && strings.HasPrefix(b, "granted")) {
					t.Fatalf("%d: acquire: %s, claim: %s", n, a, b)
				}
				if strings.HasPrefix(a, "granted") {
					granted++
				} else {
					refused++
				}
			}
			if a, b := left(first), left(second); a != b {
				t.Fatalf("%d: acquire leaves %s\nclaim %s", n, a, b)
			}
		}
		if granted < 200 || refused < 200 {
			t.Errorf("%d granted and %d refused prove little", granted, refused)
		}
	})
}

// upgrades matches what made a hold, if a reader became the writer by that.
var upgrades = regexp.MustCompile(`[\^*?&][\w,]+:\d{16}:`)

// outcomeOf is the meaning of a reply of acquire, or of claim.
func outcomeOf(v resp.Value, lease string, acquire bool) string {
	switch n := len(v.Elems); {
	case v.Err() != "":
		word, _, _ := strings.Cut(v.Err(), " ")
		return word
	case v.Kind == ':': // the fence alone
		return "granted " + lease + " 1"
	case acquire && n >= 4:
		broke := ""
		if n == 5 {
			broke = ", and broke others"
		}
		return fmt.Sprint("granted ", v.Elems[2].Int, " ", v.Elems[3].Int, broke)
	case !acquire && n == 5 && v.Elems[3].Int == 2:
		return fmt.Sprint("granted ", v.Elems[1].Int, " ", v.Elems[2].Int, ", and broke others")
	case !acquire && n == 5:
		return fmt.Sprint("granted ", v.Elems[1].Int, " ", v.Elems[2].Int)
	}
	return "refused"
}

// fenceOf is the fence of a grant that claim replied, for which that fence was wanted.
func fenceOf(t *testing.T, reply []byte, wanted int64) int64 {
	t.Helper()
	v, _, _ := resp.Parse(reply)
	clock := v.Int
	if v.Kind != ':' {
		if len(v.Elems) != 5 {
			t.Fatalf("%q", reply)
		}
		wanted, clock = v.Elems[0].Int, v.Elems[4].Int
	}
	if clock != time.Now().UnixMicro() {
		t.Errorf("the clock shows %d", clock)
	}
	return wanted
}

// left is all that a server has of the lock and its fence.
func left(s *rig.Server) string {
	var fields []string
	values := s.Ask("HGETALL", rig.LockKey)
	for i := 0; i+1 < len(values.Elems); i += 2 {
		fields = append(fields, values.Elems[i].Text()+"="+values.Elems[i+1].Text())
	}
	slices.Sort(fields)
	return fmt.Sprint(fields, s.Ask("GET", rig.LockKey).Text(), " ", s.Ask("PTTL", rig.LockKey).Int, " ",
		s.Ask("GET", "lock:fence:{a}").Text())
}

// What claim replies to RedLock, which asks many masters. R27
func TestClaimReplies(t *testing.T) {
	const fence = 1 << 50 // below the clock of these tests, so that each grant gets one by the clock
	claim := func(words string) []string {
		w := strings.Fields(words)
		for len(w) < 9 {
			w = append(w, "-")
		}
		for i := range w {
			w[i] = strings.TrimPrefix(w[i], "-")
		}
		w[3] = "p0000000" + w[3]
		return w
	}
	// token lease mode id reentrant wanted most keeper meta
	for _, c := range []struct {
		name, lines, want string // of the last line
	}{
		{"granted", "a 5000 w 1 0 100 9", "F 5000 1 1"},
		{"granted to a reader", "a 5000 r 1 0 100 9", "F 5000 1 1"},
		{"the token again", "a 5000 w 1 0 100 9; a 5000 w 2 0 100 9", "F 5000 1 0"},
		{"the token again, counted", "a 5000 r 1 0 100 9; a 9000 r 2 1 100 9", "F 9000 2 0"},
		{"sent again", "a 5000 w 1 1 100 9; a 5000 w 1 1 100 9", "F 5000 1 0"},
		{"never shorter", "a 5000 w 1 0 100 9; a 500 w 2 0 100 9", "F 5000 1 0"},
		{"a reader becomes the writer", "a 5000 r 1 0 100 9; a 500 w 2 1 100 9", "F 5000 2 1"},
		{"nothing new is wanted", "a 5000 w 1 0 - 9", "0 1 "},
		{"nothing new is wanted, beside readers", "a 5000 r 1 0 100 9; b 5000 r 2 0 - 9", "0 1 "},
		{"nothing new is wanted, but by who holds it", "a 5000 w 1 0 100 9; a 5000 w 2 0 - 9", "F 5000 1 0"},
		{"nothing new is wanted, but by the reader", "a 5000 r 1 0 100 9; a 5000 r 2 0 - 9", "F 5000 1 0"},
		{"held", "a 5000 w 1 0 100 9; b 500 w 2 0 100 9", "0 5001 p00000001"},
		{"held, with a keeper", "a 5000 w 1 0 100 9 P:1; b 500 r 2 0 100 9", "0 5001 p00000001"},
		{"held by readers", "a 5000 r 1 0 100 9; c 7000 r 2 0 100 9; b 500 w 3 0 100 9", "0 7001 r"},
		{"a reader wants to write", "a 9000 r 1 0 100 9; c 7000 r 2 0 100 9; a 500 w 3 0 100 9", "-1 7001 r"},
		{"too many readers", "a 5000 r 1 0 100 1; b 500 r 2 0 100 1", "QUEUEFULL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
				conn := s.Connect()
				defer conn.Close()
				var v resp.Value
				for line := range strings.SplitSeq(c.lines, "; ") {
					reply, err := conn.Do(evalSHA(scripts.Claim, []string{rig.LockKey, "lock:fence:{a}"},
						claim(line)...))
					if err != nil {
						t.Fatal(err)
					}
					v, _, _ = resp.Parse(reply)
				}
				if v.Err() != "" {
					if word, _, _ := strings.Cut(v.Err(), " "); word != c.want {
						t.Errorf("%s, want %s", v.Err(), c.want)
					}
					return
				}
				last := len(v.Elems) - 1
				if clock := v.Elems[last].Int; clock != time.Now().UnixMicro() {
					t.Errorf("the clock shows %d", clock)
				}
				var said []string
				for i, e := range v.Elems[:last] {
					word := textOf(e)
					if i == 0 && e.Int > fence/2 {
						word = "F"
					}
					said = append(said, word)
				}
				if got := strings.Join(said, " "); got != c.want {
					t.Errorf("%q, want %q", got, c.want)
				}
			})
		})
	}
}

// The wanted fence is used if it is above all earlier ones and at most a second ahead of the clock. R8 R27
func TestClaimTakesTheFenceThatIsWanted(t *testing.T) {
	for _, mode := range []string{"w", "r", "up"} {
		for _, c := range []struct {
			ahead time.Duration
			taken bool
		}{
			{-time.Minute, false}, {time.Millisecond, true}, {time.Second, true},
			{time.Second + time.Microsecond, false},
		} {
			rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
				conn := s.Connect()
				defer conn.Close()
				ask := func(id, mode string, wanted int64) int64 {
					t.Helper()
					args := []string{"a", "5000", mode, "p0000000" + id, "0", fmt.Sprint(wanted), "9", "", ""}
					reply, err := conn.Do(evalSHA(scripts.Claim,
						[]string{rig.LockKey, "lock:fence:{a}"}, args...))
					if err != nil {
						t.Fatal(err)
					}
					return fenceOf(t, reply, wanted)
				}
				as, first := mode, int64(0)
				if mode == "up" {
					as, first = "w", ask("1", "r", 1)
				}
				wanted := time.Now().Add(c.ahead).UnixMicro()
				got := ask("2", as, wanted)
				if (got == wanted) != c.taken || got <= first {
					t.Errorf("%s, %v ahead: %d, wanted %d, the one before is %d", mode, c.ahead,
						got, wanted, first)
				}
				if noted := s.Ask("GETRANGE", "lock:fence:{a}", "0", "15").Text(); noted != fmt.Sprint(got) {
					t.Errorf("%s: %s is noted, and %d granted", mode, noted, got)
				}
			})
		}
	}
}

// A writer that becomes a reader tells those who wait; a late copy of that request changes nothing. R29 R33
func TestClaimOfAWriterThatReads(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		c := s.Connect()
		defer c.Close()
		heard := make(chan string, 9)
		listens := s.Connect()
		if _, err := listens.Do(resp.AppendCommandStrings(nil, "SUBSCRIBE", rig.LockKey)); err != nil {
			t.Fatal(err)
		}
		go func() { // ends with the connection
			defer close(heard)
			for {
				message, err := listens.Reply()
				if err != nil {
					return
				}
				v, _, _ := resp.Parse(message)
				heard <- v.Elems[2].Text()
			}
		}()
		claim := func(mode, id string) {
			t.Helper()
			args := []string{"a", "5000", mode, "p0000000" + id, "0", "1", "9", "", ""}
			if reply, err := c.Do(evalSHA(scripts.Claim, []string{rig.LockKey, "lock:fence:{a}"},
				args...)); err != nil || reply[0] != '*' {
				t.Fatalf("%q %v", reply, err)
			}
		}
		writes := func() bool { return s.Ask("HEXISTS", rig.LockKey, "w").Int == 1 }
		claim("w", "00000001")
		claim("w", "00000003")
		claim("r", "00000002")
		if !writes() {
			t.Error("a late copy made a reader of the writer")
		}
		claim("r", "00000004")
		if writes() {
			t.Error("it writes still")
		}
		s.Ask("PUBLISH", rig.LockKey, "end")
		if first := <-heard; first != "p000000000000004" {
			t.Errorf("those who wait heard %q", first)
		}
		listens.Close()
		for range heard {
		}
	})
}

// A plain lock of an independent master is freed by a request that its proxy made later than the LOCK, or by
// one of another proxy, and never by an earlier one that comes late. No note is left. R14 R33
func TestReleaseOfAClaim(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		c := s.Connect()
		defer c.Close()
		do := func(script scripts.Script, args ...string) string {
			t.Helper()
			reply, err := c.Do(evalSHA(script, []string{rig.LockKey, "lock:fence:{a}"}, args...))
			if err != nil {
				t.Fatal(err)
			}
			return string(reply)
		}
		for n, test := range []struct{ token, id, want string }{
			{"a", "p000000000000006", ":1\r\n"},
			{"a", "p000000000000004", "$-1\r\n"}, // made before the LOCK
			{"a", "q000000000000004", ":1\r\n"},
			{"b", "p000000000000006", "$-1\r\n"},
		} {
			s.Ask("FLUSHALL")
			wanted := fmt.Sprint(time.Now().Add(time.Millisecond).UnixMicro())
			token, other := redlock.OwnerOf("a"), redlock.OwnerOf(test.token)
			do(scripts.Claim, token, "5000", "w", "p000000000000005", "0", wanted, "9", "", "")
			if got := do(scripts.Release, other, "", test.id, "proxy", "PUBLISH", "tell"); got != test.want {
				t.Errorf("%d: %q, want %q", n, got, test.want)
			}
			if held := s.Ask("EXISTS", rig.LockKey).Int == 1; held != (test.want != ":1\r\n") {
				t.Errorf("%d: held: %t", n, held)
			}
			if noted := s.Ask("GET", "lock:fence:{a}").Text(); noted != wanted {
				t.Errorf("%d: behind the fence is %q", n, noted)
			}
		}
	})
}

// The fence of a claim is higher than the last one of the slot, whatever is wanted. R27
func TestClaimAboveTheLastFence(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		c := s.Connect()
		defer c.Close()
		last := time.Now().Add(500 * time.Millisecond).UnixMicro()
		for _, above := range []int64{-400_000, -1, 0, 1, 100} {
			s.Ask("FLUSHALL")
			s.Ask("SET", "lock:fence:{a}", fmt.Sprint(last))
			reply, err := c.Do(evalSHA(scripts.Claim, []string{rig.LockKey, "lock:fence:{a}"},
				"a", "5000", "w", "p000000000000005", "0", fmt.Sprint(last+above), "9", "", ""))
			if err != nil {
				t.Fatal(err)
			}
			want := max(last+1, last+above)
			if got := fenceOf(t, reply, last+above); got != want {
				t.Errorf("%d above: the fence %d, want %d", above, got, want)
			}
			if noted := s.Ask("GET", "lock:fence:{a}").Text(); noted != fmt.Sprint(want) {
				t.Errorf("%d above: %s is noted, want %d", above, noted, want)
			}
		}
	})
}
