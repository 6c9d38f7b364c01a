package rig

import (
	"fmt"
	"os"
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
var packageLife = &sharedLife{}

type sharedLife struct {
	mu       sync.Mutex
	cleanups []func()
	failed   bool
}

func (l *sharedLife) Helper() {}

func (l *sharedLife) Cleanup(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cleanups = append(l.cleanups, f)
}

func (l *sharedLife) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (l *sharedLife) Errorf(format string, args ...any) {
	l.failed = true
	fmt.Fprintf(os.Stderr, "integration: "+format+"\n", args...)
}

func (l *sharedLife) Failed() bool { return l.failed }

func (l *sharedLife) Logf(format string, args ...any) {}

func (l *sharedLife) TempDir() string {
	dir, err := os.MkdirTemp("", "lockproxy-test-")
	if err != nil {
		panic(err)
	}
	l.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// end runs the clean-ups, the last one first.
func (l *sharedLife) end() {
	for i := len(l.cleanups) - 1; i >= 0; i-- {
		l.cleanups[i]()
	}
}

// Shared makes something once, when the first test asks for it, for all tests
// of the package.
func Shared[T any](start func(Life) T) func() T {
	return sync.OnceValue(func() T { return start(packageLife) })
}
