package proxy

import (
	"sync"
	"time"

	"lockproxy/commands"
	"lockproxy/proxy/client"
)

// This file is commands that the table does not know. None of them is sent to a node: nobody could say what
// it does to a connection that clients share, and on a server whose commands were renamed it may be CLIENT
// REPLY or MULTI. Its client is told that there is no such command, in the words of Redis, once the upstream
// was asked again: a module may have been loaded since.

const (
	// relearnPause is how long the commands that the upstream told are relied on.
	relearnPause = time.Second
	// relearnLimit is how long a client waits for the upstream to tell them. After that the table stays as it
	// is.
	relearnLimit = time.Second
)

// relearning asks the upstream for its commands when clients send some that are unknown: one question at a
// time for all clients, and at most one each relearnPause. Safe for concurrent use.
type relearning struct {
	mu      sync.Mutex
	asked   time.Time // when the last question ended
	waiting []func()  // for the end of the question that is open; nil: there is none
}

// wait has ready called as soon as the upstream has told its commands, or will not. It reports false where
// that has just been so, and ready is not called. ask asks, on a goroutine that start begins.
func (r *relearning) wait(ready func(), ask func(), start func(func())) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == nil {
		if time.Since(r.asked) < relearnPause {
			return false
		}
		start(func() {
			ask()
			r.end()
		})
	}
	r.waiting = append(r.waiting, ready)
	return true
}

func (r *relearning) end() {
	r.mu.Lock()
	waiting := r.waiting
	r.waiting, r.asked = nil, time.Now()
	r.mu.Unlock()
	for _, ready := range waiting {
		ready()
	}
}

// awaitsTable says that cmd is one that nobody knows, and has it come again when the upstream was asked.
func (r *router) awaitsTable(cmd *commands.Command) bool {
	s := r.s
	if cmd != s.w.table.Unknown() || !s.Authenticated || s.draining {
		return false
	}
	server, l := s.w.server, s.w.loop
	waits := server.table.asked.wait(
		func() { l.Post(func() { s.ClearHold(client.HoldTable) }) },
		server.table.again,
		func(task func()) { server.tasks.Go(task) }) // ends within relearnLimit
	if waits {
		s.SetHold(client.HoldTable)
	}
	return waits
}
