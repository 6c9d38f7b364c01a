package proxy

import (
	"iter"
	"sync/atomic"
	"time"

	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/loop"
	"lockproxy/proxy/client"
	"lockproxy/proxy/clients"
	"lockproxy/proxy/door"
	"lockproxy/proxy/memory"
	"lockproxy/proxy/nodes"
	"lockproxy/proxy/pubsub"
	"lockproxy/proxy/stats"
	"lockproxy/proxy/watch"
)

// worker is one loop with all that belongs to it: its clients, its pipes and its counters. Other goroutines
// touch only the atomics.
type worker struct {
	shared *Shared
	// Its place in Server.workers, which is also that in clients.All: IndexOf leads here.
	index int
	loop  *loop.Loop
	pool  *pipe.Pool
	hub   *pubsub.Hub
	// nil before the first Use. No client is served before that.
	table     *commands.Table
	counters  stats.Loop
	sessions  map[*session]struct{}
	memory    *memory.Loop
	checkFrom int // bytes that may wait for a client before its limits are checked
	draining  bool
	clients   *clients.Loop
	watchers  *watch.Loop
	nodes     *nodes.Nodes
	later     *loop.Later
	roster    roster

	// Scratch memory: a loop looks at one input at a time.
	args   [][]byte      // scratch of Read
	input  int           // size of the input that Read is looking at
	call   commands.Call // scratch of router.Act
	buffer []byte        // scratch of Actions.Buffer
	spare  spareAnswers

	bytesIn, bytesOut atomic.Uint64
}

// bufferSize is enough for the requests of locks with short names. Larger buffers must not be reused: see
// loop.Shared.
const bufferSize = 1024

// NewWorker is a loop without clients. It has to be run. budget is how long a node may be silent.
func NewWorker(shared *Shared, index int, l *loop.Loop, pool *pipe.Pool, topics pubsub.Upstream,
	budget time.Duration) *worker {
	w := &worker{
		shared: shared, index: index, loop: l, pool: pool, later: loop.NewLater(l),
		nodes:     nodes.New(pool, &shared.Pipes, shared.Log),
		sessions:  make(map[*session]struct{}),
		checkFrom: shared.Now.Load().Output.CheckFrom(narrowFrom),
		counters:  shared.Counters.Loop(),
		buffer:    make([]byte, 0, bufferSize),
	}
	w.roster.w = w
	w.hub = pubsub.NewHub(l, topics, &shared.Underway, budget, w.later.Late)
	w.memory = shared.Memory.Loop(l, seenAs(w, func(s *session) memory.Client { return &s.footprint }))
	w.watchers = shared.Watchers.Loop(l)
	other := func(s *session) clients.Client { return otherClient{s} }
	w.clients = shared.Clients.Loop(l, pool, w.later, seenAs(w, other))
	l.After(time.Second, w.tidySessions)
	return w
}

// Use takes over a new command table. Any goroutine may call it. Commands under way keep what they have of
// the old one.
func (w *worker) Use(t *commands.Table) {
	w.loop.Post(func() {
		w.table = t
		w.counters.Use(t.Commands())
	})
}

// Change takes over new settings. Any goroutine may call it.
func (w *worker) Change() {
	w.loop.Post(func() {
		w.checkFrom = w.shared.Now.Load().Output.CheckFrom(narrowFrom)
		w.memory.Report()
	})
}

// Come serves a client that has come in. It may be called on any goroutine. A loop that has ended serves
// nobody: then the client is turned away.
func (w *worker) Come(n door.Newcomer, authenticated bool) {
	s := newSession(commands.Client{
		ID: n.ID, Addr: n.Addr, LocalAddr: n.Local, Unix: n.Unix,
		Created: time.Now(), Proto: 2, Authenticated: authenticated,
	}, w)
	if n.On == w.loop {
		w.serveClient(s, n)
	} else if !w.loop.Post(func() { w.serveClient(s, n) }) {
		n.Refuse()
		w.shared.Left()
	}
}

// Drain ends the sessions once what they have read is answered. It returns at once. Clients that come later
// are drained as soon as they are served.
func (w *worker) Drain() {
	w.loop.Post(func() {
		w.draining = true
		for s := range w.sessions {
			s.drainSession()
		}
	})
}

// Halt makes all clients begin no more commands, and returns how many answers they are owed. It runs on the
// loop. It may be called more than once.
func (w *worker) Halt() (owed int) {
	for s := range w.sessions {
		s.SetHold(client.HoldClosing)
		s.closeIfAnswered()
		owed += s.answers.len()
	}
	return owed
}

// Post is that of the loop.
func (w *worker) Post(f func()) bool { return w.loop.Post(f) }

// countCommand counts a command that has been answered. There is no counter for an answer that no command of
// the table asked for: the empty one before HELLO, or the error for bytes that are no command.
func (w *worker) countCommand(a *answer) {
	if a.counter != nil {
		a.counter.Observe(w.loop.Now().Sub(a.start), a.failed, a.by)
	}
}

// alert says that clients are paused or monitored, or watch locks: see router.attendCommand. It is asked for
// each command, so these are a few comparisons.
func (w *worker) alert() bool { return w.clients.Alert() || w.watchers.Any() }

// seenAs walks over the clients of the loop. as makes of each what the caller sees.
func seenAs[T any](w *worker, as func(*session) T) iter.Seq[T] {
	return func(yield func(T) bool) {
		for s := range w.sessions {
			if !yield(as(s)) {
				return
			}
		}
	}
}

// serveClient begins to serve a client that has come in. It runs on the loop. On an error there is no
// session, and the client is counted out at once.
func (w *worker) serveClient(s *session, n door.Newcomer) {
	conn, err := n.Join(w.loop, s)
	if err != nil {
		w.shared.Log.Error("client refused", "client", s.Addr, "err", err)
		w.shared.Left()
		return
	}
	s.conn, s.active = conn, w.loop.Now()
	if w.pool.StuckEpoch() != 0 { // others ask for long replies, and this client may, too
		s.window.Size = 1
	}
	w.sessions[s] = struct{}{}
	s.CountMemory()
	w.shared.Clients.Add(s.ID, otherClient{s}) // from now on others see it
	if len(n.Came) > 0 {
		conn.Offer(n.Came)
	}
	if w.draining {
		s.drainSession()
	}
}

// tidySessions closes clients that have been idle for too long, and looks after those that block. It runs
// once a second. Time-outs of clients are so exact only to a second, and cost no timer for each of them.
func (w *worker) tidySessions() {
	is, now := w.shared.Now.Load(), w.loop.Now()
	for s := range w.sessions {
		if is.IdleTimeout > 0 && now.Sub(s.active) > is.IdleTimeout && idles(s) {
			s.conn.Close()
			continue
		}
		// The soft limit is one of time, so it may be exceeded while nothing happens.
		if s.out.full.Any() {
			s.out.checkLimits()
		}
		if s.Blocked {
			s.blocking.Look(now)
		}
		if s.attempts.Overdue(s.Authenticated, now, is.AuthTimeout) {
			w.shared.Login.Timeouts.Add(1)
			w.shared.Log.Debug("client closed: auth-timeout", "client", s.Addr)
			s.conn.Close()
		}
	}
	w.roster.askRules()
	// It is for all loops, so one of them does it.
	if w.index == 0 {
		w.shared.Login.Failures.CatchUp(w.shared.Log)
	}
	w.loop.After(time.Second, w.tidySessions)
}

// idles says that the client could send a command but does not, and that it neither keeps a lock alive nor
// waits for one: a client at work under a lock has nothing to send meanwhile. Nor does it wait for an answer,
// or listen to something that may come.
func idles(s *session) bool {
	return (s.answers.len() == 0 || s.upload.waitsForClient()) && s.hold&client.HoldPause == 0 &&
		!s.Subscribed() && !s.Monitoring && !s.Watching && !s.Keepalives.Any() && !s.Waits.Any()
}

// masters is how many masters the upstream has now.
func (w *worker) masters() int { return len(w.pool.Topology().Masters) }
