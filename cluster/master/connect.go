package master

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe"
	"lockproxy/internal/loop"
)

// Connect connects to independent masters, an odd number of them, on l. It returns once most of them answer
// and the others have been tried; connecting to those goes on in the background. It blocks until then, or
// until ctx ends. The error is a *DiscoverError if the masters cannot be used as they are: one is a replica
// or a node of a cluster, or may evict locks, two addresses are one server, or too many refuse the login.
//
// The caller closes the masters, and l only then.
func Connect(ctx context.Context, l *loop.Loop, addrs []string, o Options) ([]*Master, error) {
	o = o.withDefaults()
	set := &masterSet{changed: make(chan struct{}, 1), runIDs: make(map[string]string)}
	all := make([]*Master, len(addrs))
	for i, addr := range addrs {
		all[i] = newMaster(l, addr, o, set)
	}
	closeAll := func() {
		for _, m := range all {
			m.Close()
		}
	}
	for {
		up, pending, failed := tallyMasters(all)
		// Those for which trying again cannot help. Without a majority beside them, it is of no use to wait.
		final := &cluster.DiscoverError{Failed: slices.DeleteFunc(slices.Clone(failed),
			func(n cluster.NodeError) bool {
				return !(&cluster.DiscoverError{Failed: []cluster.NodeError{n}}).Final()
			})}
		unfit := slices.ContainsFunc(failed, func(n cluster.NodeError) bool {
			var r cluster.Refusal
			return errors.As(n.Err, &r)
		})
		switch {
		case unfit, len(all)-len(final.Failed) <= len(all)/2:
			closeAll()
			return nil, final
		case pending == 0 && up > len(all)/2:
			return all, nil
		}
		if len(failed) > 0 {
			o.Failed(&Unreached{Up: up, All: len(all), Failed: failed})
		}
		select {
		case <-set.changed:
		case <-ctx.Done():
			closeAll()
			return nil, &cluster.DiscoverError{Failed: failed}
		}
	}
}

// Unreached is why Connect still waits: too few of the masters answer. Options.Failed gets it; it is not
// returned.
type Unreached struct {
	Up, All int
	Failed  []cluster.NodeError // of the others, those that were tried
}

func (e *Unreached) Error() string {
	text := fmt.Sprintf("redlock: %d of %d masters answer, and %d are needed", e.Up, e.All, e.All/2+1)
	for i, f := range e.Failed {
		text += [...]string{": ", "; "}[min(i, 1)] + f.Addr + ": " + cluster.Explain(f.Err)
	}
	return text
}

// Unwrap gives the errors of the masters.
func (e *Unreached) Unwrap() error { return &cluster.DiscoverError{Failed: e.Failed} }

// tallyMasters counts the masters that answer and those that have not been tried yet, and collects what is
// wrong with the others. One that is unfit counts as failed although it answers. failed is in the order of
// the addresses.
func tallyMasters(all []*Master) (up, pending int, failed []cluster.NodeError) {
	for _, m := range all {
		m.mu.Lock()
		switch {
		case m.state.unfit != nil:
			failed = append(failed, cluster.NodeError{Addr: m.addr, Err: m.state.unfit})
		case m.conn != nil:
			up++
		case !m.tried:
			pending++
		default:
			failed = append(failed, cluster.NodeError{Addr: m.addr, Err: m.why})
		}
		m.mu.Unlock()
	}
	return up, pending, failed
}

// masterSet is the masters that were configured together. No two of them may be one server: it would have two
// votes.
type masterSet struct {
	changed chan struct{} // capacity 1: something has
	stats   pipe.Stats

	mu     sync.Mutex
	runIDs map[string]string // by address
}

// registerRunID notes that the server at addr has this run id. If another address has it, that is returned.
// Then the earlier one keeps it, and addr is the one too many. "" is no run id, and equals none.
func (s *masterSet) registerRunID(addr, runID string) (duplicate string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other, id := range s.runIDs {
		if other != addr && id == runID && runID != "" {
			return other
		}
	}
	s.runIDs[addr] = runID
	return ""
}

// signalChange says that something has changed. It never blocks. Many changes are one signal, so Connect
// looks at all masters each time.
func (s *masterSet) signalChange() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}
