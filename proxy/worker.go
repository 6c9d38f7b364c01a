package proxy

import (
	"sync/atomic"
	"time"

	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/loop"
	"lockproxy/proxy/client"
	"lockproxy/proxy/pubsub"
)

// worker is one loop with all that lives on it: its clients, its pipes and its
// counters. Only the atomics are touched from elsewhere.
type worker struct {
	server   *Server
	index    int // in server.workers
	loop     *loop.Loop
	pool     *pipe.Pool
	hub      *pubsub.Hub
	table    *commands.Table
	counters []*counter // by Command.ID of table
	byName   map[string]*counter
	sessions map[*session]struct{}
	blocked  map[int64]*session     // by ID: those in a command that blocks, or waiting for locks
	full     map[*session]time.Time // more than their soft limit waits for them, since then
	unknown  strangers
	memory   loopMemory
	crowded  int // bytes that may wait for a client without a look at its limits
	draining bool
	alert    bool // clients are paused or monitored: see router.attend
	pause    pause
	monitors monitors
	scans    scans
	turns    turns
	roster   roster

	readsFrom int8          // clients whose ReadOnly is at least this read from replicas
	slow      time.Duration // what took so long stands in the slow logs of the nodes; below 0: nothing does

	args  [][]byte      // scratch of Read
	input int           // bytes that Read is looking at
	call  commands.Call // scratch of dispatch
	room  []byte        // scratch of Room
	spare [][]answer    // queues of firstAnswers entries, for re-use

	bytesIn, bytesOut atomic.Uint64
}

// roomSize is enough for the requests of locks whose names are not long. More must not be used again: see
// loop.Shared.
const roomSize = 1024

// maxSpareAnswers bounds the queues that a worker keeps for re-use.
const maxSpareAnswers = 256

func (w *worker) takeAnswers() []answer {
	if last := len(w.spare) - 1; last >= 0 {
		q := w.spare[last]
		w.spare = w.spare[:last]
		return q
	}
	return make([]answer, firstAnswers)
}

func (w *worker) giveAnswers(q []answer) {
	if len(q) == firstAnswers && len(w.spare) < maxSpareAnswers {
		w.spare = append(w.spare, q)
	}
}

// use takes over a new command table.
func (w *worker) use(t *commands.Table) {
	w.table = t
	all := t.Commands()
	w.counters = make([]*counter, len(all))
	for i, cmd := range all {
		c := w.byName[cmd.Name]
		if c == nil {
			c = &counter{name: cmd.Name}
			w.server.counters.add(c)
			w.byName[cmd.Name] = c
		}
		c.writes, c.blocks = cmd.Flags&commands.Write != 0, cmd.Flags&commands.Blocking != 0
		w.counters[i] = c
	}
}

// count notes that an answer has been given.
func (w *worker) count(s *session, a *answer) {
	if a.counter == nil {
		return
	}
	took := w.loop.Now().Sub(a.start)
	a.counter.observe(took, a.failed)
	switch {
	case a.by != client.ByNode:
		a.counter.observeOwn(took, a)
	case took >= w.slow && w.slow >= 0:
		w.server.slow.note(s, a, took)
	}
}

// background has a goroutine run task, and then the loop run then. A drain waits for both.
func (w *worker) background(task, then func()) {
	w.server.tasks.Add(1)
	go func() { // ends with task
		defer w.server.tasks.Done() // until then the loop is open
		task()
		w.loop.Post(then)
	}()
}

func (w *worker) add(s *session) {
	w.sessions[s] = struct{}{}
	s.CountMemory()
	w.server.byID.Store(s.ID, s)
}

func (w *worker) remove(s *session) {
	delete(w.sessions, s)
	delete(w.unknown, s)
	w.server.byID.Delete(s.ID)
	w.server.clients.Add(-1)
	w.server.sessions.Done()
}

// tidy closes clients that have been idle for too long, and looks after those that block; it
// runs once a second.
func (w *worker) tidy() {
	if idle := w.server.now.Load().IdleTimeout; idle > 0 {
		for s := range w.sessions {
			if w.loop.Now().Sub(s.active) > idle && idles(s) {
				s.conn.Close()
			}
		}
	}
	w.closeStrangers(w.server.now.Load().AuthTimeout)
	w.lookAtBlocked()
	w.roster.look()
	w.checkFull()
	if w.index == 0 {
		w.server.failures.CatchUp(w.server.o.Log)
	}
	w.loop.After(time.Second, w.tidy)
}

// idles says that nothing but the client's own silence keeps it from sending a command, and that it keeps
// no lock alive: who works under a lock has nothing to say meanwhile.
func idles(s *session) bool {
	return s.answers.len() == 0 && s.hold&client.HoldPause == 0 && !s.Subscribed() && !s.Monitoring &&
		!s.Keepalives.Any()
}
