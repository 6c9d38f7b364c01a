package proxy

import (
	"bytes"
	"context"

	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/redlock"
)

// visitor asks the lock engines one thing for somebody who is no client of a loop, on goroutines of its own.
// There are no other requests whose order would matter, and nobody reads the answer: who asks takes the
// outcome from the function that makes it. It implements redlock.Caller.
type visitor struct {
	ctx    context.Context
	client *pipe.Client
}

// Buffer implements redlock.Caller.
func (v *visitor) Buffer() []byte { return nil }

// SendHome implements redlock.Caller.
func (v *visitor) SendHome(
	slot int, req []byte, resend bool, then redlock.Exchange, _ redlock.Delivery,
) {
	req = bytes.Clone(req)
	go func() { // ends with the reply, at the latest when ctx does
		do := v.client.Do
		if _, splits := then.(redlock.Splitter); splits {
			do = v.client.DoSplit
		}
		reply, err := do(v.ctx, slot, req, resend)
		if err != nil {
			reply = commands.ErrorReply(err)
		}
		then.Answer(reply)
	}()
}

// SendWhole implements redlock.Caller.
func (v *visitor) SendWhole(slot int, req []byte, resend bool, then redlock.Exchange) {
	v.SendHome(slot, req, resend, then, nil)
}

// Hold implements redlock.Caller.
func (v *visitor) Hold(string) {}

// Await implements redlock.Caller.
func (v *visitor) Await(start func(done func([]byte)), then func([]byte) []byte, _ redlock.Delivery) {
	start(func(reply []byte) { then(reply) })
}
