package holds

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
	if _, err := g.Token("job"); err != errNoGrant {
		t.Error(err)
	}
	g.Forget("job", "t")
	g.Renewed("job", "t", time.Second)
	g.Prepare()
	grant := func(name string, m redlock.Mode) string {
		a := l.NewAcquire(redlock.Acquire{Name: name, Mode: m})
		g.Remember(a)
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
	if _, err := g.Token("doc"); err != errManyGrants {
		t.Error(err)
	}
	want := grant("doc", redlock.Write)
	if got, err := g.Token("doc"); got != want || err != nil {
		t.Error(got, err)
	}
	long := strings.Repeat("x", maxGrantBytes+1)
	grant(long, redlock.Write)
	if _, err := g.Token(long); err != errNoGrant {
		t.Error(err)
	}
}
