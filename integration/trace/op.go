// Package trace records what clients of locks asked and were answered, and judges
// whether locks that keep their promise could have answered so.
//
//	Round: clients --> Conn --> the locks under test
//	           |
//	           v                 porcupine, key by key (model.go)
//	        History --> Judge <
//	           ^                 monitors of order and time (monitor.go)
//	Faults ----+
//
// It knows the lock verbs by their documentation alone: nothing of the product is
// imported.
//
// What is judged, beside the exceptions that have names (judge.go, quorum.go):
//
//   - LOCK, RLOCK, SEMLOCK: at most one writer, or readers, or as many permits as there are, within each
//     ttl that was told. Fences rise. First come, first served. Who waits is woken, and told in time. Null
//     has a reason: others hold the lock or stand before it. So have LOCKTYPE and PERMITS: the key is in use
//     in another way.
//   - UNLOCK, RENEW, LOCKCTL CHECK, GUARD: they say what the token holds, and change what they say; GUARD
//     counts while it is held. LOCKCTL INFO, which a third client asks behind an answer, tells who holds it.
//   - BREAK ends what others hold, and what would rest of it, and takes the lock before the queue. LOCKCTL
//     BREAK ends what anybody holds, or says that nobody does. If their outcome is unknown, all of that may
//     have happened.
//   - MLOCK: each of its locks is held as by LOCK. In vain it may have held some of them, and has none when
//     it says so. MUNLOCK frees each of them, and MRENEW renews each; its ttl is the least.
//   - ATLEAST: once UNLOCK or the end of a kept hold has freed it, others get the lock when the time since
//     the grant is over, not before, nor long after; the former token holds nothing meanwhile. A permit
//     counts as one that is held until then.
//   - KEEPALIVE: a hold lasts until its connection ends, or its loss is told. What another connection has
//     asked for since stays for its lease.
//   - LINGER: nobody else gets the lock for that long after the connection broke, if nothing hinders its
//     proxy. Another connection that asks for it with KEEPALIVE takes it over. QUIT and RESET end it at once.
//   - NOTIFY: the outcome is told once.
package trace

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Verb is what a call asks for.
type Verb string

// The verbs that clients call. Drop, Close and Cut are notes of the client itself.
const (
	Write  Verb = "LOCK" // sent as LOCK or WLOCK
	Read   Verb = "RLOCK"
	Permit Verb = "SEMLOCK" // one of several permits
	Unlock Verb = "UNLOCK"
	Renew  Verb = "RENEW"
	Check  Verb = "CHECK" // LOCKCTL CHECK
	Guard  Verb = "GUARD" // of INCR of a counter that each lock has
	Free   Verb = "BREAK" // LOCKCTL BREAK: frees the lock, whoever holds it
	Look   Verb = "INFO"  // LOCKCTL INFO

	Drop  Verb = "DROP"  // the connection broke that a grant of the token came through
	Close Verb = "CLOSE" // the client ended the connection over which it asked for its hold to be kept alive
	Cut   Verb = "CUT"   // the proxy closed that connection: the hold stays until its lease is over
)

// Outcome is what a call came to.
type Outcome string

// The outcomes.
const (
	Granted Outcome = "granted" // LOCK, RLOCK, SEMLOCK: the token holds the lock
	Done    Outcome = "done"    // the other verbs: a reply that is neither Null nor RENEW's 0
	Null    Outcome = "null"    // Null, RENEW's 0, or GUARD's NOTHELD
	Lost    Outcome = "lost"    // -LOCKLOST: a hold that was kept alive is gone
	Refused Outcome = "refused" // an error that says that nothing was done
	Unknown Outcome = "unknown" // no answer, or any other error: it may take effect later
)

// Op is one call of a client. Times are since the round began, by one monotonic clock.
type Op struct {
	Client int
	Proxy  int
	Conn   int // which of the client's connections, in their order
	Key    string
	Verb   Verb

	Token     string
	Lease     time.Duration `json:",omitempty"`
	Wait      time.Duration `json:",omitempty"`
	Tries     int           `json:",omitempty"`
	Every     time.Duration `json:",omitempty"`
	Reentrant bool          `json:",omitempty"`
	Switch    bool          `json:",omitempty"` // the token holds the lock in the other mode
	Keep      bool          `json:",omitempty"` // KEEPALIVE
	Linger    time.Duration `json:",omitempty"` // LINGER; of notes: how long the hold goes on after them
	AtLeast   time.Duration `json:",omitempty"` // ATLEAST, at most the lease
	Permits   int64         `json:",omitempty"` // SEMLOCK: PERMITS
	Break     bool          `json:",omitempty"` // BREAK, under a token that holds nothing
	Notify    bool          `json:",omitempty"` // NOTIFY: the outcome comes as a message, or at once
	Set       []string      `json:",omitempty"` // sent as MLOCK, MUNLOCK, MRENEW of these keys
	Only      int64         `json:",omitempty"` // UNLOCK, RENEW: FENCE; GUARD: FENCE in place of the token

	Call    time.Duration
	Return  time.Duration // of an unknown outcome: when the client gave up
	Outcome Outcome
	Fence   int64         `json:",omitempty"` // of LOCK, RLOCK, CHECK; Lost: of the hold that is gone
	TTL     time.Duration `json:",omitempty"` // of LOCK, RLOCK, CHECK, RENEW
	Count   int64         `json:",omitempty"` // of LOCK, RLOCK, CHECK; UNLOCK: the reply; GUARD: the counter
	Err     string        `json:",omitempty"`
	Holders []Holder      `json:",omitempty"` // INFO
}

// The errors which say that a key is in use in another way.
const (
	lockType     = "LOCKTYPE" // as a lock, and not a semaphore, or the reverse
	otherPermits = "PERMITS"  // with another number of permits
)

// counter is the key of the counter that belongs to a lock. It is in the slot of the lock.
func (o *Op) counter() string {
	if strings.HasPrefix(o.Key, "{") {
		return o.Key + ":counter"
	}
	return "{" + o.Key + "}:counter"
}

// isNote says that the op is no call, but a note of what became of a connection.
func (o *Op) isNote() bool { return o.Verb == Drop || o.Verb == Close || o.Verb == Cut }

// acquires says whether the op asks for the lock.
func (o *Op) acquires() bool { return o.Verb == Write || o.Verb == Read || o.Verb == Permit }

// TooLate says that the lock was granted, but by the time that the client could be told its lease might be
// over. So the grant was taken back.
func (o *Op) TooLate() bool {
	return o.Outcome == Unknown &&
		(strings.HasPrefix(o.Err, "TRYAGAIN the lock was granted, but its lease may be over already") ||
			strings.HasPrefix(o.Err, "TRYAGAIN the lock was granted and given back"))
}

// leftNothing says that the lock was asked for, and the answer was an error which does not say that the token
// may hold it. So it does not, by this request.
func (o *Op) leftNothing() bool {
	word, text, _ := strings.Cut(o.Err, " ")
	return o.acquires() && o.Outcome == Unknown && !o.Break && len(o.Set) == 0 && text != "" &&
		strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" &&
		!strings.Contains(text, "may hold what it asked for") && !strings.Contains(text, "may or may not")
}

// Overtaken says that a LOCK with BREAK took the lock, and others had it before the client could be told.
func (o *Op) Overtaken() bool {
	return o.Outcome == Unknown && o.Break &&
		strings.HasPrefix(o.Err, "TRYAGAIN the slot of this lock moves: the lock was taken away and granted")
}

// stray says that the op has not run, because a message came before it that nobody waited for.
func (o *Op) stray() bool { return strings.HasPrefix(o.Err, Stray) }

// outlived says that the op took longer than the lease that it asked for. While its lock moves it may then
// have held the lock for a lease that nobody was told of, because the grant had to be asked for once more.
func (o *Op) outlived() bool { return o.Return-o.Call > o.Lease }

// Args is the command as it is sent.
func (o *Op) Args() []string {
	var args []string
	add := func(given bool, words ...any) {
		for _, w := range words {
			if d, ok := w.(time.Duration); ok {
				w = d.Milliseconds()
			}
			if given {
				args = append(args, fmt.Sprint(w))
			}
		}
	}
	switch {
	case o.Verb == Free, o.Verb == Look:
		return []string{"LOCKCTL", string(o.Verb), o.Key}
	case o.Verb == Check:
		return []string{"LOCKCTL", "CHECK", o.Key, o.Token}
	case o.Verb == Guard:
		add(o.Only == 0, "GUARD", o.Key, o.Token, "INCR", o.counter())
		add(o.Only > 0, "GUARD", o.Key, "FENCE", o.Only, "INCR", o.counter())
		return args
	case len(o.Set) > 0:
		add(true, "M"+o.Verb, len(o.Set))
		args = append(args, o.Set...)
	default:
		add(true, o.Verb, o.Key)
	}
	add(o.acquires() || o.Verb == Renew && len(o.Set) == 0, "TOKEN")
	add(true, o.Token)
	add(o.Lease > 0, "PX", o.Lease)
	add(o.Permits > 0, "PERMITS", o.Permits)
	add(o.AtLeast > 0, "ATLEAST", o.AtLeast)
	add(o.Wait > 0, "WAIT", o.Wait)
	add(o.Tries > 0, "TRIES", o.Tries, "EVERY", o.Every)
	add(o.Reentrant, "REENTRANT")
	add(o.Break, "BREAK")
	add(o.Keep, "KEEPALIVE")
	add(o.Keep && o.Linger > 0, "LINGER", o.Linger)
	add(o.Only > 0, "FENCE", o.Only)
	add(o.Notify, Notify)
	return args
}

// Notify ends a command with NOTIFY: the Conn appends a channel of its own.
const Notify = "NOTIFY"

// Stray is how a Conn begins an error that it makes of a message which no command waits for.
const Stray = "STRAY "

// String is the call on one line, for people.
func (o Op) String() string {
	what := strings.Join(o.Args(), " ")
	if o.isNote() {
		what = fmt.Sprintf("%s %s %s linger %v", o.Verb, o.Key, o.Token, o.Linger)
	}
	s := fmt.Sprintf("c%d/p%d [%.4f %.4f] %s -> %s", o.Client, o.Proxy, o.Call.Seconds(), o.Return.Seconds(),
		what, o.Outcome)
	if o.Verb == Look {
		s += fmt.Sprintf(" %+v", o.Holders)
	} else if o.Outcome == Granted || o.Outcome == Done {
		return s + fmt.Sprintf(" fence %d ttl %v count %d", o.Fence, o.TTL, o.Count)
	}
	return strings.TrimSpace(s + " " + o.Err)
}

// Reply is what the locks answered, as far as a client of the verbs reads it.
type Reply struct {
	Null    bool
	Error   string   // an error reply: its text
	Int     int64    // an integer
	Array   []int64  // the integers of an array, and of arrays in it, its other elements left out
	Holders []Holder // of LOCKCTL INFO
}

// Conn is a connection to one proxy. Do sends one command and waits for its reply, for d
// at most; an error is of the connection, which is of no use then. Close may be called
// at any time, also while Do runs, and more than once. Cut has the proxy close it. The reply to a command
// that ends with Notify is what its message says, if it is not granted at once.
type Conn interface {
	Do(d time.Duration, args ...string) (Reply, error)
	Close()
	Cut()
}

// millis is a time that a reply says.
func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// read fills in what a reply says.
func (o *Op) read(r Reply, err error) {
	switch whole := len(r.Array) == 3; {
	case err != nil:
		o.Outcome, o.Err = Unknown, err.Error()
	case r.Error != "":
		o.readError(r.Error)
	case r.Null:
		o.Outcome = Null
	case o.Verb == Look:
		o.Outcome, o.Holders = Done, r.Holders
	case o.acquires() && whole:
		o.Outcome, o.Fence, o.TTL, o.Count = Granted, r.Array[0], millis(r.Array[1]), r.Array[2]
	case o.Verb == Check && whole:
		o.Outcome, o.TTL, o.Fence, o.Count = Done, millis(r.Array[0]), r.Array[1], r.Array[2]
	case o.acquires() || o.Verb == Check || r.Array != nil:
		o.Outcome, o.Err = Unknown, fmt.Sprintf("the reply makes no sense: %+v", r)
	case r.Int == 0 && (o.Verb == Renew || o.Verb == Free):
		o.Outcome = Null
	case o.Verb == Renew:
		o.Outcome, o.TTL = Done, millis(r.Int)
	default:
		o.Outcome, o.Count = Done, r.Int
	}
}

func (o *Op) readError(text string) {
	o.Outcome, o.Err = Unknown, text
	switch word, _, _ := strings.Cut(text, " "); {
	case word == "NOTHELD":
		o.Outcome, o.Err = Null, ""
	case word == "LOCKLOST":
		o.Outcome = Lost
		_, fence, _ := strings.Cut(text, " fence ")
		fmt.Sscan(fence, &o.Fence) // "... fence 7: ..."
	case slices.Contains([]string{"QUEUEFULL", "DEADLOCK", lockType, otherPermits}, word),
		word == "TRYAGAIN" && o.Verb == Guard: // the counter is at another node than the lock
		o.Outcome = Refused
	}
}
