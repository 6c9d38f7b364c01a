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

// outageRig is a rig in which everybody knows which masters are away.
type outageRig struct {
	*rig
	outages  cluster.Outages
	hangs    bool // dials end with their time
	suspects int
}

func newOutageRig(t *testing.T, o Options, nodes map[string]*scripted.Node) *outageRig {
	r := &outageRig{rig: newRig(t, o, nodes)}
	r.on(func() {
		r.pool.control = r
		r.pool.felt = &r.outages
	})
	return r
}

// Suspect implements Control.
func (r *outageRig) Suspect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.suspects++
}

func (r *outageRig) suspected() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.suspects
}

// lead makes addr the master of all slots.
func (r *outageRig) lead(addr string) {
	r.mu.Lock()
	r.topology = oneMaster(addr, r.topology.Version+1)
	r.outages.Masters(r.topology)
	r.mu.Unlock()
	r.on(func() { r.pool.Update() })
}

// follow makes replicas follow the master of all slots; "": there is no master.
func (r *outageRig) follow(master string, replicas ...string) {
	r.mu.Lock()
	top := oneMaster(master, r.topology.Version+1)
	for _, addr := range replicas {
		top.Replicas = append(top.Replicas, &cluster.Node{Addr: addr, Follows: master})
	}
	if master == "" {
		top = &cluster.Topology{Version: top.Version, Kind: cluster.Cluster}
	}
	r.topology = top
	r.mu.Unlock()
	r.on(func() { r.pool.Update() })
}

// trust has everybody know that the node at addr answers again.
func (r *outageRig) trust(addr string) {
	r.outages.Trust(addr)
	r.on(func() { r.pool.Update() })
}

// outcome is how a request ended, and when.
type outcome struct {
	reply string
	err   error
	at    time.Duration // since the rig was made
}

// start runs one command; its outcome comes later.
func (r *outageRig) start(line string, resend bool) <-chan outcome {
	done := make(chan outcome, 1)
	go func() { // ends with the command
		reply, err := r.do(line, resend)
		done <- outcome{reply, err, time.Since(r.pool.born)}
	}()
	synctest.Wait()
	return done
}

func (r *outageRig) Outages() *cluster.Outages { return &r.outages }

func (r *outageRig) Dial(ctx context.Context, addr string, m cluster.Mode, before *cluster.Identity) (
	net.Conn, error,
) {
	r.mu.Lock()
	hangs := r.hangs
	r.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return r.rig.Dial(ctx, addr, m, before)
}

// A shard that nobody can take over is waited for through the first Budget of its outage only: its master has
// no replica, or none is left, or nobody has its slots.
func TestOutageWithoutReplica(t *testing.T) {
	const budget, most = 10 * time.Second, 30 * time.Second
	away := errors.New("connection refused")
	for name, test := range map[string]struct {
		lost     string
		err      error
		replicas []string // at first
		left     time.Duration
		want     time.Duration
	}{
		"a replica":    {"a:1", away, []string{"b:1"}, most, most},
		"none":         {"a:1", away, nil, most, budget},
		"none is left": {"a:1", away, []string{"b:1"}, 15 * time.Second, 15 * time.Second},
		"nobody":       {"", away, nil, most, budget},
		"it loads":     {"a:1", cluster.Unready("LOADING"), nil, most, most},
		"others":       {"a:1", cluster.ErrFails, nil, most, most},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newOutageRig(t, Options{Budget: budget}, map[string]*scripted.Node{})
				r.follow(test.lost, test.replicas...)
				r.outages.Lose(test.lost, test.err)
				left := time.AfterFunc(test.left, func() { r.follow(test.lost) })
				defer left.Stop()
				for _, want := range []time.Duration{test.want, brief} {
					began := time.Now()
					reply, err := r.do("GET k", true)
					took := time.Since(began)
					refused := errors.Is(err, cluster.ErrUnavailable) ||
						strings.HasPrefix(reply, "-CLUSTERDOWN ")
					if !refused || took < want || took > want+brief {
						t.Errorf("%q, %v after %v, want %v", reply, err, took, want)
					}
				}
			})
		})
	}
}

// A command waits through the first MaxWait of an outage. After that, commands wait briefly, whether dials
// are refused or time out, and the first one that can be served is, however long the node counts as down.
func TestKnownOutage(t *testing.T) {
	for name, hangs := range map[string]bool{"refused": false, "silent": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const budget, most = 10 * time.Second, 30 * time.Second
				r := newOutageRig(t, Options{Budget: budget}, map[string]*scripted.Node{})
				r.follow("a:1", "b:1")
				r.hangs = hangs
				r.outages.Lose("a:1", errors.New("connection refused"))
				ask := func() (took time.Duration, err error) {
					began := time.Now()
					reply, err := r.do("GET k", true)
					if err == nil && reply != "+OK\r\n" {
						t.Errorf("reply %q", reply)
					}
					return time.Since(began), err
				}
				took, err := ask()
				if !errors.Is(err, cluster.ErrUnavailable) || took < most-time.Second ||
					took > most+3*time.Second {
					t.Errorf("at first: %v after %v", err, took)
				}
				time.Sleep(time.Second)
				for range 3 {
					took, err := ask()
					var untaken *cluster.Untaken
					if !errors.As(err, &untaken) || took < brief || took > 2*brief {
						t.Errorf("after that: %v after %v", err, took)
					}
					if hangs && !strings.Contains(err.Error(), "connection refused") {
						t.Errorf("it does not say why: %v", err)
					}
				}
				r.mu.Lock()
				r.nodes["a:1"] = &scripted.Node{Answer: ok}
				r.hangs = false
				r.mu.Unlock()
				if hangs {
					time.Sleep(3 * time.Second) // until the dial that hangs is over
				}
				if took, err := ask(); err != nil || took > brief {
					t.Errorf("when it is back: %v after %v", err, took)
				}
			})
		})
	}
}

// The budget of a command is not for the time in which its shard has no master: it is served if that can be
// done within the budget after one has come. MaxWait bounds the whole.
func TestBudgetIsOfTheMaster(t *testing.T) {
	const loading = "-LOADING Redis is loading the dataset in memory\r\n"
	for name, test := range map[string]struct {
		promoted, ready time.Duration // b:1 is master then, and serves then
		want            string
		at              time.Duration
	}{
		"served":            {5 * time.Second, 5*time.Second + 700*time.Millisecond, "+OK\r\n", 0},
		"not in the budget": {5 * time.Second, time.Minute, loading, 6 * time.Second},
		"no master":         {time.Minute, time.Minute, "", 10 * time.Second},
		"not in MaxWait":    {9500 * time.Millisecond, time.Minute, loading, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &scripted.Node{}
				r := newOutageRig(t, Options{Budget: time.Second, MaxWait: 10 * time.Second},
					map[string]*scripted.Node{"b:1": b})
				r.follow("a:1", "b:1")
				b.Answer = func(string) string {
					if time.Since(r.pool.born) < test.ready {
						return loading
					}
					return "+OK\r\n"
				}
				r.outages.Doubt("a:1", false)
				done := r.start("SET k v", false)
				time.Sleep(3 * time.Second)
				r.outages.Lose("a:1", errors.New("connection refused"))
				if test.promoted < time.Minute {
					time.Sleep(test.promoted - 3*time.Second)
					r.lead("b:1")
				}
				got := <-done
				if test.at == 0 {
					test.at = test.ready
				}
				if got.reply != test.want || (got.err == nil) != (test.want != "") ||
					got.at < test.at || got.at > test.at+300*time.Millisecond {
					t.Errorf("%q, %v after %v, want %q after %v", got.reply, got.err, got.at,
						test.want, test.at)
				}
			})
		})
	}
}
