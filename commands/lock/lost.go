package lock

import (
	"fmt"

	"lockproxy/internal/resp"
	"lockproxy/redlock/keepalive"
	"lockproxy/redlock/locks"
)

// A hold that was kept alive and is lost is remembered by its token. UNLOCK, RENEW and LOCKCTL CHECK say so
// as often as they are asked when Redis has nothing of the token.
//
// Redis may still have the hold for a moment: its proxy could not renew it in time, and frees it now. Nobody
// keeps it alive any more, so who is told that the token holds the lock would rely on too much. So LOCK and
// RENEW are told of each loss once, before Redis is asked, unless another verb was told of it: after that
// the token may take the lock again. CHECK is told of it if Redis has the very hold that is lost.

// errLost is the error for a client that comes with the token of a lost hold; nil without ok: none was lost.
// then says what to do at last. The name is shortened, for it may be long. Clients know the error by its
// first word.
func errLost(name string, lost keepalive.Lost, ok bool, then string) error {
	if !ok {
		return nil
	}
	return fmt.Errorf("LOCKLOST %s was lost (%s), fence %d: %s. Stop what it protects, then %s",
		resp.Clip([]byte(name)), lost.Why, lost.Fence, lossTexts[lost.Why], then)
}

// The keys are shown as well, in parentheses: they are for programs, the texts for people.
var lossTexts = map[keepalive.Loss]string{
	keepalive.Expired:  "it could not be renewed before its lease was over",
	keepalive.Broken:   "LOCKCTL BREAK took it away",
	keepalive.Max:      "it was renewed MAX times, and its lease is over",
	keepalive.Gone:     "Redis does not have it any more",
	keepalive.Together: "another lock of the same MLOCK was lost, and all are kept alive or none",
}

// What a client is to do at last. A verb that was not run may be repeated.
const (
	thenAgain = "send this command again: it was not run"
	thenLock  = "lock again"
)

// untold is the error for a loss that nobody who came with the token was told of. then says what to do at
// last.
func untold(l *locks.Locker, name, token string, fence int64, then string) error {
	lost, ok := l.Untold(name, token, fence)
	return errLost(name, lost, ok, then)
}

// whyNothing is the error for a verb if Redis has no hold of the token because that was lost. A fence that is
// not 0 is that of the only hold that was meant. nil: it is not remembered as lost, so it never was a hold,
// or has ended in order.
func whyNothing(l *locks.Locker, name, token string, fence int64) error {
	lost, ok := l.Lost(name, token, fence)
	return errLost(name, lost, ok, thenLock)
}

// lostMeanwhile is the error for a verb that found a hold of the token, if that was lost while the verb was
// on its way: after the first so many losses. so is Locker.Losses, read before the verb was sent. Redis has
// the hold, but its proxy has told a client that it is lost, so nobody may rely on it.
func lostMeanwhile(l *locks.Locker, so uint64, name, token string, fence int64) error {
	lost, ok := l.Relied(so, name, token, fence)
	return errLost(name, lost, ok, thenLock)
}
