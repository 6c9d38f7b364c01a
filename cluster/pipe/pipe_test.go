package pipe

import (
	"bytes"
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
	"lockproxy/cluster/pipe/script"
	"lockproxy/cluster/retry"
	"lockproxy/internal/loop"
	"lockproxy/internal/resp"
	"lockproxy/internal/scripted"
	"lockproxy/internal/slot"
)

// rig is one loop with pipes to scripted nodes, all in one bubble of fake time.
type rig struct {
	t     *testing.T
	loop  *loop.Loop
	pool  *Pool
	stats Stats

	mu        sync.Mutex
	topology  *cluster.Topology
	nodes     map[string]*scripted.Node
	refusal   error           // of each dial
	dialed    func() net.Conn // in place of nodes
	refreshes int
}

func (r *rig) Topology() *cluster.Topology {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.topology
}

// Member implements Control: b:1 may serve no slots, or none yet.
func (r *rig) Member(addr string) string {
	if addr == "b:1" {
		return addr
	}
	return ""
}

func (r *rig) Login() *cluster.Login     { return nil }
func (r *rig) Suspect()                  {}
func (r *rig) Outages() *cluster.Outages { return nil }

func (r *rig) Refresh() {
	r.mu.Lock()
	r.refreshes++
	r.mu.Unlock()
}

func (r *rig) Dial(_ context.Context, addr string, _ cluster.Mode, _ *cluster.Identity) (net.Conn, error) {
	r.mu.Lock()
	node, refusal, dialed := r.nodes[addr], r.refusal, r.dialed
	r.mu.Unlock()
	if dialed != nil {
		return dialed(), nil
	}
	if refusal != nil {
		return nil, refusal
	}
	if node == nil {
		return nil, fmt.Errorf("cluster: node %s: connection refused", addr)
	}
	return node.Dial(), nil
}

// newRig serves all slots from the node "a:1", beside any others.
func newRig(t *testing.T, o Options, nodes map[string]*scripted.Node) *rig {
	r := &rig{t: t, loop: loop.NewPortable(), nodes: nodes}
	r.topology = oneMaster("a:1", 1)
	go r.loop.Run()
	r.on(func() { r.pool = New(r.loop, r, o, &r.stats) })
	t.Cleanup(func() {
		r.on(r.pool.Close)
		r.loop.Close()
	})
	return r
}

func oneMaster(addr string, version uint64) *cluster.Topology {
	t := &cluster.Topology{Version: version, Kind: cluster.Cluster,
		Masters: []*cluster.Node{{Addr: addr, Master: true}}}
	for i := range t.Slots {
		t.Slots[i] = t.Masters[0]
	}
	return t
}

// on runs f on the loop, unless that has ended, and waits for it.
func (r *rig) on(f func()) {
	done := make(chan struct{})
	if r.loop.Post(func() { f(); close(done) }) {
		<-done
	}
}

// send sends words to the master of slot 7. It runs on the loop.
func (r *rig) send(m Mode, to Receiver, tag uint32, resend bool, words ...string) *Pipe {
	return r.pool.Send(&Request{
		Target: ToSlot(7), Mode: m, Bytes: command(words...), To: to, Tag: tag, Resend: resend,
	})
}

func (r *rig) client() *Client { return NewClient([]*Pool{r.pool}) }

// do runs one command given as a line of words.
func (r *rig) do(line string, resend bool) (string, error) {
	words := strings.Fields(line)
	n := 0
	switch {
	case len(words) > 3 && script.Is(command(words...)):
		n = slot.Of([]byte(words[3]))
	case len(words) > 1:
		n = slot.Of([]byte(words[1]))
	}
	reply, err := r.client().DoWhole(r.t.Context(), n, resp.AppendCommandStrings(nil, words...), resend)
	return string(reply), err
}

func ok(string) string { return "+OK\r\n" }

func TestRedirects(t *testing.T) {
	for name, test := range map[string]struct {
		a, b  func(string) string
		want  string
		seenA string
		seenB string
	}{
		"MOVED": {
			a:    func(string) string { return "-MOVED 7 b:1\r\n" },
			b:    ok,
			want: "+OK\r\n", seenA: "SET k v", seenB: "SET k v",
		},
		"ASK": {
			a:    func(string) string { return "-ASK 7 b:1\r\n" },
			b:    ok,
			want: "+OK\r\n", seenA: "SET k v", seenB: "ASKING, SET k v",
		},
		"MOVED without host": {
			a: func() func(string) string {
				calls := 0
				return func(string) string {
					if calls++; calls == 1 {
						return "-MOVED 7 :1\r\n"
					}
					return "+OK\r\n"
				}
			}(),
			want: "+OK\r\n", seenA: "SET k v, SET k v",
		},
		"an error of the command": {
			a:    func(string) string { return "-WRONGTYPE no\r\n" },
			want: "-WRONGTYPE no\r\n", seenA: "SET k v",
		},
		"MOVED that makes no sense": {
			a:    func(string) string { return "-MOVED away\r\n" },
			want: "-ERR MOVED away\r\n", seenA: "SET k v",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := &scripted.Node{Answer: test.a}, &scripted.Node{Answer: test.b}
				r := newRig(t, Options{}, map[string]*scripted.Node{"a:1": a, "b:1": b})
				got, err := r.do("SET k v", false)
				if err != nil || got != test.want {
					t.Errorf("got %q, %v; want %q", got, err, test.want)
				}
				if a.Commands() != test.seenA || b.Commands() != test.seenB {
					t.Errorf("a saw %q, b saw %q", a.Commands(), b.Commands())
				}
			})
		})
	}
}

// R33: what may have run is never sent twice, unless it may run twice.
func TestLostConnection(t *testing.T) {
	for name, test := range map[string]struct {
		first  string
		resend bool
		want   error
		times  int
	}{
		"a write that was sent":           {"", false, cluster.ErrUnknownOutcome, 1},
		"a read, or a request with an id": {"", true, nil, 2},
		"a write, in its reply":           {"$5\r\nab", false, cluster.ErrUnknownOutcome, 1},
		// the node is silent then, and is given up
		"a read, in its reply": {"$5\r\nab", true, nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				a := &scripted.Node{Answer: func(string) string {
					if calls++; calls == 1 {
						return test.first
					}
					return ":1\r\n"
				}}
				r := newRig(t, Options{Timeout: time.Second}, map[string]*scripted.Node{"a:1": a})
				reply, err := r.do("INCR k", test.resend)
				if !errors.Is(err, test.want) || test.want == nil && reply != ":1\r\n" {
					t.Errorf("reply %q, err %v", reply, err)
				}
				if calls != test.times {
					t.Errorf("it was sent %d times, want %d", calls, test.times)
				}
			})
		})
	}
}

// Redis may be down for as long as the budget lasts; then the client hears why.
func TestBudget(t *testing.T) {
	for name, test := range map[string]struct {
		down  time.Duration
		reply string // while down; "": refuses connections
		want  string
	}{
		"comes back": {5 * time.Second, "", "+OK\r\n"},
		"stays away": {time.Hour, "", "not run"},
		"fails over": {5 * time.Second, "-CLUSTERDOWN The cluster is down\r\n", "+OK\r\n"},
		"stays down": {time.Hour, "-CLUSTERDOWN The cluster is down\r\n",
			"-CLUSTERDOWN The cluster is down\r\n"},
		"is loading":                    {5 * time.Second, "-LOADING Redis is loading\r\n", "+OK\r\n"},
		"slot in two parts for a while": {time.Second, "-TRYAGAIN Multiple keys request\r\n", "+OK\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				a := &scripted.Node{Answer: func(string) string {
					if time.Since(start) < test.down {
						return test.reply
					}
					return "+OK\r\n"
				}}
				nodes := map[string]*scripted.Node{"a:1": a}
				if test.reply == "" {
					nodes = map[string]*scripted.Node{}
				}
				r := newRig(t, Options{Budget: 10 * time.Second}, nodes)
				if test.reply == "" {
					time.AfterFunc(test.down, func() {
						r.mu.Lock()
						r.nodes["a:1"] = a
						r.mu.Unlock()
					})
				}
				reply, err := r.do("SET k v", false)
				if got := reply + fmt.Sprint(err); !strings.Contains(got, test.want) {
					t.Errorf("got %q, want %q", got, test.want)
				}
				if took := time.Since(start); took > 11*time.Second {
					t.Errorf("it took %v", took)
				}
				if r.refreshes == 0 {
					t.Error("the topology was not asked for anew")
				}
				if err != nil && !errors.Is(err, cluster.ErrUnavailable) {
					t.Errorf("err = %v", err)
				}
				r.mu.Lock()
				clear(r.nodes) // end nodes
				r.mu.Unlock()
			})
		})
	}
}

func TestHealsLostScripts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loaded := false
		a := &scripted.Node{Answer: func(command string) string {
			switch {
			case strings.HasPrefix(command, "SCRIPT LOAD"):
				loaded = true
				return "$3\r\nsha\r\n"
			case !loaded:
				return "-NOSCRIPT No matching script.\r\n"
			}
			return ":42\r\n"
		}}
		source := func(sha []byte) ([]byte, bool) { return []byte("return_42"), string(sha) == "abc" }
		r := newRig(t, Options{Source: source}, map[string]*scripted.Node{"a:1": a})
		if reply, err := r.do("EVALSHA ABC 0", false); err != nil || reply != ":42\r\n" {
			t.Errorf("reply %q, err %v", reply, err)
		}
		loaded = false
		if reply, _ := r.do("EVALSHA nobody 0", false); !strings.HasPrefix(reply, "-NOSCRIPT") {
			t.Errorf("an unknown script was answered %q", reply)
		}
		want := "EVALSHA ABC 0, SCRIPT LOAD return_42, EVALSHA ABC 0, EVALSHA nobody 0"
		if a.Commands() != want {
			t.Errorf("the node saw %q, want %q", a.Commands(), want)
		}
	})
}

// A node that forbids SCRIPT LOAD gets the script with the request, at once from the second one on.
func TestHealsScriptsWithoutLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &scripted.Node{Answer: func(command string) string {
			switch verb, _, _ := strings.Cut(command, " "); verb {
			case "SCRIPT":
				return "-NOPERM User p has no permissions to run the 'script|load' command\r\n"
			case "EVALSHA", "evalsha_ro":
				return "-NOSCRIPT No matching script.\r\n"
			}
			return ":42\r\n"
		}}
		source := func([]byte) ([]byte, bool) { return []byte("return_42"), true }
		r := newRig(t, Options{Source: source}, map[string]*scripted.Node{"a:1": a})
		for _, req := range []string{"EVALSHA abc 1 k v", "evalsha_ro abc 1 k"} {
			if reply, err := r.do(req, false); err != nil || reply != ":42\r\n" {
				t.Errorf("%s: reply %q, err %v", req, reply, err)
			}
		}
		want := "EVALSHA abc 1 k v, SCRIPT LOAD return_42, EVALSHA abc 1 k v, EVAL return_42 1 k v, " +
			"evalsha_ro abc 1 k, EVAL_RO return_42 1 k"
		if a.Commands() != want {
			t.Errorf("the node saw %q, want %q", a.Commands(), want)
		}
	})
}

// A script is lost again before the request that needs it arrives. A request that may be sent again is, with
// the script, a few times; any other tells its client. R12
func TestHealsScriptsThatAreLostAgain(t *testing.T) {
	for _, test := range []struct {
		losses int
		resend bool
		want   string
		loads  int
	}{
		{3, true, ":42\r\n", 3},
		{100, true, "-NOSCRIPT No matching script.\r\n", 1 + retry.MaxHops},
		{2, false, "-NOSCRIPT No matching script.\r\n", 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			losses, loads := test.losses, 0
			a := &scripted.Node{Answer: func(command string) string {
				switch {
				case strings.HasPrefix(command, "SCRIPT LOAD"):
					loads++
					return "-LOADING Redis is loading the dataset in memory\r\n"
				case losses > 0:
					losses--
					return "-NOSCRIPT No matching script.\r\n"
				}
				return ":42\r\n"
			}}
			source := func([]byte) ([]byte, bool) { return []byte("return_42"), true }
			r := newRig(t, Options{Source: source}, map[string]*scripted.Node{"a:1": a})
			if reply, err := r.do("EVALSHA abc 1 k", test.resend); err != nil || reply != test.want {
				t.Errorf("%+v: reply %q, err %v", test, reply, err)
			}
			if loads != test.loads {
				t.Errorf("%+v: %d loads", test, loads)
			}
		})
	}
}

// A script that many requests need is loaded once, and in one round no more scripts are loaded than a loop
// has time for.
func TestLostScriptsAreLoadedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loaded, loads := make(map[string]bool), 0
		a := &scripted.Node{Answer: func(command string) string {
			verb, rest, _ := strings.Cut(command, " ")
			switch name, _, _ := strings.Cut(rest, " "); {
			case verb == "SCRIPT":
				loads++
				loaded[strings.Trim(rest, "LOAD -")] = true
				return "+sha\r\n"
			case !loaded[name]:
				return "-NOSCRIPT No matching script.\r\n"
			}
			return ":42\r\n"
		}}
		source := func(sha []byte) ([]byte, bool) {
			return append(bytes.Repeat([]byte("-"), cluster.MaxShared-1000), sha...), true
		}
		r := newRig(t, Options{Source: source}, map[string]*scripted.Node{"a:1": a})
		const scripts, times = 5, 40
		replies := make(chan string, scripts*times)
		r.on(func() {
			for i := range scripts * times {
				to := &Collector{Then: func(reply []byte, err error) {
					replies <- fmt.Sprint(string(reply), err)
				}}
				req := resp.AppendCommandStrings(nil, "EVALSHA", fmt.Sprint(i%scripts), "0")
				r.pool.Send(&Request{Target: ToSlot(1), Mode: Mode{Proto: 2}, Bytes: req, To: to})
			}
		})
		for i := range scripts * times {
			if reply := <-replies; reply != ":42\r\n<nil>" {
				t.Errorf("reply %d: %q", i, reply)
			}
		}
		if loads != scripts {
			t.Errorf("%d scripts were loaded, want %d", loads, scripts)
		}
		r.on(func() {
			if left := r.pool.byNode[nodeKey{"a:1", Mode{Proto: 2}}].loading; len(left) > 0 {
				t.Errorf("scripts are still on their way: %v", left)
			}
		})
	})
}

// A node that hangs is given up after the time-out.
func TestSilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &scripted.Node{Answer: func(string) string { return "-" }}
		r := newRig(t, Options{Timeout: 3 * time.Second}, map[string]*scripted.Node{"a:1": a})
		start := time.Now()
		_, err := r.do("SET k v", false)
		if !errors.Is(err, cluster.ErrUnknownOutcome) || time.Since(start) > 5*time.Second {
			t.Errorf("err %v after %v", err, time.Since(start))
		}
	})
}

// Requests to a node that has left the topology end soon, and later ones go to
// its successor.
func TestRetiredNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &scripted.Node{Answer: func(string) string { return "-" }}
		b := &scripted.Node{Answer: ok}
		r := newRig(t, Options{Timeout: time.Hour}, map[string]*scripted.Node{"a:1": a, "b:1": b})
		stuck := make(chan error)
		go func() {
			_, err := r.do("SET k v", false)
			stuck <- err
		}()
		synctest.Wait()
		r.mu.Lock()
		r.topology = oneMaster("b:1", 2)
		r.mu.Unlock()
		r.on(r.pool.Update)
		if reply, err := r.do("SET k v", false); err != nil || reply != "+OK\r\n" {
			t.Errorf("reply %q, err %v", reply, err)
		}
		if err := <-stuck; !errors.Is(err, cluster.ErrUnknownOutcome) {
			t.Errorf("err = %v", err)
		}
	})
}

// Bytes that are no reply end the connection; no request gets the reply of another.
func TestGarbageFromANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &scripted.Node{Answer: func(string) string { return "hello\r\n" }}
		r := newRig(t, Options{}, map[string]*scripted.Node{"a:1": a})
		if _, err := r.do("SET k v", false); !errors.Is(err, cluster.ErrUnknownOutcome) ||
			!errors.Is(err, cluster.ErrFraming) {
			t.Errorf("err = %v", err)
		}
	})
}

// collector is a Receiver that keeps everything.
type collector struct {
	replies map[uint32]*bytes.Buffer
	chunks  int
	whole   int
}

func (c *collector) Receive(tag uint32, chunk []byte, last bool) {
	if c.replies == nil {
		c.replies = make(map[uint32]*bytes.Buffer)
	}
	if c.replies[tag] == nil {
		c.replies[tag] = new(bytes.Buffer)
	}
	c.replies[tag].Write(chunk)
	c.chunks++
	if last {
		c.whole++
	}
}
func (c *collector) Fail(uint32, error)  {}
func (c *collector) Discard(uint32) bool { return false }
func (c *collector) Detour(uint32)       {}

// Large replies are passed on in pieces. The queue of a node tells when it is full, and when it is so no
// longer.
func TestStreamingAndBackpressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		big := strings.Repeat("x", 1<<20)
		hold := make(chan struct{})
		a := &scripted.Node{Answer: func(string) string {
			<-hold
			return fmt.Sprintf("$%d\r\n%s\r\n", len(big), big)
		}}
		r := newRig(t, Options{QueueLimit: 100}, map[string]*scripted.Node{"a:1": a})
		c := &collector{}
		ready := 0
		r.on(func() {
			for i := range uint32(5) {
				p := r.pool.Send(&Request{
					Target: ToSlot(0), Mode: Mode{Proto: 2}, Bytes: command("GET", "some-long-key"),
					To: c, Tag: i, Resend: true,
				})
				if full := i >= 3; p.Full() != full {
					t.Errorf("after %d requests full = %v", i+1, p.Full())
				}
				if p.Full() {
					p.WhenReady(func() { ready++ })
				}
			}
		})
		close(hold)
		for range 1000 {
			time.Sleep(time.Millisecond)
			synctest.Wait()
			whole := 0
			r.on(func() { whole = c.whole })
			if whole == 5 {
				break
			}
		}
		r.on(func() {
			if c.whole != 5 || c.chunks < 50 || ready != 2 {
				t.Errorf("%d replies in %d chunks, %d told to go on", c.whole, c.chunks, ready)
			}
			for tag, b := range c.replies {
				if b.Len() != len(big)+len("$1048576\r\n\r\n") {
					t.Errorf("reply %d has %d bytes", tag, b.Len())
				}
			}
		})
	})
}
