// Package journal is what lines of the log have in common: few of one kind, where many may come at once, as
// when a thousand locks are lost together (Lines), and how they show the names of locks (Names).
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

// Lines writes lines of one kind to a log. Those above Most are counted, and their number is written as a
// line when the time is over. The zero value is ready. Safe for concurrent use.
type Lines struct {
	mu     sync.Mutex
	until  time.Time // of the present time
	n      int       // lines in it
	silent int       // of them, those that were not written
}

// Write writes a line, or counts it.
func (l *Lines) Write(log *slog.Logger, level slog.Level, text string, attrs ...any) {
	l.mu.Lock()
	now := time.Now()
	if !now.Before(l.until) {
		l.until, l.n = now.Add(Each), 0
	}
	l.n++
	if l.n > Most {
		if l.silent++; l.silent == 1 {
			time.AfterFunc(l.until.Sub(now), func() { l.rest(log, level, text) }) // at the end of this time
		}
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	log.Log(context.Background(), level, text, attrs...)
}

// rest writes how many lines were only counted.
func (l *Lines) rest(log *slog.Logger, level slog.Level, text string) {
	l.mu.Lock()
	n := l.silent
	l.silent = 0
	l.mu.Unlock()
	if n > 0 {
		log.Log(context.Background(), level, text, "not_logged", n)
	}
}
