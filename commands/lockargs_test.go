package commands

import (
	"strings"
	"testing"
	"time"

	"lockproxy/redlock"
)

// What is read, in any case and order; a word that is an option's name is the option.
func TestLockArgs(t *testing.T) {
	l := redlock.New(nil, redlock.Options{})
	verbs := syntaxes(l)
	for line, want := range map[string]lockArgs{
		"LOCK job":                                {name: "job"},
		"LOCK PX":                                 {name: "PX"},
		`LOCK ""`:                                 {},
		"LOCK job px 86400000":                    {name: "job", lease: 24 * time.Hour},
		"LOCK job Ex 86400":                       {name: "job", lease: 24 * time.Hour},
		"LOCK job TOKEN PX PX 5":                  {name: "job", token: "PX", lease: 5 * time.Millisecond},
		"LOCK job TOKEN KEEPALIVE":                {name: "job", token: "KEEPALIVE"},
		"LOCK job WAIT 250":                       {name: "job", wait: 250 * time.Millisecond},
		"LOCK job WAIT 0":                         {name: "job", wait: 10 * time.Minute},
		"LOCK job every 100 tries 1000000":        {name: "job", tries: 1_000_000, every: 100 * time.Millisecond},
		"WLOCK job WAIT 5 reentrant PX 7":         {name: "job", wait: 5 * time.Millisecond, reentrant: true, lease: 7 * time.Millisecond},
		"RLOCK job PX 7 TOKEN t WAIT 5":           {name: "job", wait: 5 * time.Millisecond, token: "t", lease: 7 * time.Millisecond},
		"LOCK job KEEPALIVE":                      {name: "job", keep: true},
		"LOCK job keepalive max 3 PX 5":           {name: "job", keep: true, renewals: 3, lease: 5 * time.Millisecond},
		"RLOCK job MAX 1000000000 PX 5 KEEPALIVE": {name: "job", keep: true, renewals: 1_000_000_000, lease: 5 * time.Millisecond},
		"LOCK job SYNC 0 META KEEPALIVE":          {name: "job", syncs: true, meta: "KEEPALIVE"},
		"WLOCK job SYNC 16":                       {name: "job", syncs: true, replicas: 16},
		"RENEW job t KEEPALIVE MAX 7":             {name: "job", token: "t", keep: true, renewals: 7},
		"RENEW job KEEPALIVE":                     {name: "job", keep: true},
		"UNLOCK job KEEPALIVE":                    {name: "job", token: "KEEPALIVE"}, // no option of UNLOCK
		"UNLOCK job":                              {name: "job"},
		"UNLOCK job PX":                           {name: "job", token: "PX"}, // no option of UNLOCK
		"UNLOCK job TOKEN FENCE":                  {name: "job", token: "FENCE"},
		"UNLOCK job t FENCE 7":                    {name: "job", token: "t", fence: 7},
		"UNLOCK job FENCE 7 t":                    {name: "job", token: "t", fence: 7},
		"UNLOCK job fence 9007199254740992":       {name: "job", fence: 1 << 53},
		"RENEW job PX 9 t":                        {name: "job", token: "t", lease: 9 * time.Millisecond},
		"RENEW job TOKEN t EX 9 FENCE 1":          {name: "job", token: "t", lease: 9 * time.Second, fence: 1},
	} {
		var args [][]byte
		for _, word := range strings.Fields(line) {
			args = append(args, []byte(strings.ReplaceAll(word, `""`, "")))
		}
		var got lockArgs
		if err := got.parse(verbs[string(args[0])], l, args); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", line, got, err, want)
		}
	}
}

// syntaxes are those of the verbs, by name in capitals.
func syntaxes(l *redlock.Locker) map[string]*lockSyntax {
	verbs := map[string]*lockSyntax{}
	for _, v := range LockVerbs(Lockers{Plain: l}, 100) {
		if v.Subs == nil {
			verbs[strings.ToUpper(v.Name)] = newLockSyntax(v)
		}
	}
	return verbs
}

// Errors of the syntax say what is wrong and end with the verb's own line. R10
func TestLockSyntax(t *testing.T) {
	const (
		lockLine   = ". Syntax: LOCK key [TOKEN token] [PX milliseconds | EX seconds] [WAIT milliseconds | TRIES count EVERY milliseconds] [REENTRANT] [KEEPALIVE [MAX renewals]] [SYNC replicas] [META text] [ID id]"
		unlockLine = ". Syntax: UNLOCK key [token | TOKEN token] [FENCE fence] [ID id]"
		renewLine  = ". Syntax: RENEW key [token | TOKEN token] [PX milliseconds | EX seconds] [FENCE fence] [KEEPALIVE [MAX renewals]]"
		listLine   = ". Syntax: LOCKCTL LIST [MATCH pattern] [COUNT count]"
		ctlLine    = ". Syntax: LOCKCTL BREAK key | CHECK key token | HELP | INFO key | LIST [MATCH pattern] [COUNT count] | STATS"
	)
	long := strings.Repeat("x", maxToken+1)
	tests := []struct{ command, want string }{
		{"LOCK", "wrong number of arguments" + lockLine},
		{"LOCK job PX", "PX needs a value" + lockLine},
		{"LOCK job PX 0", `PX must be a whole number from 1 to 60000, which is lock-max-lease, not "0"` + lockLine},
		{"LOCK job PX 60001", `PX must be a whole number from 1 to 60000, which is lock-max-lease, not "60001"` + lockLine},
		{"LOCK job PX 12x", `PX must be a whole number from 1 to 60000, which is lock-max-lease, not "12x"` + lockLine},
		{"LOCK job PX +5", `PX must be a whole number from 1 to 60000, which is lock-max-lease, not "+5"` + lockLine},
		{"LOCK job PX 007", `PX must be a whole number from 1 to 60000, which is lock-max-lease, not "007"` + lockLine},
		{`LOCK job PX ""`, `PX must be a whole number from 1 to 60000, which is lock-max-lease, not ""` + lockLine},
		{"LOCK job EX 61", `EX must be a whole number from 1 to 60, which is lock-max-lease, not "61"` + lockLine},
		{"LOCK job EX 9223372036854775807", `EX must be a whole number from 1 to 60, which is lock-max-lease, not "9223372036854775807"` + lockLine},
		{"LOCK job WAIT -1", `WAIT must be a whole number from 0 to 600000, which is lock-max-wait, not "-1"` + lockLine},
		{"LOCK job EVERY 5 TRIES 0", `TRIES must be a whole number from 1 to 1000000, not "0"` + lockLine},
		{"LOCK job PX 5 EX 5", "PX and EX exclude each other" + lockLine},
		{"LOCK job px 5 px 5", "PX is given twice" + lockLine},
		{"LOCK job REENTRANT REENTRANT", "REENTRANT is given twice" + lockLine},
		{"LOCK job WAIT 5 TRIES 3 EVERY 5", "WAIT and TRIES exclude each other" + lockLine},
		{"LOCK job WAIT 5 EVERY 5", "TRIES and EVERY need each other" + lockLine},
		{"LOCK job TRIES 5", "TRIES and EVERY need each other" + lockLine},
		{"LOCK job EVERY 5", "TRIES and EVERY need each other" + lockLine},
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
		{"LOCK job META " + long, "META has 1024 bytes at most, this one has 1025" + lockLine},
		{"RENEW job t MAX 3", "MAX needs KEEPALIVE" + renewLine},
		{"RENEW job t META x", "two tokens are given" + renewLine},
		{"LOCKCTL LIST 5", `"5" is no option of LOCKCTL LIST` + listLine},
		{"LOCKCTL LIST MATCH", "MATCH needs a value" + listLine},
		{"LOCKCTL LIST MATCH a MATCH b", "MATCH is given twice" + listLine},
		{"LOCKCTL LIST COUNT 0", `COUNT must be a whole number from 1 to 10000, not "0"` + listLine},
		{"LOCKCTL LIST COUNT 10001", `COUNT must be a whole number from 1 to 10000, not "10001"` + listLine},
		{"LOCKCTL BREAK", "wrong number of arguments. Syntax: LOCKCTL BREAK key"},
		{"LOCKCTL STATS job", "wrong number of arguments. Syntax: LOCKCTL STATS"},
		{"RLOCK job PX no", `PX must be a whole number from 1 to 60000, which is lock-max-lease, not "no"` + strings.Replace(lockLine, "LOCK", "RLOCK", 1)},
		{"UNLOCK", "wrong number of arguments" + unlockLine},
		{"UNLOCK job t u", "two tokens are given" + unlockLine},
		{"UNLOCK job t TOKEN u", "two tokens are given" + unlockLine},
		{"UNLOCK job TOKEN t u", "two tokens are given" + unlockLine},
		{`UNLOCK job ""`, "a token has 1 to 1024 bytes, this one has 0" + unlockLine},
		{"UNLOCK job t FENCE 0", `FENCE must be a whole number from 1 to 9007199254740992, not "0"` + unlockLine},
		{"UNLOCK job t PX 5", "two tokens are given" + unlockLine},
		{"RENEW", "wrong number of arguments" + renewLine},
		{"RENEW job t PX zero", `PX must be a whole number from 1 to 60000, which is lock-max-lease, not "zero"` + renewLine},
		{"LOCKCTL", "wrong number of arguments" + ctlLine},
		{"LOCKCTL INFO", "wrong number of arguments. Syntax: LOCKCTL INFO key"},
		{"LOCKCTL CHECK job", "wrong number of arguments. Syntax: LOCKCTL CHECK key token"},
	}
	withLocks(t, redlock.Options{MaxLease: time.Minute}, func(t *testing.T, session func() *fakeSession) {
		s := session()
		for _, tt := range tests {
			if got, want := s.do(tt.command), "-ERR "+tt.want+"\r\n"; got != want {
				t.Errorf("%.80s\n got %s\nwant %s", tt.command, got, want)
			}
			if len(s.sent) > 0 {
				t.Errorf("%s reached Redis: %q", tt.command, s.sent)
			}
		}
		if got := read(s.do("LOCKCTL INFO job")); !strings.HasPrefix(got, "*[state free") {
			t.Error(got)
		}
	})
}

// FuzzLockArgs has clients give verbs anything: it is an error with the syntax, or
// arguments within their bounds that only depend on what was given.
func FuzzLockArgs(f *testing.F) {
	for _, verb := range []string{"LOCK", "WLOCK", "RLOCK", "UNLOCK", "RENEW"} {
		f.Add(verb + " job t")
		f.Add(verb + " job TOKEN t PX 5000 FENCE 7 KEEPALIVE MAX 3")
		f.Add(verb + " job token t EX 5 WAIT 0 REENTRANT SYNC 1 META m ID a-1")
		f.Add(verb + " job TRIES 3 EVERY 1000")
	}
	f.Add("LOCK job PX 18446744073709551617 EX -9223372036854775808")
	f.Add("UNLOCK  TOKEN TOKEN FENCE FENCE")
	l := redlock.New(nil, redlock.Options{})
	verbs := syntaxes(l)
	f.Fuzz(func(t *testing.T, line string) {
		var args [][]byte
		for word := range strings.SplitSeq(line, " ") {
			args = append(args, []byte(word))
		}
		s := verbs[strings.ToUpper(string(args[0]))]
		if s == nil || len(args) < 2 {
			return
		}
		var a, b lockArgs
		err := a.parse(s, l, args)
		if err != nil {
			if text := err.Error(); !strings.HasPrefix(text, "ERR ") ||
				!strings.Contains(text, ". Syntax: "+strings.ToUpper(s.verb.Name)+" ") {
				t.Errorf("%q: %v", line, err)
			}
			return
		}
		if a.lease < 0 || a.lease > l.MaxLease() || a.wait < 0 || a.wait > l.MaxWait() || a.tries < 0 || a.tries > maxTries ||
			a.fence < 0 || a.fence > maxFence || len(a.token) > maxToken || a.wait > 0 && a.tries > 0 ||
			a.renewals < 0 || a.renewals > maxRenewals || a.renewals > 0 && !a.keep || a.replicas < 0 || a.replicas > maxReplicas || a.replicas > 0 && !a.syncs ||
			len(a.meta) > maxMeta || a.name != string(args[1]) {
			t.Errorf("%q: %+v", line, a)
		}
		if b.parse(s, l, args) != nil || a != b {
			t.Errorf("%q: %+v, then %+v", line, a, b)
		}
	})
}

func BenchmarkLockArgs(b *testing.B) {
	l := redlock.New(nil, redlock.Options{})
	s := newLockSyntax(LockVerbs(Lockers{Plain: l}, 100)[0])
	args := [][]byte{[]byte("LOCK"), []byte("job"), []byte("TOKEN"), []byte("0123456789abcdef"), []byte("PX"), []byte("30000")}
	b.ReportAllocs()
	for b.Loop() {
		var a lockArgs
		if err := a.parse(s, l, args); err != nil {
			b.Fatal(err)
		}
	}
}
