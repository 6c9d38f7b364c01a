package single

import (
	"bytes"

	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

// Guard implements locks.engine. While the slot moves, other commands of the client for the lock may be in
// their steps, or have to go in steps: a Guard waits for those before it, and those behind it wait for the
// Guard.
func (e *Engine) Guard(by redlock.Caller, g *redlock.Guard, then func(reply []byte, err error) []byte) {
	slot, c := scripts.GuardCall(e.names, g)
	send := func() []byte {
		e.guard(by, slot, c.Req, g.Again, then)
		return nil
	}
	if e.steps.moving(slot) {
		by.Hold(g.Name)
		if by.Later(send, nil) {
			return
		}
	}
	send()
}

func (e *Engine) guard(
	by redlock.Caller, slot int, req []byte, again bool, then func(reply []byte, err error) []byte,
) {
	by.SendWhole(slot, req, again, exchange(func(reply []byte) []byte {
		if bytes.HasPrefix(reply, []byte(redlock.NotHeld)) &&
			e.steps.overtook(by, slot, func() { e.guard(by, slot, req, again, then) }) {
			return nil
		}
		return then(reply, nil)
	}))
}

// GuardRequest implements locks.engine.
func (e *Engine) GuardRequest(g *redlock.Guard) ([]byte, error) {
	_, c := scripts.GuardCall(e.names, g)
	return c.Req, nil
}
