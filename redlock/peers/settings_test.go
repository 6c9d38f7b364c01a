package peers

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/subscription"
)

// keeping are the settings of a proxy that are not as usual, in pairs.
func keeping(pairs ...string) map[string]string {
	all := map[string]string{"lock-prefix": "lock:", "redlock": "a:1,b:2,c:3"}
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = pairs[i+1]
	}
	return all
}

// between has proxies with these settings talk, in fake time. log has what the first one logs.
func between(t *testing.T, each []Options,
	test func(t *testing.T, r *radio, all []*Peers, log *bytes.Buffer),
) {
	synctest.Test(t, func(t *testing.T) {
		r := &radio{listeners: map[string][]func(subscription.Change){}}
		var all []*Peers
		var log bytes.Buffer
		for i, o := range each {
			o.ID = ids[i]
			if i == 0 {
				o.Log = slog.New(slog.NewTextHandler(&log, nil))
			}
			p := New(r, o)
			defer p.Close()
			all = append(all, p)
		}
		test(t, r, all, &log)
	})
}

// said is what a proxy knows of those that differ.
func said(p *Peers) string {
	var words []string
	for _, d := range p.Differing() {
		words = append(words, d.Proxy[:1]+"="+strings.Join(d.Settings, "+"))
	}
	return strings.Join(words, " ")
}

// Proxies that keep locks in another way learn of each other as soon as both take part, once each; those that
// keep them in the same way say nothing.
func TestOtherSettings(t *testing.T) {
	between(t, []Options{{Settings: keeping()}, {Settings: keeping()},
		{Settings: keeping("lock-prefix", "other:", "redlock", "")},
	}, func(t *testing.T, r *radio, all []*Peers, log *bytes.Buffer) {
		for i, want := range []string{"", "", "c=lock-prefix+redlock"} {
			all[i].Join()
			synctest.Wait()
			if got := said(all[0]); got != want {
				t.Errorf("with %d proxies: %q", i+1, got)
			}
		}
		if got := said(all[1]) + ", " + said(all[2]); got != "c=lock-prefix+redlock, a=lock-prefix+redlock "+
			"b=lock-prefix+redlock" {
			t.Error(got)
		}
		r.mu.Lock()
		if n := len(r.published); n != 5 { // three announcements, and two answers to the third
			t.Errorf("%d messages: %q", n, r.published)
		}
		r.mu.Unlock()
		err := fmt.Sprint(all[0].Disagreement())
		if !strings.HasSuffix(err, ": cccccccccccccccc (lock-prefix, redlock)") {
			t.Error(err)
		}
		time.Sleep(10 * announceEach)
		synctest.Wait()
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `level=WARN `+
			`msg="another proxy has other settings: both may grant one lock" proxy=cccccccccccccccc `+
			`settings="lock-prefix, redlock"`) {
			t.Error(got)
		}
		if said(all[0]) == "" {
			t.Error("forgotten although it says so again and again")
		}
		all[2].Close()
		time.Sleep(forgetAfter + time.Second)
		synctest.Wait()
		if said(all[0]) != "" || all[0].Disagreement() != nil {
			t.Error("remembered although it has gone:", said(all[0]))
		}
	})
}

// A message that is lost is made up for by the next.
func TestOtherSettingsAfterAnOutage(t *testing.T) {
	between(t, []Options{{Settings: keeping()}, {Settings: keeping("redlock", "a:1,b:2,d:4")}},
		func(t *testing.T, r *radio, all []*Peers, _ *bytes.Buffer) {
			all[0].Join()
			synctest.Wait()
			r.mu.Lock()
			heard := r.listeners
			r.listeners = map[string][]func(subscription.Change){}
			r.mu.Unlock()
			all[1].Join()
			synctest.Wait()
			if said(all[0])+said(all[1]) != "" {
				t.Fatal("nothing could be heard")
			}
			r.mu.Lock()
			maps.Copy(heard, r.listeners)
			heard["lockproxy:peers"] = append(heard["lockproxy:peers"][:1], r.listeners["lockproxy:peers"]...)
			r.listeners = heard
			r.mu.Unlock()
			time.Sleep(announceEach)
			synctest.Wait()
			if said(all[0]) != "b=redlock" || said(all[1]) != "a=redlock" {
				t.Errorf("%q, %q", said(all[0]), said(all[1]))
			}
		})
}

// Who only asks is told, and told nothing of; fleets with other names do not talk.
func TestCompare(t *testing.T) {
	between(t, []Options{{Settings: keeping()}, {Settings: keeping("lock-prefix", "other:"), Quiet: true},
		{Settings: keeping("lock-prefix", "their:"), Fleet: "theirs"},
	}, func(t *testing.T, r *radio, all []*Peers, log *bytes.Buffer) {
		all[0].Join()
		all[2].Join()
		synctest.Wait()
		if heard, silent := all[1].Compare(t.Context()); heard != 1 || len(silent) != 0 ||
			said(all[1]) != "a=lock-prefix" {
			t.Errorf("%d heard, %q silent: %q", heard, silent, said(all[1]))
		}
		if said(all[0])+said(all[2])+log.String() != "" {
			t.Errorf("%q, %q, %s", said(all[0]), said(all[2]), log)
		}
	})
}

// What is made up by those who may publish costs little, and says nothing that the proxy does not know:
// names and values that others send are not shown.
func TestForgedSettings(t *testing.T) {
	only := []Options{{Settings: keeping()}}
	between(t, only, func(t *testing.T, r *radio, all []*Peers, log *bytes.Buffer) {
		all[0].Join()
		synctest.Wait()
		for _, text := range []string{"", "{", "null", "[]", "{}", `{"lock-prefix":5}`,
			`{"evil\u001b[2J":"x"}`, `{"lock-prefix":"` + strings.Repeat("x", mostSettings) + `"}`,
			string(all[0].settings.text)} {
			m := message{topic: announcing, from: ids[1], settings: []byte(text)}
			r.say("lockproxy:peers", m.encode())
			r.say("lockproxy:peers:"+ids[0], m.encode())
		}
		synctest.Wait()
		if said(all[0])+log.String() != "" {
			t.Fatalf("%q %s", said(all[0]), log)
		}
		r.published = nil
		for i := range 3 * mostAnswers {
			from := strings.Map(func(c rune) rune { return c - '0' + 'b' }, fmt.Sprintf("%016d", i))
			m := message{topic: announcing, from: from,
				settings: []byte(`{"lock-prefix":"\u001b[2J","x":"y"}`)}
			r.say("lockproxy:peers", m.encode())
			r.say("lockproxy:peers", m.encode())
		}
		synctest.Wait()
		if n := len(all[0].Differing()); n != mostAnswers {
			t.Errorf("%d remembered", n)
		}
		if err := all[0].Disagreement().Error(); len(err) > 500 || !strings.HasSuffix(err, "992 more") {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "\n"); n > 20 || strings.Contains(log.String(), "[2J") {
			t.Errorf("%d lines: %s", n, log)
		}
		if n := len(r.published) - 6*mostAnswers; n > mostAnswers {
			t.Errorf("%d answers", n)
		}
	})
}
