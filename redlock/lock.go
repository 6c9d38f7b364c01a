// Package redlock keeps locks in Redis: one key holds the whole state of a lock, one script decides each
// transition, and a queue makes waiting fair. This package is what all parts say to each other: requests and
// their answers, names, errors. The parts are packages inside:
//
//	        index -- locks               Locker: all that clients ask for; it chooses the engine. The index
//	                                     knows which locks are held, for lists
//	        /        /     \     \
//	keepalive    single   quorum  \      renews holds; the engine for one Redis, Sentinel or a cluster;
//	       |     /    \   /   \   |      the engine for independent masters (RedLock)
//	       |    |     wait    |   |      who waits here for a lock, and which of them asks next
//	       |    |      |      |   |
//	       |     \     |   scripts       the Lua scripts, the requests that run them, their replies
//	        \     \    |    /
//	                redlock
//
// A LOCK that waits goes this way:
//
//	locks     Locker.Acquire --> engine.Acquire
//	single    scripts.Eval(acquire.lua) --> Redis --> granted
//	                                            \-> queued: Locker.Wait
//	wait      subscribe, sleep --> woken, or timer --> engine.Attempt: acquire.lua ...
//	single    a release, release.lua --> the first in the queue is granted, if it waits here, or woken
//
// Begin with the scripts, whose heads say how a lock is kept (redlock/scripts/acquire.lua). With single the
// queue is in Redis; with quorum each proxy has its own, and a fence has to be agreed on.
package redlock

import "time"

// Mode says with whom a hold is shared.
type Mode string

// The modes.
const (
	Write Mode = "w" // by one holder
	Read  Mode = "r" // by any number of readers
	// Permit: with those who hold the other permits of a semaphore.
	Permit Mode = "p"
)

// Acquire asks for a lock. It is one request however often it is sent: its ID makes it idempotent. Over
// independent masters each attempt is a request of its own.
type Acquire struct {
	Name      string
	Token     string
	Mode      Mode
	Permits   int // of the semaphore, with the mode Permit
	Lease     time.Duration
	Reentrant bool          // count a hold that the token has already
	Wait      time.Duration // how long to stand in the queue; 0: do not queue
	Keep      bool          // the proxy will keep the hold alive
	Meta      string        // text that State shows with the hold; "": none
	// AtLeast is for how long after the grant others are kept out, even if the hold is released before; 0:
	// until the release. NewAcquire makes the lease no shorter.
	AtLeast time.Duration
	// Break ends what others hold, and goes before those who wait. Such an Acquire does not wait, and is not
	// sent again by itself when its outcome is not known.
	Break bool
	Sync  int    // replicas that must have the grant before it counts; see Confirm
	Named string // the client's own name for the request, which is counted once under it; "": none
	ID    string // set by NewAcquire
	// Keeper is set by NewAcquire if Keep is set. Otherwise it is Kept.Keeper of the hold, if the caller
	// keeps it alive already, or "".
	Keeper string

	Client *Client // that asks; nil: it is not known

	// Handed, if it is set before Wait is called, is told of a grant that comes with an UNLOCK, before Wait
	// returns it. It is called once at most, from any goroutine, and must not block.
	Handed func(Grant)

	Fresh bool // NewAcquire made the token, so it holds nothing yet
	// Unsure is set by the engine: an attempt failed, but may have run, or may still be on its way.
	Unsure bool
	// Broke is set by the engine: a has ended holds of others, whether it is granted or not.
	Broke bool
	// Took is set by the engine: Break is done, for the lock was granted. What others hold since stays.
	Took bool
	// Fence is for the engine single: the fence that the last attempt asked for. Plain is set by it: a was
	// granted as a plain lock.
	Fence int64
	Plain bool
}

// Breaks says that what others hold is to end by the next attempt.
func (a *Acquire) Breaks() bool { return a.Break && !a.Took }

// BeforeHanded has f called before Handed, if that is set.
func (a *Acquire) BeforeHanded(f func(Grant)) {
	if handed := a.Handed; handed != nil {
		a.Handed = func(g Grant) {
			f(g)
			handed(g)
		}
	}
}

// Grant is a granted lock.
type Grant struct {
	Token string
	Fence int64         // higher than that of every earlier grant of the lock
	TTL   time.Duration // what is left of the lease
	Count int64         // how many releases it takes to free the lock
	At    time.Time     // TTL counts from here: when the script that granted it was sent, at the earliest
}

// Left is what is sure to be left of the lease at now, in whole milliseconds. It is below one when none is.
func (g Grant) Left(now time.Time) time.Duration {
	return (g.TTL - now.Sub(g.At)).Truncate(time.Millisecond)
}

// Release lowers the count of a token's hold, and frees it at zero. A copy that arrives late leaves alone a
// grant that the same proxy has asked for since.
type Release struct {
	Name, Token string
	Fence       int64 // of the grant to release; 0: whatever the token holds
	// Named is the client's own name for the request. Sent again under that name, by any proxy, it is the
	// same request. "": none.
	Named string
}

// Released is the outcome of a Release.
type Released struct {
	Held  bool // the token held the lock
	Whole bool // the hold is gone; otherwise its count went down
	// Keeper is the keeper of the hold that was released, for Unlocked. It is "" if this proxy did not keep
	// the hold alive, or if the Release was sent before.
	Keeper string
}

// Renew makes the lease of a token's hold last for Lease from now on, unless it lasts longer already. A copy
// that arrives late leaves alone a grant that the same proxy has asked for since.
type Renew struct {
	Name, Token string
	Lease       time.Duration // 0: leave it, for a keeper that only looks
	Fence       int64         // of the grant to renew; 0: whatever the token holds
	// Keeper is who keeps the hold alive from now on, or Kept.Keeper of who does already, or "". If a keeper
	// asks, it is that one: a hold that its proxy does not keep alive is not renewed.
	Keeper string
}

// Renewed is the outcome of a Renew.
type Renewed struct {
	Left  time.Duration // what is left of the lease; 0: the token holds nothing
	Fence int64         // of the hold, if it has a new keeper; otherwise 0
}

// HoldOwner is a connection as the owner of holds. Its methods must not block, nor ask about locks.
type HoldOwner interface {
	// Over is told that a hold has ended, and not by an UNLOCK of this connection.
	Over(name, token string)
}

// Client is a connection that took a hold, as it was then. Immutable.
type Client struct {
	Name string `json:"name"` // CLIENT SETNAME
	Addr string `json:"addr"`
	User string `json:"user"`
}
