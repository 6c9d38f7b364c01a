package pipe

import (
	"errors"
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

// The same where the node then lets nobody in, because of a script or for good, and where the proxy ends
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

// A node that loses a script again, with its connection, is given it again.
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

// A node may refuse a command before it has all of it; what follows does not go
// into the middle of that command.
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

// A node that redirects lead to is not given up because the topology does not
// show it yet.
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
			r.on(func() { r.pool.Send(Request{Target: ToSlot(0), Mode: Mode{Proto: 2}, Bytes: req, To: c}) })
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
