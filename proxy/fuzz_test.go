package proxy

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster/pipe"
	"lockproxy/internal/resp"
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

// sayAgain answers a command with itself, and grants every lock.
func sayAgain(_ int, command string) string {
	switch {
	case strings.HasPrefix(command, "DEL "):
		return fmt.Sprintf(":%d\r\n", strings.Count(command, " "))
	case strings.HasPrefix(command, "EVALSHA "):
		return nodeGrant
	}
	time.Sleep(time.Duration(len(command)%7) * time.Millisecond)
	return fmt.Sprintf("$%d\r\n%s\r\n", len(command), command)
}

// Whatever bytes a client sends in whatever pieces: its whole commands are
// answered in order, all that it gets is RESP, and framing that Redis refuses ends
// the connection.
func FuzzSession(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3}, []byte("*1\r\n$4\r\nPING\r\n"), []byte{3})
	f.Add([]byte{1, 9, 17, 2, 33, 0, 0}, []byte("*1\r\n$9223372036854775807\r\n"), []byte{1, 100})
	f.Add([]byte(strings.Repeat("\x01\x02\x00", 60)), []byte("*2\r\n$3\r\nGET\r\n$04\r\n"), []byte{200})
	for _, s := range []string{
		"LOCK job WAIT 100\r\nLOCK job\r\nRESET\r\nUNLOCK job\r\n", "GET\r\nget a b\r\nfoo\r\n\"\r\n",
		"HELLO 3\r\nMGET foo bar\r\nKEYS *\r\nINFO\r\n",
		"QUIT\r\nPING\r\n", "POST / HTTP/1.1\r\nHost: a\r\n",
		"AUTH x\r\nHELLO 3 AUTH default secret\r\nCLIENT INFO\r\n",
		"EVAL \"return 1\" 1 a\r\nEVALSHA a 0\r\nSCRIPT LOAD x\r\nSCRIPT FLUSH\r\nSCAN 0\r\nRANDOMKEY\r\n" +
			"DBSIZE\r\n",
		"*0\r\n*-1\r\n\r\n*1\r\n$0\r\n\r\n",
		"COMMAND\r\nCOMMAND DOCS lock\r\nCONFIG GET *\r\nLOCKCTL INFO a\r\nSORT a BY b\r\n",
		"XREAD BLOCK 0 STREAMS a 0\r\nMULTI\r\nSUBSCRIBE a\r\nCLIENT REPLY OFF\r\nMIGRATE a 1 b 0 1\r\n",
	} {
		f.Add([]byte{1, 2}, []byte(s), []byte{7, 1})
	}
	f.Fuzz(func(t *testing.T, choices, junk, cuts []byte) {
		commands, want := plan(choices)
		input := append(commands, junk...)
		inBubble(t, 3, Options{}, sayAgain, func(r *rig) {
			c := r.connectHalves()
			var got bytes.Buffer
			ended := make(chan struct{})
			go func() {
				io.Copy(&got, c.r)
				close(ended)
			}()
			for i := 0; len(input) > 0; i++ {
				n := len(input)
				if len(cuts) > 0 && i < 1000 {
					n = min(n, 1+int(cuts[i%len(cuts)]))
				}
				if _, err := c.Write(input[:n]); err != nil {
					break // it was closed
				}
				input = input[n:]
			}
			time.Sleep(time.Minute) // for LOCK with WAIT and the budget
			synctest.Wait()
			open := true
			select {
			case <-ended:
				open = false
			default:
			}
			c.closeWrite()
			select {
			case <-ended:
			case <-time.After(time.Minute):
				c.Close()
				<-ended
				r.Fatalf("the connection stayed open after its end; it had %q", got.Bytes())
			}

			replies := got.Bytes()
			if !bytes.HasPrefix(replies, want) {
				r.Fatalf("got %q, want %q first", replies, want)
			}
			last := []byte(nil)
			var framer resp.Framer
			for rest := replies; len(rest) > 0; {
				n, done, err := framer.Next(rest)
				if err != nil || !done {
					r.Fatalf("no reply: %q (%v) in %q", rest, err, replies)
				}
				last, rest = rest[:n], rest[n:]
			}
			if bytes.HasPrefix(last, []byte("-ERR Protocol error")) && open {
				r.Errorf("the connection stays open behind %q", last)
			}
		})
	})
}

// Whatever bytes nodes answer: nothing panics, and what the client gets is RESP,
// of which at most the last reply is cut off with the connection.
func FuzzNode(f *testing.F) {
	for _, s := range []string{
		"+OK\r\n", "*2\r\n$1\r\na\r\n$1\r\nb\r\n", nodeGrant, ":5\r\n", "-MOVED 1 node:2\r\n",
		"-ASK 1 :9\r\n", "-NOSCRIPT no\r\n", "-TRYAGAIN later\r\n",
		"%1\r\n+a\r\n:1\r\n", ">2\r\n+message\r\n+x\r\n+OK\r\n", "|1\r\n+ttl\r\n:1\r\n$-1\r\n", "$10\r\nabc",
		"hello\r\n", "*2\r\n$2\r\n17\r\n*1\r\n$1\r\nk\r\n",
		"*-1\r\n", "_\r\n", "*1000000000\r\n", "!5\r\nERR x\r\n", "-\r\n", "+\r\n", ":\r\n", "*0\r\n",
	} {
		f.Add([]byte(s), []byte{byte(len(s))}, false)
		f.Add([]byte(s+s), []byte{1, 5}, true)
	}
	lines := []string{
		"GET foo", "MGET foo bar k", "DEL foo bar", "MSET foo 1 bar 2", "KEYS *", "DBSIZE", "SCAN 0",
		"SCAN 5", "RANDOMKEY", "SCRIPT EXISTS a b", "SCRIPT LOAD x",
		"EVALSHA abc 1 k", "LOCK job", "UNLOCK job t", "RENEW job t", "LOCKCTL INFO job",
		"LOCKCTL CHECK job t", "LOCK job WAIT 50", "SORT a BY b", "FLUSHALL", "INFO", "PING",
	}
	f.Fuzz(func(t *testing.T, data, cuts []byte, three bool) {
		if len(data) == 0 || len(cuts) == 0 {
			return
		}
		from, i := 0, 0
		answer := func(int, string) string { // a slice of data after another, and round again
			n := max(1, int(cuts[i%len(cuts)]))
			i++
			if from += n; from >= len(data) {
				from = 0
			}
			return string(data[from:min(from+n, len(data))])
		}
		var mu sync.Mutex
		locked := func(node int, command string) string {
			mu.Lock()
			defer mu.Unlock()
			if i > 2000 {
				return "+OK\r\n"
			}
			return answer(node, command)
		}
		o := Options{Pipes: pipe.Options{Budget: time.Second, Timeout: 2 * time.Second}}
		inBubble(t, 3, o, locked, func(r *rig) {
			c := r.connectHalves()
			var got bytes.Buffer
			ended := make(chan struct{})
			go func() {
				io.Copy(&got, c.r)
				close(ended)
			}()
			lines := lines
			if three {
				lines = append([]string{"HELLO 3"}, lines...)
			}
			var input []byte
			for _, line := range lines {
				input = resp.AppendCommandStrings(input, strings.Fields(line)...)
			}
			c.Write(input)
			time.Sleep(time.Minute)
			synctest.Wait()
			cut := false
			select {
			case <-ended:
				cut = true
			default:
			}
			c.closeWrite()
			select {
			case <-ended:
			case <-time.After(time.Minute):
				c.Close()
				<-ended
				r.Fatalf("the connection stayed open after its end; it had %q", got.Bytes())
			}
			n := 0
			var framer resp.Framer
			for rest := got.Bytes(); len(rest) > 0; n++ {
				used, done, err := framer.Next(rest)
				if err != nil || !done && !cut {
					r.Fatalf("no reply: %q (%v) in %q", rest, err, got.Bytes())
				}
				if !done {
					break
				}
				rest = rest[used:]
			}
			if n != len(lines) && !cut {
				r.Errorf("%d replies to %d commands: %q", n, len(lines), got.Bytes())
			}
		})
	})
}
