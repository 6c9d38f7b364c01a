package table

import (
	"context"
	"sync"
	"time"
)

// This file is for commands that the table does not have. None of them is sent to a node: nobody knows what
// it would do to a connection that clients share; on a server whose commands were renamed it may be CLIENT
// REPLY or MULTI. Its client is told, in the words of Redis, that there is no such command, but first the
// upstream is asked again: a module may have been loaded since.

const (
	// AskPause is how long the upstream's answer is relied on.
	AskPause = time.Second
	// AskLimit is how long a client waits for the upstream's answer. After that the table stays as it is.
	AskLimit = time.Second
)

// tableQuestion is what the upstream is asked when clients send unknown commands: one question at a time for
// all clients, and at most one each AskPause. Safe for concurrent use.
type tableQuestion struct {
	mu      sync.Mutex
	asked   time.Time // when the last question ended
	waiting []func()  // clients that wait for the end of the open question; nil: there is none
}

// Again has the upstream asked for its commands because a client has sent an unknown one, and calls ready as
// soon as that has ended, on the goroutine that has asked. It reports false, without calling ready, if the
// upstream has answered just now. start begins a goroutine, which ends within AskLimit, or when ctx ends.
// Again never blocks, so loops may call it.
func (l *Learner) Again(ctx context.Context, start func(func()), ready func()) bool {
	q := &l.question
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting == nil {
		if time.Since(q.asked) < AskPause {
			return false
		}
		start(func() { l.askAgain(ctx) })
	}
	// The goroutine cannot end the question before this: it takes the lock.
	q.waiting = append(q.waiting, ready)
	return true
}

// askAgain asks the upstream, and lets all who wait go on. They are called without the lock: one of them may
// send the next unknown command at once.
func (l *Learner) askAgain(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, AskLimit)
	defer cancel()
	if err := l.Learn(limited); err != nil && ctx.Err() == nil {
		l.Log.Warn("the upstream's commands could not be learned for a command that is unknown", "err", err)
	}
	q := &l.question
	q.mu.Lock()
	waiting := q.waiting
	q.waiting, q.asked = nil, time.Now()
	q.mu.Unlock()
	for _, ready := range waiting {
		ready()
	}
}
