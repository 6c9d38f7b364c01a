package commands_test

import (
	"strings"
	"testing"
	"time"

	"lockproxy/redlock/locks"
)

// Errors of the syntax say what is wrong and end with the verb's own line. R10
func TestLockSyntax(t *testing.T) {
	const (
		lockLine = ". Syntax: LOCK key [TOKEN token] [PX milliseconds | EX seconds] [WAIT milliseconds " +
			"| TRIES count EVERY milliseconds] [NOTIFY channel] [REENTRANT] [KEEPALIVE [MAX renewals] " +
			"[LINGER milliseconds]] [SYNC replicas] [META text] [ATLEAST milliseconds] [BREAK] [ID id]"
		semLine = ". Syntax: SEMLOCK key PERMITS count [TOKEN token] [PX milliseconds | EX seconds] [WAIT " +
			"milliseconds | TRIES count EVERY milliseconds] [NOTIFY channel] [KEEPALIVE [MAX renewals] " +
			"[LINGER milliseconds]] [SYNC replicas] [META text] [ATLEAST milliseconds] [ID id]"
		unlockLine = ". Syntax: UNLOCK key [token | TOKEN token] [FENCE fence] [ID id]"
		renewLine  = ". Syntax: RENEW key [token | TOKEN token] [PX milliseconds | EX seconds] [FENCE " +
			"fence] [KEEPALIVE [MAX renewals] [LINGER milliseconds]]"
		listLine = ". Syntax: LOCKCTL LIST [MATCH pattern] [COUNT count] [SCAN]"
		ctlLine  = ". Syntax: LOCKCTL BREAK key | CHECK key token | HELP | INFO key | LIST [MATCH " +
			"pattern] [COUNT count] [SCAN] | STATS [ALL] | WATCH [MATCH pattern]"
	)
	long := strings.Repeat("x", 1025)
	tests := []struct{ command, want string }{
		{"LOCK", "wrong number of arguments" + lockLine},
		{"LOCK job PX", "PX needs a value" + lockLine},
		{"LOCK job PX 0", `PX must be a whole number from 1 to 60000, which is lock-max-lease, not "0"` +
			lockLine},
		{"LOCK job PX 60001",
			`PX must be a whole number from 1 to 60000, which is lock-max-lease, not "60001"` + lockLine},
		{"LOCK job PX 12x", `PX must be a whole number from 1 to 60000, which is lock-max-lease, not "12x"` +
			lockLine},
		{"LOCK job PX +5", `PX must be a whole number from 1 to 60000, which is lock-max-lease, not "+5"` +
			lockLine},
		{"LOCK job PX 007", `PX must be a whole number from 1 to 60000, which is lock-max-lease, not "007"` +
			lockLine},
		{`LOCK job PX ""`, `PX must be a whole number from 1 to 60000, which is lock-max-lease, not ""` +
			lockLine},
		{"LOCK job EX 61", `EX must be a whole number from 1 to 60, which is lock-max-lease, not "61"` +
			lockLine},
		{"LOCK job EX 9223372036854775807",
			`EX must be a whole number from 1 to 60, which is lock-max-lease, not "9223372036854775807"` +
				lockLine},
		{"LOCK job WAIT -1",
			`WAIT must be a whole number from 0 to 600000, which is lock-max-wait, not "-1"` + lockLine},
		{"LOCK job EVERY 5 TRIES 0", `TRIES must be a whole number from 1 to 1000000, not "0"` + lockLine},
		{"LOCK job PX 5 EX 5", "PX and EX exclude each other" + lockLine},
		{"LOCK job px 5 px 5", "PX is given twice" + lockLine},
		{"LOCK job REENTRANT REENTRANT", "REENTRANT is given twice" + lockLine},
		{"LOCK job WAIT 5 TRIES 3 EVERY 5", "WAIT and TRIES exclude each other" + lockLine},
		{"LOCK job WAIT 5 EVERY 5", "TRIES and EVERY need each other" + lockLine},
		{"LOCK job TRIES 5", "TRIES and EVERY need each other" + lockLine},
		{"LOCK job EVERY 5", "TRIES and EVERY need each other" + lockLine},
		{"LOCK job TOKEN t NOTIFY c", "NOTIFY needs WAIT, or TRIES and EVERY" + lockLine},
		{"LOCK job BREAK WAIT 5", "BREAK and WAIT exclude each other" + lockLine},
		{"LOCK job TRIES 2 EVERY 5 BREAK", "TRIES and BREAK exclude each other" + lockLine},
		{"LOCK job BREAK EVERY 5", "TRIES and EVERY need each other" + lockLine},
		{"LOCK job BREAK TOKEN t NOTIFY c", "BREAK and NOTIFY exclude each other" + lockLine},
		{"LOCK job BREAK BREAK", "BREAK is given twice" + lockLine},
		{"LOCK job WAIT 5 NOTIFY c", "NOTIFY needs TOKEN, for messages do not tell it" + lockLine},
		{"LOCK job WAIT 5 TOKEN t NOTIFY", "NOTIFY needs a value" + lockLine},
		{"LOCK job WAIT 5 TOKEN t NOTIFY " + long, "NOTIFY has a channel of 1 to 1024 bytes, this one has " +
			"1025" + lockLine},
		{"UNLOCK job t NOTIFY c", "two tokens are given" + unlockLine},
		{"LOCK job TOKEN", "TOKEN needs a value" + lockLine},
		{`LOCK job TOKEN ""`, "a token has 1 to 1024 bytes, this one has 0" + lockLine},
		{"LOCK job TOKEN " + long, "a token has 1 to 1024 bytes, this one has 1025" + lockLine},
		{"LOCK job mine", `argument 2 is no option of LOCK` + lockLine},
		{"LOCK job FENCE 5", `FENCE is no option of LOCK` + lockLine},
		{"LOCK job MAX 3", "MAX needs KEEPALIVE" + lockLine},
		{"LOCK job KEEPALIVE MAX 0", `MAX must be a whole number from 1 to 1000000000, not "0"` + lockLine},
		{"LOCK job KEEPALIVE MAX", "MAX needs a value" + lockLine},
		{"LOCK job KEEPALIVE 3", `argument 3 is no option of LOCK` + lockLine},
		{"LOCK job KEEPALIVE KEEPALIVE", "KEEPALIVE is given twice" + lockLine},
		{"LOCK job SYNC 17", `SYNC must be a whole number from 0 to 16, not "17"` + lockLine},
		{"LOCK job ATLEAST", "ATLEAST needs a value" + lockLine},
		{"LOCK job META " + long, "META has 1024 bytes at most, this one has 1025" + lockLine},
		{"RENEW job t MAX 3", "MAX needs KEEPALIVE" + renewLine},
		{"RENEW job t META x", "two tokens are given" + renewLine},
		{"SEMLOCK job", "wrong number of arguments" + semLine},
		{"SEMLOCK job PX 5", "PERMITS is missing: it says how many permits there are" + semLine},
		{"SEMLOCK job PERMITS 0", `PERMITS must be a whole number from 1 to 1000, not "0"` + semLine},
		{"SEMLOCK job PERMITS 1001", `PERMITS must be a whole number from 1 to 1000, not "1001"` + semLine},
		{"SEMLOCK job PERMITS 2 PERMITS 2", "PERMITS is given twice" + semLine},
		{"SEMLOCK job PERMITS 2 REENTRANT", "REENTRANT is no option of SEMLOCK" + semLine},
		{"SEMLOCK job PERMITS 2 ATLEAST", "ATLEAST needs a value" + semLine},
		{"SEMLOCK job PERMITS 2 BREAK", "BREAK is no option of SEMLOCK" + semLine},
		{"SEMLOCK job PERMITS 2 mine", "argument 4 is no option of SEMLOCK" + semLine},
		{"LOCK job PERMITS 2", "PERMITS is no option of LOCK" + lockLine},
		{"LOCKCTL LIST 5", `"5" is no option of LOCKCTL LIST` + listLine},
		{"LOCKCTL LIST MATCH", "MATCH needs a value" + listLine},
		{"LOCKCTL LIST MATCH a MATCH b", "MATCH is given twice" + listLine},
		{"LOCKCTL LIST COUNT 0", `COUNT must be a whole number from 1 to 10000, not "0"` + listLine},
		{"LOCKCTL LIST COUNT 10001", `COUNT must be a whole number from 1 to 10000, not "10001"` + listLine},
		{"LOCKCTL BREAK", "wrong number of arguments. Syntax: LOCKCTL BREAK key"},
		{"LOCKCTL STATS job", `"job" is no option of LOCKCTL STATS. Syntax: LOCKCTL STATS [ALL]`},
		{"LOCKCTL STATS ALL job", `"job" is one argument too many. Syntax: LOCKCTL STATS [ALL]`},
		{"RLOCK job PX no", `PX must be a whole number from 1 to 60000, which is lock-max-lease, not "no"` +
			strings.Replace(lockLine, "LOCK", "RLOCK", 1)},
		{"UNLOCK", "wrong number of arguments" + unlockLine},
		{"UNLOCK job t u", "two tokens are given" + unlockLine},
		{"UNLOCK job t TOKEN u", "two tokens are given" + unlockLine},
		{"UNLOCK job TOKEN t u", "two tokens are given" + unlockLine},
		{`UNLOCK job ""`, "a token has 1 to 1024 bytes, this one has 0" + unlockLine},
		{"UNLOCK job t FENCE 0", `FENCE must be a whole number from 1 to 9007199254740992, not "0"` +
			unlockLine},
		{"UNLOCK job t PX 5", "two tokens are given" + unlockLine},
		{"RENEW", "wrong number of arguments" + renewLine},
		{"RENEW job t PX zero",
			`PX must be a whole number from 1 to 60000, which is lock-max-lease, not "zero"` + renewLine},
		{"LOCKCTL", "wrong number of arguments" + ctlLine},
		{"LOCKCTL INFO", "wrong number of arguments. Syntax: LOCKCTL INFO key"},
		{"LOCKCTL CHECK job", "wrong number of arguments. Syntax: LOCKCTL CHECK key token"},
	}
	withLocks(t, locks.Options{MaxLease: time.Minute},
		func(t *testing.T, session func() *client) {
			s := session()
			for _, tt := range tests {
				if got, want := s.Do(tt.command), "-ERR "+tt.want+"\r\n"; got != want {
					t.Errorf("%.80s\n got %s\nwant %s", tt.command, got, want)
				}
				if len(s.Sent) > 0 {
					t.Errorf("%s reached Redis: %q", tt.command, s.Sent)
				}
			}
			if got := readable(s.Do("LOCKCTL INFO job")); !strings.HasPrefix(got,
				"*[state free") {
				t.Error(got)
			}
		})
}
