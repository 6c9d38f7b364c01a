package adminpage

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
	"lockproxy/cmd/lockproxy/settings"
	"lockproxy/commands/lock"
	"lockproxy/internal/lockevent"
	"lockproxy/proxy"
	"lockproxy/redlock"
	"lockproxy/redlock/totals"
)

// fake is a proxy with one lock, which counts what it is asked.
type fake struct {
	locks, proxies atomic.Int64
	watching       atomic.Int64
	broken         string
	fail           error
}

func (f *fake) ID() string                               { return "p1" }
func (f *fake) Started() time.Time                       { return time.Now() }
func (f *fake) Topology() *cluster.Topology              { return new(cluster.Topology) }
func (f *fake) Down(string) (out cluster.Outage, _ bool) { return out, false }
func (f *fake) Busiest(int) []lock.Count                 { return nil }
func (f *fake) Everywhere() bool                         { return true }

func (f *fake) Proxies(context.Context) totals.Sum {
	f.proxies.Add(1)
	return totals.Sum{Proxies: 1}
}

func (f *fake) Locks(_ context.Context, match string, _ int) ([]lock.Seen, int, error) {
	f.locks.Add(1)
	hold := redlock.Holder{Owner: redlock.OwnerOf("secret"), Mode: redlock.Write}
	one := lock.Seen{Name: "job:" + match, State: redlock.State{Holders: []redlock.Holder{hold}}}
	return []lock.Seen{one}, 7, f.fail
}

func (f *fake) Break(_ context.Context, name string, _ redlock.Client) (bool, error) {
	f.broken = name
	return true, f.fail
}

func (f *fake) Watch(context.Context, func([]lockevent.Event)) (func(), error) {
	f.watching.Add(1)
	return func() { f.watching.Add(-1) }, f.fail
}

func (f *fake) options() Options {
	v := settings.Defaults()
	v.Admin.Actions = true
	return Options{Source: func() Source { return f }, Stats: func() proxy.Stats { return proxy.Stats{} },
		Ready: func() error { return nil }, Values: func() *settings.Values { return v },
		Log: slog.New(slog.DiscardHandler)}
}

// Nothing is asked while nobody looks, and once for all who look for the same.
func TestNothingIsAskedForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fake)
		b := newBoard(f.options())
		for round := range int64(3) {
			before := f.locks.Load()
			var all []*search
			for range mostViewers {
				s, err := b.addViewer("a")
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, s)
			}
			if _, err := b.addViewer("a"); err == nil {
				t.Error("one viewer more is let in")
			}
			time.Sleep(19 * time.Second)
			if n := f.locks.Load() - before; n < 8 || n > 12 {
				t.Errorf("%d searches in 19 s", n)
			}
			if f.watching.Load() != 1 || f.proxies.Load() != 2*(round+1) {
				t.Errorf("%d watch, proxies were asked %d times", f.watching.Load(), f.proxies.Load())
			}
			for _, s := range all {
				b.removeViewer(s)
			}
			synctest.Wait()
			asked := f.locks.Load()
			time.Sleep(time.Hour)
			if f.locks.Load() != asked || f.watching.Load() != 0 || f.proxies.Load() != 2*(round+1) {
				t.Error("somebody is asked while nobody looks")
			}
		}
		b.closeBoard()
	})
}

// Different searches take turns, and there are few of them.
func TestSearchesAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(new(fake).options())
		var all []*search
		for i := range mostSearches {
			s, err := b.addViewer(fmt.Sprint(i))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, s)
		}
		if _, err := b.addViewer("another"); !errors.Is(err, errSearches) {
			t.Error(err)
		}
		time.Sleep(3 * time.Second)
		for _, s := range all {
			b.mu.Lock()
			if s.shown.n == 0 || s.names[idOf("job:*"+s.match+"*")] == "" {
				t.Errorf("search %s: %s", s.match, s.shown.text)
			}
			b.mu.Unlock()
			b.removeViewer(s)
		}
		b.closeBoard()
	})
}

// The stream of a viewer has all it needs, no token of a lock, and ends with the page.
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(new(fake).options())
		w := &wire{ResponseRecorder: httptest.NewRecorder()}
		over := make(chan struct{})
		go func() {
			defer close(over)
			p.ServeHTTP(w, httptest.NewRequest("GET", "/live", nil))
		}()
		time.Sleep(5 * time.Second)
		p.Close()
		<-over
		for _, want := range []string{"event: hello\ndata: {", p.board.token, "event: status\ndata: {",
			"event: locks\ndata: {", `"name":"job:*"`, redlock.Digest("secret")} {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("no %s in %s", want, w.Body)
			}
		}
		if strings.Contains(w.Body.String(), `"secret"`) {
			t.Error("it has a token")
		}
		if _, err := p.board.addViewer(""); err == nil {
			t.Error("a page that has ended lets somebody in")
		}
	})
}

// wire is a ResponseRecorder with deadlines.
type wire struct{ *httptest.ResponseRecorder }

func (*wire) SetWriteDeadline(time.Time) error { return nil }

// More events than people can read are counted.
func TestFloodOfEvents(t *testing.T) {
	var l eventLog
	for range 1000 {
		l.noteEvents([]lockevent.Event{{Kind: lockevent.Granted, Lock: "a\x1b\u202eb"}})
	}
	if !l.flushFresh() || l.flushFresh() ||
		len(l.last) != mostNew+1 || l.last[mostNew].Count != 1000-mostNew ||
		l.last[0].Lock != `a\x1b\u202eb` {
		t.Errorf("%d events: %+v", len(l.last), l.last[len(l.last)-1])
	}
	for range 100 {
		l.noteEvents([]lockevent.Event{{}})
		l.flushFresh()
	}
	if len(l.last) != mostNew+101 || len(l.since(l.seq)) != 0 || len(l.since(l.seq-3)) != 3 {
		t.Errorf("%d events", len(l.last))
	}
}

// What is shown can be printed, keeps its direction, and has a bound.
func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"job:1": "job:1", "<script>": "<script>", "grün 锁": "grün 锁", "a\x00\xffb": `a\x00\xffb`,
		"a\u202eb": `a\u202eb`, "\uFFFD": "\uFFFD", "0123456789a": "012345678…",
	} {
		if got := printable(text, 10); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// Only the page itself breaks locks, and only those that it shows. R23.
func TestBreak(t *testing.T) {
	f := new(fake)
	p := New(f.options())
	s := &search{viewers: 1, names: map[string]string{idOf("job"): "job"}}
	p.board.searches[""] = s
	ask := func(body string, change func(r *http.Request)) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "http://proxy:6390/break", strings.NewReader(body))
		r.Header.Set("Origin", "http://proxy:6390")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		r.Header.Set(tokenHeader, p.board.token)
		change(r)
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		return w
	}
	same := func(*http.Request) {}
	good := `{"id":"` + idOf("job") + `"}`
	for what, test := range map[string]struct {
		body   string
		change func(r *http.Request)
		code   int
	}{
		"another origin":      {good, func(r *http.Request) { r.Header.Set("Origin", "http://a:6390") }, 403},
		"an origin of a file": {good, func(r *http.Request) { r.Header.Set("Origin", "null") }, 403},
		"another scheme": {good,
			func(r *http.Request) { r.Header.Set("Origin", "https://proxy:6390") }, 403},
		"a page behind TLS from a page without": {good,
			func(r *http.Request) { r.Header.Set("X-Forwarded-Proto", "https") }, 403},
		"no origin":       {good, func(r *http.Request) { r.Header.Del("Origin") }, 403},
		"another site":    {good, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "none") }, 403},
		"no token":        {good, func(r *http.Request) { r.Header.Del(tokenHeader) }, 403},
		"a wrong token":   {good, func(r *http.Request) { r.Header.Set(tokenHeader, "x") }, 403},
		"GET":             {good, func(r *http.Request) { r.Method = "GET" }, 404},
		"no JSON":         {"id=1", same, 400},
		"much":            {`{"id":"` + strings.Repeat("a", 2*mostBody) + `"}`, same, 400},
		"an unknown lock": {`{"id":"` + idOf("other") + `"}`, same, 404},
	} {
		if w := ask(test.body, test.change); w.Code != test.code || f.broken != "" {
			t.Errorf("%s: %d %s", what, w.Code, w.Body)
		}
	}
	w := ask(good, same)
	if w.Code != 200 || f.broken != "job" || !strings.Contains(w.Body.String(), "true") {
		t.Errorf("%d %s: %q is broken", w.Code, w.Body, f.broken)
	}
	f.broken = ""
	ask(good, func(r *http.Request) { // over HTTPS, and a proxy of HTTP in front
		r.Header.Set("Origin", "https://proxy:6390")
		r.Header.Set("X-Forwarded-Proto", "https")
	})
	if f.broken != "job" {
		t.Errorf("over HTTPS %q is broken", f.broken)
	}
	f.broken = ""
	ask(good, func(r *http.Request) {
		r.Header.Set("Origin", "https://proxy:6390")
		r.TLS = new(tls.ConnectionState)
	})
	if f.broken != "job" {
		t.Errorf("over the listener's own TLS %q is broken", f.broken)
	}
	f.fail = errors.New("NOQUORUM")
	if w := ask(good, same); w.Code != 502 || !strings.Contains(w.Body.String(), "NOQUORUM") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	o := f.options()
	o.Values().Admin.Actions = false
	f.broken, p = "", New(o)
	p.board.searches[""] = s
	if w := ask(good, same); w.Code != 403 || f.broken != "" {
		t.Errorf("without admin-actions: %d", w.Code)
	}
}

// The page brings all that it needs, and has no script and no style inside, which its policy forbids.
func TestFiles(t *testing.T) {
	p := New(new(fake).options())
	for path, has := range map[string]string{"/": "<table>", "/page.js": "textContent", "/page.css": "dark",
		"/icon.svg": "<svg"} {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		text := w.Body.String()
		if w.Code != 200 || !strings.Contains(text, has) ||
			w.Header().Get("Content-Security-Policy") != policy {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
		for _, no := range []string{"innerHTML", "insertAdjacentHTML", "document.write", "eval(", "https://",
			" style=", "onclick", "onerror=", "<style", "javascript:"} {
			if strings.Contains(text, no) {
				t.Errorf("%s has %s", path, no)
			}
		}
	}
}
