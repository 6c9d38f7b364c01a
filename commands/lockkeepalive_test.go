package commands_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/redlock/locks"
)

// The end of a connection releases what it keeps, at once; that of the proxy leaves it to
// another one; a grant that comes after the end is not kept. R18
func TestEndOfConnection(t *testing.T) {
	for _, tt := range []struct {
		name   string
		forget bool
		late   bool   // the connection ends before the grant
		want   string // state of the lock
	}{
		{"closed", false, false, "free"},
		{"drained", true, false, "write"},
		{"closed before the grant", false, true, "free"},
		{"drained before the grant", true, true, "write"},
	} {
		withLocks(t, locks.Options{},
			func(t *testing.T, session func() *client) {
				a, b := session(), session()
				if tt.late {
					node := a.Masters[0]
					a.Masters[0] = func(args []string) string {
						a.User.Keepalives.Break("host", tt.forget)
						return node(args)
					}
				}
				got := readable(a.Do("LOCK job TOKEN t PX 9000 KEEPALIVE"))
				if got != "*[t F 9000 1]" {
					t.Fatal(got)
				}
				a.User.Keepalives.Break("host", tt.forget)
				time.Sleep(8 * time.Second)
				if got := readable(b.Do("LOCKCTL INFO job")); !strings.HasPrefix(got,
					"*[state "+tt.want+" ") {
					t.Errorf("%s: %s", tt.name, got)
				}
				time.Sleep(2 * time.Second)
				if got := readable(b.Do("LOCKCTL INFO job")); !strings.HasPrefix(got,
					"*[state free ") {
					t.Errorf("%s, a lease later: %s", tt.name, got)
				}
			})
	}
}

// A loss is pushed to a client of RESP3 alone, in the form of section Push of RESP3. R19
func TestLossIsPushed(t *testing.T) {
	withLocks(t, locks.Options{}, func(t *testing.T, session func() *client) {
		a, b := session(), session()
		a.Do("HELLO 3")
		a.Do("LOCK job TOKEN t PX 3000 KEEPALIVE MAX 1")
		b.Do("LOCK two TOKEN t PX 3000 KEEPALIVE MAX 1")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := readable(a.Pushed); got != ">[lock-lost job F max]" {
			t.Errorf("pushed %s", got)
		}
		if b.Pushed != "" {
			t.Errorf("a client of RESP2 was pushed %q", b.Pushed)
		}
		if got := readable(a.Do("UNLOCK job t")); !strings.HasPrefix(got, "-LOCKLOST job ") {
			t.Errorf("a push may not be read, so the verb tells too: %s", got)
		}
	})
}

// A hold that is lost while it is renewed, or asked for again, is not reported, nor kept alive, and its
// client is told. R19
func TestLostMeanwhile(t *testing.T) {
	for _, verb := range []string{"RENEW job t PX 3000", "LOCK job TOKEN t PX 3000",
		"RENEW job t PX 3000 KEEPALIVE", "LOCK job TOKEN t PX 3000 KEEPALIVE"} {
		withLocks(t, locks.Options{},
			func(t *testing.T, session func() *client) {
				a, b := session(), session()
				a.Do("LOCK job TOKEN t PX 3000 KEEPALIVE")
				for range 2 {
					if got := readable(a.Do(verb)); strings.Contains(got, "LOCKLOST") {
						t.Errorf("%s: %s", verb, got)
					}
				}
				node := a.Masters[0]
				a.Masters[0] = func(args []string) string {
					reply := node(args)
					if got := readable(b.Do("LOCKCTL BREAK job")); got != "1" {
						t.Errorf("LOCKCTL BREAK: %s", got)
					}
					time.Sleep(2 * time.Second) // on its way
					return reply
				}
				if got := readable(a.Do(verb)); !strings.HasPrefix(got,
					"-LOCKLOST job was lost (gone), fence F: ") {
					t.Errorf("%s: %s", verb, got)
				}
				if a.User.Keepalives.Any() {
					t.Errorf("%s: it is kept alive", verb)
				}
				a.Masters[0] = node
				if got := readable(a.Do("LOCK job TOKEN t PX 3000")); got != "*[t F 3000 1]" {
					t.Errorf("told twice: %s", got)
				}
				time.Sleep(10 * time.Second)
				if got := readable(b.Do("LOCKCTL INFO job")); !strings.HasPrefix(got,
					"*[state free ") {
					t.Error(got)
				}
			})
	}
}

// A reader that becomes the writer has a new fence, and with that its loss is told. R19
func TestLossOfAReaderThatBecameTheWriter(t *testing.T) {
	withLocks(t, locks.Options{}, func(t *testing.T, session func() *client) {
		a, b := session(), session()
		a.Do("HELLO 3")
		fence := func(reply string) int64 {
			v, _, err := resp.Parse([]byte(reply))
			if err != nil || len(v.Elems) != 4 {
				t.Fatalf("%q %v", reply, err)
			}
			return v.Elems[1].Int
		}
		reader := fence(a.Do("RLOCK job TOKEN t PX 3000 KEEPALIVE"))
		writer := fence(a.Do("LOCK job TOKEN t PX 3000"))
		time.Sleep(time.Second) // Redis says that it is the same hold
		b.Do("LOCKCTL BREAK job")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if want := fmt.Sprintf(":%d\r\n", writer); !strings.Contains(a.Pushed, want) {
			t.Errorf("pushed %q, want %q", a.Pushed, want)
		}
		if got := b.Do(fmt.Sprint("UNLOCK job t FENCE ", reader)); got != "$-1\r\n" {
			t.Errorf("with the fence of the reader: %q", got)
		}
		want := fmt.Sprintf("-LOCKLOST job was lost (gone), fence %d: ", writer)
		if got := b.Do(fmt.Sprint("UNLOCK job t FENCE ", writer)); !strings.HasPrefix(got, want) {
			t.Errorf("with the fence of the writer: %q", got)
		}
	})
}

// A hold that could not be renewed in time is lost, although Redis still has it for a moment: whoever comes
// with its token then is told, as nobody keeps it alive any more. R19
func TestLostWhileRedisHasIt(t *testing.T) {
	for _, verb := range []string{"RENEW job t PX 60000", "RENEW job t PX 60000 KEEPALIVE",
		"MRENEW 1 job t PX 60000", "LOCKCTL CHECK job t", "LOCK job TOKEN t", "MLOCK 1 job TOKEN t"} {
		withLocks(t, locks.Options{},
			func(t *testing.T, session func() *client) {
				a := session()
				a.Away.Store(true)
				node := a.Masters[0]
				a.Masters[0] = func(args []string) string {
					time.Sleep(2 * time.Second) // on its way: so much later the lease is over there
					return node(args)
				}
				if got := readable(a.Do("LOCK job TOKEN t PX 3000 KEEPALIVE")); got[0] != '*' {
					t.Fatal(got)
				}
				a.Masters[0] = node
				time.Sleep(1500 * time.Millisecond)
				if got := readable(a.Do("LOCKCTL INFO job")); !strings.HasPrefix(got,
					"*[state write ") {
					t.Fatalf("the test does not test: %s", got)
				}
				if got := readable(a.Do(verb)); !strings.HasPrefix(got,
					"-LOCKLOST job was lost (expired), fence F: ") {
					t.Errorf("%s: %s", verb, got)
				}
				a.Away.Store(false)
				time.Sleep(2 * time.Second) // it is freed when its lease is over for certain
				if got := readable(a.Do("LOCKCTL INFO job")); !strings.HasPrefix(got,
					"*[state free ") {
					t.Error(got)
				}
			})
	}
}

// With as many holds as may be kept, the next one is refused before Redis is asked.
func TestKeepFull(t *testing.T) {
	withLocks(t, locks.Options{MaxKept: 1},
		func(t *testing.T, session func() *client) {
			a := session()
			a.Do("LOCK job TOKEN t KEEPALIVE")
			a.Do("LOCK two TOKEN t")
			for _, line := range []string{"LOCK three KEEPALIVE", "RENEW two t KEEPALIVE"} {
				if got := a.Do(line); !strings.HasPrefix(got, "-ERR ") ||
					!strings.Contains(got, "lock-max-keepalive") || len(a.Sent) > 0 {
					t.Errorf("%s: %q, sent %q", line, got, a.Sent)
				}
			}
		})
}

// SYNC: without replicas there is no grant, and the lock is free again. R26
func TestSyncTakesBack(t *testing.T) {
	withLocks(t, locks.Options{Sync: 1},
		func(t *testing.T, session func() *client) {
			a := session()
			for _, line := range []string{"LOCK job TOKEN t", "LOCK job TOKEN t SYNC 2 KEEPALIVE",
				"RLOCK job SYNC 1"} {
				if got := a.Do(line); !strings.HasPrefix(got, "-NOREPLICAS 0/") {
					t.Errorf("%s: %q", line, got)
				}
				synctest.Wait()
				if got := readable(a.Do("LOCKCTL INFO job")); !strings.HasPrefix(got,
					"*[state free ") {
					t.Errorf("%s: %s", line, got)
				}
			}
			if got := readable(a.Do("LOCK job TOKEN t SYNC 0")); got != "*[t F 30000 1]" {
				t.Error(got)
			}
			if got := a.Do("LOCK job TOKEN t"); !strings.HasPrefix(got, "-NOREPLICAS 0/") {
				t.Errorf("the same token again: %q", got)
			}
		})
}

// The task of a LIST ends with its client.
func TestListEndsWithItsClient(t *testing.T) {
	withLocks(t, locks.Options{}, func(t *testing.T, session func() *client) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(commands.ErrDraining)
		s := session()
		s.Ctx = ctx
		if got := s.Do("LOCKCTL LIST"); !strings.HasPrefix(got, "-TRYAGAIN ") {
			t.Errorf("%q", got)
		}
	})
}
