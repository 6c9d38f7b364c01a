// Package lockevent is what a proxy tells of its locks: to the audit log, and to those who watch locks
// (LOCKCTL WATCH). Both get the same events, from the places where the verbs know their outcomes.
package lockevent

import "time"

// Kind is what has happened.
type Kind string

// The kinds.
const (
	Granted  Kind = "granted"
	Released Kind = "released" // Reason says why, if it was not by UNLOCK
	Lost     Kind = "lost"     // it was kept alive; Reason says why
	Broken   Kind = "broken"   // taken away from its holders, by Client
	Waiting  Kind = "waiting"  // for a lock
	TimedOut Kind = "timeout"  // waited in vain

	// Missed says that Count events could not be told; 0: nobody knows how many.
	Missed Kind = "missed"

	// Of the audit log alone.
	Setting     Kind = "setting" // changed, with Setting and Value
	LoginFailed Kind = "login-failed"
)

// Why a lock was released, if it was not by UNLOCK.
const (
	Disconnected = "disconnected" // the connection that kept it alive has gone
	Undelivered  = "undelivered"  // the client had gone when it was to be told of its grant
)

// Reread says that a setting was changed by its file, and not by a client.
const Reread = "SIGHUP"

// Why events were missed, if they were not too many.
const (
	NotHeard = "not-heard" // the connection to the upstream was lost for a while
	Slow     = "slow"      // who watches does not read fast enough
)

// Event is one thing that has happened. What does not apply, or is not known, is zero. It is passed by value,
// and its texts are not written again: an Event may be kept.
type Event struct {
	Time   time.Time
	Kind   Kind
	Lock   string
	Mode   string // write or read
	Token  string // its digest
	Fence  int64
	Client Client // who did it, or who held the lock
	Proxy  string // its id
	Reason string

	Setting, Value string
	Count          uint64
}

// Client is a client as events show it.
type Client struct {
	Name string // CLIENT SETNAME
	Addr string
	User string
}
