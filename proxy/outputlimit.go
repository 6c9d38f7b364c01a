package proxy

import (
	"sync/atomic"
	"time"

	"lockproxy/proxy/client"
)

// OutputLimit bounds the bytes that wait for one client, like Redis's client-output-buffer-limit.
type OutputLimit struct {
	Hard    int           // a client with more is closed
	Soft    int           // a client with more for longer than SoftFor is closed; 0: no such bound
	SoftFor time.Duration // all the time for so long
}

// OutputLimits has the limits of all clients. A class whose Hard is 0 has the limit of DefaultOutputLimits.
type OutputLimits struct {
	Normal  OutputLimit // clients that wait for replies
	Replica OutputLimit // Redis has this class; no client of a proxy belongs to it
	PubSub  OutputLimit // clients that listen to something
}

// DefaultOutputLimits are Redis's, except for normal clients, for which Redis lets any number of replies
// wait.
func DefaultOutputLimits() OutputLimits {
	return OutputLimits{
		Normal:  OutputLimit{Hard: 1 << 30},
		Replica: OutputLimit{Hard: 256 << 20, Soft: 64 << 20, SoftFor: time.Minute},
		PubSub:  OutputLimit{Hard: 32 << 20, Soft: 8 << 20, SoftFor: time.Minute},
	}
}

func (l OutputLimits) withDefaults() OutputLimits {
	d := DefaultOutputLimits()
	if l.Normal.Hard == 0 {
		l.Normal = d.Normal
	}
	if l.PubSub.Hard == 0 {
		l.PubSub = d.PubSub
	}
	return l
}

// outputs counts the clients that were closed because of their limit.
type outputs struct {
	closedNormal, closedPubSub atomic.Uint64
	closedStrangers            atomic.Uint64
}

// checkFrom is how many waiting bytes make it necessary to check the limits.
func (l OutputLimits) checkFrom() int {
	look := min(narrowFrom, l.Normal.Hard, l.PubSub.Hard)
	for _, soft := range []int{l.Normal.Soft, l.PubSub.Soft} {
		if soft > 0 {
			look = min(look, soft)
		}
	}
	return look
}

// unreadShare is the part of the hard limit of normal clients that replies may take before no more commands
// of their client are read. It is large, 32 MiB by default, because many clients write a whole pipeline
// before they read.
const unreadShare = 32

// budgetShare is the part of maxmemory-clients for which the same applies.
const budgetShare = 8

// A client that has not authenticated is not read any further once strangerUnread bytes of replies wait for
// it. Beyond strangerLimit it is closed. Otherwise whoever can connect could fill the memory.
const (
	strangerUnread = 16 << 10
	strangerLimit  = 64 << 10
)

// overSoft says that more than the soft limit has been waiting for too long.
func (w *worker) overSoft(s *session, limit *OutputLimit, waiting int) bool {
	if limit.Soft == 0 || waiting <= limit.Soft {
		if len(w.full) > 0 {
			delete(w.full, s)
		}
		return false
	}
	now := w.loop.Now()
	since, ok := w.full[s]
	if !ok {
		w.full[s] = now
	}
	return ok && now.Sub(since) > limit.SoftFor
}

// closeFull closes a client that does not read its replies.
func (w *worker) closeFull(s *session, waiting int) {
	if s.gone {
		return
	}
	o, class, n := &w.server.outputs, "normal", &w.server.outputs.closedNormal
	switch {
	case !s.Authenticated:
		class, n = "unauthenticated", &o.closedStrangers
	case s.subscriber.Listens():
		class, n = "pubsub", &o.closedPubSub
	}
	n.Add(1)
	w.server.o.Log.Warn(
		"client closed: client-output-buffer-limit",
		"client",
		s.Addr,
		"class",
		class,
		"bytes",
		waiting,
	)
	s.conn.Close()
}

// checkFull checks again the clients above their soft limit.
func (w *worker) checkFull() {
	for s := range w.full {
		s.out.check()
	}
}

// check bounds what waits for a client: first it is no longer read from, and beyond its limit it is closed.
func (o *output) check() {
	s := o.s
	s.CountMemory()
	waiting, limits := o.waiting(), &s.w.server.now.Load().Output
	limit, unread := &limits.Normal, limits.Normal.Hard/unreadShare
	if all := s.w.server.memory.limit.Load(); all > 0 {
		unread = min(unread, int(all/budgetShare))
	}
	switch {
	case !s.Authenticated:
		limit, unread = &OutputLimit{Hard: min(strangerLimit, limit.Hard)}, min(strangerUnread, unread)
	case s.subscriber.Listens():
		limit = &limits.PubSub
	}
	if waiting > unread {
		s.SetHold(client.HoldOutput)
	}
	if waiting > limit.Hard || s.w.overSoft(s, limit, waiting) {
		s.w.closeFull(s, waiting)
	}
}
