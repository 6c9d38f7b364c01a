package single

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/scripts"
)

// arguments are the arguments of a request.
func arguments(t *testing.T, req []byte) (all []string) {
	t.Helper()
	v, _, err := resp.Parse(req)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range v.Elems {
		all = append(all, e.Text())
	}
	return all
}

// An UNLOCK that comes before its LOCK is answered frees the lock as if that were granted. If it is not,
// release.lua decides. An UNLOCK that was sent twice is told that a copy of it has freed the lock only if it
// was granted.
func TestUnlockBehindItsLock(t *testing.T) {
	const null, one, another = "$-1\r\n", ":1\r\n", ":1800000000000007\r\n"
	for name, c := range map[string]struct {
		locked, freed string // replies to the LOCK and to release.lua for that grant
		repeated      bool
		others        bool   // have the lock then
		released      string // reply to release.lua for any; "": it is not sent
		fence         bool   // which is told the fence that is meant
		held          bool   // the client's answer
	}{
		"granted as asked": {locked: one, freed: one, held: true},
		"with the fence of Redis, then changed": {locked: another, freed: null, released: one,
			held: true},
		"refused":            {locked: null, freed: null, released: null},
		"not plain any more": {locked: one, freed: null, released: one, held: true},
		"freed by a copy": {locked: one, freed: null, repeated: true, released: null, fence: true,
			held: true},
		"freed by a copy, and others have it": {locked: one, freed: null, repeated: true, others: true,
			released: null, fence: true, held: true},
		"refused, and sent twice": {locked: null, freed: null, repeated: true, released: null},
		"the fence of Redis, and twice": {locked: another, freed: null, repeated: true, released: null,
			fence: true, held: true},
	} {
		t.Run(name, func(t *testing.T) {
			e := New(rig.Nothing{}, redlock.NewNames("lock:"), Options{})
			a := &redlock.Acquire{Name: "job", Token: "t", Mode: redlock.Write, Lease: time.Minute}
			a.ID = e.names.NewID(a)
			locking := noted(e, a)
			unlocking := rig.NotedRelease(e, &redlock.Release{Name: "job", Token: "t"})
			asked, freeing := arguments(t, locking.Req), arguments(t, unlocking.Req)
			if value := asked[len(asked)-2]; !strings.HasSuffix(value, freeing[4]) {
				t.Fatalf("UNLOCK sent %q, want the value %q of the LOCK", freeing, value)
			}
			locking.Then.Answer([]byte(c.locked))
			if c.repeated {
				unlocking.Then.(redlock.Repeater).Repeated()
			}
			if c.others {
				now := time.Now()
				g := &redlock.Grant{Fence: 1800000000000008, TTL: time.Minute, At: now}
				e.grants.Granted(&redlock.Acquire{Name: "job", Token: "x", Mode: redlock.Write}, g, now, nil)
			}
			unlocking.Req = nil
			unlocking.Then.Answer([]byte(c.freed))
			if c.released != "" {
				args := arguments(t, unlocking.Req)
				if fenced := len(args) > 7; fenced != c.fence {
					t.Errorf("release.lua got %q, want the fence: %v", args, c.fence)
				}
				unlocking.Then.Answer([]byte(c.released))
			} else if unlocking.Req != nil {
				t.Errorf("sent %q too", unlocking.Req)
			}
			if unlocking.Err != nil || unlocking.Done.Held != c.held {
				t.Errorf("%+v %v, want held: %v", unlocking.Done, unlocking.Err, c.held)
			}
		})
	}
}

// deleting is an upstream with a command that deletes a key if it has a certain value.
type deleting struct {
	rig.Nothing
	with string
}

func (d deleting) DeleteIf() string { return d.with }

// Where the server has a command for it, an UNLOCK of a plain lock is that, with the whole value of the lock,
// and is answered as release.lua would. A server that refuses the command is not asked for it again. R8 R33
func TestUnlockByCommand(t *testing.T) {
	const null, one, zero, own = "$-1\r\n", ":1\r\n", ":0\r\n", ":1800000000000007\r\n"
	const hash, not, old = "-WRONGTYPE Operation\r\n", "-NOPERM no\r\n", "-ERR unknown command 'D'\r\n"
	for name, c := range map[string]struct {
		locked, freed string // replies to the LOCK and to the command
		repeated      bool
		released      string // reply to release.lua; "": it is not sent
		held, refused bool
		err           string
	}{
		"it has the value":   {locked: one, freed: one, held: true},
		"the fence of Redis": {locked: own, freed: one, held: true},
		"it has gone":        {locked: one, freed: zero, released: null},
		"it has gone, and was sent twice": {locked: one, freed: zero, repeated: true, released: null,
			held: true},
		"it has another value": {locked: one, freed: zero, released: one, held: true},
		"it is a hash":         {locked: one, freed: hash, released: one, held: true},
		"DELEX finds a hash": {locked: one, freed: "-ERR Key should be of string type if conditions are " +
			"specified\r\n", released: one, held: true},
		"the user may not": {locked: one, freed: not, released: one, held: true,
			refused: true},
		"a node does not know it": {locked: one, freed: old, released: one, held: true,
			refused: true},
		"its outcome is unknown": {locked: one, freed: "-ERR lost\r\n", err: "ERR lost"},
		"trouble":                {locked: one, freed: "-CLUSTERDOWN x\r\n", err: "CLUSTERDOWN x"},
	} {
		for _, with := range []string{"DELIFEQ", "DELEX"} {
			t.Run(with+", "+name, func(t *testing.T) {
				e := New(deleting{with: with}, redlock.NewNames("lock:"), Options{})
				lock := func() (*rig.Noted, string) {
					a := &redlock.Acquire{Name: "job", Token: "t", Mode: redlock.Write, Lease: time.Minute}
					a.ID = e.names.NewID(a)
					locking := noted(e, a)
					asked := arguments(t, locking.Req)
					return locking, asked[len(asked)-2]
				}
				unlock := func() (*rig.Noted, []string) {
					u := rig.NotedRelease(e, &redlock.Release{Name: "job", Token: "t"})
					return u, arguments(t, u.Req)
				}
				locking, value := lock()
				locking.Then.Answer([]byte(c.locked))
				if c.locked == own {
					value = value[:12] + own[1:17] + value[28:]
				}
				unlocking, got := unlock()
				want := []string{with, "lock:{job}", value}
				if with == "DELEX" {
					want = []string{with, "lock:{job}", "IFEQ", value}
				}
				if !slices.Equal(got, want) || unlocking.Slot != locking.Slot {
					t.Fatalf("UNLOCK sent %q to %d, want %q to %d", got, unlocking.Slot, want, locking.Slot)
				}
				if c.repeated {
					unlocking.Then.(redlock.Repeater).Repeated()
				}
				unlocking.Req = nil
				unlocking.Then.Answer([]byte(c.freed))
				if c.released != "" {
					if args := arguments(t, unlocking.Req); args[1] != scripts.Release.SHA {
						t.Errorf("sent %q, want release.lua", args)
					}
					unlocking.Then.Answer([]byte(c.released))
				} else if unlocking.Req != nil {
					t.Errorf("sent %q too", unlocking.Req)
				}
				if unlocking.Done.Held != c.held || fmt.Sprint(unlocking.Err) != cmp.Or(c.err, "<nil>") {
					t.Errorf("%+v %v, want held: %v, error: %s", unlocking.Done, unlocking.Err, c.held, c.err)
				}
				locking, _ = lock()
				locking.Then.Answer([]byte(one))
				if _, got := unlock(); (got[0] == "EVALSHA") != c.refused {
					t.Errorf("the next UNLOCK sent %q, want a script: %v", got, c.refused)
				}
			})
		}
	}
	e := New(deleting{with: "DELIFEQ"}, redlock.NewNames("lock:"), Options{})
	a := &redlock.Acquire{Name: "job", Token: "t", Mode: redlock.Write, Lease: time.Minute}
	a.ID = e.names.NewID(a)
	noted(e, a)
	unlocking := rig.NotedRelease(e, &redlock.Release{Name: "job", Token: "t"})
	if got := arguments(t, unlocking.Req); got[1] != scripts.Release.SHA || len(got[4]) != 52 {
		t.Errorf("an UNLOCK before its LOCK is answered, so that the fence is not known, sent %q", got)
	}
}
