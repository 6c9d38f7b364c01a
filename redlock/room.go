package redlock

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"lockproxy/internal/subscription"
)

const (
	// pulse is how often at least a proxy with waiters asks for the lock: it
	// keeps the proxy alive in the queue (3 s) and bounds what a lost message costs.
	pulse = time.Second
	// deafPulse is the same while there is no subscription.
	deafPulse = 100 * time.Millisecond
	// offer is how long the scripts reserve a free lock for a waiter.
	offer = 500 * time.Millisecond
)

// room is where the local waiters of one lock wait, in the order in which they
// came. They share one subscription and one timer, which the first of them has.
type room struct {
	place   place
	waiters []*waiter // guarded by Locker.mu, as all below
	due     time.Time // when the first one is to try
	live    bool      // the subscription is
	lost    bool      // it was, and is lost
	passed  int       // how often in a row the lock went on within this proxy; only with a quorum
	behind  string    // the release that it went on behind

	ctx   context.Context // ends with the room
	close context.CancelFunc
	stop  func() // ends the subscription
}

// enter has w, which stands in the queue, wait in the room of its lock.
func (l *Locker) enter(w *waiter) *room {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.rooms[w.place.key]
	if r == nil {
		r = &room{place: w.place, due: w.due}
		r.ctx, r.close = context.WithCancel(l.ctx)
		l.rooms[w.place.key] = r
		l.work.Add(1)
		go l.listen(r) // ends when the subscription is confirmed, or with the room
	}
	r.stand(w)
	if !w.due.IsZero() { // else it follows others, who will say when
		r.expect(w.due)
	}
	return r
}

// leave takes w out of its room and forgets it. The next one takes the timer over; the last
// one ends the subscription. ttl is the lease that w was granted, or 0.
func (l *Locker) leave(r *room, w *waiter, ttl time.Duration) {
	l.drop(w) // before the next one asks
	l.mu.Lock()
	delete(l.waiters, w.id)
	i := slices.Index(r.waiters, w)
	r.waiters = slices.Delete(r.waiters, i, i+1)
	if len(r.waiters) > 0 {
		switch {
		case l.quorum == nil:
		case ttl > 0:
			r.served(w.mode)
		case i == 0: // the lock may have gone on to w
			r.waiters[0].nudge()
		}
		if ttl > 0 {
			r.expect(time.Now().Add(ttl))
		}
		signal(r.waiters[0].rearm)
		l.mu.Unlock()
		return
	}
	delete(l.rooms, r.place.key)
	stop := r.stop
	l.mu.Unlock()
	r.close()
	if stop != nil {
		stop()
	}
}

// expect has the first waiter try at the given time at the latest, or at the
// next pulse. The caller holds Locker.mu.
func (r *room) expect(at time.Time) {
	most := pulse
	if !r.live || r.lost {
		most = deafPulse
	}
	if limit := time.Now().Add(most); limit.Before(at) {
		at = limit
	}
	if at.Before(r.due) {
		r.due = at
		signal(r.waiters[0].rearm)
	}
}

// queued notes what the script told w: how long until something happens by
// itself, and which waiters should try now.
func (l *Locker) queued(w *waiter, pause time.Duration, try []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// A little later than the event, and not in step with other proxies.
	w.due = time.Now().Add(min(pause+time.Millisecond, pulse) + rand.N(2*time.Millisecond))
	r := l.rooms[w.place.key]
	if r != nil {
		r.due = w.due
		r.expect(w.due)
		signal(r.waiters[0].rearm)
	}
	for id := range bytes.FieldsSeq(try) {
		if string(id) == "*" && r != nil {
			for _, other := range r.waiters {
				if other != w {
					other.nudge()
				}
			}
		} else if other := l.waiters[string(id)]; other != nil && other != w {
			other.nudge()
		}
	}
}

// sleep is how long w may sleep: until its deadline, and the first one until
// its next attempt.
func (l *Locker) sleep(r *room, w *waiter) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	until := w.deadline
	if r.waiters[0] == w && r.due.Before(until) {
		until = r.due
	}
	return time.Until(until)
}

// due says whether it is for w to try, and the time has come.
func (l *Locker) due(r *room, w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return r.waiters[0] == w && !time.Now().Before(r.due)
}

// listen subscribes for a room, for as long as it takes.
func (l *Locker) listen(r *room) {
	defer l.work.Done()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		ctx, cancel := context.WithTimeout(r.ctx, undoTimeout)
		stop, err := l.upstream.Subscribe(ctx, r.place.slot, r.place.key, func(e subscription.Event) { l.heard(r, e) })
		cancel()
		if err == nil {
			l.mu.Lock()
			open := l.rooms[r.place.key] == r
			r.stop, r.live = stop, true
			l.mu.Unlock()
			if !open {
				stop()
			}
			l.rouse(r)
			return
		}
		if r.ctx.Err() != nil {
			return
		}
		l.o.Log.Warn("waiting for a lock without its messages", "err", err)
		select {
		case <-time.After(pause):
		case <-r.ctx.Done():
			return
		}
	}
}

// heard is what the subscription of r tells.
func (l *Locker) heard(r *room, e subscription.Event) {
	l.mu.Lock()
	if len(r.waiters) == 0 {
		l.mu.Unlock()
		return
	}
	if e.Kind != subscription.Message {
		r.lost = e.Kind == subscription.Lost
		r.expect(time.Now().Add(deafPulse))
		l.mu.Unlock()
		l.rouse(r)
		return
	}
	if l.quorum != nil {
		if string(e.Payload) != r.behind {
			r.waiters[0].nudge()
		}
		l.mu.Unlock()
		return
	}
	if string(e.Payload) == "?" { // who is first is not known yet, see state.lua
		r.waiters[0].nudge()
	}
	for id := range bytes.FieldsSeq(e.Payload) {
		if w := l.waiters[string(id)]; w != nil {
			w.nudge()
		}
	}
	// The lock is offered to somebody: see that it is taken.
	r.expect(time.Now().Add(offer + time.Millisecond + rand.N(2*time.Millisecond)))
	l.mu.Unlock()
}

// rouse has waiters try that may have missed a message: the first one, whom the reply tells
// who else should, and readers, who may all have been called.
func (l *Locker) rouse(r *room) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, w := range r.waiters {
		if i == 0 || w.mode == Read && l.quorum == nil {
			w.nudge()
		}
	}
}
