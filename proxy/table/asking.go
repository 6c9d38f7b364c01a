package table

import (
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

// tableQuestion asks the upstream for its commands when clients send unknown ones: one question at a time for
// all clients, and at most one each AskPause. Safe for concurrent use.
type tableQuestion struct {
	mu      sync.Mutex
	asked   time.Time // when the last question ended
	waiting []func()  // clients that wait for the end of the open question; nil: there is none
}

// awaitAnswer calls ready as soon as the upstream has answered, or will not. It reports false, without
// calling ready, if it has answered just now. ask asks the upstream, on a goroutine that start begins. It
// never blocks, so loops may call it. ready is called on the goroutine that has asked.
func (r *tableQuestion) awaitAnswer(ready func(), ask func(), start func(func())) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == nil {
		if time.Since(r.asked) < AskPause {
			return false
		}
		start(func() {
			ask()
			r.endQuestion()
		})
	}
	// The goroutine cannot end the question before this: endQuestion takes the lock.
	r.waiting = append(r.waiting, ready)
	return true
}

// endQuestion lets all who wait go on. They are called without the lock: one of them may send the next
// unknown command at once.
func (r *tableQuestion) endQuestion() {
	r.mu.Lock()
	waiting := r.waiting
	r.waiting, r.asked = nil, time.Now()
	r.mu.Unlock()
	for _, ready := range waiting {
		ready()
	}
}
