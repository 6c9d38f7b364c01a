// Package lifecycle is how the process begins and ends: what it does now, whose its listening sockets are,
// and who
// is told.
//
//	State     starting --> serving --> leaving --> draining: what /readyz says, and who has the clients
//	Ports     listening sockets: its own, those of the service manager (Activate), and those of the process
//	          before this one (TakeOver); HandOver gives them to the next
//	Manager   systemd, or who speaks its protocol: ready, reloading, stopping, watchdog
//
// None of them knows the program, which has one of each.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"lockproxy/cmd/lockproxy/adminpage"
	"lockproxy/proxy"
	"lockproxy/proxy/door"
)

// Plane is the data plane as the program sees it.
type Plane interface {
	Stats() proxy.Stats
	door.Successor // Serve serves one address of the setting listen until Drain
	// Turns returns nil once all event loops have had a round.
	Turns(ctx context.Context) error
	// Leave stops listening, and leaves the sockets to processes that have copies of them.
	Leave()
	// Ready says why the proxy cannot serve commands now, or nil.
	Ready() error
	// Drain takes no new clients, answers waiters and the commands that have
	// come, and ends all connections, at the latest when ctx ends.
	Drain(ctx context.Context) error
}

// State is what the program does now: starting, serving, draining. Safe for concurrent use.
type State struct {
	mu       sync.Mutex
	plane    Plane       // nil: starting
	early    *door.Early // has the clients now; nil: none do, or the plane does
	failed   error       // Why it is still starting, if that is known
	leaving  bool
	draining bool
}

var (
	errStarting = errors.New("starting: the upstream's topology is not known yet")
	errLeaving  = errors.New("draining begins soon: this process is about to end, and serves until then")
	errDraining = errors.New("draining: this process is about to end")
)

// Serve says that p serves.
func (s *State) Serve(p Plane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plane = p
}

// WaitAt says that early has the clients now; nil: the plane.
func (s *State) WaitAt(early *door.Early) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.early = early
}

// Waits notes why the program cannot serve yet.
func (s *State) Waits(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = why
}

// Why says why the program cannot serve yet, as far as that is known.
func (s *State) Why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// Now is the plane; nil: there is none yet.
func (s *State) Now() Plane {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.plane
}

// Leave notes that clients should go elsewhere. It reports whether there is a plane, which serves meanwhile.
func (s *State) Leave() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = true
	return s.plane != nil
}

// Drain notes that the end has begun. It returns what has to be drained; nil if nothing serves yet.
func (s *State) Drain() Plane {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	return s.plane
}

// Ready says why commands cannot be served now, or nil.
func (s *State) Ready() error {
	s.mu.Lock()
	p, leaving, draining, failed := s.plane, s.leaving, s.draining, s.failed
	s.mu.Unlock()
	switch {
	case draining:
		return errDraining
	case leaving:
		return errLeaving
	case p == nil && failed != nil:
		return fmt.Errorf("starting: %w", failed)
	case p == nil:
		return errStarting
	}
	return p.Ready()
}

// Stats implements admin.Program.
func (s *State) Stats() proxy.Stats {
	s.mu.Lock()
	p, early := s.plane, s.early
	s.mu.Unlock()
	switch {
	case early != nil:
		var st proxy.Stats
		st.Clients, st.ClientsTotal, st.ClientsRejected = early.Counts()
		return st
	case p == nil:
		return proxy.Stats{}
	}
	return p.Stats()
}

// Source implements admin.Program.
func (s *State) Source() adminpage.Source {
	if seen, ok := s.Now().(interface{ View() proxy.View }); ok {
		return seen.View()
	}
	return nil
}

// Turns returns nil once all event loops, if there are any yet, have had a round.
func (s *State) Turns(ctx context.Context) error {
	if pl := s.Now(); pl != nil {
		return pl.Turns(ctx)
	}
	return nil
}
