package cluster

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// knowing is a control plane that knows a member besides those of the topology.
type knowing struct{ *rig }

func (k knowing) Member(addr string) bool { return addr == "b:1" }

// What a script says is told to the client and the script not run again, unless it says what Redis alone says, and
// where it leads is a node of the cluster.
func TestErrorsOfScripts(t *testing.T) {
	const budget = time.Second
	for name, test := range map[string]struct {
		request, reply string
		want           string
		times          int // sent to the node; -1: until the budget is used up
		followed       bool
	}{
		"TRYAGAIN of Redis":                 {"EVAL x 1 k", "-TRYAGAIN Multiple keys request during rehashing of slot\r\n", "-TRYAGAIN Multiple keys request during rehashing of slot\r\n", -1, false},
		"TRYAGAIN of a script":              {"EVAL x 1 k", "-TRYAGAIN later\r\n", "-TRYAGAIN later\r\n", 1, false},
		"TRYAGAIN of a function":            {"fcall x 1 k", "-TRYAGAIN Multiple\r\n", "-TRYAGAIN Multiple\r\n", 1, false},
		"TRYAGAIN of a plain command":       {"MGET {k} {k}2", "-TRYAGAIN later\r\n", "-TRYAGAIN later\r\n", -1, false},
		"CLUSTERDOWN of a script":           {"EVALSHA x 1 k", "-CLUSTERDOWN we are closed\r\n", "-CLUSTERDOWN we are closed\r\n", 1, false},
		"READONLY of a script":              {"EVALSHA x 1 k", "-READONLY account\r\n", "-READONLY account\r\n", 1, false},
		"LOADING of a script":               {"EVALSHA x 0", "-LOADING stock\r\n", "-LOADING stock\r\n", 1, false},
		"NOSCRIPT of a script":              {"EVALSHA x 0", "-NOSCRIPT for this play\r\n", "-NOSCRIPT for this play\r\n", 1, false},
		"MOVED to a member":                 {"EVAL x 1 k", "-MOVED 7629 b:1\r\n", "+OK\r\n", 1, true},
		"ASK to a member":                   {"EVAL_RO x 1 k", "-ASK 7629 b:1\r\n", "+OK\r\n", 1, true},
		"MOVED of a slot that is not its":   {"EVAL x 1 k", "-MOVED 7 b:1\r\n", "-ERR MOVED 7 b:1\r\n", 1, false},
		"MOVED of a script without keys":    {"EVAL x 0", "-MOVED 7629 b:1\r\n", "-ERR MOVED 7629 b:1\r\n", 1, false},
		"ASK that is none":                  {"EVAL x 1 k", "-ASK somebody\r\n", "-ERR ASK somebody\r\n", 1, false},
		"MOVED to a stranger":               {"EVAL x 1 k", "-MOVED 7629 c:1\r\n", "redirected again and again", -1, false},
		"MOVED to a stranger, says a node":  {"SET k v", "-MOVED 7629 c:1\r\n", "was not run", -1, false},
		"MOVED to a member, says a node":    {"SET k v", "-MOVED 7629 b:1\r\n", "+OK\r\n", 1, true},
		"an error that only looks the same": {"EVAL x 1 k", "-MOVEDON x\r\n", "-MOVEDON x\r\n", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := &script{answer: func(string) string { return test.reply }}, &script{answer: ok}
				r := newRig(t, PipeOptions{}, map[string]*script{"a:1": a, "b:1": b})
				strangers := 0
				r.on(func() {
					r.pipes.Close()
					r.pipes = NewPipes(r.loop, watched{knowing{r}, &strangers}, PipeOptions{Budget: budget}, &r.stats)
				})
				reply, err := r.do(test.request, false)
				if got := reply + errorText(err); !strings.Contains(got, test.want) {
					t.Errorf("got %q, want %q", got, test.want)
				}
				times := strings.Count(a.commands(), test.request)
				if test.times < 0 && times < 3 || test.times > 0 && times != test.times {
					t.Errorf("it was sent %d times", times)
				}
				if followed := b.commands() != ""; followed != test.followed {
					t.Errorf("b saw %q", b.commands())
				}
				if strangers > 0 && strings.HasPrefix(test.request, "EVAL") {
					t.Error("a script had a stranger dialled")
				}
			})
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// watched counts the dials to c:1.
type watched struct {
	knowing
	strangers *int
}

func (w watched) Dial(ctx context.Context, addr string, m Mode) (net.Conn, error) {
	if addr == "c:1" {
		*w.strangers++
		return nil, errors.New("unreachable")
	}
	return w.knowing.Dial(ctx, addr, m)
}

// Elsewhere than in front of a cluster nobody redirects.
func TestNoRedirectsWithoutACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &script{answer: func(string) string { return "-MOVED 7629 b:1\r\n" }}
		b := &script{answer: ok}
		r := newRig(t, PipeOptions{}, map[string]*script{"a:1": a, "b:1": b})
		alone := *r.topology
		alone.Kind = Single
		r.mu.Lock()
		r.topology = &alone
		r.mu.Unlock()
		r.on(r.pipes.Update)
		if got, err := r.do("SET k v", false); err != nil || got != "-ERR MOVED 7629 b:1\r\n" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}
