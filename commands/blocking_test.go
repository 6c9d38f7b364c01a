package commands_test

import (
	"strings"
	"testing"
	"time"

	"lockproxy/commands"
	"lockproxy/commands/merge"
	"lockproxy/internal/resp"
)

// TestTimeouts finds the time-out of each command that blocks, and writes another in its place.
func TestTimeouts(t *testing.T) {
	const none, unknown = -1, -2
	table := redis7(t)
	for line, want := range map[string]time.Duration{
		"BLPOP a b 0":                0,
		"BRPOP a 1":                  time.Second,
		"blpop a 0.0001":             time.Millisecond,
		"BLMOVE a b LEFT LEFT 2.5":   2500 * time.Millisecond,
		"BRPOPLPUSH a b 3":           3 * time.Second,
		"BLMPOP 4 1 k LEFT":          4 * time.Second,
		"BZMPOP 0.25 1 k MIN":        250 * time.Millisecond,
		"BZPOPMIN k 1e1":             10 * time.Second,
		"BZPOPMAX k 7":               7 * time.Second,
		"WAIT 1 500":                 500 * time.Millisecond,
		"BLPOP a -1":                 unknown,
		"BLPOP a x":                  unknown,
		"BLPOP a nan":                unknown,
		"BLPOP a 1e300":              unknown,
		"XREAD STREAMS k $":          none,
		"XREAD COUNT 2 STREAMS k 0":  none,
		"XREAD BLOCK 20 STREAMS k 0": 20 * time.Millisecond,
		"XREAD BLOCK 9 count 1 bLock 20 STREAMS k 0":         20 * time.Millisecond,
		"XREADGROUP GROUP block BLOCK STREAMS k >":           0, // a group and a consumer of that name
		"XREADGROUP GROUP streams c BLOCK 30 STREAMS k >":    30 * time.Millisecond,
		"XREADGROUP GROUP g c NOACK BLOCK 0 STREAMS block >": 0,
		"XREAD BLOCK x STREAMS k 0":                          unknown,
		"XREAD STREAMS block 0":                              unknown,
	} {
		args := wordsOf(line)
		cmd, _ := table.Resolve(args)
		got, blocks := cmd.Blocks(args)
		switch {
		case want == none && !blocks:
			continue
		case want == none || !blocks:
			t.Errorf("%s: blocks %t", line, blocks)
		case want == unknown:
			if got.Known() {
				t.Errorf("%s: %+v", line, got)
			}
		case got.Limit != want:
			t.Errorf("%s: %v", line, got.Limit)
		}
	}
	for line, want := range map[string]string{
		"BLPOP a b 10":                  "BLPOP a b 1.235",
		"BLMPOP 4 1 k LEFT":             "BLMPOP 1.235 1 k LEFT",
		"XREAD BLOCK 20000 STREAMS k 0": "XREAD BLOCK 1235 STREAMS k 0",
		"WAIT 1 5000":                   "WAIT 1 1235",
		"BLPOP a x":                     "BLPOP a x",
	} {
		args := wordsOf(line)
		cmd, _ := table.Resolve(args)
		timeout, _ := cmd.Blocks(args)
		v, _, err := resp.Parse(timeout.Rewrite(resp.AppendCommand(nil, args...), 1234*time.Millisecond+1))
		var words []string
		for _, e := range v.Elems {
			words = append(words, e.Text())
		}
		if got := strings.Join(words, " "); got != want || err != nil {
			t.Errorf("%s: %s (%v), want %s", line, got, err, want)
		}
	}
	for line, want := range map[string]bool{
		"XREAD BLOCK 0 STREAMS a b 0 $": true, "XREAD BLOCK 0 STREAMS a +": true,
		"XREAD BLOCK 0 STREAMS $ 0": false, "XREADGROUP GROUP $ $ BLOCK 0 STREAMS a >": false,
	} {
		args := wordsOf(line)
		cmd, _ := table.Resolve(args)
		if got, _ := cmd.Blocks(args); got.Fresh != want {
			t.Errorf("%s: fresh %t", line, got.Fresh)
		}
	}
}

func TestMergeMin(t *testing.T) {
	for _, test := range []struct{ replies, want string }{
		{":2\r\n", ":2\r\n"},
		{":2\r\n :1\r\n :3\r\n", ":1\r\n"},
		{"*2\r\n:1\r\n:0\r\n *2\r\n:0\r\n:2\r\n", "*2\r\n:0\r\n:0\r\n"},
		{":2\r\n -ERR\tno\r\n", "-ERR\tno\r\n"},
		{":2\r\n *1\r\n:1\r\n", string(resp.ErrUnexpected)},
	} {
		var replies [][]byte
		for reply := range strings.SplitSeq(test.replies, " ") {
			replies = append(replies, []byte(reply))
		}
		if got := string(merge.Min(2, replies)); got != test.want {
			t.Errorf("%q: %q, want %q", test.replies, got, test.want)
		}
	}
}

// TestShortestTimeout: nothing that is left of a time-out is 0 to any Redis, which is for ever; 6.0 cuts
// 0.001 s to that.
func TestShortestTimeout(t *testing.T) {
	for unit, want := range map[time.Duration]string{time.Second: "0.002", time.Millisecond: "1"} {
		req := resp.AppendCommandStrings(nil, "BLPOP", "k", "5")
		got := commands.Timeout{At: 2, Unit: unit}.Rewrite(req, 0)
		if want := string(resp.AppendCommandStrings(nil, "BLPOP", "k", want)); string(got) != want {
			t.Errorf("%v: %q, want %q", unit, got, want)
		}
	}
}
