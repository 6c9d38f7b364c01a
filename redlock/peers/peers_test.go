package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/internal/subscription"
)

// radio is a Bus in memory.
type radio struct {
	mu        sync.Mutex
	listeners map[string][]func(subscription.Change)
	published []string
	mute      bool          // PUBSUB is forbidden
	deaf      chan struct{} // no subscription is made before it is closed; nil: they are made at once
}

func (r *radio) Masters() int { return 1 }

func (r *radio) DoMaster(ctx context.Context, _ int, req []byte, resend bool) ([]byte, error) {
	return r.Do(ctx, 0, req, resend)
}

func (r *radio) Do(_ context.Context, _ int, req []byte, _ bool) ([]byte, error) {
	v, _, _ := resp.Parse(req)
	r.mu.Lock()
	defer r.mu.Unlock()
	if v.Elems[0].Text() == "PUBSUB" {
		if r.mute {
			return []byte("-NOPERM no\r\n"), nil
		}
		var all []string
		for channel := range r.listeners {
			if strings.HasPrefix(channel, "lockproxy:peers:") {
				all = append(all, channel)
			}
		}
		return resp.AppendCommandStrings(nil, append(all, "lockproxy:peers:nonsense")...), nil
	}
	channel := v.Elems[1].Text()
	r.published = append(r.published, channel)
	for _, heard := range r.listeners[channel] {
		heard(subscription.Change{Kind: subscription.Message, Payload: v.Elems[2].Str})
	}
	return resp.One, nil
}

func (r *radio) Subscribe(_ int, channel string, heard func(subscription.Change)) (cancel func()) {
	if r.deaf != nil {
		heard(subscription.Change{Kind: subscription.Refused, Err: errors.New("no such right")})
		<-r.deaf
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	i := len(r.listeners[channel])
	r.listeners[channel] = append(r.listeners[channel], heard)
	heard(subscription.Change{Kind: subscription.Live})
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.listeners[channel][i] = func(subscription.Change) {}; channel != "lockproxy:peers" {
			delete(r.listeners, channel)
		}
	}
}

func (r *radio) say(channel string, payload []byte) {
	r.Do(context.Background(), 0, resp.AppendCommandStrings(nil, "PUBLISH", channel, string(payload)), true)
}

var ids = []string{"aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb", "cccccccccccccccc"}

// run gives three proxies that repeat what they are asked, in fake time.
func run(t *testing.T, test func(t *testing.T, r *radio, all []*Peers)) {
	synctest.Test(t, func(t *testing.T) {
		r := &radio{listeners: map[string][]func(subscription.Change){}}
		var all []*Peers
		for _, id := range ids {
			p := New(r, Options{ID: id, Handlers: map[string]Responder{
				"echo": func(q []byte) []byte { return append([]byte(id[:1]+" "), q...) },
				"long": func([]byte) []byte { return make([]byte, MostBytes+1) },
			}})
			defer p.Close()
			all = append(all, p)
		}
		test(t, r, all)
	})
}

func asked(p *Peers, topic, question string) string {
	all, silent := p.Ask(context.Background(), topic, []byte(question))
	var words []string
	for _, a := range all {
		words = append(words, a.From[:1]+"="+string(a.Body))
	}
	return fmt.Sprint(len(words), strings.Contains(strings.Join(words, ","), question), silent)
}

// Those who take part answer at once; nobody is waited for who does not.
func TestAsk(t *testing.T) {
	run(t, func(t *testing.T, r *radio, all []*Peers) {
		began := time.Now()
		if got := asked(all[0], "echo", "hi"); got != "0 false []" {
			t.Error(got)
		}
		for _, p := range all {
			p.Join()
			p.Join()
		}
		synctest.Wait()
		if got := asked(all[0], "echo", "hi"); got != "2 true []" {
			t.Error(got)
		}
		all[1].Close()
		if got := asked(all[0], "echo", "hi"); got != "1 true []" {
			t.Error(got)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("waited for %v", took)
		}
	})
}

// A proxy that does not answer costs its part of the answer, and a bounded time.
func TestSilence(t *testing.T) {
	run(t, func(t *testing.T, r *radio, all []*Peers) {
		for _, p := range all {
			p.Join()
		}
		synctest.Wait()
		r.mu.Lock()
		r.listeners["lockproxy:peers:dddddddddddddddd"] = nil
		r.mu.Unlock()
		began := time.Now()
		got := asked(all[0], "echo", "hi")
		if got != "2 true [dddddddddddddddd]" || time.Since(began) != Patience {
			t.Error(got, time.Since(began))
		}
		if got := asked(all[0], "long", "hi"); got != "0 false ["+strings.Join(append(ids[1:],
			"dddddddddddddddd"), " ")+"]" {
			t.Error("an answer that is too long:", got)
		}
		if all[1].Dropped() != 1 {
			t.Errorf("%d questions dropped", all[1].Dropped())
		}
		for i := range mostAsked {
			all[0].noteQuestion(fmt.Sprint(i), &openQuestion{})
		}
		if got := asked(all[0], "echo", "hi"); got != "0 false ["+strings.Join(append(ids[1:],
			"dddddddddddddddd"), " ")+"]" {
			t.Error("too many questions are open:", got)
		}
		clear(all[0].asked)
		if got := asked(all[0], "echo", strings.Repeat("x", MostBytes+1)); got != "0 false []" {
			t.Error("a question that is too long:", got)
		}
		if len(all[0].asked) != 0 {
			t.Error("questions stay open")
		}
		r.mute = true
		if got := asked(all[0], "echo", "hi"); got != "0 false []" {
			t.Error("nobody says who is there:", got)
		}
	})
}

// Whatever is published on the channels, it neither hurts nor has anything published where it must not.
func TestHostile(t *testing.T) {
	run(t, func(t *testing.T, r *radio, all []*Peers) {
		all[0].Join()
		synctest.Wait()
		r.published = nil
		for _, m := range []message{
			{"echo", "q", "news", []byte("x"), nil},
			{"echo", "q", "aaaaaaaaaaaaaaa*", nil, nil},
			{"nosuch", "q", ids[1], nil, nil},
			{"echo", strings.Repeat("q", 65), ids[1], nil, nil},
			{"", "q", ids[1], nil, nil},
			{"echo", "q", ids[0], nil, nil},
		} {
			r.say("lockproxy:peers", m.encode())
			r.say("lockproxy:peers:"+ids[0], m.encode())
		}
		for _, text := range []string{"", "*5\r\n", "hello", "*1\r\n$1\r\n1\r\n", "*-1\r\n", "$-1\r\n",
			strings.Repeat("*1\r\n", 100)} {
			r.say("lockproxy:peers", []byte(text))
			r.say("lockproxy:peers:"+ids[0], []byte(text))
		}
		synctest.Wait()
		for _, channel := range r.published {
			if channel != "lockproxy:peers" && channel != "lockproxy:peers:"+ids[0] {
				t.Errorf("published on %q", channel)
			}
		}
		r.published = nil
		flood := message{topic: "echo", question: "q", from: ids[1], body: []byte("x")}
		for range 10 * mostWaiting {
			r.say("lockproxy:peers", flood.encode())
		}
		synctest.Wait()
		if n := len(r.published) - 10*mostWaiting; n < 1 || n > 10*mostWaiting {
			t.Errorf("%d answers to a flood", n)
		} else if got := all[0].Dropped() + uint64(n); got != 10*mostWaiting {
			t.Errorf("%d answers, and %d questions dropped", n, all[0].Dropped())
		}
	})
}

// A proxy that cannot listen yet says nothing wrong.
func TestDeaf(t *testing.T) {
	run(t, func(t *testing.T, r *radio, all []*Peers) {
		r.deaf = make(chan struct{})
		began := time.Now()
		if got := asked(all[0], "echo", "hi"); got != "0 false []" || time.Since(began) != joinPatience {
			t.Error(got, time.Since(began))
		}
		close(r.deaf)
		all[1].Join()
		time.Sleep(time.Minute)
		if got := asked(all[0], "echo", "hi"); got != "1 true []" {
			t.Error(got)
		}
	})
	var none *Peers
	none.Join()
	none.Close()
	if all, silent := none.Ask(context.Background(), "echo", nil); all != nil || silent != nil {
		t.Error(all, silent)
	}
}

func FuzzMessages(f *testing.F) {
	f.Add(message{topic: "echo", question: "q", from: ids[1], body: []byte("x")}.encode())
	f.Add([]byte("*5\r\n$1\r\n1\r\n"))
	f.Add(message{from: ids[1], settings: []byte(`{"lock-prefix":"x"}`)}.encode())
	f.Fuzz(func(t *testing.T, payload []byte) {
		m, ok := decode(payload)
		if ok && (!isID(m.from) || len(m.body) > MostBytes) {
			t.Errorf("%+v", m)
		}
		newSettings(keeping()).hearSettings(slog.New(slog.DiscardHandler), m.from, m.settings)
	})
}
