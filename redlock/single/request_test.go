package single

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/scripts"
)

// Requests are well-formed, and all keys of one lie in the slot that it names,
// whatever the lock is called.
func TestRequestsAreWellFormed(t *testing.T) {
	e := New(rig.Nothing{}, redlock.NewNames("lock:"), Options{})
	for _, name := range []string{"job", "", "{user7}:cart", "a{b", "a}b", "{}", "fence:{abc}",
		"fence:{abc}x", "spaces and \r\n", strings.Repeat("long", 1000)} {
		a := &redlock.Acquire{Name: name, Mode: redlock.Write, Token: "me", Lease: time.Second, ID: "id"}
		for script, build := range map[string]func() scripts.Call{
			"acquire": func() scripts.Call { return e.acquireCall(nil, a, time.Now()) },
			"release": func() scripts.Call {
				r := &redlock.Release{Name: name, Token: "me", Fence: 42}
				return e.releaseCall(nil, &sentRelease{r: r, fresh: e.names.NewRequest()})
			},
			"renew": func() scripts.Call {
				return scripts.RenewCall(e.names, scripts.Client,
					redlock.Renew{Name: name, Token: "me", Lease: time.Second})
			},
			"cancel": func() scripts.Call {
				return scripts.CancelCall(e.names, e.freeing(name, false), name, a.Token, a.ID)
			},
			"inspect": func() scripts.Call {
				return scripts.InspectCall(e.names, name, "", &scripts.Pages{})
			},
		} {
			c := build()
			n, req := c.Slot, c.Req
			v, rest, err := resp.Parse(req)
			if err != nil || len(rest) > 0 {
				t.Fatalf("%s of %q: %q: %v, %d bytes too many", script, name, req, err, len(rest))
			}
			keys, _ := strconv.Atoi(v.Elems[2].Text())
			if want := e.names.Place(name); v.Elems[3].Text() != want.Key || n != want.Slot {
				t.Errorf("%s of %q: key %q in slot %d, want %q in %d",
					script, name, v.Elems[3].Text(), n, want.Key, want.Slot)
			}
			for _, key := range v.Elems[3 : 3+keys] {
				if slot.Of(key.Str) != n {
					t.Errorf("%s of %q: key %q is not in slot %d", script, name, key.Text(), n)
				}
			}
		}
	}
}

// A lock costs the proxy no allocation for the request, where there is room, and none for the reply.
func TestRequestsAllocateLittle(t *testing.T) {
	e := New(rig.Nothing{}, redlock.NewNames("lock:"), Options{})
	a := &redlock.Acquire{Name: "job", Mode: redlock.Write, Token: "me", Lease: 30 * time.Second, ID: "id"}
	sent := time.Now()
	want := redlock.Grant{Token: a.Token, Fence: 7, TTL: 30 * time.Second, Count: 1, At: sent}
	for _, reply := range []string{
		":7\r\n",
		"*4\r\n$33\r\n" + redlock.OwnerOf(a.Token) + "\r\n:7\r\n:30000\r\n:1\r\n",
	} {
		reply := []byte(reply)
		if g, ok, err := e.readAcquire(a, sent, reply); !ok || err != nil || g != want {
			t.Errorf("%q: %+v %v %v", reply, g, ok, err)
		}
		room := make([]byte, 0, 1024)
		n := testing.AllocsPerRun(100, func() {
			e.acquireCall(room, a, time.Now())
			e.readAcquire(a, sent, reply)
		})
		if n > 0 {
			t.Errorf("%q: %v allocations", reply, n)
		}
	}
}

func BenchmarkAcquire(b *testing.B) {
	e := New(rig.Nothing{}, redlock.NewNames("lock:"), Options{})
	b.ReportAllocs()
	for b.Loop() {
		e.acquireCall(nil, &redlock.Acquire{
			Name: "job:42", Mode: redlock.Write, Token: "token-of-some-length", ID: "id",
		}, time.Now())
	}
}
