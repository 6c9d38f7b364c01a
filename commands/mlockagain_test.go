package commands_test

import (
	"testing"

	"lockproxy/redlock/locks"
)

// The same MLOCK may be sent again, also when few holds are left that may be kept alive: it makes no more of
// them. R18
func TestMlockAgainMakesNoMoreHolds(t *testing.T) {
	withLocks(t, locks.Options{MaxKept: 6}, func(t *testing.T, session func() *client) {
		a := session()
		begins(t, a, "MLOCK 2 one two TOKEN t KEEPALIVE", "*[t ")
		begins(t, a, "LOCK three TOKEN t KEEPALIVE", "*[t ")
		begins(t, a, "LOCK one TOKEN t KEEPALIVE", "*[t ")
		begins(t, a, "RENEW two t KEEPALIVE", "30000")
		begins(t, a, "MLOCK 2 one two TOKEN t KEEPALIVE", "*[t ")
	})
}
