package pipe

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
	"lockproxy/internal/scripted"
)

// R33: a request that was written, lost its reply and then found no node is not
// said to be not run.
func TestOutcomeOfARequestThatWasSentOnce(t *testing.T) {
	for name, later := range map[string]string{"the connection is lost again": "",
		"the cluster is down": "-CLUSTERDOWN The cluster is down\r\n"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				a := &scripted.Node{Answer: func(string) string {
					if calls++; calls == 1 {
						return ""
					}
					return later
				}}
				r := newRig(t, Options{Budget: time.Second}, map[string]*scripted.Node{"a:1": a})
				if _, err := r.do("EVALSHA x 1 k", true); !errors.Is(err, cluster.ErrUnknownOutcome) ||
					errors.Is(err, cluster.ErrUnavailable) {
					t.Errorf("err = %v", err)
				}
				if calls < 2 {
					t.Errorf("it was sent %d times", calls)
				}
			})
		})
	}
}

// The same if the node then refuses all connections, because of a script or for good, and if the proxy ends
// meanwhile.
func TestOutcomeOfARequestThatNodeOrProxyRefuse(t *testing.T) {
	for name, test := range map[string]struct {
		dial error
		end  time.Duration
	}{
		"busy": {cluster.NodeError{Addr: "a:1", Err: errors.New("BUSY Redis is busy running a script.")},
			10 * time.Second},
		"ends": {errors.New("refused"), 100 * time.Millisecond},
		"mode": {cluster.NodeError{Addr: "a:1",
			Err: &cluster.ModeError{Text: "ERR DB index is out of range"}},
			10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &scripted.Node{}
				r := newRig(t, Options{Budget: time.Second}, map[string]*scripted.Node{"a:1": a})
				a.Answer = func(string) string {
					r.mu.Lock()
					r.refusal = test.dial
					r.mu.Unlock()
					return ""
				}
				time.AfterFunc(test.end, func() { r.on(r.pool.Close) })
				if reply, err := r.do("EVALSHA x 0", true); !errors.Is(err, cluster.ErrUnknownOutcome) ||
					errors.Is(err, cluster.ErrUnavailable) {
					t.Errorf("reply %q, err = %v", reply, err)
				}
				time.Sleep(20 * time.Second) // until all that was planned has happened
			})
		})
	}
}

// A node that loses a script again, with its connection, gets it again.
func TestHealsTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loads := 0
		a := &scripted.Node{Answer: func(command string) string {
			switch {
			case strings.HasPrefix(command, "SCRIPT LOAD"):
				if loads++; loads == 1 {
					return ""
				}
				return "$3\r\nsha\r\n"
			case loads < 2:
				return "-NOSCRIPT No matching script.\r\n"
			}
			return ":42\r\n"
		}}
		source := func([]byte) ([]byte, bool) { return []byte("return_42"), true }
		r := newRig(t, Options{Source: source}, map[string]*scripted.Node{"a:1": a})
		if reply, err := r.do("EVALSHA abc 0", true); err != nil || reply != ":42\r\n" {
			t.Errorf("reply %q, err %v", reply, err)
		}
	})
}

// A node may refuse a command before it has all of it. What follows must not be written into the middle of
// that command.
func TestRefusedBeforeItIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const refusal = "-ERR Protocol error: invalid bulk length\r\n"
		a := &scripted.Node{Answer: ok, Hasty: refusal}
		r := newRig(t, Options{}, map[string]*scripted.Node{"a:1": a})
		if reply, err := r.do("SET k "+strings.Repeat("x", cluster.MaxShared-64), false); err != nil ||
			reply != refusal {
			t.Errorf("reply %q, err %v", reply, err)
		}
		start := time.Now()
		if reply, err := r.do("SET k v", false); err != nil || reply != "+OK\r\n" ||
			time.Since(start) > time.Second {
			t.Errorf("reply %q, err %v after %v", reply, err, time.Since(start))
		}
	})
}

// A node that redirects lead to is not given up although the topology does not show it yet.
func TestRedirectedToANodeThatTheTopologyDoesNotShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &scripted.Node{Answer: func(string) string { return "-MOVED 7 b:1\r\n" }}
		b := &scripted.Node{Answer: func(string) string {
			time.Sleep(10 * time.Millisecond)
			return "+OK\r\n"
		}}
		r := newRig(t, Options{}, map[string]*scripted.Node{"a:1": a, "b:1": b})
		r.do("SET k v", false)
		r.mu.Lock()
		r.topology = oneMaster("a:1", 2)
		r.mu.Unlock()
		r.on(r.pool.Update)
		for start := time.Now(); time.Since(start) < 5*time.Second; {
			if reply, err := r.do("SET k v", false); err != nil || reply != "+OK\r\n" {
				t.Fatalf("reply %q, err %v", reply, err)
			}
		}
	})
}

// The requests that wait for a node are bounded in bytes.
func TestWaitingRequestsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 1000
		r := newRig(t, Options{QueueLimit: limit}, map[string]*scripted.Node{})
		c := &failures{}
		req := resp.AppendCommandStrings(nil, "SET", "k", strings.Repeat("x", limit))
		for range 2 * waitingLimit {
			r.on(func() { r.pool.Send(&Request{Target: ToSlot(0), Mode: Mode{Proto: 2}, Bytes: req, To: c}) })
			time.Sleep(time.Millisecond)
		}
		r.on(func() {
			if r.pool.waiting.bytes > waitingLimit*limit || len(c.errs) < waitingLimit {
				t.Errorf("%d bytes wait, %d requests failed", r.pool.waiting.bytes, len(c.errs))
			}
			for _, err := range c.errs {
				if !errors.Is(err, cluster.ErrUnavailable) {
					t.Error(err)
				}
			}
		})
		time.Sleep(time.Minute)
		r.on(func() {
			if r.pool.waiting.bytes != 0 || len(c.errs) != 2*waitingLimit {
				t.Errorf("%d bytes wait in the end, %d requests failed", r.pool.waiting.bytes, len(c.errs))
			}
		})
	})
}

// failures is a Receiver that remembers errors.
type failures struct{ errs []error }

func (*failures) Receive(uint32, []byte, bool) {}
func (f *failures) Fail(_ uint32, err error)   { f.errs = append(f.errs, err) }
func (*failures) Discard(uint32) bool          { return false }
func (*failures) Detour(uint32)                {}

// repeats is a Receiver that counts how often its request is sent again although it may have run.
type repeats struct {
	Collector
	n int
}

func (r *repeats) Repeated(uint32) { r.n++ }

// Who sends a request is told if it is sent again after it was written, and only then. R33
func TestRequestsThatMayRunTwice(t *testing.T) {
	for name, c := range map[string]struct {
		replies []string // "": the connection is lost
		want    int
	}{
		"answered":               {[]string{":1\r\n"}, 0},
		"no connection at first": {[]string{":1\r\n"}, 0},
		"lost once":              {[]string{"", ":1\r\n"}, 1},
		"lost twice":             {[]string{"", "", ":1\r\n"}, 2},
		"the node is down":       {[]string{"-CLUSTERDOWN The cluster is down\r\n", ":1\r\n"}, 0},
		"half of the reply":      {[]string{"$9\r\nhalf", ":1\r\n"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				a := &scripted.Node{Answer: func(string) string {
					calls++
					return c.replies[min(calls, len(c.replies))-1]
				}}
				r := newRig(t, Options{Budget: 10 * time.Second}, map[string]*scripted.Node{"a:1": a})
				refuse := func(err error) {
					r.mu.Lock()
					r.refusal = err
					r.mu.Unlock()
				}
				if name == "no connection at first" {
					refuse(errors.New("refused"))
					time.AfterFunc(time.Second, func() { refuse(nil) })
				}
				got := &repeats{Collector: Collector{Then: func([]byte, error) {}}}
				req := resp.AppendCommandStrings(nil, "EVALSHA", "x", "1", "k")
				r.on(func() {
					r.pool.Send(&Request{
						Target: ToSlot(0), Mode: Mode{Proto: 2}, Bytes: req, To: got, Resend: true,
					})
				})
				time.Sleep(time.Minute)
				r.on(func() {
					if got.n != c.want {
						t.Errorf("told %d times, want %d; it was sent %d times", got.n, c.want, calls)
					}
				})
			})
		})
	}
}

// TestCloseEndsLateDial proves that a connection which is there only when the pool has been closed is closed,
// too.
func TestCloseEndsLateDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, nil)
		near, far := net.Pipe()
		made := make(chan struct{})
		r.dialed = func() net.Conn {
			<-made
			return near
		}
		var k keeper
		r.own(func() { r.send(Mode{Proto: 2}, &k, 1, true, "GET") })
		r.own(r.pool.Close)
		k.want(t, "closed", "1 not run")
		close(made)
		synctest.Wait()
		far.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := far.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the connection stays open: %v", err)
		}
		if up := r.stats.Nodes()[0].Connections; up != 0 {
			t.Errorf("%d connections", up)
		}
	})
}
