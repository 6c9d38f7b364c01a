package single

import (
	"time"

	"lockproxy/redlock"
)

// This file is about a slot that moves from one node of a cluster to another. The lock and the fence of its
// slot may be at different nodes then, and Redis answers TRYAGAIN to a script with both keys. A request that
// may be granted the lock waits for that to end, as any command with two keys does (SendWhole, DoWhole). All
// others go on: what ends a hold is sent again with the lock as its only key, and those who wait are offered
// the lock then, because a grant needs a fence.
//
//	acquire.lua, lock and fence  --> TRYAGAIN ... granted; or the client gets TRYAGAIN after retry-budget
//	release.lua, lock and fence  --> TRYAGAIN
//	release.lua, fence           --> what it was answered before: a copy of it has run
//	                              \-> nil: release.lua, lock --> freed
//	                                  \-> nil: release.lua, fence, once more

const (
	// movingFor is how long a slot counts as moving after a node has said so.
	movingFor = 2 * time.Second
	// movingPulse is the longest pause after which a proxy with waiters asks for a lock whose slot moves.
	// The messages for its waiters may be published at another node than the one that it listens to, and a
	// lock is offered for half a second only.
	movingPulse = 100 * time.Millisecond
)

// moving says that a slot is moving from one node to another, as far as requests have shown that lately. Then
// messages of its sharded channels do not reach all subscribers.
func (m *masters) moving(slot int) bool {
	at := m.upstream.Parted(slot)
	return !at.IsZero() && time.Since(at) < movingFor
}

// mayStray says that a grant of a request that was sent at that time is to be asked for once more. A node may
// have sent the request on to the next one of a slot that moves, and it may have been on the way until the
// slot had moved on, and back again: then the grant is of a copy of the lock that nobody else can see.
func (m *masters) mayStray(slot int, at time.Time) bool { return !m.upstream.Parted(slot).Before(at) }

// strayed is err. But if a was granted before that by a request that may have strayed, it is not refused.
func strayed(a *redlock.Acquire, granted bool, err error) error {
	if granted && err == redlock.ErrMoving {
		a.Unsure = true
		return redlock.ErrStrayed
	}
	return err
}
