package commands_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/redlock/locks"
)

// A line is the letter of a connection, a command, and behind "->" the reply, or the
// beginning of it when that ends with "...". Times do not pass but in sleep.
var lockTalks = []struct{ name, text string }{
	{"one attempt, and the owner is the token; R8 R10 R13 R16 R17", `
		a LOCK job TOKEN t PX 5000 -> *[t F 5000 1]
		b LOCK job TOKEN u -> $nil
		b UNLOCK job u -> $nil
		b UNLOCK job t -> 1
		a UNLOCK job t -> $nil
		a LOCK job TOKEN t EX 7 -> *[t F 7000 1]
		sleep 8s
		a UNLOCK job t -> $nil`},
	{"verbs and options in any case and order; words that are options need TOKEN", `
		a wlock job reentrant px 5000 wait 10 token WAIT -> *[WAIT F 5000 1]
		a unlock job WAIT -> 1
		a LOCK job TOKEN FENCE -> *[FENCE F 30000 1]
		a UNLOCK job TOKEN FENCE -> 1`},
	{"REENTRANT counts, the lease only grows; R15 R16 R20", `
		a LOCK job TOKEN t PX 5000 REENTRANT -> *[t F 5000 1]
		b LOCK job TOKEN t PX 100 REENTRANT -> *[t F 5000 2]
		b LOCK job TOKEN t PX 9000 -> *[t F 9000 2]
		a UNLOCK job t -> 0
		a UNLOCK job t -> 1`},
	{"readers share; R28 R30", `
		a RLOCK doc TOKEN r1 PX 5000 -> *[r1 F 5000 1]
		b RLOCK doc TOKEN r2 PX 5000 -> *[r2 F 5000 1]
		b WLOCK doc -> $nil
		b UNLOCK doc TOKEN r1 -> 1
		a UNLOCK doc r2 -> 1`},
	{"RENEW; R18", `
		a LOCK job TOKEN t PX 5000 -> *[t F 5000 1]
		b RENEW job t PX 9000 -> 9000
		b RENEW job TOKEN t PX 100 -> 9000
		b RENEW job t -> 30000
		b RENEW job u -> 0
		b RENEW job t FENCE 1 -> 0
		b UNLOCK job t FENCE 1 -> $nil`},
	{"a connection knows the tokens of its own grants", `
		a LOCK job PX 5000 -> *[...
		b UNLOCK job -> -ERR this connection remembers no lock of that name...
		a RENEW job PX 9000 -> 9000
		a UNLOCK job -> 1
		a UNLOCK job -> -ERR this connection remembers no lock of that name...
		a RLOCK doc TOKEN r1 PX 5000 -> *[...
		a RLOCK doc TOKEN r2 PX 9000 -> *[...
		a UNLOCK doc -> -ERR this connection holds that lock with more than one token...
		sleep 6s
		a UNLOCK doc -> 1
		a UNLOCK doc -> $nil
		a LOCK job TOKEN old PX 100 -> *[...
		sleep 1s
		a LOCK job TOKEN new PX 5000 -> *[...
		a RENEW job FENCE 1 -> 0
		a UNLOCK job -> 1`},
	{"TRIES; R11", `
		a LOCK job TOKEN t PX 5000 -> *[...
		b LOCK job TRIES 1 EVERY 1000 -> $nil
		b LOCK job TRIES 3 EVERY 1000 -> $nil
		b LOCK job TOKEN u TRIES 10 EVERY 1000 PX 300 -> *[u F 300 1]`},
	{"WAIT; R9", `
		a LOCK job TOKEN t PX 5000 -> *[...
		b LOCK job WAIT 4000 -> $nil
		b LOCK job TOKEN u WAIT 0 PX 300 -> *[u F 300 1]`},
	{"RESP3", `
		a HELLO 3 -> ...
		a LOCK job TOKEN t PX 5000 -> *[t F 5000 1]
		a LOCK job -> _nil
		a UNLOCK job u -> _nil
		a LOCKCTL CHECK job u -> _nil
		a LOCKCTL INFO job -> %[state write fence F holders *[%[token e3b98a4d mode write ttl 5000 count 1 fence F age 0 meta  kept 0 client  addr  user  proxy  since 946684800000 waited -1]] waiters 0 key lock:{job} waiting *[]]
		a UNLOCK job t -> 1`},
	{"LOCKCTL; R21", `
		a LOCKCTL INFO job -> *[state free fence 0 holders *[] waiters 0 key lock:{job} waiting *[]]
		a LOCK {u}:job TOKEN t PX 5000 -> *[...
		a LOCKCTL INFO {u}:job -> *[state write fence F holders *[*[token e3b98a4d mode write ttl 5000 count 1 fence F age 0 meta  kept 0 client  addr  user  proxy  since 946684800000 waited -1]] waiters 0 key lock:{u}:job waiting *[]]
		sleep 1s
		a LOCKCTL CHECK {u}:job t -> *[4000 F 1]
		a LOCKCTL CHECK {u}:job x -> $nil
		a LOCKCTL HELP -> *[LOCKCTL <subcommand>...
		a LOCKCTL NOSUCH job -> -ERR unknown subcommand...`},
	{"the key holds something else; R3", `
		a SET lock:{job} x -> OK
		a LOCK job -> -LOCKTYPE the key lock:{job} holds a string that is no lock of lockproxy, without a time to live...
		a LOCK job WAIT 100 -> -LOCKTYPE ...
		a UNLOCK job t -> -LOCKTYPE ...
		a RENEW job t -> -LOCKTYPE ...
		a LOCKCTL INFO job -> -LOCKTYPE ...
		a LOCKCTL CHECK job t -> -LOCKTYPE ...`},
	{"LOCKCTL BREAK; R23", `
		a LOCK job TOKEN t PX 5000 -> *[...
		b LOCKCTL BREAK job -> 1
		b LOCKCTL BREAK job -> 0
		a UNLOCK job t -> $nil
		a RENEW job t -> 0
		b LOCK job TOKEN u -> *[u F 30000 1]
		a SET lock:{foreign} x -> OK
		a LOCKCTL BREAK foreign -> -LOCKTYPE ...`},
	{"LOCKCTL LIST", `
		a LOCKCTL LIST -> *[]
		a LOCK b TOKEN t PX 5000 -> *[...
		a LOCK {u}:a TOKEN t PX 5000 -> *[...
		a RLOCK a*c TOKEN t PX 5000 -> *[...
		a SET lock:{foreign} x -> OK
		a SET lock:foreign x -> OK
		a LOCKCTL LIST COUNT 2 MATCH * -> *[*[name ...
		a LOCKCTL LIST MATCH b -> *[*[name b state write fence F holders *[*[token e3b98a4d mode write ttl 5000 count 1 fence F age 0 meta  kept 0 client  addr  user  proxy  since 946684800000 waited -1]] waiters 0 key lock:{b} waiting *[]]]
		a LOCKCTL LIST MATCH {u}* -> *[*[name {u}:a state write fence F holders *[*[token e3b98a4d mode write ttl 5000 count 1 fence F age 0 meta  kept 0 client  addr  user  proxy  since 946684800000 waited -1]] waiters 0 key lock:{u}:a waiting *[]]]
		a LOCKCTL LIST MATCH a\*? -> *[*[name a*c state read...
		a LOCKCTL LIST MATCH a -> *[]
		a LOCKCTL LIST MATCH fence:* -> *[]
		sleep 6s
		a LOCKCTL LIST -> *[]`},
	{"KEEPALIVE renews until UNLOCK; R18 R24 R25", `
		a LOCK job TOKEN t PX 3000 KEEPALIVE -> *[t F 3000 1]
		sleep 1m
		b LOCK job -> $nil
		b UNLOCK job t -> 1
		sleep 10s
		b LOCK job -> *[...
		a UNLOCK job t -> $nil`},
	{"a loss is told to whoever comes with the token, over any connection; R19", `
		a LOCK job TOKEN t PX 3000 KEEPALIVE MAX 2 -> *[t F 3000 1]
		a LOCK other TOKEN t PX 3000 KEEPALIVE -> *[t F 3000 1]
		sleep 10s
		b UNLOCK job t -> -LOCKLOST job was lost (max), fence F: it was renewed MAX times, and its lease is over. Stop what it protects, then lock again
		b HELLO 3 -> ...
		b UNLOCK {job} t -> -LOCKLOST {job} was lost (max), ...
		a RENEW job TOKEN t -> -LOCKLOST job was lost (max), ...
		c LOCKCTL CHECK job t -> -LOCKLOST job was lost (max), ...
		c UNLOCK job t FENCE 7 -> $nil
		c RENEW job t FENCE 7 -> 0
		a UNLOCK other t -> 1
		a UNLOCK other t -> $nil
		sleep 1h
		b UNLOCK job t -> _nil`},
	{"nothing but the token of a lost hold is refused; R19", `
		a LOCK job TOKEN t PX 3000 KEEPALIVE MAX 1 -> *[t F 3000 1]
		sleep 10s
		a LOCKCTL INFO job -> *[state free...
		a LOCK job -> *[...
		a LOCKCTL BREAK job -> 1
		a LOCK job TOKEN u -> *[u F 30000 1]
		a RENEW job u -> 30000
		a LOCKCTL CHECK job u -> *[30000 F 1]
		a GUARD job t GET k -> -NOTHELD ...
		a UNLOCK job u -> 1
		a LOCK other TOKEN t -> *[t F 30000 1]`},
	{"LOCK is told of a loss once, and then takes the lock again, which ends the memory; R19", `
		a LOCK job TOKEN t PX 3000 KEEPALIVE MAX 1 -> *[t F 3000 1]
		sleep 10s
		b RLOCK job TOKEN t -> -LOCKLOST job was lost (max), fence F: it was renewed MAX times, and its lease is over. Stop what it protects, then send this command again: it was not run
		a LOCK job TOKEN u -> *[...
		b LOCK job TOKEN t -> $nil
		b UNLOCK job t -> -LOCKLOST ...
		a UNLOCK job u -> 1
		b LOCK job TOKEN t -> *[t F 30000 1]
		b RENEW job t -> 30000
		a UNLOCK job t -> 1
		a UNLOCK job t -> $nil`},
	{"LOCK is not refused if another verb was told of the loss; R19", `
		a LOCK job TOKEN t PX 3000 KEEPALIVE MAX 1 -> *[t F 3000 1]
		a LOCK job2 TOKEN t PX 3000 KEEPALIVE MAX 1 -> *[t F 3000 1]
		a LOCK job3 TOKEN t PX 3000 KEEPALIVE MAX 1 -> *[t F 3000 1]
		sleep 10s
		a UNLOCK job t -> -LOCKLOST ...
		a RENEW job2 t -> -LOCKLOST ...
		a LOCKCTL CHECK job3 t -> -LOCKLOST ...
		b LOCK job TOKEN t -> *[t F 30000 1]
		b WLOCK job2 TOKEN t KEEPALIVE -> *[t F 30000 1]
		b LOCK job3 TOKEN t -> *[t F 30000 1]`},
	{"UNLOCK and RENEW without a token mean that of the connection, and are told; R19", `
		a LOCK job PX 3000 KEEPALIVE MAX 1 -> *[...
		b LOCK job2 PX 3000 KEEPALIVE MAX 1 -> *[...
		sleep 10s
		a RENEW job -> -LOCKLOST ...
		a UNLOCK job -> -LOCKLOST ...
		b UNLOCK job2 -> -LOCKLOST ...`},
	{"RENEW makes a connection keep a hold; RESET lets it go; R18", `
		a LOCK job TOKEN t PX 3000 -> *[t F 3000 1]
		b RENEW job t PX 6000 KEEPALIVE -> 6000
		sleep 1m
		a LOCKCTL CHECK job t -> ...
		a LOCK job -> $nil
		b RESET -> RESET
		sleep 10ms
		a LOCK job TOKEN u PX 3000 -> *[u F 3000 1]
		b RENEW job t KEEPALIVE -> 0
		b UNLOCK job t -> $nil`},
	{"SYNC and META change nothing of a plain grant", `
		a LOCK job TOKEN t SYNC 0 META text PX 5000 -> *[t F 5000 1]`},
}

func TestLockVerbs(t *testing.T) {
	for _, talk := range lockTalks {
		t.Run(talk.name, func(t *testing.T) {
			withLocks(t, locks.Options{},
				func(t *testing.T, session func() *client) {
					conns := map[string]*client{}
					for line := range strings.Lines(strings.TrimSpace(talk.text)) {
						call, want, _ := strings.Cut(strings.TrimSpace(line), " -> ")
						name, command, _ := strings.Cut(call, " ")
						if name == "sleep" {
							d, _ := time.ParseDuration(command)
							time.Sleep(d)
							continue
						}
						if conns[name] == nil {
							conns[name] = session()
						}
						got := readable(conns[name].Do(command))
						prefix, cut := strings.CutSuffix(want, "...")
						if got != want && (!cut || !strings.HasPrefix(got, strings.TrimSpace(prefix))) {
							t.Errorf("%s\n got %s\nwant %s", call, got, want)
						}
					}
				})
		})
	}
}

// A grant that its client turns out not to have read is taken back, but not when that
// may as well be one who works under the lock while its connection ends. What the
// token was told of otherwise stays.
func TestUnreadGrant(t *testing.T) {
	for _, tt := range []struct {
		name, then string
		after      time.Duration
		want       string // state of the lock
	}{
		{"at once", "", 0, "free"},
		{"a little later", "", 2*time.Second - time.Millisecond, "free"},
		{"much later", "", 2 * time.Second, "write"},
		{"renewed over another connection", "RENEW job t", 0, "write"},
		{"asked for again over another connection", "LOCK job TOKEN t", 0, "write"},
	} {
		withLocks(t, locks.Options{},
			func(t *testing.T, session func() *client) {
				a, b := session(), session()
				a.Do("LOCK job TOKEN t")
				if tt.then != "" {
					b.Do(tt.then)
				}
				time.Sleep(tt.after)
				a.Lose()
				synctest.Wait()
				if got := readable(b.Do("LOCKCTL INFO job")); !strings.HasPrefix(got,
					"*[state "+tt.want+" ") {
					t.Errorf("%s: %s", tt.name, got)
				}
				b.Do("LOCK other TOKEN t")
				b.Do("LOCK other TOKEN u")
				b.Lose() // it was refused
				synctest.Wait()
				if got := readable(b.Do("LOCKCTL INFO other")); !strings.HasPrefix(got,
					"*[state write ") {
					t.Errorf("a Null that was lost: %s", got)
				}
			})
	}
}
