package commands

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/redlock"
)

// The tokens that a connection remembers are bounded, whatever it does.
func TestGrantsAreBounded(t *testing.T) {
	l := redlock.New(nil, redlock.Options{})
	var g Grants
	if _, err := g.token("job"); err != errNoGrant {
		t.Error(err)
	}
	g.forget("job", "t")
	g.renewed("job", "t", time.Second)
	g.prepare()
	grant := func(name string, m redlock.Mode) string {
		a := l.NewAcquire(redlock.Acquire{Name: name, Mode: m})
		g.remember(a)
		return a.Token
	}
	for i := range 2 * maxGrantNames {
		grant(fmt.Sprint(i), redlock.Write)
	}
	if n := g.book.byName.Len(); n != maxGrantNames {
		t.Errorf("%d names", n)
	}
	for range 100 {
		grant("doc", redlock.Read)
	}
	if all, _ := g.book.byName.Get("doc"); len(all) != maxGrantTokens {
		t.Errorf("%d tokens", len(all))
	}
	if _, err := g.token("doc"); err != errManyGrants {
		t.Error(err)
	}
	want := grant("doc", redlock.Write)
	if got, err := g.token("doc"); got != want || err != nil {
		t.Error(got, err)
	}
	long := strings.Repeat("x", maxGrantBytes+1)
	grant(long, redlock.Write)
	if _, err := g.token(long); err != errNoGrant {
		t.Error(err)
	}
}
