package proxy

import (
	"cmp"
	"context"
	"time"

	"lockproxy/cluster"
	"lockproxy/commands/lock"
	"lockproxy/internal/lockevent"
	"lockproxy/internal/loop"
	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/totals"
)

// View is the proxy as somebody sees it who looks after it, beside its Stats. Safe for concurrent use.
type View struct{ s *Server }

// ViewOf returns the View of s. It may be copied.
func ViewOf(s *Server) View { return View{s} }

// ID is the id of this proxy, and Started when it began.
func (v View) ID() string         { return v.s.events.proxy }
func (v View) Started() time.Time { return v.s.started }

// Topology is the upstream, and Down since when the master at addr does not serve, as far as the proxy knows.
func (v View) Topology() *cluster.Topology { return v.s.upstream.Topology() }

func (v View) Down(addr string) (out cluster.Outage, down bool) {
	return v.s.upstream.Outages().Of(addr)
}

// Busiest are up to n locks for which there was most to do at this proxy.
func (v View) Busiest(n int) []lock.Count { return v.s.locks.engines.Busiest.Top(n) }

// Proxies asks all proxies what they have done with locks. It blocks for a moment.
func (v View) Proxies(ctx context.Context) totals.Sum {
	return totals.Ask(ctx, v.s.locks.peers, v.s.locks.engines.Stats())
}

// Locks are up to most locks that are held or waited for and whose names match a glob, by name. names is how
// many there may be. It blocks.
func (v View) Locks(ctx context.Context, match string, most int) (all []lock.Seen, names int, err error) {
	return v.s.locks.engines.Look(ctx, match, most)
}

// Break takes a lock away from its holders. It blocks.
func (v View) Break(ctx context.Context, name string, by redlock.Client) (broken bool, err error) {
	one := &redlock.Patient{Ctx: ctx, Home: v.s.client}
	v.s.locks.engines.Break(one, name, &by, func(is bool, failed error) []byte {
		broken, err = is, failed
		return resp.OK
	})
	return broken, cmp.Or(one.Err, err)
}

// Everywhere says that Watch tells the events of all proxies, and not of this one alone.
func (v View) Everywhere() bool { return v.s.events.hub != nil }

// Watch has tell called with what happens to locks, until leave is called. tell must not block, nor change
// what it gets. One may watch at a time. It blocks until the upstream has confirmed it.
func (v View) Watch(ctx context.Context, tell func([]lockevent.Event)) (leave func(), err error) {
	e := &v.s.events
	// Before the events are asked for, so that none of the first is missed.
	e.view.Store(&tell)
	v.s.locks.engines.Ledger.Tell(e.locks())
	if e.hub != nil {
		err = e.hub.Join(ctx)
	}
	end := func() {
		e.view.Store(nil)
		v.s.locks.engines.Ledger.Tell(e.locks())
	}
	if err != nil {
		end()
		return nil, err
	}
	return func() {
		end()
		if e.hub != nil {
			e.hub.Leave()
		}
	}, nil
}

// Turns returns nil once each loop of s has had a round, and the error of ctx if that ends before. It blocks.
// Whatever was posted to a loop before has run by then.
func Turns(ctx context.Context, s *Server) error {
	turned := make(chan struct{})
	loop.Each(s.workers, func(*worker) {}, func() { close(turned) })
	select {
	case <-turned:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
