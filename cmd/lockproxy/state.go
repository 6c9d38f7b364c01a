package main

import (
	"errors"
	"fmt"
	"sync"

	"lockproxy/cmd/lockproxy/adminpage"
	"lockproxy/proxy"
	"lockproxy/proxy/door"
)

// state is what the program does now: starting, serving, draining. Safe for concurrent use.
type state struct {
	mu       sync.Mutex
	plane    plane       // nil: starting
	early    *door.Early // has the clients now; nil: none do, or the plane does
	failed   error       // why it is still starting, if that is known
	leaving  bool
	draining bool
}

var (
	errLeaving  = errors.New("draining begins soon: this process is about to end, and serves until then")
	errDraining = errors.New("draining: this process is about to end")
)

func (s *state) set(p plane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plane = p
}

// waitAt says that early has the clients now; nil: the plane.
func (s *state) waitAt(early *door.Early) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.early = early
}

// waits notes why the program cannot serve yet.
func (s *state) waits(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = why
}

// why says why the program cannot serve yet, as far as that is known.
func (s *state) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// now is the plane; nil: there is none yet.
func (s *state) now() plane {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.plane
}

// leave notes that clients should go elsewhere. It reports whether there is a plane, which serves meanwhile.
func (s *state) leave() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = true
	return s.plane != nil
}

// drain notes that the end has begun. It returns what has to be drained; nil if nothing serves yet.
func (s *state) drain() plane {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	return s.plane
}

// Ready says why commands cannot be served now, or nil.
func (s *state) Ready() error {
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
func (s *state) Stats() proxy.Stats {
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
func (s *state) Source() adminpage.Source {
	if seen, ok := s.now().(interface{ View() proxy.View }); ok {
		return seen.View()
	}
	return nil
}
