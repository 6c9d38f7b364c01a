package hostile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/proxy"
	"lockproxy/redlock"
)

// plan turns bytes into a pipeline of commands that nodes, all of them together
// and the proxy answer, and the replies that it must get.
func plan(choices []byte) (commands, replies []byte) {
	for i, choice := range choices[:min(len(choices), 200)] {
		word, key := fmt.Sprint("word", i), fmt.Sprint("key", choice>>3)
		switch choice % 4 {
		case 0:
			commands = resp.AppendCommandStrings(commands, "PING", word)
			replies = fmt.Appendf(replies, "$%d\r\n%s\r\n", len(word), word)
		case 1:
			commands = resp.AppendCommandStrings(commands, "SET", key, word)
			line := "SET " + key + " " + word
			replies = fmt.Appendf(replies, "$%d\r\n%s\r\n", len(line), line)
		case 2:
			commands = resp.AppendCommandStrings(commands, "DEL", key, word, "foo", "bar", "k")
			replies = append(replies, ":5\r\n"...)
		case 3:
			commands = append(commands, "ECHO "+word+"\r\n"...)
			replies = fmt.Appendf(replies, "$%d\r\n%s\r\n", len(word), word)
		}
	}
	return commands, replies
}

var grant = []byte("*4\r\n$33\r\n" + redlock.OwnerOf("token") + "\r\n:7\r\n:30000\r\n:1\r\n")

// sayAgain answers a command with itself, grants every lock, and confirms subscriptions.
func sayAgain(_ int, command []resp.Value) []byte {
	words := make([]string, len(command))
	for i, e := range command {
		words[i] = string(e.Str)
	}
	switch verb := strings.ToUpper(words[0]); {
	case verb == "DEL":
		return fmt.Appendf(nil, ":%d\r\n", len(words)-1)
	case verb == "EVALSHA":
		return grant
	case verb == "PING": // where something is subscribed: other clients get it from the proxy
		return []byte("*2\r\n$4\r\npong\r\n$0\r\n\r\n")
	case strings.HasSuffix(verb, "SUBSCRIBE") && len(words) == 2:
		return fmt.Appendf(nil, "*3\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n:1\r\n", len(verb),
			strings.ToLower(verb), len(words[1]), words[1])
	}
	line := strings.Join(words, " ")
	return fmt.Appendf(nil, "$%d\r\n%s\r\n", len(line), line)
}

// mostSeeded is how many commands a seed has at most: short inputs are fast, and are varied more.
const mostSeeded = 8

// conversations are what the clients of all transcripts say, section by section.
func conversations(t testing.TB) (all [][]byte) {
	files, err := filepath.Glob("../../integration/transcripts/testdata/*.txt")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d transcripts, %v", len(files), err)
	}
	said := regexp.MustCompile(`(?m)^[a-z]3?> (.*)$`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for section := range strings.SplitSeq(string(text), "\n\n") {
			for lines := range slices.Chunk(said.FindAllStringSubmatch(section, -1), mostSeeded) {
				var commands []byte
				for _, line := range lines {
					if args, _, err := resp.Split([]byte(line[1]+"\r\n"), nil); err == nil {
						commands = resp.AppendCommand(commands, args...)
					}
				}
				all = append(all, commands)
			}
		}
	}
	return all
}

// Whatever bytes a client sends in whatever pieces, and whichever node answers first: its whole commands are
// answered in order, all that it gets is RESP, and framing that Redis refuses ends the connection.
func FuzzSession(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3}, []byte("*1\r\n$4\r\nPING\r\n"), []byte{3})
	f.Add([]byte{1, 9, 17, 2, 33, 0, 0}, []byte("*1\r\n$9223372036854775807\r\n"), []byte{1, 100})
	f.Add([]byte(strings.Repeat("\x01\x02\x00", 60)), []byte("*2\r\n$3\r\nGET\r\n$04\r\n"), []byte{200})
	for _, s := range []string{
		"GET\r\nget a b\r\nfoo\r\n\"\r\n", "POST / HTTP/1.1\r\nHost: a\r\n",
		"*0\r\n*-1\r\n\r\n*1\r\n$0\r\n\r\n",
		"MIGRATE a 1 b 0 1\r\nSORT a BY b\r\n",
	} {
		f.Add([]byte{1, 2}, []byte(s), []byte{7, 1})
	}
	for _, s := range conversations(f) {
		f.Add([]byte{1}, s, []byte{})
	}
	run := bubble(f, proxy.Options{})
	f.Fuzz(func(t *testing.T, choices, junk, cuts []byte) {
		run(t, func(h *house) string {
			_, wrong := converse(h, choices, junk, cuts)
			return wrong
		})
	})
}

// converse has a client send what plan makes of choices, and junk, in pieces. It returns what the client got,
// and what is wrong with it, or "".
func converse(h *house, choices, junk, cuts []byte) (got []byte, wrong string) {
	commands, want := plan(choices)
	h.answer = sayAgain
	h.hold(true)
	c := h.connect(append(commands, junk...), cuts)
	for i := 0; i < 1000 && h.letOne(byte(len(junk)>>(i%8))); i++ {
		synctest.Wait()
	}
	h.hold(false)
	synctest.Wait()
	if len(cuts) > 0 && cuts[0]%2 == 1 {
		time.Sleep(time.Second) // for LOCK with WAIT and the like
		synctest.Wait()
	}
	refused := endsRefused(c.got) // if AUTH had to wait, it is later
	if refused {                  // the rest of the command may come yet
		time.Sleep(5 * time.Second)
		synctest.Wait()
	}
	open := !c.isClosed()
	c.end()
	synctest.Wait()
	for i := 0; i < 60 && !c.isClosed(); i++ {
		time.Sleep(time.Second)
		synctest.Wait()
	}
	if bytes.Contains(bytes.ToLower(junk), []byte("pause")) { // of all clients, the next ones too
		h.connect([]byte("CLIENT UNPAUSE\r\nQUIT\r\n"), nil)
	}
	_, whole, err := frames(c.got)
	switch {
	case !c.isClosed():
		wrong = fmt.Sprintf("the connection stayed open after its end; it had %q", c.got)
	case !bytes.HasPrefix(c.got, want):
		wrong = fmt.Sprintf("got %q, want %q first", c.got, want)
	case err != nil || !whole:
		wrong = fmt.Sprintf("no replies: %q (%v)", c.got, err)
	case open && refused:
		wrong = fmt.Sprintf("the connection stays open behind %q", c.got)
	}
	return c.got, wrong
}

// endsRefused says that the last of the replies in got is that to framing that Redis refuses.
func endsRefused(got []byte) bool {
	reason := []byte("-ERR Protocol error")
	if !bytes.Contains(got, reason) {
		return false
	}
	replies, _, _ := frames(got)
	return len(replies) > 0 && bytes.HasPrefix(replies[len(replies)-1], reason)
}

// Who writes a command whole that is refused by its first bytes gets the reason: the proxy reads the rest.
func TestRefusedCommandIsReadToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(proxy.Options{})
		defer h.end()
		h.answer = sayAgain
		const keys = 1 << 20
		input := append([]byte(fmt.Sprintf("*%d\r\n$3\r\nDEL\r\n", keys+1)),
			bytes.Repeat([]byte("$1\r\nx\r\n"), keys)...)
		c := h.connect(input, nil)
		reason := []byte("-ERR Protocol error: invalid multibulk length\r\n")
		if !bytes.Equal(c.got, reason) || len(c.pieces) > 0 {
			t.Errorf("%q, and %d pieces were not read", c.got, len(c.pieces))
		}
		time.Sleep(time.Minute)
		if !c.isClosed() {
			t.Error("it stays for ever")
		}
	})
}
