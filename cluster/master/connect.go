package master

import (
	"context"
	"errors"
	"slices"
	"sync"

	"lockproxy/cluster"
)

// Connect reaches independent masters, an odd number of them, and returns once most of
// them answer and the others have been tried; these are reached in the background, whenever
// that is possible. It blocks until then, or until ctx ends. The error is a *DiscoverError when
// the masters cannot be used as they are: one is a replica or a node of a cluster, two addresses
// are one server, or too many refuse the login.
//
// The caller closes them.
func Connect(ctx context.Context, addrs []string, o Options) ([]*Master, error) {
	set := &set{changed: make(chan struct{}, 1), runIDs: make(map[string]string)}
	all := make([]*Master, len(addrs))
	for i, addr := range addrs {
		all[i] = newMaster(addr, o, set)
	}
	closeAll := func() {
		for _, m := range all {
			m.Close()
		}
	}
	for {
		up, pending, failed := tally(all)
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
		select {
		case <-set.changed:
		case <-ctx.Done():
			closeAll()
			return nil, &cluster.DiscoverError{Failed: failed}
		}
	}
}

// tally says how many of the masters answer, how many have not been tried yet, and what is wrong
// with others.
func tally(all []*Master) (up, pending int, failed []cluster.NodeError) {
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

// set is the masters that were named together. No two of them may be one server.
type set struct {
	changed chan struct{} // capacity 1: something has

	mu     sync.Mutex
	runIDs map[string]string // by address
}

// registerRunID notes that the server at addr has the run id, unless another one has: its address is
// returned then.
func (s *set) registerRunID(addr, runID string) (duplicate string) {
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

// signal says that something has changed. It never blocks.
func (s *set) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}
