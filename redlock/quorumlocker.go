package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/internal/resp"
)

// Quorum says that the locks are on independent masters: requests go through Do, never over
// the pipes of an upstream, and there is no SYNC.
func (l *Locker) Quorum() bool { return l.quorum != nil }

// Start sends a request that this Locker has made to independent masters, without blocking: then is told the
// reply for it to read, maybe before Start returns and on any goroutine, and must not block.
func (l *Locker) Start(req []byte, then func(reply []byte, err error)) {
	w, reply, err := l.quorum.begin(req, func(reply []byte) { then(reply, nil) })
	if w == nil {
		then(reply, err)
	}
}

// quorumRequest is AcquireRequest for independent masters: without a queue, and with room for a
// candidate. While others of this proxy wait for the lock, only who holds it already may be granted anything.
func (l *Locker) quorumRequest(a *Acquire) (slot int, req []byte) {
	p := l.place(a.Name)
	if a.Wait > 0 && a.w == nil {
		a.w = l.expect(a, p)
	}
	if l.overtakes(p, a.w) {
		return l.requestOf(a, "mine")
	}
	return l.requestOf(a, "")
}

// requestOf is that request. candidate: "mine" if only who holds the lock already may be granted anything,
// else "".
func (l *Locker) requestOf(a *Acquire, candidate string) (slot int, req []byte) {
	a.ID = l.newID(a) // else what takes the attempt before this one back would take this one too
	slot, req = l.eval(&acquireScript, a.Name, 13)
	req = a.appendTo(req)
	req = append(req, "$0\r\n\r\n"...)
	if a.Wait > 0 {
		req = redcon.AppendBulkString(req, "1")
	} else {
		req = append(req, "$0\r\n\r\n"...)
	}
	req = l.appendMost(req, a.Mode, 0)
	req = redcon.AppendBulkString(req, "PUBLISH")
	req = redcon.AppendBulkString(req, a.Keeper)
	req = redcon.AppendBulkString(req, a.Meta)
	req = append(req, "$0\r\n\r\n"...)
	return slot, redcon.AppendBulkString(req, candidate)
}

// overtakes says that others wait for the lock, before w if that is not nil.
func (l *Locker) overtakes(p place, w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.rooms[p.key]
	return r != nil && r.waiters[0] != w
}

// Follows says that others of this proxy wait for the lock that a wants, and that a, whose token holds
// nothing yet, need not ask before them: call Wait at once.
func (l *Locker) Follows(a *Acquire) bool {
	p := l.place(a.Name)
	if l.quorum == nil || !a.fresh || a.Wait <= 0 || !l.overtakes(p, nil) {
		return false
	}
	a.w = l.expect(a, p)
	return true
}

// mostPassed is how often in a row a lock goes on within one proxy, before those who wait in other ones have
// the same chance.
const mostPassed = 4

// goesOn says that the first of those who wait here for a lock is going to ask for it right behind the
// request id that releases it.
func (l *Locker) goesOn(name, id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.rooms[l.place(name).key]
	if r == nil || !r.live || r.lost {
		return false
	}
	if r.passed == mostPassed {
		r.passed = 0
		return false
	}
	r.passed++
	r.behind = id
	return true
}

// heir is what that one asks for, unless it is asking for something. The caller asks all nodes for it, and
// then calls wakeHeir.
func (l *Locker) heir(key, id []byte) *attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.rooms[string(key)]
	if r == nil || r.behind != string(id) {
		return nil
	}
	w := r.waiters[0]
	if !w.asks && time.Until(w.deadline) > 0 {
		_, req := l.requestOf(w.a, "")
		if args, _, err := resp.Split(req, nil); err == nil {
			w.next, _, _ = l.quorum.newAttempt(args, req)
		}
		w.asks = w.next != nil
		return w.next
	}
	return nil
}

// wakeHeir has it see what becomes of that, or ask.
func (l *Locker) wakeHeir(key, id []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.rooms[string(key)]; r != nil && r.behind == string(id) {
		r.waiters[0].nudge()
	}
}

// try makes the next attempt of a waiter, or waits for that which was made for it.
func (l *Locker) try(ctx context.Context, a *Acquire) (at time.Time, reply []byte, err error) {
	w := a.w
	l.mu.Lock()
	next := w.next
	w.next, w.asks = nil, true
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		w.asks = false
		l.mu.Unlock()
	}()
	ctx, cancel := context.WithDeadlineCause(ctx, w.deadline, errOverdue)
	defer cancel()
	if next != nil {
		reply, err = next.await(ctx)
		return next.began, reply, err
	}
	at = time.Now()
	slot, req := l.quorumRequest(a)
	reply, err = l.upstream.Do(ctx, slot, req, true)
	return at, reply, err
}

// drop takes back the attempt that was made for a waiter who leaves, if there is one, and has no other made.
func (l *Locker) drop(w *waiter) {
	l.mu.Lock()
	next := w.next
	w.next, w.asks = nil, true
	l.mu.Unlock()
	if next != nil && !next.giveUp() {
		l.Undo(w.a)
	}
}

// unserved notes that a majority refused w, or that others were before it; pause is until it may get the
// lock. up: it has a shared hold and waits for the others to go. doubt: why it may have the lock all the
// same, or "".
func (l *Locker) unserved(w *waiter, up bool, pause time.Duration, doubt string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.up = up
	w.refused = w.refused || doubt == ""
	w.doubt = doubt
	w.due = time.Now().Add(min(pause+rand.N(2*time.Millisecond), pulse-rand.N(pulse/4))) // not in step with other proxies
	if r := l.rooms[w.place.key]; r != nil && r.waiters[0] == w {
		r.due = w.due
		r.expect(w.due)
	}
}

// inVain is what a client of a is told whose wait was in vain: nil if a majority has refused its token
// meanwhile, else why nobody knows whether others hold the lock.
func (l *Locker) inVain(a *Acquire) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.quorum == nil || a.fresh || a.w.refused || a.w.doubt == "" {
		return nil
	}
	return ReplyError(a.w.doubt)
}

// admit says why w cannot wait.
func (l *Locker) admit(w *waiter) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if up, why := l.quorum.voters(); up < l.quorum.need {
		return ReplyError(l.quorum.noQuorum(up, why))
	}
	r := l.rooms[w.place.key]
	if r == nil {
		return nil
	}
	if n := len(r.waiters); n >= l.o.MaxQueue {
		return ReplyError(fmt.Sprintf("QUEUEFULL %d clients of this proxy wait for this lock already: try again later, or raise lock-max-queue", n))
	}
	if w.up && r.waiters[0].up {
		return ReplyError("DEADLOCK another reader waits already to become the writer, and each would wait for the other: release the shared hold, then lock again")
	}
	return nil
}

// served notes that the lock was granted in a mode: two readers go in together, others wait for a
// message. Locker.mu is held.
func (r *room) served(m Mode) {
	r.due = time.Now()
	if m == Write || r.waiters[0].mode == Write {
		r.due = r.due.Add(pulse)
	}
}

// stand puts w where it belongs among those who wait: last, or first if they wait for its own shared
// hold. Locker.mu is held.
func (r *room) stand(w *waiter) {
	if w.up {
		r.waiters = slices.Insert(r.waiters, 0, w)
		return
	}
	r.waiters = append(r.waiters, w)
}
