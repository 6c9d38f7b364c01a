package rig

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
)

// Life is what a started thing belongs to: a test, or the whole package. Every
// testing.TB is one.
type Life interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
	Failed() bool
	Logf(format string, args ...any)
	TempDir() string
}

// packageLife is the life of what several tests share. It ends after the last
// test.
var packageLife = &OwnLife{}

// OwnLife is the life of what belongs to no test, and ends with End. Fatalf ends what runs in Attempt.
type OwnLife struct {
	mu       sync.Mutex
	cleanups []func()
	errors   []string
}

// broken is what Fatalf panics with.
type broken string

func (l *OwnLife) Helper() {}

func (l *OwnLife) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func (l *OwnLife) Cleanup(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cleanups = append(l.cleanups, f)
}

func (l *OwnLife) Fatalf(format string, args ...any) { panic(broken(fmt.Sprintf(format, args...))) }

func (l *OwnLife) Errorf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errors = append(l.errors, fmt.Sprintf(format, args...))
}

func (l *OwnLife) Failed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.errors) > 0
}

func (l *OwnLife) TempDir() string {
	dir, err := os.MkdirTemp("", "lockproxy-test-")
	if err != nil {
		l.Fatalf("%v", err)
	}
	l.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Attempt runs f, and says why it did not get to its end.
func (l *OwnLife) Attempt(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case broken:
			err = errors.New(strings.TrimSpace(string(r)))
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

// End ends what was started, the last one first, and returns what was wrong with it.
func (l *OwnLife) End() []string {
	for {
		l.mu.Lock()
		n := len(l.cleanups) - 1
		if n < 0 {
			defer l.mu.Unlock()
			return l.errors
		}
		last := l.cleanups[n]
		l.cleanups = l.cleanups[:n]
		l.mu.Unlock()
		if err := l.Attempt(last); err != nil {
			l.Errorf("%v", err)
		}
	}
}

// Shared makes something once, when the first test asks for it, for all tests
// of the package.
func Shared[T any](start func(Life) T) func() T {
	return sync.OnceValue(func() T { return start(packageLife) })
}
