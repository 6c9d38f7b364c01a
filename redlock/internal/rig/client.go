package rig

import (
	"bytes"
	"context"
	"time"

	"lockproxy/redlock"
)

// Locking is what a client asks for: a Locker, or an engine.
type Locking interface {
	Acquire(by redlock.Caller, a *redlock.Acquire, to redlock.Acquirer)
	Release(by redlock.Caller, r *redlock.Release, to redlock.Releaser)
	Renew(by redlock.Caller, r *redlock.Renew, then func(redlock.Renewed, error) []byte)
	Break(by redlock.Caller, name string, then func(broken bool, err error) []byte)
	Inspect(by redlock.Caller, name, token string, then func(redlock.State, error) []byte)
}

// Asker is a client that asks for one thing at a time and waits for it. So it needs no loop, and a test reads
// like a conversation.
type Asker struct {
	L  Locking
	Up *Upstream // of L; nil: independent masters
}

// By is who asks, once.
func (c *Asker) By() *redlock.Patient {
	return &redlock.Patient{Ctx: context.Background(), Home: c.Up}
}

// lockNotes is a Locker, which is told what becomes of a LOCK.
type lockNotes interface {
	Granted(a *redlock.Acquire, g *redlock.Grant, came time.Time, by redlock.HoldOwner)
	Refused(a *redlock.Acquire)
}

// Acquire makes one attempt.
func (c *Asker) Acquire(a *redlock.Acquire) (g redlock.Grant, ok bool, err error) {
	g, ok, err = c.By().Acquire(c.L.Acquire, a)
	if l, is := c.L.(lockNotes); is && ok {
		l.Granted(a, &g, g.At, nil)
	} else if is {
		l.Refused(a)
	}
	return g, ok, err
}

// Release releases; it returns 1, 0 or -1 for Null.
func (c *Asker) Release(r *redlock.Release) (int, error) {
	done, err := c.By().Release(c.L.Release, r)
	switch {
	case err != nil:
		return 0, err
	case !done.Held:
		return -1, nil
	case done.Whole:
		return 1, nil
	}
	return 0, nil
}

// Renew renews a hold.
func (c *Asker) Renew(r *redlock.Renew) (redlock.Renewed, error) {
	return redlock.Ask(c.By(), func(by *redlock.Patient, then func(redlock.Renewed, error) []byte) {
		c.L.Renew(by, r, then)
	})
}

// Breaks ends whatever holds a lock.
func (c *Asker) Breaks(name string) (broken bool, err error) {
	return redlock.Ask(c.By(), func(by *redlock.Patient, then func(bool, error) []byte) {
		c.L.Break(by, name, then)
	})
}

// State reads a lock.
func (c *Asker) State(name string) (redlock.State, error) {
	return redlock.Ask(c.By(), func(by *redlock.Patient, then func(redlock.State, error) []byte) {
		c.L.Inspect(by, name, "", then)
	})
}

// Noted is a client whose request is not sent but kept, so that a test can send it as often as it likes. It
// keeps the outcome.
type Noted struct {
	redlock.Patient
	Slot int
	Req  []byte
	Then redlock.Exchange
}

// SendHome implements Caller.
func (n *Noted) SendHome(slot int, req []byte, _ bool, then redlock.Exchange, _ redlock.Delivery) {
	n.Slot, n.Req, n.Then = slot, bytes.Clone(req), then
}

// NotedAcquire is the request of a. l must send it before Acquire returns, as the engines for one Redis do.
func NotedAcquire(l Locking, a *redlock.Acquire) *Noted {
	n := &Noted{}
	l.Acquire(n, a, n)
	return n
}

// NotedRelease is the request of a release.
func NotedRelease(l Locking, r *redlock.Release) *Noted {
	n := &Noted{}
	l.Release(n, r, n)
	return n
}
