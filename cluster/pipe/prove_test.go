package pipe

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/scripted"
)

// echoes counts right and wrong replies to GET n, of which the right one is n, and keeps so many under way.
type echoes struct {
	r                   *rig
	sent, right, wrong  int
	failed, last, depth int
}

func (e *echoes) more() {
	for e.sent-e.right-e.wrong-e.failed < e.depth && e.sent < e.last {
		e.sent++
		e.r.send(Mode{Proto: 2}, e, uint32(e.sent), false, "GET", fmt.Sprint(e.sent))
	}
}

func (e *echoes) Receive(tag uint32, chunk []byte, _ bool) {
	if string(chunk) == fmt.Sprintf("+%d\r\n", tag) {
		e.right++
	} else {
		e.wrong++
	}
	e.more()
}

func (e *echoes) Fail(uint32, error)  { e.failed++; e.more() }
func (e *echoes) Discard(uint32) bool { return true }
func (e *echoes) Detour(uint32)       {}

// A node that sends one reply too many or too few is found before many clients have got what belongs to
// others: within 500 requests, or within 50 ms if they come slowly. R12
func TestRepliesOutOfStep(t *testing.T) {
	for name, instead := range map[string]func(right string) string{
		"one too many":      func(right string) string { return right + "+0\r\n" },
		"an error too many": func(right string) string { return right + "-ERR no\r\n" },
		"a Null too many":   func(right string) string { return "$-1\r\n" + right },
		"a map too many":    func(right string) string { return right + "%1\r\n+a\r\n*0\r\n" },
		"one too few":       func(string) string { return scripted.Silence },
		"a PONG too many":   func(right string) string { return right + "$16\r\n0123456789abcdef\r\n" },
	} {
		for pace, each := range map[string]time.Duration{"fast": 0, "slowly": 2 * time.Millisecond} {
			t.Run(name+" "+pace, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var mu sync.Mutex
					answered, pings := 0, 0
					node := &outOfStep{answer: func(words []string) string {
						time.Sleep(each)
						mu.Lock()
						defer mu.Unlock()
						if words[0] == "PING" {
							pings++
							return "$16\r\n" + words[1] + "\r\n"
						}
						right := "+" + words[1] + "\r\n"
						if answered++; answered == 3000 {
							return instead(right)
						}
						return right
					}}
					r := newRig(t, Options{Timeout: time.Minute}, nil)
					r.dialed = node.dial
					e := &echoes{r: r, depth: 20, last: 10000}
					r.on(e.more)
					time.Sleep(time.Minute)
					synctest.Wait()
					most := 500 + e.depth
					if each > 0 {
						most = int(50*time.Millisecond/each) + 2*e.depth
					}
					stats := r.stats.Nodes()[0]
					// An error for a request that is not written yet looks like a refusal.
					found := stats.Garbled == 1 || stats.Garbled == 0 && strings.HasPrefix(name, "an error")
					all := e.right + e.wrong + e.failed
					if e.wrong > most || all != e.last || e.failed > 2*e.depth ||
						stats.Connects != 2 || !found {
						t.Errorf("%d wrong of %d, want at most %d; %d failed; %d connections, want 2; "+
							"%d of them out of step", e.wrong, e.right+e.wrong, most, e.failed,
							stats.Connects, stats.Garbled)
					}
					if each == 0 && pings > e.last/500+1 {
						t.Errorf("%d questions for %d requests", pings, e.last)
					}
				})
			})
		}
	}
}

// Whoever lets the queue get empty pays nothing, and a node that refuses PING is asked in vain. R12
func TestProofsThatAreNotNeeded(t *testing.T) {
	for name, test := range map[string]struct{ depth, pings int }{
		"one at a time": {1, 0}, "many": {20, 20},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pings := 0
				node := &outOfStep{answer: func(words []string) string {
					if words[0] == "PING" {
						pings++
						return "-NOPERM User u has no permissions to run the 'ping' command\r\n"
					}
					time.Sleep(10 * time.Microsecond)
					return "+" + words[1] + "\r\n"
				}}
				r := newRig(t, Options{}, nil)
				r.dialed = node.dial
				e := &echoes{r: r, depth: test.depth, last: 10000}
				r.on(e.more)
				time.Sleep(time.Minute)
				synctest.Wait()
				if e.right != e.last || pings > test.pings || pings < test.pings/2 {
					t.Errorf("%d right of %d, %d questions, want about %d", e.right, e.last,
						pings, test.pings)
				}
			})
		})
	}
}

// outOfStep is a node whose answers need not be one for each command.
type outOfStep struct{ answer func(words []string) string }

func (n *outOfStep) dial() net.Conn {
	here, there := net.Pipe()
	go func() { // ends when here is closed
		defer there.Close()
		scripted.Each(there, func(words []string) bool {
			if strings.HasPrefix(words[0], "PING") && len(words) == 1 {
				return scripted.Write(there, "+PONG\r\n")
			}
			return scripted.Write(there, n.answer(words))
		}, nil)
	}()
	return here
}
