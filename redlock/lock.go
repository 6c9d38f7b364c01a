// Package redlock keeps locks in Redis: one key holds the whole state of a lock, one script decides each
// transition, and a queue makes waiting fair. This package is what all parts say to each other: requests and
// their answers, names, errors. The parts are packages inside:
//
//	                 locks               Locker: all that clients ask for; it chooses the engine
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

// Mode is how a lock is held.
type Mode string

// The modes.
const (
	Write Mode = "w" // by one holder
	Read  Mode = "r" // by any number of readers
)

// Acquire asks for a lock. An Acquire is one request, however often it is sent: its ID makes it idempotent.
// Over independent masters each attempt is a request of its own.
type Acquire struct {
	Name      string
	Token     string
	Mode      Mode
	Lease     time.Duration
	Reentrant bool          // count a hold that the token has already
	Wait      time.Duration // how long it may stand in the queue; 0: not at all
	Keep      bool          // the proxy is going to keep the hold alive
	Meta      string        // said of the hold in State; "": nothing
	Sync      int           // replicas that must have the grant before it counts; see Confirm
	Named     string        // what its client calls it; the same again is counted once; "": nothing
	ID        string        // made by NewAcquire
	// Keeper is made by NewAcquire if Keep; else it is Kept.Keeper of the hold if whoever asks keeps it alive
	// already, or "".
	Keeper string

	Fresh bool // NewAcquire made the token, which holds nothing yet
	// Unsure is the engine's: an attempt has failed, and may have run all the same, or be still on its way.
	Unsure bool
	// Fence is single's: the one that the last attempt asked for.
	Fence int64
}

// Grant is a lock that was given.
type Grant struct {
	Token string
	Fence int64         // higher than that of every earlier grant of the lock
	TTL   time.Duration // what remains of the lease
	Count int64         // how many releases it takes
	At    time.Time     // TTL counts from then at the earliest; handed over: from about then
}

// Release frees what a token holds, or counts it down. A copy of it that comes late does nothing to a grant
// that the same proxy has asked for since.
type Release struct {
	Name, Token string
	Fence       int64 // of the grant that is meant; 0: whatever the token holds
	// Named is what its client calls it: sent again under that name, by any proxy, it is the same one;
	// "": nothing.
	Named string
}

// Released is what a Release has done.
type Released struct {
	Held  bool // the token held the lock
	Whole bool // and does not any more; else its count went down
	// Keeper is that of the hold that was released, for Unlocked, if this proxy had it and the Release was
	// not one that was sent again.
	Keeper string
}

// Renew makes the lease of a token's hold last for Lease from now on, if that is longer. A copy of it that
// comes late does nothing to a grant that the same proxy has asked for since.
type Renew struct {
	Name, Token string
	Lease       time.Duration
	Fence       int64  // of the grant that is meant; 0: whatever the token holds
	Keeper      string // who keeps the hold alive from now on; or Kept.Keeper of whoever does already, or ""
}

// Renewed is what a Renew has done.
type Renewed struct {
	Left  time.Duration // of the lease, from now on; 0: the token holds nothing there
	Fence int64         // of the hold, if it has a new keeper; else 0
}

// Renewal is what is asked about one hold that is kept alive.
type Renewal struct {
	Name, Token string
	Lease       time.Duration // what it is to last from now on; 0: nothing is changed
	Fence       int64
	Keeper      string // as in Redis; another one's hold is not renewed
}
