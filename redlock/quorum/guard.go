package quorum

import "lockproxy/redlock"

// errGuard is why GUARD does not work here.
var errGuard = redlock.ReplyError("ERR GUARD is not for locks of RedLock: no single Redis knows who holds " +
	"them, so none can look and run a command in one step. Send the fence along instead")

// Guard implements locks.engine.
func (q *Engine) Guard(by redlock.Caller, _ *redlock.Guard, then func(reply []byte, err error) []byte) {
	by.Await(func(done func([]byte)) { done(nil) }, func([]byte) []byte { return then(nil, errGuard) }, nil)
}

// GuardRequest implements locks.engine.
func (q *Engine) GuardRequest(*redlock.Guard) ([]byte, error) { return nil, errGuard }
