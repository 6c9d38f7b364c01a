package discovery

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/slot"
)

const (
	// lately is how long a master may be silent before it counts as lost. A master that refuses connections
	// is lost at once.
	lately = 3 * time.Second
	// lateLeast is how long an answer may take before its node is in doubt, and lateFactor how many times as
	// long as its answers took lately. A network that is usually slow does not put all nodes in doubt.
	lateLeast  = 100 * time.Millisecond
	lateFactor = 4
	// pulseTries is how often a master is asked again if the connection turns out to be closed: it may have
	// closed idle ones.
	pulseTries = 3
)

// pulse checks that each master serves. The topology alone does not tell: nodes may list a dead master for as
// long as no other has taken its place. pulse puts what it finds into outages: a master whose answer is late
// is in doubt, and lost some time later. Its maps belong to the goroutine of runPulse. Those that it lets ask
// touch only what is safe for all.
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
	heard time.Time     // when it has answered last that it serves; or when it was seen first
	took  time.Duration // how long its answers took lately: the longest, which fades by an eighth each beat
	said  time.Time     // when the log was told of it last
	away  bool          // the log knows that it is lost
}

// newPulse is a pulse that watches nobody yet. v is told of masters in doubt.
func newPulse(c *controlPlane, v *vigil) *pulse {
	return &pulse{controlPlane: c, vigil: v, wake: newWaker(), watched: make(map[string]*watched),
		seen: c.Topology()}
}

// runPulse asks all masters each Options.Refresh, and soon after a hint, until ctx ends.
func (p *pulse) runPulse(ctx context.Context) {
	for p.wake.waitForTurn(ctx, p.wake.restOfPause(p.o.Refresh)) {
		p.beat(ctx)
	}
}

// watchedAt is what is remembered of the master at addr. One that is new gets as long as any other to answer:
// it is not lost at once.
func (p *pulse) watchedAt(addr string) *watched {
	w := p.watched[addr]
	if w == nil {
		w = &watched{heard: time.Now()}
		p.watched[addr] = w
	}
	return w
}

// beat asks each master once. It waits for them, for no longer than a question may take, and then puts what
// it has learnt into outages and log.
func (p *pulse) beat(ctx context.Context) {
	t := p.Topology()
	patience := make(map[string]time.Duration, len(t.Masters))
	for _, n := range t.Masters {
		// Made here, for those who ask must not touch watched.
		patience[n.Addr] = max(lateLeast, lateFactor*p.watchedAt(n.Addr).took)
	}
	answers, failed := gatherAll(ctx, p.asker, addrs(t.Masters),
		func(asking context.Context, addr string) (pulseAnswer, error) {
			return p.listenToMaster(ctx, asking, addr, patience[addr])
		})
	if ctx.Err() != nil {
		return
	}
	back := false
	var miss []string
	for _, a := range answers {
		w := p.watchedAt(a.addr)
		w.took = max(a.took, w.took-w.took/8)
		switch {
		case a.refuses == nil:
			w.heard = time.Now()
			back = p.noteServing(a.addr) || back
		// All nodes say so together; noteClusterFails makes one line of that.
		case a.refuses == cluster.ErrFails && !w.away:
			p.outages.Lose(a.addr, a.refuses)
			miss = append(miss, a.addr)
		default:
			p.noteLost(t, a.addr, a.refuses)
		}
	}
	// Requests wait for it.
	if back {
		p.announce(p.Topology())
	}
	for _, f := range failed {
		// Who refuses connections is lost at once; who is silent may only be slow.
		silent := errors.Is(f.Err, context.DeadlineExceeded) || errors.Is(f.Err, errLate)
		if !silent || time.Since(p.watchedAt(f.Addr).heard) > lately {
			p.noteLost(t, f.Addr, f.Err)
		}
	}
	p.noteClusterFails(miss)
	if t.Served() < slot.Count {
		p.noteLost(t, "", errUnserved)
	} else {
		p.noteServing("")
	}
	p.logSuccessors(t)
	p.seen = t
}

// pulseAnswer is the answer of a master.
type pulseAnswer struct {
	addr    string
	took    time.Duration
	refuses error // why it does not serve, by its own account; nil: it serves
}

// listenToMaster asks the master at addr, and puts it in doubt when its answer is late, or there is none,
// unless ctx has ended. asking ends when the answer is not waited for any more. It runs on a goroutine of its
// own, one for each master.
func (p *pulse) listenToMaster(ctx, asking context.Context, addr string,
	patience time.Duration) (pulseAnswer, error) {
	began, doubted := time.Now(), make(chan struct{})
	late := time.AfterFunc(patience, func() {
		p.doubtMaster(addr, true)
		close(doubted)
	})
	refuses, err := p.askMaster(asking, addr)
	if !late.Stop() {
		<-doubted // what follows is news
	}
	switch {
	case err == nil && p.outages.Trust(addr):
		p.announce(p.Topology())
	case err != nil && ctx.Err() == nil:
		p.doubtMaster(addr, asking.Err() != nil)
	}
	return pulseAnswer{addr, time.Since(began), refuses}, err
}

// doubtMaster notes that the master at addr is in trouble. Its replicas are asked from now on, and so is the
// topology.
func (p *pulse) doubtMaster(addr string, silent bool) {
	if p.outages.Doubt(addr, silent) {
		p.vigil.wake.hintNow()
		p.refresh.hint()
	}
}

// connEnded says that err is the end of a connection. A time-out is none.
func connEnded(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// askMaster asks the master at addr why it does not serve; nil: it does. err is that there is no answer. A
// node that must not answer PING, or that is busy with a script, is there, so it serves.
func (p *pulse) askMaster(ctx context.Context, addr string) (refuses, err error) {
	questions := [][]any{{"PING"}}
	if p.kind == cluster.Cluster {
		questions = append(questions, []any{"CLUSTER", "INFO"})
	}
	for try := 1; ; try++ {
		answers, err := p.asker.askNode(ctx, addr, p.o.Logins, questions...)
		switch {
		case connEnded(err) && try < pulseTries && ctx.Err() == nil:
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
