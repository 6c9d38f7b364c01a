package discovery

import (
	"context"
	"errors"
	"strings"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/slot"
)

const (
	// lately is how long a master may be silent before it counts as lost. A master that refuses connections
	// is lost at once.
	lately = 3 * time.Second
	// lateLeast is how long an answer may take before its node is in doubt, and lateFactor how many times as
	// long as its answers took lately.
	lateLeast  = 100 * time.Millisecond
	lateFactor = 4
	// pulseTries is how often a master is asked again if the connection turns out to be closed: it may have
	// closed idle ones.
	pulseTries = 3
)

// pulse checks that each master serves. The topology alone does not tell: nodes may list a dead master for
// as long as no other has taken its place. pulse puts what it finds into outages: a master whose
// answer is late is in doubt, and lost some time later.
type pulse struct {
	*controlPlane
	vigil   *vigil
	wake    waker
	watched map[string]*watched // by address; also "", the slots without a master, and clusterName
	seen    *cluster.Topology   // at the last beat

	fails time.Time    // since when nodes say that the cluster has failed; zero: it has not
	felt  cluster.Felt // of nodes that have said so, and do no more
}

// watched is what is remembered of one master.
type watched struct {
	heard time.Time     // when it has answered last that it serves, or was seen first
	took  time.Duration // how long its answers took lately
	said  time.Time     // when the log was told of it last
	away  bool          // the log knows that it is lost
}

func newPulse(c *controlPlane, v *vigil) *pulse {
	return &pulse{controlPlane: c, vigil: v, wake: newWaker(), watched: make(map[string]*watched),
		seen: c.Topology()}
}

// run asks all masters each Options.Refresh, and soon after a hint, until ctx ends.
func (p *pulse) run(ctx context.Context) {
	for p.wake.wait(ctx, p.wake.rest(p.o.Refresh)) {
		p.beat(ctx)
	}
}

// of is what is remembered of the master at addr.
func (p *pulse) of(addr string) *watched {
	w := p.watched[addr]
	if w == nil {
		w = &watched{heard: time.Now()}
		p.watched[addr] = w
	}
	return w
}

// beat asks each master once.
func (p *pulse) beat(ctx context.Context) {
	t := p.Topology()
	patience := make(map[string]time.Duration, len(t.Masters))
	for _, n := range t.Masters {
		patience[n.Addr] = max(lateLeast, lateFactor*p.of(n.Addr).took)
	}
	answers, failed := gatherAll(ctx, p.asker, addrs(t.Masters),
		func(asking context.Context, addr string) (pulseAnswer, error) {
			return p.listen(ctx, asking, addr, patience[addr])
		})
	if ctx.Err() != nil {
		return
	}
	back := false
	for _, a := range answers {
		w := p.of(a.addr)
		w.took = max(a.took, w.took-w.took/8)
		if a.refuses == nil {
			w.heard = time.Now()
			back = p.serves(a.addr) || back
		}
	}
	if back {
		p.announce(p.Topology())
	}
	var miss []string
	for _, a := range answers {
		switch {
		case a.refuses == nil:
		case a.refuses == cluster.ErrFails && !p.of(a.addr).away:
			p.outages.Lose(a.addr, a.refuses)
			miss = append(miss, a.addr)
		default:
			p.lost(t, a.addr, a.refuses)
		}
	}
	for _, f := range failed {
		silent := errors.Is(f.Err, context.DeadlineExceeded) || errors.Is(f.Err, errLate)
		if !silent || time.Since(p.of(f.Addr).heard) > lately {
			p.lost(t, f.Addr, f.Err)
		}
	}
	p.clusterFails(miss)
	if t.Served() < slot.Count {
		p.lost(t, "", errUnserved)
	} else {
		p.serves("")
	}
	p.followed(t)
	p.seen = t
}

// pulseAnswer is the answer of a master.
type pulseAnswer struct {
	addr    string
	took    time.Duration
	refuses error // why it does not serve, by its own account; nil: it serves
}

// listen asks the master at addr, and puts it in doubt when its answer is late, or there is none, unless ctx
// has ended. asking ends when the answer is not waited for any more.
func (p *pulse) listen(ctx, asking context.Context, addr string,
	patience time.Duration) (pulseAnswer, error) {
	began, doubted := time.Now(), make(chan struct{})
	late := time.AfterFunc(patience, func() {
		p.doubt(addr, true)
		close(doubted)
	})
	refuses, err := p.ask(asking, addr)
	if !late.Stop() {
		<-doubted // what follows is news
	}
	switch {
	case err == nil && p.outages.Trust(addr):
		p.announce(p.Topology())
	case err != nil && ctx.Err() == nil:
		p.doubt(addr, asking.Err() != nil)
	}
	return pulseAnswer{addr, time.Since(began), refuses}, err
}

// doubt notes that the master at addr is in trouble.
func (p *pulse) doubt(addr string, silent bool) {
	if p.outages.Doubt(addr, silent) {
		p.vigil.wake.call()
		p.refresh.hint()
	}
}

// ask asks the master at addr why it does not serve; nil: it does.
func (p *pulse) ask(ctx context.Context, addr string) (refuses, err error) {
	questions := [][]any{{"PING"}}
	if p.kind == cluster.Cluster {
		questions = append(questions, []any{"CLUSTER", "INFO"})
	}
	for try := 1; ; try++ {
		answers, err := p.asker.ask(ctx, addr, p.o.Logins, questions...)
		switch {
		case ended(err) && try < pulseTries && ctx.Err() == nil:
			continue
		case err != nil:
			return nil, err
		case answers[0].IsError() && strings.HasPrefix(answers[0].Text(), "LOADING "):
			return cluster.Unready(answers[0].Str), nil
		case len(answers) == 1:
			return nil, nil
		}
		if hasFailing(answers[1]) && len(p.vigil.trouble()) == 0 {
			p.refresh.hint()
		}
		if cluster.Field(answers[1], "cluster_state") == "fail" {
			return cluster.ErrFails, nil
		}
		return nil, nil
	}
}
