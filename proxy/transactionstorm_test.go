package proxy

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster/pipe"
	"lockproxy/internal/resp"
)

// storm is one client that sends transactions and what else comes to its mind, while nodes cut
// connections and send it elsewhere. It checks each reply, and keeps count of what may have run.
type storm struct {
	*testClient
	n     *txNodes
	dice  *rand.Rand
	lines []string

	multi   bool
	queued  int // commands
	incr    int // of them, those that count
	refused bool

	ran, perhaps int // INCRs
}

// TestTransactionStorm proves that every command has one answer, in its turn, and that nothing runs that
// was not said to run, whatever the nodes do.
func TestTransactionStorm(t *testing.T) {
	seed := firstStorm()
	for i := range uint64(3 * *stormRounds) {
		o := Options{Pipes: pipe.Options{Budget: time.Second}}
		inTxBubble(t, 3, o, func(r *rig, n *txNodes) {
			s := &storm{testClient: r.connect(), n: n, dice: rand.New(rand.NewPCG(seed, i))}
			n.intercept(s.weather(rand.New(rand.NewPCG(i, seed))))
			for range 12 {
				if s.dice.IntN(4) == 0 {
					s.moveSlot()
				}
				s.burst()
			}
			if got, _ := strconv.Atoi(n.value("foo")); got < s.ran || got > s.ran+s.perhaps {
				r.Errorf("counted to %d, told %d and %d unknown", got, s.ran, s.perhaps)
			}
			s.send(s.some()...)
			if s.dice.IntN(2) == 0 {
				synctest.Wait()
			}
			s.Close()
			n.intercept(once(0, "", ""))
			if got := n.connections(); got > 6 { // those that nobody has
				r.Errorf("%d connections are left", got)
			}
			time.Sleep(time.Minute)
			if got := n.connections(); got != 0 {
				r.Errorf("%d connections are left after a while", got)
			}
		})
		if t.Failed() {
			t.Fatalf("seed %d, %d", seed, i)
		}
	}
}

// weather is what befalls requests.
func (s *storm) weather(r *rand.Rand) func(int, string) (string, bool) {
	return func(node int, command string) (string, bool) {
		if r.IntN(12) > 0 || strings.HasPrefix(command, "SCRIPT") {
			return "", true
		}
		switch r.IntN(6) {
		case 0:
			return "", false
		case 1:
			return fmt.Sprintf("-MOVED 12182 node:%d\r\n", 1+r.IntN(3)), false
		case 2:
			return fmt.Sprintf("-ASK 12182 node:%d\r\n", 1+r.IntN(3)), false
		case 3:
			return "-CLUSTERDOWN The cluster is down\r\n", false
		case 4:
			if command == "EXEC" {
				return "-EXECABORT Transaction discarded because of: LOADING Redis is loading the dataset " +
						"in memory\r\n",
					false
			}
			return "-LOADING Redis is loading the dataset in memory\r\n", false
		}
		if strings.HasPrefix(command, "INCR") {
			return "-OOM command not allowed\r\n", false
		}
		return "", true
	}
}

// moveSlot has the topology show another master for the slot of foo.
func (s *storm) moveSlot() {
	r, w := s.rig, s.rig.server.workers[0]
	next := *r.topology
	next.Version++
	next.Slots[12182] = next.Masters[s.dice.IntN(3)]
	w.loop.Post(func() { r.topology = &next; w.pool.Update() })
	synctest.Wait()
}

// burst writes a few commands at once and reads their replies.
func (s *storm) burst() {
	s.lines = s.some()
	s.send(s.lines...)
	for _, line := range s.lines {
		s.reply(line)
	}
}

// some are a few commands.
func (s *storm) some() (lines []string) {
	words := []string{"MULTI", "EXEC", "EXEC", "INCR foo", "INCR foo", "INCR foo", "GET foo", "WATCH foo",
		"UNWATCH", "DISCARD", "PING",
		"CLIENT GETNAME", "NOSUCH", "RESET", "INCR {foo}2", "EVALSHA " + shaOf("x") +
			" 1 foo", "LOCK job", "SET bar 1", "MULTI", "EXEC", "SELECT 0"}
	for range 1 + s.dice.IntN(8) {
		lines = append(lines, words[s.dice.IntN(len(words))])
	}
	return lines
}

// reply reads the reply to one command.
func (s *storm) reply(line string) {
	var got []byte
	s.SetReadDeadline(time.Now().Add(time.Minute))
	for whole := false; !whole; {
		b, err := s.testClient.r.ReadByte()
		if err != nil {
			s.Fatalf("%q of %q: %v after %q", line, s.lines, err, got)
		}
		got = append(got, b)
		if b == '\n' {
			var f resp.Framer
			_, whole, _ = f.Next(got)
		}
	}
	s.judge(line, string(got))
}

// judge compares a reply with the state that the client must be in.
func (s *storm) judge(line, got string) {
	v, _, err := resp.Parse([]byte(got))
	wrong := err != nil
	unknown := strings.Contains(got, "may or may not have run")
	switch {
	case line == "RESET":
		wrong = got != "+RESET\r\n"
		s.multi = false
	case line == "MULTI" && !s.multi:
		wrong = got != ok
		s.multi, s.queued, s.incr, s.refused = true, 0, 0, false
	case line == "EXEC" && s.multi:
		s.multi = false
		switch {
		case unknown:
			s.perhaps += s.incr
		case v.Kind == '*' && !v.Null():
			wrong = len(v.Elems) != s.queued || s.refused
			s.ran += s.incr
		case v.Kind == '-':
			wrong = !strings.HasPrefix(got, "-EXECABORT")
		default:
			wrong = got != nothing
		}
	case line == "EXEC":
		wrong = got != noExecReply
	case line == "DISCARD":
		wrong = got != map[bool]string{true: ok, false: noDiscardReply}[s.multi]
		s.multi = false
	case line == "MULTI", strings.HasPrefix(line, "WATCH") && s.multi:
		wrong = v.Kind != '-' && got != queuedOK // QUEUED: of what fails anyhow
	case s.multi && got == queuedOK:
		wrong = line == "LOCK job"
		s.queued++
		if line == "INCR foo" {
			s.incr++
		}
	case s.multi:
		wrong = v.Kind != '-'
		s.refused = true
		if unknown { // which speaks of all commands behind MULTI
			s.perhaps += s.incr
			s.incr = 0
		}
		if unknown && line == "INCR foo" {
			s.perhaps++
		}
	case line == "INCR foo" && v.Kind == ':':
		s.ran++
	case line == "INCR foo" && unknown:
		s.perhaps++
	}
	if wrong {
		s.Errorf("%q of %q, MULTI %v, %d queued: %q", line, s.lines, s.multi, s.queued, got)
	}
}
