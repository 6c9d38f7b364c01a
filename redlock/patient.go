package redlock

import (
	"cmp"
	"context"
)

// Patient is a Caller that waits for each reply. It is for goroutines that ask for one thing at a time, and
// have no other commands whose order would matter. It serves one request, and is told the outcome itself: it
// implements Acquirer and Releaser.
type Patient struct {
	Ctx context.Context // it waits no longer than that
	// Home has the locks; nil: independent masters have them, which are not asked through a Caller.
	Home Home
	// Err is the error that Acquired or Released was told; if none of them was called, why there is no
	// answer: what was asked for may have run then.
	Err  error
	Told bool     // Acquired was called
	Done Released // the outcome of a Release

	grant Grant
	ok    bool
}

func (p *Patient) Acquired(g Grant, ok bool, err error) []byte {
	p.grant, p.ok, p.Err, p.Told = g, ok, err, true
	return nil
}

func (p *Patient) Released(r Released, err error) []byte {
	p.Done, p.Err = r, err
	return nil
}

// Lost and Arrived implement Delivery: whoever waits has the answer.
func (*Patient) Lost()    {}
func (*Patient) Arrived() {}

// Acquire asks for a lock once, by the method of an engine. Without ok and without an error a is in the queue
// if it may wait.
func (p *Patient) Acquire(ask func(Caller, *Acquire, Acquirer), a *Acquire) (g Grant, ok bool, err error) {
	ask(p, a, p)
	if !p.Told { // others may look at a already
		a.Unsure = true
	}
	return p.grant, p.ok, p.Err
}

// Release frees a hold, by the method of an engine.
func (p *Patient) Release(ask func(Caller, *Release, Releaser), r *Release) (Released, error) {
	ask(p, r, p)
	return p.Done, p.Err
}

// Ask is the outcome of what is asked on behalf of p, by a method of an engine that tells it to then.
func Ask[T any](p *Patient, ask func(by *Patient, then func(T, error) []byte)) (is T, err error) {
	ask(p, func(one T, failed error) []byte {
		is, err = one, failed
		return nil
	})
	return is, cmp.Or(p.Err, err)
}

// Buffer implements Caller.
func (*Patient) Buffer() []byte { return nil }

// Hold implements Caller: there are no later commands.
func (*Patient) Hold(string) {}

// SendHome implements Caller.
func (p *Patient) SendHome(slot int, req []byte, resend bool, then Exchange, _ Delivery) {
	do := p.Home.DoWhole
	if _, splits := then.(Splitter); splits {
		do = p.Home.Do
	}
	reply, err := do(p.Ctx, slot, req, resend)
	if err != nil {
		p.Err = err
		return
	}
	then.Answer(reply)
}

// SendWhole implements Caller.
func (p *Patient) SendWhole(slot int, req []byte, resend bool, then Exchange) {
	p.SendHome(slot, req, resend, then, nil)
}

// Await implements Caller.
func (p *Patient) Await(start func(done func([]byte)), then func([]byte) []byte, _ Delivery) {
	said := make(chan []byte, 1)
	start(func(reply []byte) { said <- reply })
	select {
	case reply := <-said:
		then(reply)
	case <-p.Ctx.Done():
		p.Err = context.Cause(p.Ctx)
	}
}
