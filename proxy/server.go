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
//	loop.Conn --> session.Read --> input.nextCommand, input.args --> router.dispatchCommand --> routeCommand
//	    --> forwardCommand: the bytes as they are --> pipe.Pool.Send
//	    --> Run: the command acts by itself, with commands.Actions: Reply, Ask, AskAll, Task ...
//	pipe.Pipe.Read --> session.Receive --> output.writeBytes --> loop.Conn
//
// Commands are numbered as they come. Whoever answers one names its number, and answers leave in the order of
// the numbers, whenever they come. No further command is read while the session is held (client.HoldReasons):
// by a task, by a redirect, by a client that does not read. That is how order is kept without locks.
//
// What a connection can do besides is a package each, which knows a client.Host and not the session: tracking
// (CLIENT TRACKING, users of the upstream), blocking (BLPOP, WAIT), pubsub, transaction, login. What concerns
// all clients is in packages, too: clients (MONITOR, CLIENT PAUSE, CLIENT KILL), memory, stats.
//
// A loop never waits. What has to wait is a task on a goroutine of its own, which posts its result; what is
// much work for one round is taken apart on a goroutine (package large) or goes on later (loop.Later).
//
// The words of this package: a tag is the number of a command. The current command is the one that runs, or
// goes on after a reply. It has acted once it is clear how its answer comes. An answer is done when all of it
// is there, and its command is answered when that has gone to the output in its turn. A session is held while
// no command of it is read; it is at its eof when its client sends no more, drains when only what was read is
// still answered, and is gone when its connection is closed.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync/atomic"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe"
	upstream "lockproxy/cluster/pubsub"
	"lockproxy/commands"
	"lockproxy/internal/journal"
	"lockproxy/internal/loop"
	"lockproxy/proxy/door"
	"lockproxy/proxy/login"
	"lockproxy/proxy/masters"
	"lockproxy/proxy/stats"
	"lockproxy/proxy/table"
	"lockproxy/redlock/scripts"
)

// Server is the proxy. Its methods may be called from any goroutine. What belongs to one loop is in its
// worker; what is here is made by New and then only read, or safe for concurrent use.
type Server struct {
	*door.Door
	o       Options
	shared  Shared // by the clients of all loops
	started time.Time
	// 40 hex digits, as Redis has them; made anew at each start.
	runID string

	cancel    context.CancelCauseFunc // of shared.Context
	workers   []*worker
	upstream  Upstream
	topics    PubSub
	close     func()       // of topics
	client    *pipe.Client // for what is not asked for a client
	locks     lockEngines
	events    events
	evictions masters.Evictions
	forbids   masters.Forbidden
	changes   journal.Lines // of settings
}

// New starts the loops, connects to the masters of RedLock, and learns the upstream's commands. It serves
// nobody before Serve or Admit. It blocks until the upstream has answered, or ctx ends.
func New(ctx context.Context, o Options) (*Server, error) {
	o = o.withDefaults()
	s := &Server{o: o, started: time.Now(), runID: newRunID(), upstream: o.Upstream}
	s.makeShared()
	locksHere := o.Redlock.Connect == nil || len(o.Redlock.Prefixes) > 0 // the upstream keeps locks
	s.evictions = masters.Evictions{Upstream: o.Upstream, Allowed: o.AllowEviction, Log: o.Log}
	s.forbids = masters.Forbidden{Upstream: o.Upstream, UsersOnly: o.UsersOnly, Locks: locksHere}
	if o.TellNeeds {
		s.forbids.Log = o.Log
	}
	s.makeTopics()
	// The order matters: RedLock's masters are on a loop, and the verbs of locks are in the command table.
	for _, step := range []func(context.Context) error{
		s.startLoops,
		s.startLocks,
		s.shared.Table.First,
		func(ctx context.Context) error {
			s.forbids.Tell(ctx, time.Second) // a start does not wait longer for it
			if !locksHere {
				return nil
			}
			return s.evictions.First(ctx)
		},
	} {
		if err := step(ctx); err != nil {
			s.stopServer()
			return nil, err
		}
	}
	if locksHere {
		go s.evictions.Keep(s.shared.Context) // ends when that does
	}
	go s.shared.Table.Keep(s.shared.Context, func() { // so does this
		s.shared.Limits.Learn(s.upstream.Limits(s.shared.Context), o.Log)
		s.forbids.Tell(s.shared.Context, 30*time.Second)
	})
	return s, nil
}

// makeShared makes what the clients of all loops share. It comes before any loop, so nothing of it needs to
// be guarded.
func (s *Server) makeShared() {
	o, all := &s.o, &s.shared
	all.Log, all.Server, all.Scripts = o.Log, commandsServer{s}, commands.NewScripts(o.ScriptCache)
	all.Context, s.cancel = context.WithCancelCause(context.Background())
	for _, script := range scripts.All() {
		all.Scripts.Pin([]byte(script.Source))
	}
	all.ReplicaReads, all.Sheds = o.ReplicaReads, o.Pipes.ShedAfter > 0
	all.Left = func() { s.Left() }
	all.Independent = func(name []byte) bool { return s.locks.engines.Independent(name) }
	all.Own = stats.NewOwn(&all.Counters, s.totals)
	all.Memory.Log, all.Clients.Scripts = o.Log, all.Scripts
	all.Login.Addresses = login.NewAddresses()
	all.Table = table.Learner{Upstream: o.Upstream, Refused: o.Refused, Failed: o.Failed, Log: o.Log}
	all.Table.Use = func(t *commands.Table) {
		for _, w := range s.workers {
			w.Use(t)
		}
	}
	all.Trackers.Find = all.tracker
	s.Change(*o)
}

// makeTopics makes the PubSub of the upstream, unless one was given. One that was given belongs to whoever
// gave it, so it is not closed with the Server.
func (s *Server) makeTopics() {
	s.topics, s.close = s.o.PubSub, func() {}
	if s.topics == nil {
		topics := upstream.New(s.upstream, s.o.Log)
		s.upstream.OnChange(func(*cluster.Topology) { topics.Moved() })
		s.topics, s.close = topics, topics.Close
	}
}

// startLoops starts the loops, each with a pool of its own, and makes the door, which has no listeners yet.
func (s *Server) startLoops(context.Context) error {
	n := s.o.Loops
	if n <= 0 {
		n = max(1, runtime.GOMAXPROCS(0)/2)
	}
	o, all := s.o.Pipes, &s.shared
	o.Source, o.Flushes = all.Scripts.Get, all.Scripts.Flushes
	if o.MaxOwn <= 0 {
		// Places are counted on each loop alone, so that no loop has to ask another.
		o.MaxOwn = max(s.o.MaxOwn/n, 1)
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
		l.Watch(s.o.WatchRounds)
		pool := pipe.New(l, s.upstream, o, &all.Pipes)
		s.workers = append(s.workers, NewWorker(all, i, l, pool, s.topics, o.Budget))
		loops, pools = append(loops, l), append(pools, pool)
		go l.Run() // ends in stopServer
	}
	s.client = pipe.NewClient(pools)
	s.Door = door.New(door.Options{
		Loop: loops[0], TLS: s.o.TLS, Context: all.Context, Log: s.o.Log,
		Come: func(n door.Newcomer) {
			// The loop follows from the ID, which rises by one with each client: so they are spread evenly.
			s.workers[all.Clients.IndexOf(n.ID)].Come(n, !commandsServer{s}.AuthRequired())
		},
		TLSFailed: func(client net.Addr, err error) {
			all.Login.Failures.Tls.Note(s.o.Log, "TLS handshake failed", "client", client, "err", err)
		},
	}, s.o.LiveSettings)
	update := func(*cluster.Topology) {
		for i, l := range loops {
			l.Post(pools[i].Update)
		}
	}
	s.upstream.OnChange(update)
	if s.o.ReplicaReads.Wanted(0) {
		s.upstream.WatchReplicas()
	}
	update(nil) // it may have changed before OnChange was called
	return nil
}

// Change changes the Settings of the Server while it runs to those of o, and ignores its other options. Safe
// for concurrent use. Clients follow with their next command.
func (s *Server) Change(o Options) {
	is, all := o.withDefaults().Settings, &s.shared
	all.Now.Store(&is)
	all.Memory.SetLimit(is.MaxMemory)
	all.Scripts.SetLimit(int(is.MaxMemory / scriptShare))
	all.Limits.Follow(is.Limits)
	if s.Door != nil { // New calls it before
		s.Door.Change(is.LiveSettings)
	}
	for _, w := range s.workers {
		w.Change()
	}
}

// scriptShare says which part of the memory for clients the sources of scripts may take besides.
const scriptShare = 8

// haltMost is how long a drain whose time is over waits for replies of nodes. It is short, for whoever drains
// has waited long enough by then.
const haltMost = 200 * time.Millisecond

// Drain ends the service in good order. It accepts no new clients and reads no more commands; waiters and
// commands that have been read are answered, and connections end when the clients have their answers. It
// returns when all is done, or a little after ctx ends, when whatever is left is cut off.
func (s *Server) Drain(ctx context.Context) error {
	s.Shut()
	for _, w := range s.workers {
		w.Drain()
	}
	done := make(chan struct{})
	go func() { // ends with the last client, at the latest in stopServer
		s.Door.Wait()
		s.shared.Tasks.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		s.haltClients()
		err = fmt.Errorf("proxy: drain: %d clients cut off: %w", s.Clients(), ctx.Err())
	}
	s.locks.closeEngines(ctx)
	s.stopServer()
	return err
}

// haltClients makes all clients begin no more commands, and waits up to haltMost for the answers to those
// that have begun. The loops are asked again and again, for an answer that comes wakes nobody here.
func (s *Server) haltClients() {
	for until := time.Now().Add(haltMost); time.Now().Before(until); time.Sleep(haltMost / 20) {
		var owed atomic.Int64
		halted := make(chan struct{})
		loop.Each(s.workers, func(w *worker) { owed.Add(int64(w.Halt())) }, func() { close(halted) })
		if <-halted; owed.Load() == 0 {
			return
		}
	}
}

// stopServer ends all goroutines of the server. The pipes are closed on their loops, before these end.
// Whoever is still served is cut off.
func (s *Server) stopServer() {
	s.cancel(commands.ErrDraining)
	s.close()
	// Only now: until a drain has closed the engines, these may have something to give back to the masters.
	for _, m := range s.locks.masters {
		m.Close()
	}
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
	if s.IsShut() {
		all = append(all, commands.ErrDraining)
	}
	for _, reason := range []func() error{
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
