package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
)

// life is what the servers of one fault belong to. It is a rig.Life.
type life struct {
	mu       sync.Mutex
	cleanups []func()
	errors   []string
}

// broken is what Fatalf panics with, for attempt.
type broken string

func (l *life) Helper() {}

func (l *life) Cleanup(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cleanups = append(l.cleanups, f)
}

func (l *life) Fatalf(format string, args ...any) { panic(broken(fmt.Sprintf(format, args...))) }

func (l *life) Errorf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errors = append(l.errors, fmt.Sprintf(format, args...))
}

// Failed is false: a life that has failed is over.
func (l *life) Failed() bool { return false }

func (l *life) Logf(string, ...any) {}

// TempDir is in memory, if the system has that: a disk that others use too would be a fault of its own.
func (l *life) TempDir() string {
	dir, err := os.MkdirTemp("/dev/shm", "lockproxy-chaos-")
	if err != nil {
		dir, err = os.MkdirTemp("", "lockproxy-chaos-")
	}
	if err != nil {
		l.Fatalf("%v", err)
	}
	l.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// attempt runs f, and says why it did not get to its end.
func (l *life) attempt(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case broken:
			err = fmt.Errorf("%s", strings.TrimSpace(string(r)))
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

// end ends what was started, the last one first, and returns what was wrong with it.
func (l *life) end() []string {
	for {
		l.mu.Lock()
		if len(l.cleanups) == 0 {
			defer l.mu.Unlock()
			return l.errors
		}
		last := l.cleanups[len(l.cleanups)-1]
		l.cleanups = l.cleanups[:len(l.cleanups)-1]
		l.mu.Unlock()
		if err := l.attempt(last); err != nil {
			l.Errorf("%v", err)
		}
	}
}
