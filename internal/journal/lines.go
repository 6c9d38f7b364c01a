// Package journal is what lines of the log have in common: few of one kind, where many may come at once, as
// when a thousand locks are lost together (Few, Lines), and how they show the names of locks (NameStyle).
package journal

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// Most is how many lines of one kind are written in a time of Each.
	Most = 10
	Each = 10 * time.Second
)

// Few lets few things of one kind through in a time of Each, and counts the others. The zero value is ready.
// Safe for concurrent use.
type Few struct {
	mu    sync.Mutex
	until time.Time // of the present time
	n     int       // things in it
	more  int       // of them, those that were not let through
}

// Pass says whether one more is let through. If not, rest is called once with the number of those that were
// not, when the time is over, on a goroutine of its own.
func (f *Few) Pass(rest func(n int)) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if !now.Before(f.until) {
		f.until, f.n = now.Add(Each), 0
	}
	f.n++
	if f.n <= Most {
		return true
	}
	if f.more++; f.more == 1 {
		time.AfterFunc(f.until.Sub(now), func() { rest(f.takeCount()) }) // at the end of this time
	}
	return false
}

// takeCount returns the number of those that were not let through, and begins to count anew.
func (f *Few) takeCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.more
	f.more = 0
	return n
}

// Lines writes lines of one kind to a log. Those above Most are counted, and their number is written as a
// line when the time is over. The zero value is ready. Safe for concurrent use.
type Lines struct{ few Few }

// Write writes a line, or counts it.
func (l *Lines) Write(log *slog.Logger, level slog.Level, text string, attrs ...any) {
	rest := func(n int) { log.Log(context.Background(), level, text, "not_logged", n) }
	if l.few.Pass(rest) {
		log.Log(context.Background(), level, text, attrs...)
	}
}

// Again writes lines of one kind that repeat themselves for as long as some trouble goes on: one in a minute,
// which says how many there were since the one before (not_logged). The zero value is ready. Safe for
// concurrent use.
type Again struct {
	mu   sync.Mutex
	last time.Time
	more int
}

// Write writes a line, or counts it.
func (a *Again) Write(log *slog.Logger, level slog.Level, text string, attrs ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); a.last.IsZero() || now.Sub(a.last) >= time.Minute {
		if a.more > 0 {
			attrs = append(attrs, "not_logged", a.more)
		}
		a.last, a.more = now, 0
		log.Log(context.Background(), level, text, attrs...)
		return
	}
	a.more++
}
