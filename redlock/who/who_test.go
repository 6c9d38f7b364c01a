package who

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/index"
	"lockproxy/redlock/peers"
)

// nowhere is an upstream that is away.
type nowhere struct{}

func (nowhere) Do(context.Context, int, []byte, bool) ([]byte, error) {
	return nil, errors.New("no such node")
}

func newIndex(t *testing.T) *index.Index {
	x := index.New(nowhere{}, index.Options{Prefix: "lock:"})
	t.Cleanup(func() { x.Close(context.Background()) })
	return x
}

func take(x *index.Index, name, token, client string, mode redlock.Mode) {
	now := time.Now()
	x.Granted(&redlock.Acquire{Name: name, Token: token, Mode: mode,
		Client: &redlock.Client{Name: client, Addr: "1.2.3.4:5", User: "shop"},
	}, &redlock.Grant{At: now, TTL: time.Minute}, now.Add(-time.Second), nil)
}

func stateOf(waiters int, tokens ...string) (s redlock.State) {
	for _, token := range tokens {
		s.Holders = append(s.Holders, redlock.Holder{Owner: redlock.OwnerOf(token)})
	}
	s.Waiters = waiters
	return s
}

// What this proxy remembers is told of each holder, and of those who have waited longest. R21
func TestKnownHere(t *testing.T) {
	x := newIndex(t)
	w := &Who{Index: x, ID: "here"}
	for i := range 3 {
		take(x, "doc", fmt.Sprint(i), fmt.Sprint("reader", i), redlock.Read)
	}
	take(x, "{job}", "t", "worker", redlock.Write)
	for i := range 20 {
		a := redlock.Acquire{Name: "doc", Mode: redlock.Write}
		a.Client = &redlock.Client{Name: fmt.Sprint("w", i)}
		defer x.Waits(&a)()
	}
	all := w.Of(t.Context(), map[string]redlock.State{
		"doc": stateOf(20, "0", "1", "2"), "job": stateOf(0, "t"), "none": {},
	})
	doc := all["doc"]
	if len(doc.Holders) != 3 || len(doc.Waiters) != MostWaiters || len(all["none"].Holders) != 0 {
		t.Errorf("%+v", all)
	}
	want := redlock.Client{Name: "worker", Addr: "1.2.3.4:5", User: "shop"}
	if got := all["job"].Holders[redlock.Digest("t")]; got.Client != want || got.Proxy != "here" ||
		got.Waited != 1000 {
		t.Errorf("%+v, want %+v", got, want)
	}
	// Another connection has renewed it since.
	x.Renewed("{job}", "t", time.Now().Add(time.Minute), &redlock.Client{Name: "heir"}, false)
	all = w.Of(t.Context(), map[string]redlock.State{"{job}": stateOf(0, "t")})
	if got := all["{job}"].Holders[redlock.Digest("t")]; got.Name != "heir" {
		t.Errorf("%+v", got)
	}
}

// An answer is read with care: it is cleaned, clipped and bounded, and only about what was asked.
func TestAnswersOfOthers(t *testing.T) {
	w := &Who{Index: newIndex(t)}
	g := make(gathering)
	g.addSaid("me", w.here("job"))
	long := strings.Repeat("é", 1000)
	text, _ := json.Marshal([]said{
		{Name: []byte("job"), Holders: []index.KnownHolder{
			{Client: redlock.Client{Name: long, Addr: "a\r\nb\x00", User: "u\x1b[31m"}, Digest: "d1",
				Noted: 50, Waited: -7},
			{Client: redlock.Client{Name: "old"}, Digest: "d2", Noted: 90, Waited: 1 << 62},
		}, Waiters: []index.KnownWaiter{{Mode: "evil", Waited: 1},
			{Mode: redlock.Read, Client: redlock.Client{Name: "r"}, Waited: 5}}},
		{Name: []byte("other"), Holders: []index.KnownHolder{{Digest: "d1"}}},
	})
	g.readAnswer(peers.Answer{From: "b", Body: text})
	for _, bad := range []string{"", "{}", "[1]", "null", `[{"name":"%"}]`, strings.Repeat("[", 20_000)} {
		g.readAnswer(peers.Answer{From: "c", Body: []byte(bad)})
	}
	again, _ := json.Marshal([]said{
		{Name: []byte("job"), Holders: []index.KnownHolder{
			{Client: redlock.Client{Name: "new"}, Digest: "d2", Noted: 10, Waited: 2}}},
	})
	const wire = `[{"name":"am9i","holders":[{"client":{"name":"new","addr":"","user":""},"token":"d2",` +
		`"noted":10,"waited":2}]}]` // which proxies of other versions read
	if string(again) != wire {
		t.Errorf("said %s", again)
	}
	g.readAnswer(peers.Answer{From: "d", Body: again})
	all := g.result()
	one := all["job"]
	d1 := one.Holders["d1"]
	d2 := one.Holders["d2"]
	if len(all) != 1 || len(d1.Name) > mostText+2 || d1.Addr != "ab" || d1.User != "u[31m" ||
		d1.Waited != 0 || d2.Name != "new" || d2.Proxy != "d" {
		t.Errorf("%+v", all)
	}
	if len(one.Waiters) != 2 || one.Waiters[0].Mode != redlock.Read || one.Waiters[1].Mode != redlock.Write {
		t.Errorf("%+v", one.Waiters)
	}
}

// A question is bounded, and so is its answer.
func TestBounds(t *testing.T) {
	x := newIndex(t)
	w := &Who{Index: x}
	var names []string
	for i := range 2500 {
		name := fmt.Sprintf("%s%d", strings.Repeat("x", 80), i)
		take(x, name, "t", strings.Repeat("c", 200), redlock.Write)
		names = append(names, name)
	}
	seen := 0
	for _, q := range questions(names) {
		if len(q) > peers.MostBytes {
			t.Errorf("a question of %d bytes", len(q))
		}
		answer := w.Answer(q)
		if len(answer) > peers.MostBytes {
			t.Errorf("an answer of %d bytes", len(answer))
		}
		var all []said
		if err := json.Unmarshal(answer, &all); err != nil {
			t.Error(err)
		}
		seen += len(all)
	}
	if seen < 1000 {
		t.Errorf("%d locks of %d were told", seen, len(names))
	}
	for _, bad := range []string{"", "{", "[1]", `"x"`} {
		if got := w.Answer([]byte(bad)); len(got) > 0 {
			t.Errorf("%q: %s", bad, got)
		}
	}
}
