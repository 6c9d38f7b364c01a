package single

import (
	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

// Guard implements locks.beside. While the slot moves it may have to wait, and later commands of the client
// about the lock wait with it.
func (e *Engine) Guard(by redlock.Caller, g *redlock.Guard, then func(reply []byte, err error) []byte) {
	c := scripts.GuardCall(e.names, g)
	if e.moving(c.Slot) {
		by.Hold(g.Name)
	}
	by.SendWhole(c.Slot, c.Req, g.Again, redlock.ExchangeFunc(func(reply []byte) []byte {
		return then(reply, nil)
	}))
}

// GuardRequest implements locks.beside.
func (e *Engine) GuardRequest(g *redlock.Guard) []byte {
	return scripts.GuardCall(e.names, g).Req
}
