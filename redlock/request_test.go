package redlock

import (
	"strings"
	"testing"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

// Requests are well-formed, and all keys of one lie in the slot that it names,
// whatever the lock is called.
func TestRequestsAreWellFormed(t *testing.T) {
	e := newSingle(nothing{}, newNaming("lock:"), singleOptions{})
	for _, name := range []string{"job", "", "{user7}:cart", "a{b", "a}b", "{}", "fence:{abc}", "fence:{abc}x", "spaces and \r\n", strings.Repeat("long", 1000)} {
		a := &Acquire{Name: name, Mode: Write, Token: "me", Lease: time.Second, ID: "id"}
		for script, build := range map[string]func() (int, []byte){
			"acquire": func() (int, []byte) { return e.acquireRequest(nil, a) },
			"release": func() (int, []byte) { return e.releaseRequest(nil, &Release{name, "me", 42, ""}) },
			"renew":   func() (int, []byte) { return e.renewRequest(&Renew{name, "me", time.Second, 0, ""}) },
			"cancel":  func() (int, []byte) { return e.cancelRequest(a) },
			"inspect": func() (int, []byte) {
				at, c := e.names.inspected(name, "", &pages{})
				return at, c.req
			},
		} {
			n, req := build()
			v, rest, err := resp.Parse(req)
			if err != nil || len(rest) > 0 {
				t.Fatalf("%s of %q: %q: %v, %d bytes too many", script, name, req, err, len(rest))
			}
			keys, _ := v.Elems[2].Integer()
			if want := e.names.place(name); v.Elems[3].Text() != want.key || n != want.slot {
				t.Errorf("%s of %q: key %q in slot %d, want %q in %d", script, name, v.Elems[3].Text(), n, want.key, want.slot)
			}
			for _, key := range v.Elems[3 : 3+keys] {
				if slot.Of(key.Str) != n {
					t.Errorf("%s of %q: key %q is not in slot %d", script, name, key.Text(), n)
				}
			}
		}
	}
}

func TestReadGrant(t *testing.T) {
	owner := "$33\r\n" + OwnerOf("me") + "\r\n"
	for reply, want := range map[string]bool{
		"*4\r\n" + owner + ":7\r\n:30000\r\n:1\r\n":     true,
		"*4\r\n" + owner + ":7\r\n:30000\r\n:1\r\nmore": false,
		"*4\r\n" + owner + ":7\r\n:30000\r\n:1\r":       true, // frames are whole: the framer saw to that
		"*4\r\n$2\r\nyo\r\n:7\r\n:30000\r\n:1\r\n":      false,
		"*4\r\n" + owner[:12]:                           false,
		"*4\r\n" + owner + ":7\r\n$1\r\n3\r\n:1\r\n":    false,
		"*4\r\n" + owner + ":\r\n:30000\r\n:1\r\n":      false,
		"*3\r\n:1\r\n:2\r\n$0\r\n\r\n":                  false,
		"*4\r\n$":                                       false,
		"$-1\r\n":                                       false,
		"":                                              false,
	} {
		g, ok := readGrant("me", []byte(reply))
		if ok != want || ok && g != (Grant{Token: "me", Fence: 7, TTL: 30 * time.Second, Count: 1}) {
			t.Errorf("readGrant(%q) = %+v, %v", reply, g, ok)
		}
	}
}

// A lock costs the proxy no allocation for the request, where there is room, and none for the reply.
func TestRequestsAllocateLittle(t *testing.T) {
	e := newSingle(nothing{}, newNaming("lock:"), singleOptions{})
	a := &Acquire{Name: "job", Mode: Write, Token: "me", Lease: 30 * time.Second, ID: "id"}
	sent := time.Now()
	for _, reply := range []string{":7\r\n", "*4\r\n$33\r\n" + OwnerOf(a.Token) + "\r\n:7\r\n:30000\r\n:1\r\n"} {
		reply := []byte(reply)
		if g, ok, err := e.readFirst(a, sent, reply); !ok || err != nil || g != (Grant{Token: a.Token, Fence: 7, TTL: 30 * time.Second, Count: 1, At: sent}) {
			t.Errorf("%q: %+v %v %v", reply, g, ok, err)
		}
		room := make([]byte, 0, 1024)
		n := testing.AllocsPerRun(100, func() {
			e.acquireRequest(room, a)
			e.readFirst(a, sent, reply)
		})
		if n > 0 {
			t.Errorf("%q: %v allocations", reply, n)
		}
	}
}

// nothing is an Upstream that is never asked.
type nothing struct{ Upstream }

func (nothing) Sharded() bool { return true }

func (nothing) Master(slot int) string { return "" }

func BenchmarkAcquire(b *testing.B) {
	e := newSingle(nothing{}, newNaming("lock:"), singleOptions{})
	b.ReportAllocs()
	for b.Loop() {
		e.acquireRequest(nil, &Acquire{Name: "job:42", Mode: Write, Token: "token-of-some-length", ID: "id"})
	}
}
