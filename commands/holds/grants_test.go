package holds

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/locks"
)

// The tokens that a connection remembers are bounded, whatever it does.
func TestGrantsAreBounded(t *testing.T) {
	l := locks.New(nil, locks.Options{})
	var g Grants
	if _, err := g.Token("job"); err != errNoGrant {
		t.Error(err)
	}
	g.Forget("job", "t")
	g.Renewed("job", "t", time.Second)
	g.Prepare()
	grant := func(name string, m redlock.Mode) string {
		a := l.NewAcquire(redlock.Acquire{Name: name, Mode: m})
		g.Remember(a, time.Now().Add(a.Lease))
		return a.Token
	}
	names := func() int { return len(g.book.young) + len(g.book.old) }
	for i := range 2 * maxGrantNames {
		token := grant(fmt.Sprint(i), redlock.Write)
		for ago := range min(i, maxGrantNames/2) {
			got, err := g.Token(fmt.Sprint(i - ago))
			if err != nil || ago == 0 && got != token {
				t.Fatalf("the name before the last %d: %q %v", ago, got, err)
			}
		}
		if names() > maxGrantNames {
			t.Fatalf("%d names", names())
		}
	}
	before := names()
	for range 3 {
		grant("0", redlock.Write)
		g.Forget("0", "another")
		g.Renewed("0", "another", time.Second)
	}
	if names() != before+1 {
		t.Errorf("a lock that is granted again: %d names after %d", names(), before)
	}
	if g.Forget("0", grant("0", redlock.Write)); names() != before {
		t.Errorf("a lock that is freed: %d names after %d", names(), before)
	}
	for range 100 {
		grant("doc", redlock.Read)
	}
	if h, _ := g.book.find("doc"); len(h.earlier)+1 != maxGrantTokens {
		t.Errorf("%d tokens", len(h.earlier)+1)
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

// Of the tokens of one lock the one counts whose lease is not over.
func TestGrantsOfReaders(t *testing.T) {
	var g Grants
	g.Prepare()
	now := time.Now()
	read := func(token string, left time.Duration) {
		g.Remember(&redlock.Acquire{Name: "doc", Token: token, Mode: redlock.Read}, now.Add(left))
	}
	want := func(token string, wrong error) {
		t.Helper()
		if got, err := g.Token("doc"); got != token || err != wrong {
			t.Errorf("%q, %v; want %q, %v", got, err, token, wrong)
		}
	}
	read("a", -time.Second)
	want("a", nil)
	read("b", time.Minute)
	want("b", nil)
	read("c", -time.Second)
	want("b", nil)
	read("a", time.Minute)
	want("", errManyGrants)
	g.Renewed("doc", "b", 0)
	want("a", nil)
	g.Forget("doc", "a")
	want("c", nil)
	g.Forget("doc", "c")
	want("b", nil)
	g.Forget("doc", "b")
	want("", errNoGrant)
}

// The other tokens of a lock are told, and none of them is forgotten by that.
func TestOthers(t *testing.T) {
	var g Grants
	if got := g.Others("job", "a"); got != nil {
		t.Errorf("nothing was granted: %q", got)
	}
	g.Prepare()
	for _, token := range []string{"a", "b", "c"} {
		g.Remember(&redlock.Acquire{Name: "job", Token: token, Mode: redlock.Read}, time.Now())
	}
	for range 2 {
		for token, want := range map[string]string{"a": "[c b]", "c": "[a b]", "x": "[c a b]"} {
			if got := fmt.Sprint(g.Others("job", token)); got != want {
				t.Errorf("beside %s: %s, want %s", token, got, want)
			}
		}
	}
	if got := g.Others("other", "a"); got != nil {
		t.Errorf("of another lock: %q", got)
	}
}
