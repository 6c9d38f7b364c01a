package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

// synced runs one command, given as a line of words.
func synced(ctx context.Context, d *Dedicated, line string, replicas int, timeout time.Duration) (string, int, error) {
	words := strings.Fields(line)
	reply, acked, err := d.Synced(ctx, slot.Of([]byte(words[1])), resp.AppendCommandStrings(nil, words...), replicas, timeout)
	return string(reply), acked, err
}

// Whatever keeps a node from running the request is dealt with: R33
func TestSyncedDetours(t *testing.T) {
	// first answers its first command with what is given, and then as a master with 2 replicas.
	first := func(replies ...string) *script {
		return &script{answer: func(command string) string {
			if strings.HasPrefix(command, "WAIT") {
				return ":2\r\n"
			}
			if len(replies) > 0 {
				reply := replies[0]
				replies = replies[1:]
				return reply
			}
			return ":1\r\n"
		}}
	}
	const there = "GET k"
	tests := map[string]struct {
		a, b         *script
		aSeen, bSeen string
		pause        bool
	}{
		"at once":         {a: first(), aSeen: there},
		"MOVED":           {a: first("-MOVED 7 b:1\r\n"), b: first(), aSeen: there, bSeen: there},
		"ASK":             {a: first("-ASK 7 b:1\r\n"), b: first("+OK\r\n"), aSeen: there, bSeen: "ASKING, " + there},
		"ASK and healed":  {a: first("-ASK 7 b:1\r\n"), b: first("+OK\r\n", "-NOSCRIPT no\r\n", "$3\r\nsha\r\n", "+OK\r\n"), aSeen: there, bSeen: "ASKING, " + there + ", SCRIPT LOAD source of k, ASKING, " + there},
		"TRYAGAIN":        {a: first("-TRYAGAIN Multiple keys\r\n"), aSeen: there + ", " + there, pause: true},
		"CLUSTERDOWN":     {a: first("-CLUSTERDOWN The cluster is down\r\n"), aSeen: there + ", " + there, pause: true},
		"LOADING":         {a: first("-LOADING Redis is loading\r\n"), aSeen: there + ", " + there, pause: true},
		"READONLY":        {a: first("-READONLY You can't write\r\n"), aSeen: there + ", " + there, pause: true},
		"NOSCRIPT":        {a: first("-NOSCRIPT No matching\r\n", "$3\r\nsha\r\n"), aSeen: there + ", SCRIPT LOAD source of k, " + there},
		"connection lost": {a: first("", ""), aSeen: "GET k, GET k, " + there, pause: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := map[string]*script{"a:1": test.a}
				if test.b != nil {
					nodes["b:1"] = test.b
				}
				r := newRig(t, PipeOptions{}, nodes)
				d := r.dedicated(DedicatedOptions{Source: func(sha []byte) ([]byte, bool) { return []byte("source of " + string(sha)), true }})
				began := time.Now()
				reply, acked, err := synced(t.Context(), d, "GET k", 2, time.Second)
				if err != nil || reply != ":1\r\n" && reply != "+OK\r\n" || acked != 2 {
					t.Errorf("reply %q, %d acked, %v", reply, acked, err)
				}
				if took := time.Since(began); took > time.Second || (took > 0) != test.pause {
					t.Errorf("it took %v", took)
				}
				synctest.Wait()
				// A WAIT behind a refusal comes late, or is cut off with its connection.
				requests := func(s *script) string { return strings.ReplaceAll(s.commands(), ", WAIT 2 1000", "") }
				if got := requests(test.a); got != test.aSeen {
					t.Errorf("a got %s, want %s", got, test.aSeen)
				}
				if test.b != nil && requests(test.b) != test.bSeen {
					t.Errorf("b got %s, want %s", requests(test.b), test.bSeen)
				}
				if r.refreshes == 0 && test.aSeen != there && name != "NOSCRIPT" {
					t.Error("the topology is not looked at again")
				}
				if _, users := d.count("a:1"); users != 0 {
					t.Errorf("%d connections were not given back", users)
				}
			})
		})
	}
}

// What WAIT says, and what becomes of it.
func TestSyncedWait(t *testing.T) {
	tests := map[string]struct {
		waits []string
		acked int
		err   string
	}{
		"all":               {[]string{":2\r\n"}, 2, ""},
		"none":              {[]string{":0\r\n"}, 0, ""},
		"unknown":           {[]string{"-ERR unknown command `WAIT`, with args beginning with: `2`\r\n"}, 0, ""},
		"a replica now":     {[]string{"-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)\r\n", ":1\r\n"}, 1, ""},
		"a replica already": {[]string{"-ERR WAIT cannot be used with replica instances. Please also note\r\n", ":1\r\n"}, 1, ""},
		"forbidden":         {[]string{"-NOPERM this user has no permissions to run the 'wait' command\r\n"}, 0, "cluster: node a:1: WAIT: NOPERM"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &script{answer: func(command string) string {
					if !strings.HasPrefix(command, "WAIT") {
						return ":1\r\n"
					}
					reply := test.waits[0]
					test.waits = test.waits[1:]
					return reply
				}}
				r := newRig(t, PipeOptions{}, map[string]*script{"a:1": a})
				reply, acked, err := synced(t.Context(), r.dedicated(DedicatedOptions{}), "GET k", 2, time.Second)
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
		"refused":             {answer: func(string) string { return "-CLUSTERDOWN no\r\n" }, reply: "-CLUSTERDOWN no\r\n"},
		"lost":                {answer: func(string) string { return "" }, err: ErrUnknownOutcome},
		"silent":              {answer: func(string) string { return "-" }, err: ErrUnknownOutcome},
		"silent, left":        {answer: func(string) string { return "-" }, within: 500 * time.Millisecond, err: context.DeadlineExceeded},
		"nobody":              {nobody: true, err: ErrUnavailable},
		"nobody, left":        {nobody: true, within: 500 * time.Millisecond, err: context.DeadlineExceeded},
		"redirects for ever":  {answer: func(string) string { return "-MOVED 7 a:1\r\n" }, err: ErrUnavailable},
		"an error of its own": {answer: func(c string) string { return "-LOCKTYPE foreign\r\n" }, reply: "-LOCKTYPE foreign\r\n", within: time.Hour},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := map[string]*script{}
				if !test.nobody {
					nodes["a:1"] = &script{answer: func(c string) string {
						if strings.HasPrefix(c, "WAIT") {
							return ":0\r\n"
						}
						return test.answer(c)
					}}
				}
				r := newRig(t, PipeOptions{}, nodes)
				ctx, end := t.Context(), 11*time.Second
				if test.within > 0 {
					end = test.within
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.within)
					defer cancel()
				}
				d := r.dedicated(DedicatedOptions{})
				began := time.Now()
				reply, _, err := synced(ctx, d, "GET k", 1, time.Second)
				took := time.Since(began)
				if reply != test.reply || !errors.Is(err, test.err) {
					t.Errorf("%q, %v; want %q, %v", reply, err, test.reply, test.err)
				}
				if test.within < time.Hour && took != end {
					t.Errorf("it ended after %v, not %v", took, end)
				}
				synctest.Wait()
				if _, users := d.count("a:1"); users != 0 {
					t.Errorf("%d connections were not given back", users)
				}
			})
		})
	}
}

// Connections that a node closed while they were idle cost no pause.
func TestSyncedOnConnectionsThatIdled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut := false
		a := &script{answer: func(c string) string {
			if cut && strings.HasPrefix(c, "GET") {
				cut = false
				return ""
			}
			return ":1\r\n"
		}}
		r := newRig(t, PipeOptions{}, map[string]*script{"a:1": a})
		d := r.dedicated(DedicatedOptions{})
		for range 3 {
			began := time.Now()
			if reply, acked, err := synced(t.Context(), d, "GET k", 1, time.Second); err != nil || reply != ":1\r\n" || acked != 1 || time.Since(began) > 0 {
				t.Errorf("%q, %d, %v after %v", reply, acked, err, time.Since(began))
			}
			cut = true
		}
	})
}
