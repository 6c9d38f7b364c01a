package trace

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

var (
	errDropped = errors.New("the client closed its connection")
	errCut     = errors.New("the proxy closed the connection")

	// ErrMessages is part of what Conn.Do says when the connection for messages breaks: then the client
	// closes the other one, too.
	ErrMessages = errors.New("the connection for messages broke")
	errQuit     = errors.New("the client said QUIT or RESET")
)

// Round is one run of clients over locks, and what they may do.
type Round struct {
	Seed    uint64
	Keys    []string
	Clients int
	Groups  int // into which clients and keys are divided, and which do not meet; 0: all are one
	Proxies int
	For     time.Duration // clients begin no new call after it
	Think   time.Duration // between calls, on average
	Slacks  Slacks
	Earlier []Event // what is felt of the round before; times are negative
	Dial    func(proxy int) (Conn, error)

	// Probe has calls timed that no lock can delay, through each proxy: when they are
	// slow, so is the machine.
	Probe bool

	// Timeless: order and time are not judged, as if the machine stood still all the time. What is safe at
	// any time is.
	Timeless bool

	// Quorum: the locks are kept by independent masters. No lease is shorter than Shortest.
	Quorum   bool
	Shortest time.Duration
	// Moves: the locks move from one node to another.
	Moves bool
	// Stall, if not 0, is how late the machine may be at most without a note of that.
	Stall time.Duration

	// What is asked for only where the locks have it.
	Upgrades, Keepalive, Guards, Notify, Linger, AtLeast, Breaks, Sets, Looks bool

	// Semaphores are those of the Keys that are semaphores, and how many permits they have.
	Semaphores map[string]int64

	// Faults, if not nil, runs beside the clients until ctx ends, which it does when they
	// are done, and notes what it does in the log.
	Faults func(ctx context.Context, random *rand.Rand, r *Running)
}

// Running is a round under way. It is safe for concurrent use.
type Running struct {
	Round
	start time.Time

	mu      sync.Mutex
	ops     []Op
	events  []Event
	clients []*client
}

// Run runs the round to its end and returns its history.
func (r Round) Run() *History {
	if r.Stall == 0 {
		r.Stall = stall
	}
	run := &Running{Round: r, start: time.Now(), events: slices.Clone(r.Earlier)}
	for n := range r.Clients {
		c := newClient(run, n)
		if run.clients = append(run.clients, c); r.Looks {
			c.third = newClient(run, r.Clients+n)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var clients, others sync.WaitGroup
	if r.Faults != nil {
		others.Go(func() { r.Faults(ctx, rand.New(rand.NewPCG(r.Seed, 1<<32)), run) })
	}
	for n := range r.Proxies {
		if r.Probe {
			others.Go(func() { run.probe(ctx, n) })
		}
	}
	for _, c := range run.clients {
		clients.Go(c.run)
	}
	clients.Wait()
	cancel()
	others.Wait()
	if r.Timeless {
		run.events = append(run.events, Event{Name: "no clock", Start: -1, End: run.Now()})
	}
	return &History{Seed: r.Seed, Took: run.Now(), Keys: r.Keys, Slacks: r.Slacks, Quorum: r.Quorum,
		Moves: r.Moves, Ops: run.ops, Events: run.events}
}

// Now is the time since the round began.
func (r *Running) Now() time.Duration { return time.Since(r.start) }

// Note puts an event into the log.
func (r *Running) Note(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// Kill closes the connection of a client at once, whatever it waits for.
func (r *Running) Kill(client int) { r.clients[client].kill() }

// Cut has the proxy close the connection of a client.
func (r *Running) Cut(client int) {
	if link := r.clients[client].shut(); link != nil {
		link.Cut()
	}
}

// Shut runs how, which has a proxy close connections of its clients.
func (r *Running) Shut(proxy int, how func()) {
	for _, c := range r.clients {
		if link := c.link.Load(); link != nil && link.proxy == proxy {
			c.shut()
		}
	}
	how()
}

// Rest has a client do nothing for d before its next call.
func (r *Running) Rest(client int, d time.Duration) { r.clients[client].rest.Store(int64(d)) }

func (r *Running) record(ops ...Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, ops...)
}

// stall is how late a timer must be for the machine to count as standing still.
const stall = 150 * time.Millisecond

// probing is the pause between two probes: less than any time-out that the machine may be too slow for.
const probing = 20 * time.Millisecond

// probe notes when the machine stands still, or a proxy and the Redis behind it are slow at what needs no
// waiting. Masters that did not answer in time are asked nothing until they do: so long it goes on, though
// NOQUORUM comes at once.
func (r *Running) probe(ctx context.Context, proxy int) {
	stalled := false
	for n := 0; ctx.Err() == nil; time.Sleep(probing) {
		start := r.Now()
		conn, err := r.Dial(proxy)
		for ; err == nil && ctx.Err() == nil; n++ {
			time.Sleep(probing)
			var said Reply
			said, err = conn.Do(2*time.Second, "LOCKCTL", "CHECK", r.Keys[n%len(r.Keys)], "probe")
			stalled = r.Now()-start > probing+r.Stall || stalled && strings.HasPrefix(said.Error, "NOQUORUM ")
			if stalled {
				r.Note(Event{Name: "stall", Start: start, End: r.Now(), Settle: 500 * time.Millisecond})
			}
			start = r.Now()
		}
		if conn != nil {
			conn.Close()
		}
	}
}
