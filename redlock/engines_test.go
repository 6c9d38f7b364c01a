package redlock

import (
	"bytes"
	"context"
	"time"
)

// locking is what a client asks for: a Locker, or an engine.
type locking interface {
	Acquire(by Caller, a *Acquire, to Acquirer)
	Release(by Caller, r *Release, to Releaser)
	Renew(by Caller, r *Renew, then func(Renewed, error) []byte)
	Break(by Caller, name string, then func(broken bool, err error) []byte)
	Inspect(by Caller, name, token string, then func(State, error) []byte)
}

// asker is a client that asks for one thing at a time and waits for it.
type asker struct {
	l        locking
	up       Upstream // of l; nil: independent masters
	grant    Grant
	ok       bool
	released Released
	err      error
	fault    error // of up
}

// Room implements Caller.
func (c *asker) Room() []byte { return nil }

// SendHome implements Caller.
func (c *asker) SendHome(slot int, req []byte, _ bool, then Exchange, _ Delivery) {
	reply, err := c.up.Do(context.Background(), slot, req, true)
	if err != nil {
		c.fault, reply = err, []byte("-ERR "+err.Error()+"\r\n")
	}
	then.Answer(reply)
}

// Await implements Caller.
func (*asker) Await(start func(func([]byte)), then func([]byte) []byte, _ Delivery) {
	done := make(chan struct{}, 1)
	start(func([]byte) { done <- struct{}{} })
	<-done
	then(nil)
}

// Acquired implements Acquirer.
func (c *asker) Acquired(g Grant, ok bool, err error) []byte {
	c.grant, c.ok, c.err = g, ok, err
	return nil
}

// Lost implements Acquirer.
func (*asker) Lost() {}

// Released implements Releaser.
func (c *asker) Released(r Released, err error) []byte {
	c.released, c.err = r, err
	return nil
}

// acquire makes one attempt.
func (c *asker) acquire(a *Acquire) (Grant, bool, error) {
	c.l.Acquire(c, a, c)
	if c.fault != nil {
		return Grant{}, false, c.fault
	}
	return c.grant, c.ok, c.err
}

// release releases; it returns 1, 0 or -1 for Null.
func (c *asker) release(r *Release) (int, error) {
	c.l.Release(c, r, c)
	switch {
	case c.err != nil:
		return 0, c.err
	case !c.released.Held:
		return -1, nil
	case c.released.Whole:
		return 1, nil
	}
	return 0, nil
}

// renew renews a hold.
func (c *asker) renew(r *Renew) (done Renewed, err error) {
	c.l.Renew(c, r, func(d Renewed, e error) []byte {
		done, err = d, e
		return nil
	})
	return done, err
}

// breaks ends whatever holds a lock.
func (c *asker) breaks(name string) (broken bool, err error) {
	c.l.Break(c, name, func(b bool, e error) []byte {
		broken, err = b, e
		return nil
	})
	return broken, err
}

// state reads a lock.
func (c *asker) state(name string) (state State, err error) {
	c.l.Inspect(c, name, "", func(s State, e error) []byte {
		state, err = s, e
		return nil
	})
	return state, err
}

// noted is a client whose request is not sent but kept, so that a test can send it as often as it likes.
type noted struct {
	asker
	slot int
	req  []byte
	then Exchange
}

// SendHome implements Caller.
func (n *noted) SendHome(slot int, req []byte, _ bool, then Exchange, _ Delivery) {
	n.slot, n.req, n.then = slot, bytes.Clone(req), then
}

// notedAcquire is the request of a.
func notedAcquire(l locking, a *Acquire) *noted {
	n := &noted{}
	l.Acquire(n, a, n)
	return n
}

// notedRelease is the request of a release.
func notedRelease(l locking, r *Release) *noted {
	n := &noted{}
	l.Release(n, r, n)
	return n
}

// notedRenew is the request of a renewal.
func notedRenew(l locking, r *Renew) *noted {
	n := &noted{}
	l.Renew(n, r, func(Renewed, error) []byte { return nil })
	return n
}

// renewAt renews a hold of the lock job on independent masters, and returns what remains.
func renewAt(l locking, token string, lease time.Duration, fence int64) (time.Duration, error) {
	r, err := (&asker{l: l}).renew(&Renew{Name: "job", Token: token, Lease: lease, Fence: fence})
	return r.Left, err
}
