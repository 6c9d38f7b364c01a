package lock

import (
	"context"
	"time"
)

// This file finds clients that stop themselves: a LOCK that waits for a lock which its own connection took.
// Where tasks share a connection, the UNLOCK of one stands behind that LOCK. The log says so, once for each
// connection.

const (
	// selfWaitAfter is how long such a LOCK has waited when Redis is asked who holds the lock. A hold that is
	// released sooner, as over another connection of a pool, stops nobody.
	selfWaitAfter = time.Second
	// selfWaitTimeout is for that question.
	selfWaitTimeout = 5 * time.Second
)

// watchSelfWait looks, after a while, whether the LOCK waits for its own connection. end stops that. It is
// called on the goroutine of the wait. Only a connection that holds the lock by another token is watched, so
// most waits cost nothing. q is read on the goroutine of the timer as well; nothing of what it reads changes
// during the wait.
func (q *acquisition) watchSelfWait() (end func()) {
	tokens := q.grants.Others(q.l, q.Name, q.Token)
	if len(tokens) == 0 || q.Client == nil {
		return func() {}
	}
	// A wait that is shorter than twice selfWaitAfter is looked at in its middle. For longer ones the sum
	// need not be right, and a million long pauses would overflow it.
	total := q.Wait + time.Duration(q.tries)*min(q.every, 2*selfWaitAfter)
	timer := time.AfterFunc(min(selfWaitAfter, total/2), func() { // ends with selfWaitTimeout
		ctx, cancel := context.WithTimeout(context.Background(), selfWaitTimeout)
		defer cancel()
		if !q.grants.Accused() && q.l.TellSelfWait(ctx, q.Name, tokens, q.Client) {
			q.grants.Accuse()
		}
	})
	return func() { timer.Stop() }
}
