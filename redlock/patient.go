package redlock

import (
	"cmp"
	"context"
)

// Patient is a Caller that waits for each reply. It is for goroutines that ask for one thing at a time, and
// have no other commands whose order would matter.
type Patient struct {
	Ctx context.Context // it waits no longer than that
	// Home has the locks; nil: independent masters have them, which are not asked through a Caller.
	Home Home
	// Err is why there is no answer. What was asked for may have run then, and is told no outcome.
	Err error
}

// outcome is what a Patient was told. It implements Acquirer and Releaser.
type outcome struct {
	grant    Grant
	ok       bool
	released Released
	err      error
}

func (o *outcome) Acquired(g Grant, ok bool, err error) []byte {
	o.grant, o.ok, o.err = g, ok, err
	return nil
}

func (o *outcome) Released(r Released, err error) []byte {
	o.released, o.err = r, err
	return nil
}

// Lost and Arrived implement Delivery: whoever waits has the answer.
func (*outcome) Lost()    {}
func (*outcome) Arrived() {}

// Acquire asks for a lock once, by the method of an engine. Without ok and without an error a is in the queue
// if it may wait.
func (p *Patient) Acquire(ask func(Caller, *Acquire, Acquirer), a *Acquire) (g Grant, ok bool, err error) {
	var is outcome
	if ask(p, a, &is); p.Err != nil {
		a.Unsure = true
		return g, false, p.Err
	}
	return is.grant, is.ok, is.err
}

// Release frees a hold, by the method of an engine.
func (p *Patient) Release(ask func(Caller, *Release, Releaser), r *Release) (Released, error) {
	var is outcome
	ask(p, r, &is)
	return is.released, cmp.Or(p.Err, is.err)
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
