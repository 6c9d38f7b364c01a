package commands_test

import (
	"strings"
	"testing"
	"time"

	"lockproxy/redlock/locks"
)

// A LOCK with KEEPALIVE that is given back, or whose outcome is not known, leaves alone what its token held
// before: that hold is kept alive as before. R18 R26
func TestEarlierHoldIsKeptAfterNoReplicas(t *testing.T) {
	for _, again := range []string{"LOCK job TOKEN t PX 3000 KEEPALIVE SYNC 1",
		"LOCK job TOKEN t PX 3000 REENTRANT KEEPALIVE SYNC 1"} {
		withLocks(t, locks.Options{}, func(t *testing.T, session func() *client) {
			a, b := session(), session()
			a.Do("HELLO 3")
			begins(t, a, "LOCK job TOKEN t PX 3000 KEEPALIVE", "*[t ")
			begins(t, a, again, "-NOREPLICAS 0/1 ")
			time.Sleep(20 * time.Second)
			begins(t, b, "LOCK job", "$nil") // the first LOCK is kept alive still
			if got := readable(b.Do("LOCKCTL CHECK job t")); !strings.HasPrefix(got, "*[") {
				t.Errorf("%s: after 20 s the hold of the first LOCK is gone: CHECK %s, pushed %q", again, got,
					a.Pushed)
			}
		})
	}
}

// A LOCK or RENEW with KEEPALIVE whose reply is lost: the hold of before is kept alive still, or its end is
// told. R18
func TestEarlierHoldAfterALostReply(t *testing.T) {
	for _, verb := range []string{"LOCK job TOKEN t PX 3000 KEEPALIVE", "RENEW job t PX 3000 KEEPALIVE"} {
		t.Run(verb, func(t *testing.T) {
			withLocks(t, locks.Options{}, func(t *testing.T, session func() *client) {
				a, b := session(), session()
				a.Do("HELLO 3")
				begins(t, a, "LOCK job TOKEN t PX 3000 KEEPALIVE", "*[t ")
				node := a.Masters[0]
				a.Masters[0] = func(args []string) string {
					node(args)
					return "-CLUSTERDOWN it is not known whether this has run\r\n"
				}
				begins(t, a, verb, "-CLUSTERDOWN ")
				a.Masters[0] = node
				time.Sleep(20 * time.Second)
				if got := readable(b.Do("LOCK job")); got == "$nil" {
					return // it is kept alive
				}
				told := readable(a.Do("UNLOCK job t"))
				if a.Pushed == "" && !strings.HasPrefix(told, "-LOCKLOST ") {
					t.Errorf("%s: another has the lock, and who kept it was told nothing: UNLOCK %s", verb,
						told)
				}
			})
		})
	}
}

// An MLOCK with KEEPALIVE that waits in vain leaves what its token held before: that is kept alive as before.
// R18
func TestMlockInVainKeepsWhatWasKept(t *testing.T) {
	for _, wait := range []string{"", " WAIT 500", " WAIT 5000"} {
		t.Run("wait"+wait, func(t *testing.T) {
			withLocks(t, locks.Options{}, func(t *testing.T, session func() *client) {
				a, b := session(), session()
				a.Do("HELLO 3")
				begins(t, a, "LOCK two TOKEN t PX 3000 KEEPALIVE", "*[t ")
				begins(t, b, "LOCK one TOKEN u PX 600000", "*[u ")
				begins(t, a, "MLOCK 2 one two TOKEN t PX 3000 KEEPALIVE"+wait, "_nil")
				time.Sleep(20 * time.Second)
				if got := readable(b.Do("LOCK two TOKEN v")); got != "$nil" {
					t.Errorf("another has it: %s; the connection that kept it alive was told %q, UNLOCK %s",
						strings.TrimSpace(got), a.Pushed, readable(a.Do("UNLOCK two t")))
				}
			})
		})
	}
}
