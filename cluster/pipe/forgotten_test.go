package pipe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/scripted"
)

// firewall is a node, and what is in front of it: it can forget all connections, each of which swallows what
// it is given from then on. The node tells about its connections, and may hold back what it has read.
type firewall struct {
	mu        sync.Mutex
	conns     int
	forgotten int  // so many of the first are
	holds     bool // replies to SET, of those that come through
	released  chan struct{}
	untold    string // the answer to CLIENT LIST, if not ""
	invents   bool   // it says of all connections that nothing is to be done
	held      map[int]bool
	seen      []string // but for what a handshake says
}

func newFirewall() *firewall { return &firewall{released: make(chan struct{}), held: map[int]bool{}} }

func (w *firewall) dial() net.Conn {
	w.mu.Lock()
	w.conns++
	id := w.conns
	w.mu.Unlock()
	here, there := net.Pipe()
	go scripted.Each(there, func(words []string) bool { // ends when here is closed
		reply := w.answer(id, words)
		return scripted.Write(there, reply)
	}, nil)
	return here
}

func (w *firewall) answer(id int, words []string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	line := strings.Join(words, " ")
	if id <= w.forgotten {
		return scripted.Silence
	}
	describe := func(of int) string {
		flags, args := "N", 0
		if of == id && !w.invents {
			args = 16
		}
		if w.held[of] && !w.invents {
			flags = "b"
		}
		return fmt.Sprintf("id=%d addr=here:%d name=lockproxy age=1 flags=%s qbuf=0 "+
			"argv-mem=%d obl=0 oll=0\n", of, of, flags, args)
	}
	bulk := func(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }
	switch {
	case line == "CLIENT INFO":
		return bulk(describe(id))
	case line == "CLIENT ID":
		return fmt.Sprintf(":%d\r\n", id)
	case strings.HasPrefix(line, "CLIENT LIST ID "):
		w.seen = append(w.seen, "CLIENT LIST")
		if w.untold != "" {
			return w.untold
		}
		text := ""
		for _, word := range words[3:] {
			var n int
			fmt.Sscan(word, &n)
			text += describe(n)
		}
		return bulk(text)
	case words[0] == "CLIENT":
		return "+OK\r\n"
	}
	w.seen = append(w.seen, line)
	if w.holds && words[0] == "SET" {
		w.held[id] = true
		w.mu.Unlock()
		<-w.released
		w.mu.Lock()
		delete(w.held, id)
	}
	return "+OK\r\n"
}

// forget forgets all connections that there are.
func (w *firewall) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgotten = w.conns
}

// commands is what the node has seen.
func (w *firewall) commands() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.seen, ", ")
}

// walled is a rig whose connections go through a firewall, as an Upstream makes them.
type walled struct {
	*outageRig
	wall   *firewall
	dialer cluster.Dialer
}

func newWalled(t *testing.T, o Options) *walled {
	w := &walled{outageRig: newOutageRig(t, o, nil), wall: newFirewall()}
	w.dialer = cluster.Dialer{ConnectTimeout: cluster.ConnectTimeout, Log: o.withDefaults().Log,
		Net: func(context.Context, string, string) (net.Conn, error) { return w.wall.dial(), nil }}
	w.on(func() { w.pool.control = w })
	return w
}

func (w *walled) Dial(ctx context.Context, addr string, m cluster.Mode, before *cluster.Identity) (
	net.Conn, error,
) {
	return w.dialer.Dial(ctx, addr, m, before)
}

// What is asked over a connection that was forgotten is given up within a second: reads are sent again, once,
// and writes fail, because they may have run. It does not take the time-out.
func TestForgottenConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWalled(t, Options{Timeout: time.Hour})
		if _, err := w.do("GET before", true); err != nil {
			t.Fatal(err)
		}
		w.wall.forget()
		at := time.Since(w.pool.born)
		read, write := w.start("GET k", true), w.start("SET k 1", false)
		got := <-read
		if got.reply != "+OK\r\n" || got.err != nil || got.at > at+time.Second {
			t.Errorf("GET: %q %v after %v", got.reply, got.err, got.at-at)
		}
		got = <-write
		if !errors.Is(got.err, cluster.ErrUnknownOutcome) || !errors.Is(got.err, cluster.ErrForgotten) {
			t.Errorf("SET: %q %v", got.reply, got.err)
		}
		if seen := w.wall.commands(); seen != "GET before, CLIENT LIST, CLIENT LIST, GET k" {
			t.Errorf("the node saw %s", seen)
		}
	})
}

// The same goes for connections that are not shared.
func TestForgottenOwnConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWalled(t, Options{Timeout: time.Hour})
		var k keeper
		var p *Pipe
		w.own(func() {
			p = w.pool.Own("a:1", Mode{Proto: 2}, &k)
			p.Request(command("MULTI"), &k, 1)
		})
		k.want(t, "at first", `1 "+OK\r\n"`)
		w.wall.forget()
		w.own(func() { p.Request(command("EXEC"), &k, 2) })
		time.Sleep(time.Second)
		w.own(func() {})
		k.want(t, "then", "2 unknown", "lost")
	})
}

// A node that holds a reply back, and says so, is waited for, however long it takes; so is one that does not
// tell. It is asked less and less often, or no more.
func TestHeldReplyIsNotForgotten(t *testing.T) {
	for name, untold := range map[string]string{
		"told": "", "forbidden": "-NOPERM no\r\n", "busy": "-BUSY a script\r\n", "invented": "",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWalled(t, Options{Timeout: time.Hour})
				w.wall.holds, w.wall.untold, w.wall.invents = true, untold, name == "invented"
				write := w.start("SET k 1", false)
				const long = time.Minute
				time.Sleep(long)
				close(w.wall.released)
				if got := <-write; got.reply != "+OK\r\n" || got.err != nil {
					t.Errorf("SET: %q %v", got.reply, got.err)
				}
				asked := strings.Count(w.wall.commands(), "CLIENT LIST")
				if asked == 0 || (name == "forbidden" || name == "invented") && asked > 1 || asked > 8 {
					t.Errorf("it was asked %d times in %v", asked, long)
				}
			})
		})
	}
}

// The loops of a proxy ask a node together: it gets one more connection of the proxy, not of each loop,
// whether it answers or is silent to new connections as well.
func TestLoopsAskTogether(t *testing.T) {
	const loops = 32
	for name, silent := range map[string]bool{"a firewall forgot": false, "the node is silent": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var all []*walled
				wall, stats := newFirewall(), new(Stats)
				for range loops {
					w := newWalled(t, Options{Timeout: time.Hour})
					w.on(func() { w.wall, w.pool.stats = wall, stats })
					if _, err := w.do("GET before", true); err != nil {
						t.Fatal(err)
					}
					all = append(all, w)
				}
				wall.forget()
				if silent {
					wall.mu.Lock()
					wall.forgotten = 1 << 30
					wall.mu.Unlock()
				}
				var outcomes []<-chan outcome
				for _, w := range all {
					outcomes = append(outcomes, w.start("GET k", true))
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				wall.mu.Lock()
				asked := wall.conns - loops
				wall.mu.Unlock()
				if !silent {
					for _, one := range outcomes {
						if got := <-one; got.err != nil {
							t.Errorf("%q %v", got.reply, got.err)
						}
					}
					asked -= loops // each has another connection now
				}
				if asked < 1 || asked > 2 {
					t.Errorf("%d connections to ask for %d loops", asked, loops)
				}
			})
		})
	}
}
