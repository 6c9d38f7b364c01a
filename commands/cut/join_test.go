package cut

import (
	"testing"

	"lockproxy/internal/resp"
)

// Replies that do not have the elements which were asked for make an error.
func TestUnexpectedElements(t *testing.T) {
	c := New([][]byte{[]byte("MGET"), []byte("a"), []byte("b")}, 1, 1, 0)
	for _, replies := range [][]string{{"*1\r\n$1\r\nx\r\n"}, {"*1\r\n$1\r\nx\r\n", "*2\r\n+x\r\n+y\r\n"},
		{"+OK\r\n", "*1\r\n+x\r\n"}, {"*1\r\n", "*1\r\n+x\r\n"}} {
		var all [][]byte
		for _, r := range replies {
			all = append(all, []byte(r))
		}
		if got := string(c.Join(2, all)); got != string(resp.ErrUnexpected) {
			t.Errorf("%q: %q", replies, got)
		}
	}
}
