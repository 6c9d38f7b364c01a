package proxy

import (
	"sync/atomic"
	"time"

	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/loop"
	"lockproxy/proxy/client"
	"lockproxy/proxy/clients"
	"lockproxy/proxy/door"
	"lockproxy/proxy/memory"
	"lockproxy/proxy/pubsub"
	"lockproxy/proxy/stats"
)

// worker is one loop with all that belongs to it: its clients, its pipes and its counters. Other goroutines
// touch only the atomics.
type worker struct {
	server    *Server
	index     int // in server.workers
	loop      *loop.Loop
	pool      *pipe.Pool
	hub       *pubsub.Hub
	table     *commands.Table
	counters  stats.Loop
	sessions  map[*session]struct{}
	memory    *memory.Loop
	checkFrom int // bytes that may wait for a client before its limits are checked
	draining  bool
	alert     bool // clients are paused or monitored, or watch locks: see router.attend
	clients   *clients.Loop
	watchers  watchers
	scans     scans
	turns     turns
	roster    roster

	readsFrom int8 // clients with at least this ReadOnly read from replicas

	args   [][]byte      // scratch of Read
	input  int           // size of the input that Read is looking at
	call   commands.Call // scratch of dispatch
	buffer []byte        // scratch of Actions.Buffer
	spare  spareAnswers

	bytesIn, bytesOut atomic.Uint64
}

// bufferSize is enough for the requests of locks with short names. Larger buffers must not be reused: see
// loop.Shared.
const bufferSize = 1024

// use takes over a new command table.
func (w *worker) use(t *commands.Table) {
	w.table = t
	w.counters.Use(t.Commands())
}

// count counts a command that has been answered.
func (w *worker) count(a *answer) {
	if a.counter != nil {
		a.counter.Observe(w.loop.Now().Sub(a.start), a.failed, a.by)
	}
}

// background runs task on a goroutine, then then on the loop. A drain waits for both.
func (w *worker) background(task, then func()) {
	w.server.tasks.Add(1)
	go func() { // ends with task
		defer w.server.tasks.Done() // the loop stays open until then
		task()
		w.loop.Post(then)
	}()
}

// watch sets whether commands need attention.
func (w *worker) watch() { w.alert = w.clients.Alert() || len(w.watchers.own) > 0 }

// peers are the clients of the loop as others see them.
func (w *worker) peers(yield func(clients.Client) bool) {
	for s := range w.sessions {
		if !yield(peer{s}) {
			return
		}
	}
}

// counted are the clients of the loop as memory counts them.
func (w *worker) counted(yield func(memory.Client) bool) {
	for s := range w.sessions {
		if !yield(&s.footprint) {
			return
		}
	}
}

// serve begins to serve a client that has come in.
func (w *worker) serve(s *session, n door.Newcomer) {
	conn, err := n.Join(w.loop, s)
	if err != nil {
		w.server.o.Log.Error("client refused", "client", s.Addr, "err", err)
		w.server.Left()
		return
	}
	s.conn, s.active = conn, w.loop.Now()
	if w.pool.StuckEpoch() != 0 { // others ask for long replies, and this client may, too
		s.window.size = 1
	}
	w.add(s)
	if w.draining {
		s.drain()
	}
}

func (w *worker) add(s *session) {
	w.sessions[s] = struct{}{}
	s.CountMemory()
	w.server.all.Add(s.ID, peer{s})
}

func (w *worker) remove(s *session) {
	delete(w.sessions, s)
	w.server.all.Remove(s.ID)
	w.server.Left()
}

// tidy closes clients that have been idle for too long, and looks after those that block. It runs once a
// second.
func (w *worker) tidy() {
	if idle := w.server.now.Load().IdleTimeout; idle > 0 {
		for s := range w.sessions {
			if w.loop.Now().Sub(s.active) > idle && idles(s) {
				s.conn.Close()
			}
		}
	}
	limit := w.server.now.Load().AuthTimeout
	for s := range w.sessions {
		if s.out.full.Any() {
			s.out.check()
		}
		if s.Blocked {
			s.blocking.Look(w.loop.Now())
		}
		if s.attempts.Overdue(s.Authenticated, w.loop.Now(), limit) {
			w.server.authTimeouts.Add(1)
			w.server.o.Log.Debug("client closed: auth-timeout", "client", s.Addr)
			s.conn.Close()
		}
	}
	w.roster.look()
	if w.index == 0 {
		w.server.failures.CatchUp(w.server.o.Log)
	}
	w.loop.After(time.Second, w.tidy)
}

// idles says that the client could send a command but does not, and that it neither keeps a lock alive nor
// waits for one: a client at work under a lock has nothing to send meanwhile.
func idles(s *session) bool {
	return (s.answers.len() == 0 || s.upload.waits()) && s.hold&client.HoldPause == 0 && !s.Subscribed() &&
		!s.Monitoring && !s.Watching && !s.Keepalives.Any() && !s.Waits.Any()
}
