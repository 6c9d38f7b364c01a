package redlock

import (
	"context"
	"time"
)

// single is the engine of a Locker over one Redis.
func (l *Locker) single() *single { return l.engine.(*single) }

// quorum is the engine of a Locker over independent masters.
func (l *Locker) quorum() *quorum { return l.engine.(*quorum) }

// asker is a client that asks for one thing at a time and waits for it.
type asker struct {
	l        *Locker
	grant    Grant
	ok       bool
	released Released
	err      error
}

// SendHome implements Caller.
func (k *asker) SendHome(slot int, req []byte, _ bool, then func([]byte) []byte, _ func()) {
	reply, err := k.l.single().upstream.Do(context.Background(), slot, req, true)
	if err != nil {
		reply = []byte("-ERR " + err.Error() + "\r\n")
	}
	then(reply)
}

// Await implements Caller.
func (*asker) Await(start func(func([]byte)), then func([]byte) []byte, _ func()) {
	done := make(chan struct{}, 1)
	start(func([]byte) { done <- struct{}{} })
	<-done
	then(nil)
}

// Acquired implements Acquirer.
func (k *asker) Acquired(g Grant, ok bool, err error) []byte {
	k.grant, k.ok, k.err = g, ok, err
	return nil
}

// Lost implements Acquirer.
func (*asker) Lost() {}

// Released implements Releaser.
func (k *asker) Released(r Released, err error) []byte {
	k.released, k.err = r, err
	return nil
}

// askAt makes one attempt.
func askAt(l *Locker, a *Acquire) (Grant, bool, error) {
	k := asker{l: l}
	l.Acquire(&k, a, &k)
	return k.grant, k.ok, k.err
}

// breakAt ends whatever holds a lock.
func breakAt(l *Locker, name string) (broken bool, err error) {
	l.Break(&asker{l: l}, name, func(b bool, e error) []byte {
		broken, err = b, e
		return nil
	})
	return broken, err
}

// renewedAt renews a hold.
func renewedAt(l *Locker, r *Renew) (done Renewed, err error) {
	l.Renew(&asker{l: l}, r, func(d Renewed, e error) []byte {
		done, err = d, e
		return nil
	})
	return done, err
}

// renewAt renews a hold of the lock job, and returns what remains.
func renewAt(l *Locker, token string, lease time.Duration, fence int64) (time.Duration, error) {
	r, err := renewedAt(l, &Renew{Name: "job", Token: token, Lease: lease, Fence: fence})
	return r.Left, err
}

// stateAt reads the lock job.
func stateAt(l *Locker) (State, error) { return l.engine.state(context.Background(), "job") }
