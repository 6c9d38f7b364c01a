package discovery

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"lockproxy/cluster"
)

// errLate is why a node counts as failed that was only slower than the others, and may be in no trouble.
var errLate = errors.New("no answer yet")

// gather asks all nodes of first at once. It asks those of rest too if none of the first has given a good
// answer after hedge, or as soon as all of them have failed. It returns when all have answered, when grace
// has passed since the first good answer, or when ctx ends. Nodes that are silent until then count as failed.
// good is in the order of the answers, failed in that of the addresses.
func gather[T any](ctx context.Context, a *asker, first, rest []string, grace time.Duration,
	ask func(context.Context, string) (T, error)) (good []T, failed []cluster.NodeError) {

	type answer struct {
		addr string
		said T
		err  error
	}
	// Who is asked still is not waited for any more when gather returns, and need not go on.
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	// It has room for all, so that those who answer late do not wait for a reader that has gone.
	answers := make(chan answer, len(first)+len(rest))
	pending := make(map[string]bool)
	start := func(addrs []string) {
		for _, addr := range addrs {
			pending[addr] = true
			asked := a.spawn(func() { // ends when cancel is called, at the latest
				said, err := ask(asking, addr)
				answers <- answer{addr, said, err}
			})
			if !asked {
				answers <- answer{addr: addr, err: net.ErrClosed}
			}
		}
	}
	start(first)
	// A large cluster is not asked as a whole because a few nodes are silent.
	rest = rest[:min(len(rest), mostAsked)]
	widen := time.NewTimer(hedge)
	defer widen.Stop()
	var enough <-chan time.Time
	for over := false; len(pending) > 0 && !over; {
		wider := false
		select {
		case got := <-answers:
			delete(pending, got.addr)
			if got.err != nil {
				failed = append(failed, cluster.NodeError{Addr: got.addr, Err: got.err})
			} else if good = append(good, got.said); enough == nil {
				enough = time.After(grace)
			}
			// All of the first have failed: there is nothing to wait for.
			wider = len(pending) == 0
		case <-widen.C:
			wider = true
		case <-enough:
			over = true
		case <-ctx.Done():
			over = true
		}
		if wider && len(good) == 0 {
			start(rest)
			rest = nil
		}
	}
	// Beside a good answer silence is lateness; without one it is the time-out of all.
	silence := errLate
	if len(good) == 0 {
		silence = context.DeadlineExceeded
	}
	for addr := range pending {
		failed = append(failed, cluster.NodeError{Addr: addr, Err: silence})
	}
	slices.SortFunc(failed, func(a, b cluster.NodeError) int { return cmp.Compare(a.Addr, b.Addr) })
	return good, failed
}

// gatherAll asks all nodes at addrs, and waits for each of them for as long as one question may take.
func gatherAll[T any](ctx context.Context, a *asker, addrs []string,
	ask func(context.Context, string) (T, error)) (good []T, failed []cluster.NodeError) {

	ctx, cancel := a.limit(ctx)
	defer cancel()
	return gather(ctx, a, addrs, nil, lookTimeout, ask)
}
