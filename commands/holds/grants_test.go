package holds

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/index"
	"lockproxy/redlock/locks"
)

// connection is one that asks for locks.
type connection struct {
	Grants
	x *index.Index
	l *locks.Locker
}

func connect() *connection {
	x := index.New(nil, index.Options{})
	c := &connection{x: x, l: locks.New(nil, locks.Options{Index: x})}
	c.Prepare()
	return c
}

// grant notes a grant, which goes on for lease from now on.
func (c *connection) grant(name, token string, m redlock.Mode, lease time.Duration) {
	a := &redlock.Acquire{Name: name, Token: token, Mode: m}
	c.x.Granted(a, &redlock.Grant{At: time.Now(), TTL: lease}, time.Now(), c.Owner())
}

func (c *connection) want(t *testing.T, name, token string, wrong error) {
	t.Helper()
	if got, err := c.Token(c.l, name); got != token || err != wrong {
		t.Errorf("%q, %v; want %q, %v", got, err, token, wrong)
	}
}

// What a connection remembers of holds that have ended is bounded, whatever it does.
func TestGrantsAreBounded(t *testing.T) {
	c, names := connect(), 2*maxGrantNames
	for i := range names {
		c.grant(fmt.Sprint(i), fmt.Sprint("t", i), redlock.Write, 0)
	}
	c.x.Expire()
	for i := range names {
		c.Owner().Over(fmt.Sprint(i), fmt.Sprint("t", i))
		for ago := range min(i, maxGrantNames/2) {
			if got := c.book.lastToken(fmt.Sprint(i - ago)); got != fmt.Sprint("t", i-ago) {
				t.Fatalf("the name before the last %d: %q", ago, got)
			}
		}
		if n := c.book.ended.Len(); n > maxGrantNames {
			t.Fatalf("%d names", n)
		}
	}
	long := strings.Repeat("x", maxGrantBytes+1)
	c.Owner().Over(long, "t")
	c.want(t, long, "", errNoGrant)
}

// Of the tokens of one lock the one counts whose lease is not over. One whose hold has ended counts if there
// is no other, until it is told so, or has the lock anew. R13
func TestGrantsOfReaders(t *testing.T) {
	var none Grants
	none.Forget("doc", "t")
	if _, err := none.Token(nil, "doc"); err != errNoGrant {
		t.Error(err)
	}
	c, other := connect(), connect()
	c.want(t, "doc", "", errNoGrant)
	c.grant("doc", "a", redlock.Read, 0)
	c.want(t, "doc", "a", nil)
	c.x.Expire()
	c.want(t, "doc", "a", nil)
	c.grant("doc", "b", redlock.Read, time.Minute)
	c.want(t, "doc", "b", nil)
	c.grant("doc", "c", redlock.Read, time.Minute)
	c.want(t, "doc", "", errManyGrants)
	for range 2 {
		for token, want := range map[string]string{"b": "[c]", "c": "[b]", "x": "[b c]"} {
			if got := fmt.Sprint(c.Others(c.l, "doc", token)); got != want {
				t.Errorf("beside %s: %s, want %s", token, got, want)
			}
		}
	}
	c.x.Freed("doc", "b", 0, c.Owner())
	c.want(t, "doc", "c", nil)
	c.x.Freed("doc", "c", 0, nil)
	c.want(t, "doc", "c", nil)
	c.Forget("doc", "b")
	c.want(t, "doc", "c", nil)
	c.Forget("doc", "c")
	c.want(t, "doc", "", errNoGrant)
	c.grant("doc", "d", redlock.Write, time.Minute)
	c.want(t, "doc", "d", nil)
	other.want(t, "doc", "", errNoGrant)
	c.x.Granted(&redlock.Acquire{Name: "doc", Token: "e", Mode: redlock.Write}, &redlock.Grant{At: time.Now(),
		TTL: time.Minute}, time.Now(), other.Owner())
	c.want(t, "doc", "d", nil)
	if c.x.Freed("doc", "d", 0, c.Owner()); len(c.Others(c.l, "doc", "")) > 0 {
		t.Error("it holds what another connection was granted")
	}
	for _, least := range []time.Duration{0, time.Hour} { // freed over another connection, it may rest
		c.x.Granted(&redlock.Acquire{Name: "job", Token: "f", Mode: redlock.Write, AtLeast: least},
			&redlock.Grant{At: time.Now(), TTL: time.Minute}, time.Now(), c.Owner())
		c.x.Freed("job", "f", 0, other.Owner())
		c.want(t, "job", "f", nil)
		c.Forget("job", "f")
	}
}
