// Package clients is what concerns the clients of all loops: CLIENT LIST and KILL, UNBLOCK, PAUSE, MONITOR.
//
//	All --> Loop: the clients of one loop --> Client: one of them, as others see it
//	          |-- Monitor: its part in MONITOR    PausedClient: its part in CLIENT PAUSE
//
// A command of one client about others (Commands) asks each loop, and is answered when all of them have.
package clients

import (
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/loop"
	"lockproxy/proxy/client"
)

// All is the clients of all loops. Safe for concurrent use.
type All struct {
	Scripts *commands.Scripts
	Held    atomic.Int64 // clients that CLIENT PAUSE holds

	paused     atomic.Pointer[Paused]
	monitoring atomic.Int64 // clients in MONITOR
	begun      atomic.Int64 // how often there was a first one
	loops      []*Loop      // by index
	// Each client that is connected, whichever loop it is on. Any goroutine may look there, but what it finds
	// may be used on the client's loop only.
	byID sync.Map // int64 to Client
}

// Add notes a client, Remove forgets it.
func (a *All) Add(id int64, c Client) { a.byID.Store(id, c) }
func (a *All) Remove(id int64)        { a.byID.Delete(id) }

// Find is the client with this ID; nil: there is none.
func (a *All) Find(id int64) Client {
	found, _ := a.byID.Load(id)
	c, _ := found.(Client)
	return c
}

// Paused is a CLIENT PAUSE. It is never changed once others can see it.
type Paused struct {
	Kind  commands.Pause
	Until time.Time
}

// Paused is the pause of the first loop; nil: there is none. All loops are paused and let go together, so the
// first one speaks for all.
func (a *All) Paused() *Paused { return a.paused.Load() }

// Client is a client as others see it. Its methods run on its loop.
type Client interface {
	// Describe describes it; false: it has gone.
	Describe(p *commands.Peer) bool
	// Unblock ends its wait as CLIENT UNBLOCK does. ended is told, at once or later, whether it did.
	Unblock(withError bool, ended func(bool))
	Close()
}

// Loop is the clients of one loop, to which it belongs.
type Loop struct {
	*loop.Loop
	all     *All
	index   int // in All.loops
	pool    *pipe.Pool
	later   *loop.Later
	clients iter.Seq[Client]

	pause    pause
	monitors monitors
}

// Loop makes one more loop, before there is any client. clients are those that it has.
func (a *All) Loop(l *loop.Loop, pool *pipe.Pool, later *loop.Later, clients iter.Seq[Client]) *Loop {
	one := &Loop{Loop: l, all: a, index: len(a.loops), pool: pool, later: later, clients: clients}
	one.pause.held = make(map[*PausedClient]struct{})
	one.monitors.own = make(map[*Monitor]struct{})
	a.loops = append(a.loops, one)
	return one
}

// Alert says that clients are paused or monitored: then commands need attention. It is asked for each
// command, so it costs no more than two comparisons.
func (l *Loop) Alert() bool { return l.pause.Kind != commands.PauseNone || l.all.monitoring.Load() > 0 }

// IndexOf is the index of the loop of the client with this ID, which need not exist. So a client's loop
// follows from its ID, and nobody has to remember it.
func (a *All) IndexOf(id int64) int { return int(uint64(id) % uint64(len(a.loops))) }

// onEach runs f on every loop, and after all of them answers the current command of h, which is on l, with
// reply. Later commands of h wait. f runs on each of the loops, and must touch only what belongs to that one.
func (l *Loop) onEach(h client.Host, f func(l *Loop), reply []byte) {
	h.AnswerLater(client.ByProxy)
	h.SetHold(client.HoldOrder)
	tag := h.CurrentTag()
	loop.Each(l.all.loops, f, func() { l.Post(func() { h.Answer(tag, reply) }) })
}
