package hostile

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster/pipe"
	"lockproxy/internal/resp"
	"lockproxy/proxy"
)

// asked are the commands of which a client of FuzzNode sends some.
var asked = []string{
	"GET foo", "MGET foo bar k", "DEL foo bar", "MSET foo 1 bar 2", "KEYS *", "DBSIZE", "SCAN 0",
	"SCAN 5", "RANDOMKEY", "SCRIPT EXISTS a b", "SCRIPT LOAD x",
	"EVALSHA abc 1 k", "LOCK job", "UNLOCK job t", "RENEW job t", "LOCKCTL INFO job",
	"LOCKCTL CHECK job t", "LOCK job WAIT 50", "SORT a BY b", "FLUSHALL", "INFO", "PING",
}

// mostAsked is how many they are at most, and mostSaid how often a node answers with what the fuzzer chose.
const (
	mostAsked = 4
	mostSaid  = 70
)

// nodeReplies are what nodes of FuzzNode answer at first.
var nodeReplies = []string{
	"+OK\r\n", "*2\r\n$1\r\na\r\n$1\r\nb\r\n", string(grant), ":5\r\n", "-MOVED 1 10.0.0.2:6379\r\n",
	"-ASK 1 :9\r\n", "-NOSCRIPT no\r\n", "-TRYAGAIN later\r\n",
	"%1\r\n+a\r\n:1\r\n", ">2\r\n+message\r\n+x\r\n+OK\r\n", "|1\r\n+ttl\r\n:1\r\n$-1\r\n", "$10\r\nabc",
	"hello\r\n", "*2\r\n$2\r\n17\r\n*1\r\n$1\r\nk\r\n",
	"*-1\r\n", "_\r\n", "*1000000000\r\n", "!5\r\nERR x\r\n", "-\r\n", "+\r\n", ":\r\n", "*0\r\n",
}

// Whatever bytes nodes answer: nothing panics, and what the client gets is RESP,
// of which at most the last reply is cut off with the connection.
func FuzzNode(f *testing.F) {
	for i, s := range nodeReplies {
		f.Add([]byte(s), []byte{byte(len(s))}, []byte{byte(i), byte(i + 7), byte(i + 15)}, false)
		f.Add([]byte(s+s), []byte{1, 5}, []byte{byte(i + 3), byte(i + 9), byte(i), byte(i)}, true)
	}
	run := bubble(f, hasty)
	f.Fuzz(func(t *testing.T, data, cuts, lines []byte, three bool) {
		if len(data) == 0 || len(cuts) == 0 {
			return
		}
		run(t, func(h *house) string {
			_, wrong := parley(h, data, cuts, lines, three)
			return wrong
		})
	})
}

// hasty has each request be sent again once, since more of that would only cost time.
var hasty = proxy.Options{Pipes: pipe.Options{Budget: 5 * time.Millisecond, Timeout: 20 * time.Millisecond}}

// parley has a client send some lines of asked, which nodes answer with data, cut up. It returns what the
// client got, and what is wrong with it, or "".
func parley(h *house, data, cuts, lines []byte, three bool) (got []byte, wrong string) {
	var input []byte
	n := min(len(lines), mostAsked)
	for _, line := range lines[:n] {
		input = resp.AppendCommandStrings(input, strings.Fields(asked[int(line)%len(asked)])...)
	}
	if three {
		input = append(resp.AppendCommandStrings(nil, "HELLO", "3"), input...)
		n++
	}
	// Each node has its own place in data: which of them is asked first is left to chance.
	var from, said [nodes]int
	h.answer = func(node int, _ []resp.Value) []byte { // a slice of data after another, and round again
		if said[node]++; said[node] > mostSaid {
			return resp.OK
		}
		piece := max(1, int(cuts[(node+said[node])%len(cuts)]))
		if from[node] += piece; from[node] >= len(data) {
			from[node] = 0
		}
		return data[from[node]:min(from[node]+piece, len(data))]
	}
	c := h.connect(input, nil)
	var replies [][]byte
	var whole bool
	var err error
	for i := 0; ; i++ {
		if replies, whole, err = frames(c.got); err != nil {
			return c.got, fmt.Sprintf("no replies: %q (%v)", c.got, err)
		}
		if whole && len(replies) == n || c.isClosed() {
			break
		}
		if i == 60 {
			return c.got, fmt.Sprintf("%d replies to %d commands: %q", len(replies), n, c.got)
		}
		time.Sleep(20 * time.Millisecond << min(i, 6)) // what takes long is rare
		synctest.Wait()
	}
	cut := c.isClosed()
	c.end()
	said = [nodes]int{mostSaid, mostSaid, mostSaid}
	h.hangUp()
	time.Sleep(20 * time.Millisecond) // what was to be sent again is given up
	synctest.Wait()
	for i := 0; i < 60 && !c.isClosed(); i++ {
		time.Sleep(time.Second)
		synctest.Wait()
	}
	replies, whole, err = frames(c.got)
	switch {
	case !c.isClosed():
		wrong = fmt.Sprintf("the connection stayed open after its end; it had %q", c.got)
	case err != nil || !whole && !cut:
		wrong = fmt.Sprintf("no replies: %q (%v)", c.got, err)
	case len(replies) != n && !cut:
		wrong = fmt.Sprintf("%d replies to %d commands: %q", len(replies), n, c.got)
	}
	return c.got, wrong
}
