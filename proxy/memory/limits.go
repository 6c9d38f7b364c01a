package memory

import (
	"time"
)

// Limit bounds the bytes that wait for one client, like Redis's client-output-buffer-limit.
type Limit struct {
	Hard    int           // a client with more is closed
	Soft    int           // a client with more for longer than SoftFor is closed; 0: no such bound
	SoftFor time.Duration // all the time for so long
}

// Limits has the limits of all clients. A class whose Hard is 0 has the limit of DefaultLimits.
type Limits struct {
	Normal  Limit // clients that wait for replies
	Replica Limit // Redis has this class; no client of a proxy belongs to it
	PubSub  Limit // clients that listen to something
}

// DefaultLimits are Redis's, except for normal clients, for which Redis lets any number of replies
// wait.
func DefaultLimits() Limits {
	return Limits{
		Normal:  Limit{Hard: 1 << 30},
		Replica: Limit{Hard: 256 << 20, Soft: 64 << 20, SoftFor: time.Minute},
		PubSub:  Limit{Hard: 32 << 20, Soft: 8 << 20, SoftFor: time.Minute},
	}
}

// WithDefaults fills in the defaults where l has no limits.
func (l Limits) WithDefaults() Limits {
	d := DefaultLimits()
	if l.Normal.Hard == 0 {
		l.Normal = d.Normal
	}
	if l.PubSub.Hard == 0 {
		l.PubSub = d.PubSub
	}
	return l
}

// CheckFrom is how many waiting bytes make it necessary to check the limits, at most so many.
func (l Limits) CheckFrom(most int) int {
	look := min(most, l.Normal.Hard, l.PubSub.Hard)
	for _, soft := range []int{l.Normal.Soft, l.PubSub.Soft} {
		if soft > 0 {
			look = min(look, soft)
		}
	}
	return look
}

// Class is which of the limits a client has.
type Class uint8

const (
	Normal Class = iota
	PubSub
	Unauthenticated // the client has not authenticated, and has to
)

// String is the name of a class in the log and in metrics.
func (c Class) String() string { return [...]string{"normal", "pubsub", "unauthenticated"}[c] }

// unreadShare is the part of the hard limit of normal clients that replies may take before no more commands
// of their client are read. It is large, 32 MiB by default, because many clients write a whole pipeline
// before they read.
const unreadShare = 32

// budgetShare is the part of maxmemory-clients for which the same applies.
const budgetShare = 8

// A client that has not authenticated is not read any further once UnknownUnread bytes of replies wait for
// it. Beyond UnknownLimit it is closed. Otherwise whoever can connect could fill the memory.
const (
	UnknownUnread = 16 << 10
	UnknownLimit  = 64 << 10
)

// Of is the limit of a client of class c, where all clients together may take all bytes (0: any number).
// Beyond unread bytes no more commands of the client are read.
func (l *Limits) Of(c Class, all int64) (limit Limit, unread int) {
	limit, unread = l.Normal, l.Normal.Hard/unreadShare
	if all > 0 {
		unread = min(unread, int(all/budgetShare))
	}
	switch c {
	case Unauthenticated:
		return Limit{Hard: min(UnknownLimit, limit.Hard)}, min(UnknownUnread, unread)
	case PubSub:
		limit = l.PubSub
	}
	return limit, unread
}

// Fullness is since when more waits for a client than its soft limit. The zero value: no more does.
type Fullness struct{ since time.Time }

// Any says that more waits than the soft limit.
func (f *Fullness) Any() bool { return !f.since.IsZero() }

// Exceeds says that waiting bytes are too many, at once or for too long.
func (f *Fullness) Exceeds(limit *Limit, waiting int, now time.Time) bool {
	switch {
	case limit.Soft == 0 || waiting <= limit.Soft:
		f.since = time.Time{}
	case f.since.IsZero():
		f.since = now
	}
	return waiting > limit.Hard || f.Any() && now.Sub(f.since) > limit.SoftFor
}
