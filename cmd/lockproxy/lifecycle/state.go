// Package lifecycle is how the process begins and ends: what it does now, whose its listening sockets are,
// and who is told.
//
//	State     starting --> serving --> leaving --> draining: what /readyz says, and who has the clients
//	Ports     listening sockets: its own, and those of the service manager (Activate)
//	Manager   systemd, or who speaks its protocol: ready, reloading, stopping, watchdog
//
// None of them knows the program, which has one of each.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"lockproxy/cmd/lockproxy/adminpage"
	"lockproxy/proxy"
	"lockproxy/proxy/door"
)

// Plane is the data plane as the program sees it. All of it may be called from any goroutine; Drain is called
// once, and ends it.
type Plane interface {
	Stats() proxy.Stats
	door.Successor // Serve serves one address of the setting listen until Drain
	// Turns returns nil once all event loops have had a round.
	Turns(ctx context.Context) error
	// Ready says why the proxy cannot serve commands now, or nil.
	Ready() error
	// Drain takes no new clients, answers waiters and the commands that have
	// come, and ends all connections, at the latest when ctx ends.
	Drain(ctx context.Context) error
}

// State is what the program does now: starting, serving, draining. Safe for concurrent use. The zero State is
// starting. It goes forward only, and each step may be noted from another goroutine.
type State struct {
	plane    atomic.Pointer[Plane]      // nil: starting
	early    atomic.Pointer[door.Early] // has the clients now; nil: none do, or the plane does
	failed   atomic.Pointer[error]      // why it is still starting, if that is known
	leaving  atomic.Bool
	draining atomic.Bool
}

// what /readyz says, for people who look why
var (
	errStarting = errors.New("starting: the upstream's topology is not known yet")
	errLeaving  = errors.New("draining begins soon: this process is about to end, and serves until then")
	errDraining = errors.New("draining: this process is about to end")
)

// Serve says that p serves.
func (s *State) Serve(p Plane) { s.plane.Store(&p) }

// WaitAt says that early has the clients now; nil: the plane.
func (s *State) WaitAt(early *door.Early) { s.early.Store(early) }

// Waits notes why the program cannot serve yet.
func (s *State) Waits(why error) { s.failed.Store(&why) }

// Why says why the program cannot serve yet, as far as that is known.
func (s *State) Why() error {
	if why := s.failed.Load(); why != nil {
		return *why
	}
	return nil
}

// Now is the plane; nil: there is none yet.
func (s *State) Now() Plane {
	if p := s.plane.Load(); p != nil {
		return *p
	}
	return nil
}

// Leave notes that clients should go elsewhere. It reports whether there is a plane, which serves meanwhile.
func (s *State) Leave() bool {
	s.leaving.Store(true)
	return s.Now() != nil
}

// Drain notes that the end has begun. It returns what has to be drained; nil if nothing serves yet.
func (s *State) Drain() Plane {
	s.draining.Store(true)
	return s.Now()
}

// Ready says why commands cannot be served now, or nil.
func (s *State) Ready() error {
	p, failed := s.Now(), s.Why()
	switch {
	// The order: what is nearest to the end counts.
	case s.draining.Load():
		return errDraining
	case s.leaving.Load():
		return errLeaving
	case p == nil && failed != nil:
		return fmt.Errorf("starting: %w", failed)
	case p == nil:
		return errStarting
	}
	return p.Ready()
}

// Stats implements admin.Program.
func (s *State) Stats() (st proxy.Stats) {
	// Until Open has handed the clients over the plane has none, and would count 0.
	if early := s.early.Load(); early != nil {
		st.Clients, st.ClientsTotal, st.ClientsRejected = early.Counts()
	} else if p := s.Now(); p != nil {
		st = p.Stats()
	}
	return st
}

// Source implements admin.Program.
func (s *State) Source() adminpage.Source {
	// planes of tests have none
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
