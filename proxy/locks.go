package proxy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"lockproxy/cluster"
	"lockproxy/commands/lock"
	"lockproxy/internal/subscription"
	"lockproxy/redlock"
)

// leastLeases is how many times a node timeout fits into every lease of RedLock.
const leastLeases = 20

// startLocks makes the lock engines and their verbs.
func (s *Server) startLocks() {
	all := lock.Lockers{Plain: redlock.New(lockUpstream{s.client, s.topics}, s.o.Locks)}
	if r := s.o.Redlock; len(r.Masters) > 0 {
		var nodes []redlock.Node
		for _, m := range r.Masters {
			nodes = append(nodes, lockMaster{m})
		}
		o := s.o.Locks
		if r.MaxLease > 0 {
			o.MaxLease = r.MaxLease
		}
		all.Quorum = redlock.NewRedlock(nodes, redlock.QuorumOptions{
			NodeTimeout: r.NodeTimeout,
			NotRun:      func(err error) bool { return errors.Is(err, cluster.ErrUnavailable) },
		}, o)
		all.Prefixes, all.LeastLease = r.Prefixes, leastLeases*r.NodeTimeout
		all.Masters = s.masters
	}
	s.lockers = all
	s.verbs = lock.Verbs(all, s.o.LockNames)
}

// closeLocks ends the lock engines, all at the same time, when ctx ends at the latest.
func (s *Server) closeLocks(ctx context.Context) {
	var both sync.WaitGroup
	if s.lockers.Quorum != nil {
		both.Go(func() { s.lockers.Quorum.Close(ctx) })
	}
	s.lockers.Plain.Close(ctx)
	both.Wait()
}

// lockStats are the counters of all lock engines.
func (s *Server) lockStats() redlock.Stats {
	st := s.lockers.Plain.Stats()
	if s.lockers.Quorum != nil {
		st = st.Plus(s.lockers.Quorum.Stats())
	}
	return st
}

// masters is how the masters of RedLock are now.
func (s *Server) masters() []cluster.MasterHealth {
	var all []cluster.MasterHealth
	for _, m := range s.o.Redlock.Masters {
		all = append(all, m.Health())
	}
	return all
}

// quorumReady says why RedLock can grant nothing now, or nil.
func (s *Server) quorumReady() error {
	all, votes, why := s.masters(), 0, ""
	for _, m := range all {
		if m.Votes {
			votes++
			continue
		}
		why += "; " + m.Addr + ": " + m.Why
	}
	if need := len(all)/2 + 1; votes < need && len(all) > 0 {
		return fmt.Errorf("redlock: %d of %d masters vote, and %d are needed%s", votes, len(all), need, why)
	}
	return nil
}

// lockMaster is an independent master as the lock engine sees it.
type lockMaster struct{ *cluster.Master }

// Ask implements redlock.Node.
func (m lockMaster) Ask(req []byte, timeout time.Duration, tag int, to redlock.Answerer) {
	m.Master.Ask(req, timeout, tag, to)
}

// lockUpstream is the upstream as the lock engine sees it.
type lockUpstream struct {
	*cluster.Client
	topics PubSub
}

// Subscribe implements redlock.Upstream.
func (u lockUpstream) Subscribe(ctx context.Context, slot int, channel string, notify func(subscription.Event)) (func(), error) {
	return u.topics.Subscribe(ctx, slot, channel, notify)
}

// Sharded implements redlock.Upstream.
func (u lockUpstream) Sharded() bool { return u.topics.Sharded() }
