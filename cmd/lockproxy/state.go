package main

import (
	"errors"
	"fmt"
	"sync"

	"lockproxy/proxy"
)

// state is where the program stands: starting, serving, draining. Safe for
// concurrent use.
type state struct {
	mu       sync.Mutex
	plane    plane // nil: starting
	failed   error // why it is still starting, if that is known
	draining bool
}

var errDraining = errors.New("draining: this process is about to end")

func (s *state) set(p plane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plane = p
}

// waits notes why the program cannot serve yet.
func (s *state) waits(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = why
}

// drain notes that the end has begun and returns what is to be drained, nil if
// nothing serves yet.
func (s *state) drain() plane {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	return s.plane
}

// Ready says why commands cannot be served now, or nil.
func (s *state) Ready() error {
	s.mu.Lock()
	p, draining, failed := s.plane, s.draining, s.failed
	s.mu.Unlock()
	switch {
	case draining:
		return errDraining
	case p == nil && failed != nil:
		return fmt.Errorf("starting: %w", failed)
	case p == nil:
		return errStarting
	}
	return p.Ready()
}

// Stats implements Source.
func (s *state) Stats() proxy.Stats {
	s.mu.Lock()
	p := s.plane
	s.mu.Unlock()
	if p == nil {
		return proxy.Stats{}
	}
	return p.Stats()
}
