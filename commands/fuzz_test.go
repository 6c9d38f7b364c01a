package commands_test

import (
	"strings"
	"testing"

	"lockproxy/internal/resp"
)

// FuzzCommands has clients say anything: every command is answered once, with one
// whole reply, and nothing panics, whatever the nodes answer.
func FuzzCommands(f *testing.F) {
	for _, line := range calls {
		f.Add(line, "*2\r\n$1\r\n0\r\n*0\r\n", 2)
	}
	for _, c := range redis7(f).Commands() {
		f.Add(sampleOf(c, 1), ":1\r\n", 1)
		f.Add(strings.ReplaceAll(c.Name, "|", " "), "*1\r\n$1\r\nx\r\n", 3)
	}
	f.Add("HELLO 3 AUTH a b SETNAME c", "+OK\r\n", 3)
	f.Add("COMMAND INFO get lockctl|info", "*2\r\n*-1\r\n*0\r\n", 1)
	f.Add("INFO all", "$9\r\n# A\r\nb:1\r\n\r\n", 2)
	table := redis7(f, sampleVerbs()...)
	f.Fuzz(func(t *testing.T, line, reply string, masters int) {
		words := strings.Split(line, " ")
		if v, rest, err := resp.Parse([]byte(reply)); err != nil || len(rest) > 0 || v.Kind == '>' {
			return // nodes are trusted with the framing of their replies
		}
		s := sessionOver(t, table)
		s.Masters = nil
		for range 1 + uint(masters)%5 {
			s.Masters = append(s.Masters, saying(reply))
		}
		answer := []byte(s.Args(words...))
		if len(answer) == 0 && s.Closed {
			return // HTTP is cut off
		}
		if _, rest, err := resp.Parse(answer); err != nil || len(rest) > 0 {
			t.Errorf("%q is answered %q: %v", words, answer, err)
		}
	})
}
