package pipe

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/scripted"
	"lockproxy/internal/slot"
)

// synced runs one command, given as a line of words.
func synced(ctx context.Context, c *Client, line string, replicas int, timeout time.Duration) (string, int,
	error) {
	words := strings.Fields(line)
	reply, acked, err := c.Synced(ctx, slot.Of([]byte(words[1])), command(words...), replicas, timeout)
	return string(reply), acked, err
}

// unused fails the test if a connection still has an owner.
func (r *rig) unused() {
	r.t.Helper()
	synctest.Wait()
	if own := r.stats.Own(); own.Used != 0 || own.Waiting != 0 {
		r.t.Errorf("%d connections were not given back, %d are waited for", own.Used, own.Waiting)
	}
}

// Whatever keeps a node from running the request is handled: R33
func TestSyncedDetours(t *testing.T) {
	// first answers its first command with what is given, and then as a master with 2 replicas.
	first := func(replies ...string) *scripted.Node {
		return &scripted.Node{Answer: func(command string) string {
			switch {
			case strings.HasPrefix(command, "WAIT"):
				return ":2\r\n"
			case command == "CLIENT ID":
				return ":7\r\n"
			case len(replies) > 0:
				reply := replies[0]
				replies = replies[1:]
				return reply
			}
			return ":1\r\n"
		}}
	}
	const there = "GET k"
	tests := map[string]struct {
		a, b         *scripted.Node
		aSeen, bSeen string
		pause        bool
	}{
		"at once": {a: first(), aSeen: there},
		"MOVED":   {a: first("-MOVED 7 b:1\r\n"), b: first(), aSeen: there, bSeen: there},
		"ASK": {a: first("-ASK 7 b:1\r\n"), b: first("+OK\r\n"), aSeen: there,
			bSeen: "ASKING, " + there},
		"ASK and healed": {a: first("-ASK 7 b:1\r\n"),
			b: first("+OK\r\n", "-NOSCRIPT no\r\n", "+OK\r\n"), aSeen: there, bSeen: "ASKING, " + there +
				", ASKING, EVAL source of k"},
		"TRYAGAIN": {a: first("-TRYAGAIN Multiple keys\r\n"), aSeen: there + ", " + there, pause: true},
		"CLUSTERDOWN": {a: first("-CLUSTERDOWN The cluster is down\r\n"), aSeen: there + ", " + there,
			pause: true},
		"LOADING": {a: first("-LOADING Redis is loading\r\n"), aSeen: there + ", " + there,
			pause: true},
		"READONLY": {a: first("-READONLY You can't write\r\n"), aSeen: there + ", " + there,
			pause: true},
		"NOSCRIPT":        {a: first("-NOSCRIPT No matching\r\n"), aSeen: there + ", EVAL source of k"},
		"connection lost": {a: first("", ""), aSeen: "GET k, GET k, " + there, pause: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := map[string]*scripted.Node{"a:1": test.a}
				if test.b != nil {
					nodes["b:1"] = test.b
				}
				source := func(sha []byte) ([]byte, bool) { return []byte("source of " + string(sha)), true }
				r := newRig(t, Options{Source: source}, nodes)
				began := time.Now()
				reply, acked, err := synced(t.Context(), r.client(), "GET k", 2, time.Second)
				if err != nil || reply != ":1\r\n" && reply != "+OK\r\n" || acked != 2 {
					t.Errorf("reply %q, %d acked, %v", reply, acked, err)
				}
				if took := time.Since(began); took > time.Second || (took > 0) != test.pause {
					t.Errorf("it took %v", took)
				}
				synctest.Wait()
				// A WAIT behind a refusal comes late, or is cut off with its connection.
				requests := func(s *scripted.Node) string {
					all := strings.ReplaceAll(s.Commands(), ", WAIT 2 1000", "")
					return strings.TrimPrefix(strings.ReplaceAll(all, ", CLIENT ID", ""), "CLIENT ID, ")
				}
				if got := requests(test.a); got != test.aSeen {
					t.Errorf("a got %s, want %s", got, test.aSeen)
				}
				if test.b != nil && requests(test.b) != test.bSeen {
					t.Errorf("b got %s, want %s", requests(test.b), test.bSeen)
				}
				if r.refreshes == 0 && test.aSeen != there && !strings.HasPrefix(name, "NOSCRIPT") {
					t.Error("the topology is not looked at again")
				}
				r.unused()
			})
		})
	}
}

// The answer to a WAIT counts only behind the request on its own connection: on a new one it would count
// replicas that have nothing of the request.
func TestSyncedOnOneConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cuts := 3
		a := &scripted.Node{Answer: func(command string) string {
			if cuts > 0 && strings.HasPrefix(command, "WAIT") {
				cuts--
				return "" // the request was answered
			}
			return ":2\r\n"
		}}
		r := newRig(t, Options{}, map[string]*scripted.Node{"a:1": a})
		if reply, acked, err := synced(t.Context(), r.client(), "GET k", 2, time.Second); reply != ":2\r\n" ||
			acked != 2 {
			t.Errorf("%q, %d, %v", reply, acked, err)
		}
		one := "CLIENT ID, GET k, WAIT 2 1000"
		if got, want := a.Commands(), strings.Join([]string{one, one, one, one}, ", "); got != want {
			t.Errorf("the node got %s, want %s", got, want)
		}
		cuts = 1 << 30
		if _, _, err := synced(t.Context(), r.client(), "GET k", 2, time.Second); !errors.Is(err,
			cluster.ErrUnknownOutcome) {
			t.Errorf("when each WAIT is lost: %v", err)
		}
		r.unused()
	})
}

// What WAIT says, and what becomes of it.
func TestSyncedWait(t *testing.T) {
	tests := map[string]struct {
		waits []string
		acked int
		err   string
	}{
		"all":     {[]string{":2\r\n"}, 2, ""},
		"none":    {[]string{":0\r\n"}, 0, ""},
		"unknown": {[]string{"-ERR unknown command `WAIT`, with args beginning with: `2`\r\n"}, 0, ""},
		"a replica now": {[]string{"-UNBLOCKED force unblock from blocking operation, " +
			"instance state changed (master -> replica?)\r\n", ":1\r\n"}, 1, ""},
		"a replica already": {[]string{"-ERR WAIT cannot be used with replica instances. " +
			"Please also note\r\n", ":1\r\n"}, 1, ""},
		"forbidden": {[]string{"-NOPERM this user has no permissions to run the 'wait' command\r\n"}, 0,
			"cluster: node a:1: WAIT: NOPERM"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &scripted.Node{Answer: func(command string) string {
					if !strings.HasPrefix(command, "WAIT") { // CLIENT ID, too
						return ":1\r\n"
					}
					reply := test.waits[0]
					test.waits = test.waits[1:]
					return reply
				}}
				r := newRig(t, Options{}, map[string]*scripted.Node{"a:1": a})
				reply, acked, err := synced(t.Context(), r.client(), "GET k", 2, time.Second)
				if test.err != "" {
					if err == nil || !strings.HasPrefix(err.Error(), test.err) {
						t.Errorf("%v, want %s", err, test.err)
					}
					return
				}
				if err != nil || reply != ":1\r\n" || acked != test.acked || len(test.waits) > 0 {
					t.Errorf("%q, %d, %v; %d replies to WAIT are left", reply, acked, err, len(test.waits))
				}
			})
		})
	}
}

// It ends: with the budget, with its context, and when a node is silent.
func TestSyncedEnds(t *testing.T) {
	tests := map[string]struct {
		answer func(string) string
		nobody bool
		within time.Duration // of ctx; 0: the budget of 10 s and a timeout of 1 s count
		reply  string
		err    error
	}{
		"refused": {answer: func(string) string { return "-CLUSTERDOWN no\r\n" },
			reply: "-CLUSTERDOWN no\r\n"},
		"lost":   {answer: func(string) string { return "" }, err: cluster.ErrUnknownOutcome},
		"silent": {answer: func(string) string { return "-" }, err: cluster.ErrUnknownOutcome},
		"silent, left": {answer: func(string) string { return "-" }, within: 500 * time.Millisecond,
			err: context.DeadlineExceeded},
		"nobody":       {nobody: true, err: cluster.ErrUnavailable},
		"nobody, left": {nobody: true, within: 500 * time.Millisecond, err: context.DeadlineExceeded},
		"redirects for ever": {answer: func(string) string { return "-MOVED 7 a:1\r\n" },
			err: cluster.ErrUnavailable},
		"an error of its own": {answer: func(c string) string { return "-LOCKTYPE foreign\r\n" },
			reply: "-LOCKTYPE foreign\r\n", within: time.Hour},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := map[string]*scripted.Node{}
				if !test.nobody {
					nodes["a:1"] = &scripted.Node{Answer: func(c string) string {
						if strings.HasPrefix(c, "WAIT") || c == "CLIENT ID" {
							return ":0\r\n"
						}
						return test.answer(c)
					}}
				}
				r := newRig(t, Options{}, nodes)
				ctx, end := t.Context(), 11*time.Second
				if test.within > 0 {
					end = test.within
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.within)
					defer cancel()
				}
				began := time.Now()
				reply, _, err := synced(ctx, r.client(), "GET k", 1, time.Second)
				took := time.Since(began)
				if reply != test.reply || !errors.Is(err, test.err) {
					t.Errorf("%q, %v; want %q, %v", reply, err, test.reply, test.err)
				}
				if test.within < time.Hour && took != end {
					t.Errorf("it ended after %v, not %v", took, end)
				}
				r.unused()
			})
		})
	}
}

// A connection is used again. If its node has closed it while it was idle, that costs nothing.
func TestSyncedOnConnectionsThatIdled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &scripted.Node{Answer: func(c string) string {
			if c == "QUIT" {
				return ""
			}
			return ":1\r\n"
		}}
		r := newRig(t, Options{}, map[string]*scripted.Node{"a:1": a})
		for range 3 {
			for range 2 {
				began := time.Now()
				reply, acked, err := synced(t.Context(), r.client(), "GET k", 1, time.Second)
				if err != nil || reply != ":1\r\n" || acked != 1 || time.Since(began) > 0 {
					t.Errorf("%q, %d, %v after %v", reply, acked, err, time.Since(began))
				}
			}
			r.own(func() {
				k := new(keeper)
				pipe := r.pool.Own("a:1", Mode{Proto: 2}, k)
				pipe.Request(command("QUIT"), k, 0)
			})
		}
		if n := strings.Count(a.Commands(), "CLIENT ID"); n != 3 {
			t.Errorf("%d connections, want 3", n)
		}
	})
}

// The connections are bounded, and leave places for clients.
func TestSyncedAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &scripted.Node{Answer: func(c string) string {
			if strings.HasPrefix(c, "WAIT") {
				time.Sleep(time.Second)
				return ":0\r\n"
			}
			return ":1\r\n"
		}}
		r := newRig(t, Options{MaxOwn: 16}, map[string]*scripted.Node{"a:1": a})
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		var group sync.WaitGroup
		var served, late atomic.Int64
		for range 40 {
			group.Go(func() {
				switch _, _, err := synced(ctx, r.client(), "GET k", 1, time.Second); {
				case err == nil:
					served.Add(1)
				case errors.Is(err, context.DeadlineExceeded):
					late.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if own := r.stats.Own(); own.Used != 12 || own.Waiting != 28 {
			t.Errorf("%d have a connection and %d wait for one", own.Used, own.Waiting)
		}
		var k keeper
		r.own(func() { r.pool.Own("a:1", Mode{Proto: 2}, &k).Request(command("GET"), &k, 1) })
		k.want(t, "a client meanwhile", `1 ":1\r\n"`)
		group.Wait()
		if served.Load() != 24 || late.Load() != 16 {
			t.Errorf("%d were served, %d had to wait for too long", served.Load(), late.Load())
		}
		r.on(r.pool.Close)
		_, _, err := synced(t.Context(), r.client(), "GET k", 1, time.Second)
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		time.Sleep(time.Second) // of the node
	})
}

// Who waits is told when the pipes are closed, or their loop ends.
func TestSyncedWhenAllEnds(t *testing.T) {
	for name, end := range map[string]func(r *rig){
		"pipes": func(r *rig) { r.on(r.pool.Close) },
		"loop":  func(r *rig) { r.loop.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Options{},
					map[string]*scripted.Node{"a:1": {Answer: func(c string) string { return "-" }}})
				failed := make(chan error, 1)
				go func() {
					_, _, err := synced(t.Context(), r.client(), "GET k", 1, time.Second)
					failed <- err
				}()
				synctest.Wait()
				end(r)
				err := <-failed
				if !errors.Is(err, cluster.ErrUnknownOutcome) || !errors.Is(err, net.ErrClosed) {
					t.Errorf("%v", err)
				}
			})
		})
	}
}
