package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/master"
	"lockproxy/cluster/pipe"
	"lockproxy/commands/holds"
	"lockproxy/commands/lock"
	"lockproxy/internal/lockevent"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
	"lockproxy/internal/subscription"
	"lockproxy/proxy/masters"
	"lockproxy/proxy/pubsub"
	"lockproxy/proxy/watch"
	"lockproxy/redlock/index"
	"lockproxy/redlock/locks"
	"lockproxy/redlock/peers"
	"lockproxy/redlock/quorum"
	"lockproxy/redlock/totals"
	"lockproxy/redlock/who"
)

// lockEngines has the lock engines, and the masters of RedLock. Made by startLocks, and then only read.
type lockEngines struct {
	engines lock.Lockers
	masters []*master.Master
	index   *index.Index // of the locks that are held
	peers   *peers.Peers // other proxies
}

// startLocks connects to the masters of RedLock, and makes the lock engines and their verbs. All masters are
// on one loop, where their votes are counted. It blocks until most of them answer or ctx ends.
func (s *Server) startLocks(ctx context.Context) (err error) {
	r := s.o.Redlock
	if r.Connect != nil {
		if s.locks.masters, err = r.Connect(ctx, s.workers[0].loop); err != nil {
			return err
		}
	}
	up := lockUpstream{s.client, s.topics, s.o.Upstream, &s.evictions}
	o := s.o.Locks
	usual := locks.DefaultOptions()
	s.locks.index = index.New(up, index.Options{Prefix: cmp.Or(o.Prefix, usual.Prefix),
		MaxLease: max(cmp.Or(o.MaxLease, usual.MaxLease), r.MaxLease),
		Used:     func() { s.locks.peers.Join() }, Log: s.o.Log})
	o.Index = s.locks.index
	announcer := &pubsub.Announcer{Nodes: s.client, Upstream: s.topics, Topology: s.upstream.Topology}
	// The topology of now; OnChange tells of later ones only.
	announcer.Follow(s.upstream.Topology())
	s.upstream.OnChange(announcer.Follow)
	// Plain has the locks that no other engine has.
	all := lock.Lockers{
		Plain:    locks.New(up, o),
		Announce: announcer,
		Waits:    &holds.Room{Most: s.o.MaxNotify},
	}
	if all.CompatPrefixes = s.o.Compat; len(s.o.Compat) > 0 {
		all.Compat = locks.NewCompat(up, o)
	}
	s.events.audit, s.events.proxy = s.o.Audit, all.Plain.ID()
	s.events.hub = startWatching(s, cmp.Or(o.Prefix, usual.Prefix), all.Plain.ID())
	s.shared.Watchers.Context, s.shared.Watchers.Hub = s.shared.Context, s.events.hub
	all.Events = s.events.hub != nil
	all.Ledger = lock.NewLedger(s.locks.index, s.o.LockPrefixes, s.events.locks())
	if r.Connect != nil {
		var nodes []quorum.Node
		for _, m := range s.locks.masters {
			nodes = append(nodes, lockMaster{m})
		}
		if r.MaxLease > 0 {
			o.MaxLease = r.MaxLease
		}
		all.Quorum = locks.NewRedlock(nodes, quorum.Options{
			NodeTimeout: r.NodeTimeout,
			NotRun:      func(err error) bool { return errors.Is(err, cluster.ErrUnavailable) },
		}, o)
		all.Prefixes, all.LeastLease = r.Prefixes, LeastLeases*r.NodeTimeout
		all.Masters = s.locks.health
	}
	all.Who = &who.Who{Index: s.locks.index, ID: all.Plain.ID()}
	all.Ask = func(ctx context.Context, req []byte) ([]byte, error) { return up.DoMaster(ctx, 0, req, true) }
	s.locks.peers = peers.New(up, peers.Options{ID: all.Plain.ID(), Fleet: s.o.Fleet, Settings: s.o.Same,
		Handlers: map[string]peers.Responder{who.Topic: all.Who.Answer,
			totals.Topic: totals.Answer(all.Stats)},
		Log: s.o.Log})
	all.Busiest = lock.NewBusiest(s.o.LockNames)
	all.Who.Peers, all.Peers = s.locks.peers, s.locks.peers
	// The copy is made when it is complete: what needs the engines reads them from there, later.
	s.locks.engines = all
	s.shared.Table.Verbs = lock.Verbs(all)
	return nil
}

// closeEngines ends all lock engines at the same time, at the latest when ctx ends. The index and the peers
// end behind the engines, which use them.
func (l *lockEngines) closeEngines(ctx context.Context) {
	var others sync.WaitGroup
	if l.engines.Quorum != nil {
		others.Go(func() { l.engines.Quorum.Close(ctx) })
	}
	if l.engines.Compat != nil {
		others.Go(func() { l.engines.Compat.Close(ctx) })
	}
	l.engines.Plain.Close(ctx)
	others.Wait()
	l.index.Close(ctx)
	l.peers.Close()
}

// health returns the health of the masters of RedLock.
func (l *lockEngines) health() []master.Health {
	var all []master.Health
	for _, m := range l.masters {
		all = append(all, m.Health())
	}
	return all
}

// ready returns the reason why RedLock can grant nothing now, or nil. More than half of all masters must
// vote, whether or not they are reached. Without RedLock there are none, which is no reason.
func (l *lockEngines) ready() error {
	all, votes, why := l.health(), 0, ""
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

// lockMaster is an independent master as the lock engine sees it. Its Ask differs only in the type of who is
// told, since cluster and redlock do not know each other.
type lockMaster struct{ *master.Master }

// Ask implements quorum.Node.
func (m lockMaster) Ask(req []byte, timeout time.Duration, tag int, to quorum.NodeAnswerer) {
	m.Master.Ask(req, timeout, tag, to)
}

// lockUpstream is the upstream as the lock engine sees it. It reaches the nodes over the pipes of the loops,
// from any goroutine.
type lockUpstream struct {
	*pipe.Client
	PubSub
	nodes     pipe.Control
	evictions *masters.Evictions
}

// DeleteIf implements redlock.Upstream.
func (u lockUpstream) DeleteIf() string { return u.nodes.Topology().Server.DeleteIf }

// Evicting implements redlock.Upstream.
func (u lockUpstream) Evicting() bool { return u.evictions.Any() }

// Evicts implements redlock.Upstream.
func (u lockUpstream) Evicts(slot int) error { return u.evictions.Of(slot) }

// events passes on what happens to locks and settings. Its methods may be called from any goroutine.
type events struct {
	audit Audit        // nil: there is none
	hub   *watch.Relay // for those who watch; nil: nobody can
	proxy string       // the id of this proxy
	// view has the events while somebody looks at them: those of all proxies if there is a hub, else those of
	// this one; nil: nobody does.
	view atomic.Pointer[func([]lockevent.Event)]
}

// locks returns what takes the events of locks; nil: nobody wants any. It is asked again whenever somebody
// begins to look or ends it: where nobody does, no event is made at all.
func (e *events) locks() func(lockevent.Event) {
	if e.audit == nil && e.hub == nil && e.view.Load() == nil {
		return nil
	}
	return func(one lockevent.Event) {
		one.Proxy = e.proxy
		if e.audit != nil {
			e.audit.Note(one)
		}
		if e.hub != nil {
			e.hub.Note(one)
		} else {
			e.showEvents([]lockevent.Event{one})
		}
	}
}

// showEvents passes events to whoever looks at them. It must not block, and is called on the goroutine on
// which the events come.
func (e *events) showEvents(all []lockevent.Event) {
	if tell := e.view.Load(); tell != nil {
		(*tell)(all)
	}
}

// noteAudited notes an event that is for the audit log alone. It is for what is no event of a lock: a failed
// login, a changed setting.
func (e *events) noteAudited(one lockevent.Event) {
	if e.audit == nil {
		return
	}
	one.Time, one.Proxy = time.Now(), e.proxy
	e.audit.Note(one)
}

// counts counts those for the audit log, and those for LOCKCTL WATCH.
func (e *events) counts() (audit, watch EventCounts) {
	if audit.On = e.audit != nil; audit.On {
		audit.Told, audit.Lost = e.audit.Counts()
	}
	if watch.On = e.hub != nil; watch.On {
		watch.Told, watch.Lost = e.hub.Counts()
	}
	return audit, watch
}

// startWatching makes the hub of the events of locks, if they are to be told. The channel has the prefix of
// locks, so proxies with other prefixes do not hear of each other.
func startWatching(s *Server, prefix, proxy string) *watch.Relay {
	if !s.o.LockEvents {
		return nil
	}
	channel := prefix + "events"
	publish := func(ctx context.Context, message []byte) error {
		req := resp.AppendCommand(nil, []byte("PUBLISH"), []byte(channel), message)
		reply, err := s.client.DoWhole(ctx, slot.Of([]byte(channel)), req, false)
		if err == nil && resp.IsError(reply) {
			err = errors.New(strings.TrimSpace(string(reply[1:])))
		}
		return err
	}
	subscribe := func(notify func(subscription.Change)) (cancel func()) {
		return s.topics.Subscribe(-1, channel, notify)
	}
	h := watch.New(watch.Options{Proxy: proxy, Publish: publish, Subscribe: subscribe, Log: s.o.Log,
		Tell: func(all []lockevent.Event) {
			s.events.showEvents(all)
			s.shared.Watchers.Tell(all)
		}})
	go h.Run(s.shared.Context) // ends in stopServer
	return h
}

// EventCounts counts events of locks that were told, and those that were lost since they could not be.
type EventCounts struct {
	On         bool // they are to be told
	Told, Lost uint64
}
