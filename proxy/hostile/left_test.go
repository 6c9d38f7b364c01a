package hostile

import (
	"bytes"
	"regexp"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"

	"lockproxy/proxy"
)

// tokens are drawn, and counted are numbers that the whole proxy counts: of clients, commands, bytes. Whether
// a client has been written to yet is left to the order of goroutines.
var (
	tokens  = regexp.MustCompile(`\$26\r\n[A-Z2-7]{26}`)
	counted = regexp.MustCompile(`[0-9]+|events=rw?`)
	tells   = regexp.MustCompile(`HELLO|CLIENT|INFO|STATS|MONITOR`)
)

// A proxy serves many inputs of FuzzSession: what a client gets is the same whatever ran before it. Only
// holds that linger outlast their client, as they shall. Of FuzzNode this cannot be said: what becomes of
// requests to nodes that break connections is left to chance.
func TestInputsLeaveNothing(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // as in the fuzzer: goroutines take turns
	inputs := conversations(t)
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(proxy.Options{})
		defer h.end()
		first := make(map[string][]byte)
		for range 2 {
			for _, said := range inputs {
				got, wrong := converse(h, []byte{1, 2, 3}, said, nil)
				if wrong != "" {
					t.Fatalf("%q: %s", said, wrong)
				}
				got = tokens.ReplaceAll(got, nil)
				if tells.Match(said) {
					got = counted.ReplaceAll(got, []byte("n"))
				}
				before, again := first[string(said)]
				if again && !bytes.Contains(said, []byte("LINGER")) && !bytes.Equal(got, before) {
					t.Errorf("%q was answered\n%q first, and then\n%q", said, before, got)
				}
				first[string(said)] = got
			}
			slices.Reverse(inputs)
		}
	})
}
