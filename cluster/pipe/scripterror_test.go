package pipe

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/scripted"
)

// An error that a script raises goes to the client, and the script does not run again, unless the words are
// Redis's alone and a redirect leads to a node of the cluster.
func TestErrorsOfScripts(t *testing.T) {
	const budget = time.Second
	for name, test := range map[string]struct {
		request, reply string
		want           string
		times          int // sent to the node; -1: until the budget is used up
		followed       bool
	}{
		"TRYAGAIN of Redis": {"EVAL x 1 k",
			"-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
			"-TRYAGAIN Multiple keys request during rehashing of slot\r\n", -1, false},
		"TRYAGAIN of a script": {"EVAL x 1 k", "-TRYAGAIN later\r\n", "-TRYAGAIN later\r\n", 1, false},
		"TRYAGAIN of a function": {"fcall x 1 k", "-TRYAGAIN Multiple\r\n", "-TRYAGAIN Multiple\r\n", 1,
			false},
		"TRYAGAIN of a plain command": {"MGET {k} {k}2", "-TRYAGAIN later\r\n", "-TRYAGAIN later\r\n", -1,
			false},
		"CLUSTERDOWN of a script": {"EVALSHA x 1 k", "-CLUSTERDOWN we are closed\r\n",
			"-CLUSTERDOWN we are closed\r\n", 1, false},
		"READONLY of a script": {"EVALSHA x 1 k", "-READONLY account\r\n", "-READONLY account\r\n", 1,
			false},
		"LOADING of a script": {"EVALSHA x 0", "-LOADING stock\r\n", "-LOADING stock\r\n", 1, false},
		"NOSCRIPT of a script": {"EVALSHA x 0", "-NOSCRIPT for this play\r\n",
			"-NOSCRIPT for this play\r\n", 1, false},
		"MOVED to a member": {"EVAL x 1 k", "-MOVED 7629 b:1\r\n", "+OK\r\n", 1, true},
		"ASK to a member":   {"EVAL_RO x 1 k", "-ASK 7629 b:1\r\n", "+OK\r\n", 1, true},
		"MOVED of a slot that is not its": {"EVAL x 1 k", "-MOVED 7 b:1\r\n",
			"-ERR MOVED 7 b:1\r\n", 1, false},
		"MOVED of a script without keys": {"EVAL x 0", "-MOVED 7629 b:1\r\n", "-ERR MOVED 7629 b:1\r\n", 1,
			false},
		"ASK that is none": {"EVAL x 1 k", "-ASK somebody\r\n", "-ERR ASK somebody\r\n", 1, false},
		"MOVED to a stranger": {"EVAL x 1 k", "-MOVED 7629 c:1\r\n", "redirected again and again", -1,
			false},
		"MOVED to a stranger, says a node":  {"SET k v", "-MOVED 7629 c:1\r\n", "was not run", -1, false},
		"MOVED to a member, says a node":    {"SET k v", "-MOVED 7629 b:1\r\n", "+OK\r\n", 1, true},
		"an error that only looks the same": {"EVAL x 1 k", "-MOVEDON x\r\n", "-MOVEDON x\r\n", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &scripted.Node{Answer: func(string) string { return test.reply }}
				b := &scripted.Node{Answer: ok}
				r := newRig(t, Options{}, map[string]*scripted.Node{"a:1": a, "b:1": b})
				strangers := 0
				r.on(func() {
					r.pool.Close()
					r.pool = New(r.loop, watched{r, &strangers}, Options{Budget: budget}, &r.stats)
				})
				reply, err := r.do(test.request, false)
				if got := reply + errorText(err); !strings.Contains(got, test.want) {
					t.Errorf("got %q, want %q", got, test.want)
				}
				times := strings.Count(a.Commands(), test.request)
				if test.times < 0 && times < 3 || test.times > 0 && times != test.times {
					t.Errorf("it was sent %d times", times)
				}
				if followed := b.Commands() != ""; followed != test.followed {
					t.Errorf("b saw %q", b.Commands())
				}
				if strangers > 0 {
					t.Error("a stranger was dialled")
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
	*rig
	strangers *int
}

func (w watched) Dial(ctx context.Context, addr string, m cluster.Mode, before *cluster.Identity) (net.Conn,
	error) {
	if addr == "c:1" {
		*w.strangers++
		return nil, errors.New("unreachable")
	}
	return w.rig.Dial(ctx, addr, m, before)
}

// Only nodes of a cluster redirect.
func TestNoRedirectsWithoutACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &scripted.Node{Answer: func(string) string { return "-MOVED 7629 b:1\r\n" }}
		b := &scripted.Node{Answer: ok}
		r := newRig(t, Options{}, map[string]*scripted.Node{"a:1": a, "b:1": b})
		alone := *r.topology
		alone.Kind = cluster.Single
		r.mu.Lock()
		r.topology = &alone
		r.mu.Unlock()
		r.on(r.pool.Update)
		if got, err := r.do("SET k v", false); err != nil || got != "-ERR MOVED 7629 b:1\r\n" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// If a script raises an error in the very words of Redis, the script runs twice at most, the error goes to
// the client, and nobody says that it has not run. If Redis itself says so, it is handled as for any
// command, as long as Redis says it.
func TestScriptsInTheWordsOfRedis(t *testing.T) {
	const moved, asked = "-MOVED 7629 b:1\r\n", "-ASK 7629 b:1\r\n"
	const down = "-CLUSTERDOWN Hash slot not served\r\n"
	const tryAgain = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n"
	const loading = "-LOADING Redis is loading the dataset in memory\r\n"
	const readOnly = "-READONLY You can't write against a read only replica.\r\n"
	const masterDown = "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n"
	for name, test := range map[string]struct {
		request, idle string // what the client sends, and what the node is asked
		reply         string
		refusals      int // the node refuses any script with these keys so many times
		want          string
		runs          int
	}{
		"MOVED of a script": {"EVAL x 1 k a", "EVAL return 1 k", moved, 0, "-ERR MOVED 7629 b:1\r\n", 2},
		"ASK of a script":   {"EVAL x 1 k", "EVAL return 1 k", asked, 0, "-ERR ASK 7629 b:1\r\n", 2},
		"CLUSTERDOWN of a script": {"EVALSHA x 2 k {k}1 a",
			"EVALSHA " + strings.Repeat("0", 40) + " 2 k {k}1",
			down, 0, down, 2},
		"TRYAGAIN of a function": {"fcall x 1 k", "fcall  1 k", tryAgain, 0, tryAgain, 2},
		"TRYAGAIN without keys":  {"EVAL x 0 k", "", tryAgain, 0, tryAgain, 1},
		"CLUSTERDOWN of Redis":   {"EVAL x 1 k", "EVAL return 1 k", down, 3, "+ran\r\n", 1},
		"TRYAGAIN of Redis": {"EVALSHA x 1 k", "EVALSHA " + strings.Repeat("0", 40) + " 1 k", tryAgain, 3,
			"+ran\r\n", 1},
		"CLUSTERDOWN of both":    {"EVAL x 1 k", "EVAL return 1 k", down, 2, down, 2},
		"TRYAGAIN that was over": {"EVAL x 1 k", "EVAL return 1 k", tryAgain, 1, "+ran\r\n", 1},

		"CLUSTERDOWN of a reading script": {"EVAL_RO x 1 k", "EVAL_RO return 1 k", down, 0, down, 2},
		"MOVED of a reading script": {"eval_ro x 1 k", "eval_ro return 1 k", moved, 0,
			"-ERR MOVED 7629 b:1\r\n", 2},
		"TRYAGAIN of a reading function": {"FCALL_RO x 1 k", "FCALL_RO  1 k", tryAgain, 0, tryAgain, 2},
		"TRYAGAIN of Redis, reading":     {"EVAL_RO x 1 k", "EVAL_RO return 1 k", tryAgain, 3, "+ran\r\n", 1},
		"LOADING of a reading script":    {"EVAL_RO x 0", "EVAL_RO return 0", loading, 0, loading, 2},
		"LOADING of a script":            {"EVAL x 1 k", "EVAL return 1 k", loading, 0, loading, 2},
		"LOADING of Redis":               {"EVAL x 0", "EVAL return 0", loading, 3, "+ran\r\n", 1},
		"READONLY of a script":           {"EVAL x 1 k", "ROLE", readOnly, 0, readOnly, 2},
		"READONLY of Redis":              {"EVAL x 1 k", "ROLE", readOnly, 3, "+ran\r\n", 1},
		"MASTERDOWN of a reading script": {"EVAL_RO x 1 k", "ROLE", masterDown, 0, masterDown, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				refusals, runs, own := 2*test.refusals, 0, strings.HasSuffix(name, "script") ||
					strings.HasSuffix(name, "both") ||
					strings.HasSuffix(name, "function") || strings.HasSuffix(name, "keys")
				if strings.HasSuffix(name, "over") {
					refusals = 1 // it is over when the node is asked
				}
				a := &scripted.Node{Answer: func(command string) string {
					switch {
					case refusals > 0 && (command == test.request || command == test.idle):
						refusals--
						if command == "ROLE" {
							return "*5\r\n$5\r\nslave\r\n$1\r\na\r\n:1\r\n$9\r\nconnected\r\n:0\r\n"
						}
						return test.reply
					case command == "ROLE":
						return "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"
					case command == test.idle:
						return "-NOSCRIPT No matching script. Please use EVAL.\r\n"
					}
					runs++
					if own {
						return test.reply
					}
					return "+ran\r\n"
				}}
				b := &scripted.Node{Answer: ok}
				r := newRig(t, Options{}, map[string]*scripted.Node{"a:1": a, "b:1": b})
				reading := strings.Contains(strings.ToUpper(test.request), "_RO")
				start := time.Now()
				reply, err := r.do(test.request, reading)
				if took := time.Since(start); own && took > time.Second {
					t.Errorf("it took %v", took)
				}
				if got := reply + errorText(err); got != test.want {
					t.Errorf("got %q, want %q", got, test.want)
				}
				if runs != test.runs {
					t.Errorf("it ran %d times, want %d: %s", runs, test.runs, a.Commands())
				}
				if seen := b.Commands(); seen != "" {
					t.Errorf("b saw %s", seen)
				}
			})
		})
	}
}

// The question that resolves a doubt goes the same way as the request: behind ASKING if that did.
func TestDoubtAtTheImportingNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tryAgain = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n"
		a := &scripted.Node{Answer: func(string) string { return "-ASK 7629 b:1\r\n" }}
		late := false
		b := &scripted.Node{Answer: func(command string) string {
			switch {
			case command == "ASKING":
				return "+OK\r\n"
			case late:
				return "+ran\r\n"
			case command == "EVAL return 2 k {k}1":
				late = true
			}
			return tryAgain
		}}
		r := newRig(t, Options{}, map[string]*scripted.Node{"a:1": a, "b:1": b})
		if reply, err := r.do("EVAL x 2 k {k}1", false); err != nil || reply != "+ran\r\n" {
			t.Errorf("got %q, %v", reply, err)
		}
		want := "ASKING, EVAL x 2 k {k}1, ASKING, EVAL return 2 k {k}1, ASKING, EVAL x 2 k {k}1"
		if got := b.Commands(); got != want {
			t.Errorf("b saw %s, want %s", got, want)
		}
	})
}

// A request about a lock is sent where the node says, also if it must not run twice: its script has not said
// that, so nobody is asked. R33
func TestLockIsRedirectedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &scripted.Node{Answer: func(string) string { return "-MOVED 7629 b:1\r\n" }}
		b := &scripted.Node{Answer: func(string) string { return ":1\r\n" }}
		r := newRig(t, Options{}, map[string]*scripted.Node{"a:1": a, "b:1": b})
		k := ofLock{ofOne{new(keeper), 0}}
		r.on(func() {
			r.pool.Send(&Request{Target: ToSlot(7629), Mode: Mode{Proto: 2}, To: k,
				Bytes: command("EVALSHA", strings.Repeat("a", 40), "1", "k")})
		})
		time.Sleep(time.Second)
		synctest.Wait()
		k.want(t, "answer", `0 ":1\r\n"`)
		if seen := a.Commands(); strings.Count(seen, ",") > 0 {
			t.Errorf("it was asked %s", seen)
		}
	})
}
