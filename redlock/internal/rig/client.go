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

// Asker is a client that asks for one thing at a time and waits for it.
type Asker struct {
	L     Locking
	Up    *Upstream // of l; nil: independent masters
	asked *redlock.Acquire
	grant redlock.Grant
	ok    bool
	Done  redlock.Released
	Err   error
	fault error // of up
}

// Buffer implements Caller.
func (c *Asker) Buffer() []byte { return nil }

// Hold implements Caller.
func (c *Asker) Hold(string) {}

// SendHome implements Caller.
func (c *Asker) SendHome(slot int, req []byte, _ bool, then redlock.Exchange, _ redlock.Delivery) {
	reply, err := c.Up.Do(context.Background(), slot, req, true)
	if err != nil {
		c.fault, reply = err, []byte("-ERR "+err.Error()+"\r\n")
	}
	then.Answer(reply)
}

// SendWhole implements Caller.
func (c *Asker) SendWhole(slot int, req []byte, resend bool, then redlock.Exchange) {
	c.SendHome(slot, req, resend, then, nil)
}

// Await implements Caller.
func (*Asker) Await(start func(func([]byte)), then func([]byte) []byte, _ redlock.Delivery) {
	done := make(chan struct{}, 1)
	start(func([]byte) { done <- struct{}{} })
	<-done
	then(nil)
}

// lockNotes is a Locker, which is told what becomes of a LOCK.
type lockNotes interface {
	Granted(a *redlock.Acquire, g *redlock.Grant, came time.Time, by redlock.HoldOwner)
	Refused(a *redlock.Acquire)
}

// Acquired implements Acquirer.
func (c *Asker) Acquired(g redlock.Grant, ok bool, err error) []byte {
	if l, is := c.L.(lockNotes); is && ok {
		l.Granted(c.asked, &g, g.At, nil)
	} else if is {
		l.Refused(c.asked)
	}
	c.grant, c.ok, c.Err = g, ok, err
	return nil
}

// Lost implements Acquirer.
func (*Asker) Lost() {}

// Arrived implements Acquirer.
func (*Asker) Arrived() {}

// Released implements Releaser.
func (c *Asker) Released(r redlock.Released, err error) []byte {
	c.Done, c.Err = r, err
	return nil
}

// Acquire makes one attempt.
func (c *Asker) Acquire(a *redlock.Acquire) (redlock.Grant, bool, error) {
	c.asked = a
	c.L.Acquire(c, a, c)
	if c.fault != nil {
		return redlock.Grant{}, false, c.fault
	}
	return c.grant, c.ok, c.Err
}

// Release releases; it returns 1, 0 or -1 for Null.
func (c *Asker) Release(r *redlock.Release) (int, error) {
	c.L.Release(c, r, c)
	switch {
	case c.Err != nil:
		return 0, c.Err
	case !c.Done.Held:
		return -1, nil
	case c.Done.Whole:
		return 1, nil
	}
	return 0, nil
}

// Renew renews a hold.
func (c *Asker) Renew(r *redlock.Renew) (done redlock.Renewed, err error) {
	c.L.Renew(c, r, func(d redlock.Renewed, e error) []byte {
		done, err = d, e
		return nil
	})
	return done, err
}

// Breaks ends whatever holds a lock.
func (c *Asker) Breaks(name string) (broken bool, err error) {
	c.L.Break(c, name, func(b bool, e error) []byte {
		broken, err = b, e
		return nil
	})
	return broken, err
}

// State reads a lock.
func (c *Asker) State(name string) (state redlock.State, err error) {
	c.L.Inspect(c, name, "", func(s redlock.State, e error) []byte {
		state, err = s, e
		return nil
	})
	return state, err
}

// Noted is a client whose request is not sent but kept, so that a test can send it as often as it likes.
type Noted struct {
	Asker
	Slot int
	Req  []byte
	Then redlock.Exchange
}

// SendHome implements Caller.
func (n *Noted) SendHome(slot int, req []byte, _ bool, then redlock.Exchange, _ redlock.Delivery) {
	n.Slot, n.Req, n.Then = slot, bytes.Clone(req), then
}

// NotedAcquire is the request of a.
func NotedAcquire(l Locking, a *redlock.Acquire) *Noted {
	n := &Noted{Asker: Asker{L: l, asked: a}}
	l.Acquire(n, a, n)
	return n
}

// NotedRelease is the request of a release.
func NotedRelease(l Locking, r *redlock.Release) *Noted {
	n := &Noted{}
	l.Release(n, r, n)
	return n
}

// NotedRenew is the request of a renewal.
func NotedRenew(l Locking, r *redlock.Renew) *Noted {
	n := &Noted{}
	l.Renew(n, r, func(redlock.Renewed, error) []byte { return nil })
	return n
}

// RenewAt renews a hold of the lock job on independent masters, and returns what remains.
func RenewAt(l Locking, token string, lease time.Duration, fence int64) (time.Duration, error) {
	r, err := (&Asker{L: l}).Renew(&redlock.Renew{Name: "job", Token: token, Lease: lease, Fence: fence})
	return r.Left, err
}
