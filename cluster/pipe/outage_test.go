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

// outageRig is a rig whose node a:1 has been down since a time that everybody knows.
type outageRig struct {
	*rig
	outages cluster.Outages
	hangs   bool // dials to it end with their time
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

// A command waits through the first budget of an outage. After that, commands wait briefly, whether dials
// are refused or time out, and the first one that can be served is, however long the node counts as down.
func TestKnownOutage(t *testing.T) {
	for name, hangs := range map[string]bool{"refused": false, "silent": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const budget = 10 * time.Second
				r := &outageRig{rig: newRig(t, Options{Budget: budget}, map[string]*scripted.Node{}),
					hangs: hangs}
				r.outages.Lose("a:1", errors.New("connection refused"))
				r.on(func() {
					r.pool.control = r
					r.pool.outages = newOutages(r, budget, &r.pool.routing)
				})
				ask := func() (took time.Duration, err error) {
					began := time.Now()
					reply, err := r.do("GET k", true)
					if err == nil && reply != "+OK\r\n" {
						t.Errorf("reply %q", reply)
					}
					return time.Since(began), err
				}
				took, err := ask()
				if !errors.Is(err, cluster.ErrUnavailable) || took < budget-time.Second ||
					took > budget+3*time.Second {
					t.Errorf("at first: %v after %v", err, took)
				}
				time.Sleep(time.Second)
				for range 3 {
					took, err := ask()
					var untaken *cluster.Untaken
					if !errors.As(err, &untaken) || took < brief || took > 2*brief {
						t.Errorf("after the budget: %v after %v", err, took)
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
