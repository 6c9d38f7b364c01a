package proxy

import (
	"sync/atomic"
	"time"

	"lockproxy/proxy/client"
)

// OutputLimit bounds the bytes that wait for one client, as Redis's client-output-buffer-limit
// does.
type OutputLimit struct {
	Hard    int           // a client with more is closed
	Soft    int           // and so is one that has more; 0: no such bound
	SoftFor time.Duration // all the time for so long
}

// OutputLimits are those of all clients. A class whose Hard is 0 has the limit of DefaultOutputLimits.
type OutputLimits struct {
	Normal  OutputLimit // clients that wait for replies
	Replica OutputLimit // of Redis's classes the one that no client of a proxy belongs to
	PubSub  OutputLimit // clients that listen to something
}

// DefaultOutputLimits are those of Redis, but for normal clients: Redis lets any number of replies wait for
// these.
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

// outputs is how many clients were closed because of their limit.
type outputs struct {
	closedNormal, closedPubSub atomic.Uint64
	closedStrangers            atomic.Uint64
}

// crowded is from how many waiting bytes on the limits are looked at.
func (l OutputLimits) crowded() int {
	look := min(crowded, l.Normal.Hard, l.PubSub.Hard)
	for _, soft := range []int{l.Normal.Soft, l.PubSub.Soft} {
		if soft > 0 {
			look = min(look, soft)
		}
	}
	return look
}

// unreadShare is the part of the hard limit of normal clients that replies may take up before no more
// of their client's commands are read. It is large, 32 MiB by default, because many clients write a whole
// pipeline before they read.
const unreadShare = 32

// budgetShare is the part of maxmemory-clients for which the same holds.
const budgetShare = 8

// Of a client that has not authenticated no more is read once strangerUnread bytes of replies wait for it,
// and beyond strangerLimit it is closed: whoever can connect could fill the memory else.
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

// closeFull closes a client that does not read what it gets.
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

// checkFull looks again at those who have more than their soft limit.
func (w *worker) checkFull() {
	for s := range w.full {
		s.out.check()
	}
}

// check bounds what waits for a client: first it is not read from, and
// beyond its limit it is closed.
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
