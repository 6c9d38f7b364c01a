package single

import (
	"bytes"

	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

// Inspect implements locks.engine. What a client is told of its own hold it relies on, so that is not taken
// back any more. As long as it is about to be, it is not told of.
func (e *Engine) Inspect(by redlock.Caller, name, token string, then func(redlock.State, error) []byte) {
	refuse := func(err error) []byte { return then(redlock.State{}, err) }
	if e.RefuseUndoing(by, name, token, refuse) {
		return
	}
	if token != "" {
		e.grants.Changed(name)
	}
	e.readPage(by, name, token, &scripts.Pages{}, then)
}

// readPage asks for one page of a lock, and then for the next, until it has them all. p has what was read so
// far. The reply is copied, since p keeps parts of it.
func (e *Engine) readPage(
	by redlock.Caller, name, token string, p *scripts.Pages, then func(redlock.State, error) []byte,
) {
	c := scripts.InspectCall(e.names, name, token, p)
	by.SendHome(c.Slot, c.Req, true, redlock.ExchangeFunc(func(reply []byte) []byte {
		s, err := e.readLock(name, bytes.Clone(reply), p)
		if err == redlock.ErrAgain {
			e.readPage(by, name, token, p, then)
			return nil
		}
		return then(s, err)
	}), nil)
}

// readLock reads one page of a lock. After ErrAgain ask for the next one.
func (e *Engine) readLock(name string, reply []byte, p *scripts.Pages) (redlock.State, error) {
	s, err := scripts.ReadLock(reply, p)
	s.Key = e.names.Place(name).Key
	return s, err
}
