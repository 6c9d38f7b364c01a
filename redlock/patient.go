package redlock

import "context"

// Patient is a Caller that waits for each reply. It is for goroutines that ask for one thing at a time, and
// have no other commands whose order would matter.
type Patient struct {
	Ctx context.Context // it waits no longer than that
	// Home has the locks; nil: independent masters have them, which are not asked through a Caller.
	Home Home
	// Err is why there is no answer. What was asked for may have run then, and is told no outcome.
	Err error
}

// Home is a Redis or a cluster as those ask it who can wait. Safe for concurrent use.
type Home interface {
	// Do runs req, one whole command, on the master of slot and returns the node's RESP2 reply, error
	// replies included. Redirects, lost scripts and fail-over are dealt with inside, but not TRYAGAIN.
	// resend: req may be sent again when its reply was lost. An error means that nobody could be asked, or
	// that it is not known whether req has run.
	Do(ctx context.Context, slot int, req []byte, resend bool) (reply []byte, err error)
	// DoWhole is Do for a request that needs all of its keys at one node: it waits for that.
	DoWhole(ctx context.Context, slot int, req []byte, resend bool) (reply []byte, err error)
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
