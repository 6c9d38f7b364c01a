// Package proxy serves the clients: it listens, frames what they send, keeps their answers in order, and has
// each command go the way that package commands says. It stands below the program in cmd/lockproxy.
//
//	Server                 the loops and what they share: limits, counters, lock engines, the command table
//	  worker               one loop with its clients, and its pool of pipes to the nodes
//	    session            one client: bytes in, commands in order, answers out, and what holds it
//	      input            finds commands           output    what waits to be written
//	      router           where a command goes     answers   one for each command that is not answered
//	      own, tracking, tx, blocking, subscriber, tasks, monitor, pause: what else a connection can do
//
// The path of a command, on one goroutine, down and back:
//
//	loop.Conn --> session.Read --> input.next, input.args --> router.dispatch --> route
//	    route --> forward: the bytes as they are --> pipe.Pool.Send
//	          --> Run: the command acts by itself, with commands.Actions: Reply, Ask, AskAll, Task ...
//	pipe.Pipe.Read --> session.Receive --> output.write --> loop.Conn
//
// Commands are numbered as they come. Whoever answers one names its number, and answers leave in the order of
// the numbers, whenever they come. No further command is read while the session is held (client.Hold): by a
// task, by a redirect, by a client that does not read. That is how order is kept without locks.
//
// What a connection can do besides is a package each, which knows a client.Host and not the session: tracking
// (CLIENT TRACKING, users of the upstream), blocking (BLPOP, WAIT), pubsub, transaction, login. What belongs
// to all clients of the proxy stays here: MONITOR, CLIENT PAUSE and CLIENT KILL, the memory of all.
//
// A loop never waits. What has to wait is a task on a goroutine of its own, which posts its result; what is
// much work for one round is taken apart on a goroutine (long.go) or goes on in later rounds (turns.go).
package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe"
	upstream "lockproxy/cluster/pubsub"
	"lockproxy/commands"
	"lockproxy/internal/journal"
	"lockproxy/internal/loop"
	"lockproxy/proxy/blocking"
	"lockproxy/proxy/clients"
	"lockproxy/proxy/door"
	"lockproxy/proxy/login"
	"lockproxy/proxy/masters"
	"lockproxy/proxy/memory"
	"lockproxy/proxy/pubsub"
	"lockproxy/proxy/stats"
	"lockproxy/proxy/table"
	"lockproxy/proxy/tracking"
	"lockproxy/redlock/scripts"
)

// Server is the proxy. Its methods may be called from any goroutine.
type Server struct {
	*door.Door
	o       Options
	limits  masters.CommandLimits
	table   table.Learner
	forbids masters.Forbidden
	started time.Time

	ctx       context.Context // of all tasks
	cancel    context.CancelCauseFunc
	workers   []*worker
	upstream  Upstream
	topics    PubSub
	underway  pubsub.Underway
	close     func() // of topics
	pipeStats pipe.Stats
	client    *pipe.Client
	scripts   *commands.Scripts
	locks     lockEngines
	events    events
	evictions masters.Evictions
	ownStats  *stats.Own
	counters  stats.Counters

	runID         string
	all           clients.All
	blockedCounts blocking.Counts
	now           atomic.Pointer[Options] // options that Change may change; the others are in o
	authTimeouts  atomic.Uint64           // clients closed because of AuthTimeout
	trackers      tracking.Trackers
	unable        atomic.Bool    // it was logged that the proxy's user lacks a right: see roster
	failures      login.Failures // failed attempts to get in
	addresses     *login.Addresses
	changes       journal.Lines // of settings
	logins        login.Queue

	memory memory.All

	tasks sync.WaitGroup // goroutines of Actions.Task
}

// New starts the loops, connects to the masters of RedLock, and learns the upstream's commands. It serves
// nobody before Serve or Admit.
func New(ctx context.Context, o Options) (*Server, error) {
	o = o.withDefaults()
	s := &Server{
		o: o, started: time.Now(), runID: newRunID(), upstream: o.Upstream,
		scripts:   commands.NewScripts(o.ScriptCache),
		addresses: login.NewAddresses(),
	}
	s.ownStats = stats.NewOwn(&s.counters, s.shared)
	locksHere := o.Redlock.Connect == nil || len(o.Redlock.Prefixes) > 0 // the upstream keeps locks
	s.memory.Log, s.all.Scripts = o.Log, s.scripts
	s.evictions = masters.Evictions{Upstream: o.Upstream, Allowed: o.AllowEviction, Log: o.Log}
	s.forbids = masters.Forbidden{
		Upstream: o.Upstream, UsersOnly: o.UsersOnly, Locks: locksHere, Log: o.Log,
	}
	s.table = table.Learner{Upstream: o.Upstream, Refused: o.Refused, Failed: o.Failed, Log: o.Log}
	s.table.Use = func(t *commands.Table) {
		for _, w := range s.workers {
			w.loop.Post(func() { w.use(t) })
		}
	}
	s.trackers.Find = s.trackerOf
	s.Change(o)
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	for _, script := range scripts.All() {
		s.scripts.Pin([]byte(script.Source))
	}
	s.subscribe()
	if err := s.startLoops(); err != nil {
		s.stop()
		return nil, err
	}
	if err := s.startLocks(ctx); err != nil {
		s.stop()
		return nil, err
	}
	if err := s.table.First(ctx); err != nil {
		s.stop()
		return nil, err
	}
	if o.TellNeeds {
		s.forbids.Tell(ctx)
	}
	if locksHere {
		if err := s.evictions.First(ctx); err != nil {
			s.stop()
			return nil, err
		}
		go s.evictions.Keep(s.ctx) // ends when s.ctx does
	}
	go s.table.Keep(s.ctx, func() { // so does this
		s.limits.Learn(s.upstream.Limits(s.ctx), o.Log)
		if s.forbids.Refusal() != nil {
			s.forbids.Ask(s.ctx)
		}
	})
	return s, nil
}

// subscribe makes the PubSub of the upstream, unless one was given.
func (s *Server) subscribe() {
	s.topics, s.close = s.o.PubSub, func() {}
	if s.topics == nil {
		topics := upstream.New(s.upstream, s.o.Log)
		s.upstream.OnChange(func(*cluster.Topology) { topics.Moved() })
		s.topics, s.close = topics, topics.Close
	}
}

// startLoops starts a worker for each loop, with a pool of its own.
func (s *Server) startLoops() error {
	n := s.o.Loops
	if n <= 0 {
		n = max(1, runtime.GOMAXPROCS(0)/2)
	}
	s.o.Pipes.Source, s.o.Pipes.Flushes = s.scripts.Get, s.scripts.Flushes
	if s.o.Pipes.MaxOwn <= 0 {
		s.o.Pipes.MaxOwn = max(s.o.MaxOwn/n, 1)
	}
	var loops []*loop.Loop
	var pools []*pipe.Pool
	for i := range n {
		l := loop.NewPortable()
		if !s.o.Portable {
			var err error
			if l, err = loop.New(); err != nil {
				return err
			}
		}
		w := &worker{
			server:    s,
			index:     i,
			loop:      l,
			sessions:  make(map[*session]struct{}),
			checkFrom: s.o.Output.CheckFrom(narrowFrom),
			counters:  s.counters.Loop(),
			buffer:    make([]byte, 0, bufferSize),
		}
		w.turns.loop = l
		w.hub = pubsub.NewHub(l, s.topics, &s.underway, s.o.Pipes.Budget, w.turns.late)
		w.roster.w = w
		w.memory = s.memory.Loop(l.Post, w.counted)
		l.Watch(s.o.WatchRounds)
		w.pool = pipe.New(l, s.upstream, s.o.Pipes, &s.pipeStats)
		w.clients = s.all.Loop(l, w.pool, w.peers, w.watch)
		w.readsFrom = s.o.readsFrom()
		l.After(time.Second, w.tidy)
		s.workers = append(s.workers, w)
		loops, pools = append(loops, l), append(pools, w.pool)
		go l.Run() // ends in stop
	}
	s.client = pipe.NewClient(loops, pools)
	s.openDoor()
	update := func(*cluster.Topology) {
		for _, w := range s.workers {
			w.loop.Post(w.pool.Update)
		}
	}
	s.upstream.OnChange(update)
	if s.o.ReplicaReads.Wanted(0) {
		s.upstream.WatchReplicas()
	}
	update(nil) // it may have changed before OnChange was called
	return nil
}

// openDoor makes the door, which has no listeners yet.
func (s *Server) openDoor() {
	o := s.o
	s.Door = door.New(door.Options{
		Loop: s.workers[0].loop, TLS: o.TLS, Come: s.come, Context: s.ctx, Log: o.Log,
		TLSFailed: func(client net.Addr, err error) {
			s.failures.Tls.Note(o.Log, "TLS handshake failed", "client", client, "err", err)
		},
	}, doorSettings(&o))
}

func doorSettings(o *Options) door.Settings {
	return door.Settings{MaxClients: o.MaxClients, KeepAlive: o.KeepAlive, AuthTimeout: o.AuthTimeout}
}

// come makes a session of a client that has come in.
func (s *Server) come(n door.Newcomer) {
	w := s.workers[s.all.IndexOf(n.ID)]
	one := newSession(commands.Client{
		ID: n.ID, Addr: n.Addr, LocalAddr: n.Local, Unix: n.Unix,
		Created: time.Now(), Proto: 2, Authenticated: !whole{s}.AuthRequired(),
	}, w)
	if n.On == w.loop {
		w.serve(one, n)
	} else if !w.loop.Post(func() { w.serve(one, n) }) {
		n.Refuse()
		s.Left()
	}
}

// haltMost is how long a drain whose time is over waits for replies of nodes.
const haltMost = 200 * time.Millisecond

// Drain ends the service in good order. It accepts no new clients and reads no more commands; waiters and
// commands that have been read are answered, and connections end when the clients have their answers. It
// returns when all is done, or a little after ctx ends, when whatever is left is cut off.
func (s *Server) Drain(ctx context.Context) error {
	s.Shut()
	for _, w := range s.workers {
		w.loop.Post(func() {
			w.draining = true
			for ses := range w.sessions {
				ses.drain()
			}
		})
	}
	done := make(chan struct{})
	go func() { // ends with the last client, at the latest in stop
		s.Door.Wait()
		s.tasks.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		s.halt()
		err = fmt.Errorf("proxy: drain: %d clients cut off: %w", s.Clients(), ctx.Err())
	}
	s.locks.close(ctx)
	s.stop()
	return err
}

// halt makes all clients begin no more commands, and waits up to haltMost for the answers to those that have
// begun.
func (s *Server) halt() {
	halted := make(chan int, len(s.workers))
	for until := time.Now().Add(haltMost); time.Now().Before(until); time.Sleep(haltMost / 20) {
		asked, owed := 0, 0
		for _, w := range s.workers {
			if w.loop.Post(func() {
				n := 0
				for ses := range w.sessions {
					ses.halt()
					n += int(ses.answers.len())
				}
				halted <- n
			}) {
				asked++
			}
		}
		for range asked {
			owed += <-halted
		}
		if owed == 0 {
			return
		}
	}
}

// stop ends all goroutines of the server.
func (s *Server) stop() {
	s.cancel(commands.ErrDraining)
	s.close()
	s.locks.leave()
	for _, w := range s.workers {
		done := make(chan struct{})
		if w.loop.Post(func() { w.pool.Close(); close(done) }) {
			<-done
		}
		w.loop.Close()
	}
}

// InPart is the error of Ready if the proxy serves some commands. Other proxies see the same upstream, so
// that is no reason to send clients elsewhere.
type InPart struct{ Err error }

// Error implements error.
func (e InPart) Error() string { return e.Err.Error() }

// Unwrap is for errors.Is.
func (e InPart) Unwrap() error { return e.Err }

// Ready returns the reasons why the proxy cannot serve all commands now, one a line, or nil.
func (s *Server) Ready() error {
	var all []error
	for _, reason := range []func() error{
		s.drains,
		s.upstream.Ready,
		s.locks.ready,
		s.evictions.Refusal,
		s.forbids.Refusal,
		s.locks.peers.Disagreement,
	} {
		all = append(all, reason())
	}
	err := errors.Join(all...)
	if err != nil && !s.IsShut() && s.upstream.Serves() {
		return InPart{err}
	}
	return err
}

// drains is one of the reasons.
func (s *Server) drains() error {
	if s.IsShut() {
		return commands.ErrDraining
	}
	return nil
}
