package proxy

import (
	"sync"
	"time"

	"lockproxy/commands"
	"lockproxy/proxy/client"
)

// This file is for commands that the table does not have. None of them is sent to a node: nobody knows what
// it would do to a connection that clients share; on a server whose commands were renamed it may be CLIENT
// REPLY or MULTI. Its client is told, in the words of Redis, that there is no such command, but first the
// upstream is asked again: a module may have been loaded since.

const (
	// relearnPause is how long the upstream's answer is relied on.
	relearnPause = time.Second
	// relearnLimit is how long a client waits for the upstream's answer. After that the table stays as it is.
	relearnLimit = time.Second
)

// relearning asks the upstream for its commands when clients send unknown ones: one question at a time for
// all clients, and at most one each relearnPause. Safe for concurrent use.
type relearning struct {
	mu      sync.Mutex
	asked   time.Time // when the last question ended
	waiting []func()  // clients that wait for the end of the open question; nil: there is none
}

// wait calls ready as soon as the upstream has answered, or will not. It reports false, without calling
// ready, if it has answered just now. ask asks the upstream, on a goroutine that start begins.
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

// awaitsTable says that cmd is unknown and must wait: it is dispatched again once the upstream has been
// asked.
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
