package discovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"lockproxy/cluster"
)

const (
	// lately is how long a master may be silent before it counts as lost. A master that refuses connections
	// is lost at once.
	lately = 3 * time.Second
	// pulseTries is how often a master is asked again if the connection turns out to be closed: it may have
	// closed idle ones.
	pulseTries = 3
)

// pulse checks that each master serves. The topology alone does not tell: nodes may list a dead master for
// as long as no other has taken its place. pulse puts what it finds into Upstream.outages.
type pulse struct {
	u     *Upstream
	hint  chan struct{}        // capacity 1: something may have happened
	done  chan struct{}        // closed by Upstream.Close
	heard map[string]time.Time // when a master has answered last, or was seen first
	said  map[string]time.Time // when the log was told of a master last
	away  map[string]bool      // the log knows that they are lost
	seen  *cluster.Topology    // at the last beat

	fails time.Time    // since when nodes say that the cluster has failed; zero: it has not
	felt  cluster.Felt // of nodes that have said so, and do no more
}

func newPulse(u *Upstream) *pulse {
	return &pulse{u: u, hint: make(chan struct{}, 1), done: make(chan struct{}),
		said: make(map[string]time.Time), away: make(map[string]bool), seen: u.Topology()}
}

// run asks all masters each Options.Refresh, and soon after a hint, until ctx ends.
func (p *pulse) run(ctx context.Context) {
	tick := time.NewTicker(p.u.o.Refresh)
	defer tick.Stop()
	for {
		began := time.Now()
		p.beat(ctx)
		select {
		case <-ctx.Done():
			return
		case <-p.done:
			return
		case <-tick.C:
		case <-p.hint:
			select {
			case <-ctx.Done():
				return
			case <-p.done:
				return
			case <-time.After(max(hintDelay, time.Until(began.Add(hintGap)))):
			}
		}
	}
}

// soon hints that a master may have been lost or found. It never blocks.
func (p *pulse) soon() { hint(p.hint) }

// beat asks each master once.
func (p *pulse) beat(ctx context.Context) {
	t := p.u.Topology()
	var addrs []string
	now := time.Now()
	heard := make(map[string]time.Time, len(t.Masters))
	for _, n := range t.Masters {
		addrs = append(addrs, n.Addr)
		heard[n.Addr] = now
		if at, ok := p.heard[n.Addr]; ok {
			heard[n.Addr] = at
		}
	}
	p.heard = heard
	asking, cancel := context.WithTimeout(ctx, min(lookTimeout, p.u.o.ConnectTimeout))
	good, failed := gather(p.u, asking, addrs, nil, lookTimeout,
		func(asking context.Context, addr string) (string, error) {
			return p.u.vigil.listen(ctx, asking, addr, p.ask)
		})
	cancel()
	if ctx.Err() != nil {
		return
	}
	back := false
	for _, addr := range good {
		p.heard[addr] = time.Now()
		back = p.serves(addr) || back
	}
	if back {
		p.u.tell(p.u.Topology())
	}
	var miss []string
	for _, f := range failed {
		silent := errors.Is(f.Err, context.DeadlineExceeded) || errors.Is(f.Err, errLate)
		switch {
		case silent && time.Since(p.heard[f.Addr]) <= lately:
		case f.Err == cluster.ErrFails && !p.away[f.Addr]:
			p.u.outages.Lose(f.Addr, f.Err)
			miss = append(miss, f.Addr)
		default:
			p.lost(f.Addr, slotsOf(t, f.Addr), f.Err)
		}
	}
	p.clusterFails(miss)
	if slots := t.SlotsOf(nil); slots != "" {
		p.lost("", slots, errUnserved)
	} else {
		p.serves("")
	}
	p.followed(t)
	p.seen = t
}

// ask returns addr, or why the master there does not serve.
func (p *pulse) ask(ctx context.Context, addr string) (string, error) {
	questions := [][]any{{"PING"}}
	if p.u.kind == cluster.Cluster {
		questions = append(questions, []any{"CLUSTER", "INFO"})
	}
	for try := 1; ; try++ {
		answers, err := p.u.asker.ask(ctx, addr, p.u.o.Logins, questions...)
		closed := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) ||
			errors.Is(err, syscall.EPIPE)
		switch {
		case closed && try < pulseTries && ctx.Err() == nil:
			continue
		case err != nil:
			return "", err
		case answers[0].IsError() && strings.HasPrefix(string(answers[0].Str), "LOADING "):
			return "", cluster.Unready(answers[0].Str)
		case len(answers) == 1:
			return addr, nil
		}
		if hasFailing(answers[1]) && p.u.vigil.calm() {
			hint(p.u.hint)
		}
		if cluster.Field(answers[1], "cluster_state") == "fail" {
			return "", cluster.ErrFails
		}
		return addr, nil
	}
}

// Outages are the masters that do not serve now. Pipes note there how commands are affected.
func (u *Upstream) Outages() *cluster.Outages { return &u.outages }

// Serves says whether any slot has a master that has answered lately. It never blocks.
func (u *Upstream) Serves() bool {
	t := u.Topology()
	return slices.ContainsFunc(t.Masters, func(n *cluster.Node) bool {
		_, lost := u.outages.Of(n.Addr)
		return !lost && t.SlotsOf(n) != ""
	})
}

// Ready says which slots are not served now, and why, one line each; nil: all slots have a master that has
// answered lately. It never blocks.
func (u *Upstream) Ready() error {
	t := u.Topology()
	var all []error
	if slots := t.SlotsOf(nil); slots != "" {
		all = append(all, fmt.Errorf("cluster: slots %s have no master", slots))
	}
	for _, n := range t.Masters {
		if out, lost := u.outages.Of(n.Addr); lost {
			what := "slots " + t.SlotsOf(n)
			if t.Kind != cluster.Cluster {
				what = "the upstream"
			}
			all = append(all, fmt.Errorf("%w, for %v: %s cannot be served",
				cluster.NodeError{Addr: n.Addr,
					Err: out.Err}, time.Since(out.Since).Round(time.Second), what))
		}
	}
	return errors.Join(all...)
}
