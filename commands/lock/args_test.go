package lock

import (
	"strings"
	"testing"
	"time"

	"lockproxy/redlock/locks"
)

// What is read, in any case and order; a word that is an option's name is the option.
func TestLockArgs(t *testing.T) {
	l := locks.New(nil, locks.Options{})
	verbs := syntaxes(l)
	for line, want := range map[string]arguments{
		"LOCK job":                 {name: "job"},
		"LOCK PX":                  {name: "PX"},
		`LOCK ""`:                  {},
		"LOCK job px 86400000":     {name: "job", lease: 24 * time.Hour},
		"LOCK job Ex 86400":        {name: "job", lease: 24 * time.Hour},
		"LOCK job TOKEN PX PX 5":   {name: "job", token: "PX", lease: 5 * time.Millisecond},
		"LOCK job TOKEN KEEPALIVE": {name: "job", token: "KEEPALIVE"},
		"LOCK job WAIT 250":        {name: "job", wait: 250 * time.Millisecond},
		"LOCK job WAIT 0":          {name: "job", wait: 10 * time.Minute},
		"LOCK job every 100 tries 1000000": {name: "job", tries: 1_000_000,
			every: 100 * time.Millisecond},
		"WLOCK job WAIT 5 reentrant PX 7": {name: "job", wait: 5 * time.Millisecond, reentrant: true,
			lease: 7 * time.Millisecond},
		"RLOCK job PX 7 TOKEN t WAIT 5": {name: "job", wait: 5 * time.Millisecond, token: "t",
			lease: 7 * time.Millisecond},
		"LOCK job KEEPALIVE": {name: "job", keep: true},
		"LOCK job keepalive max 3 PX 5": {name: "job", keep: true, renewals: 3,
			lease: 5 * time.Millisecond},
		"RLOCK job MAX 1000000000 PX 5 KEEPALIVE": {name: "job", keep: true, renewals: 1_000_000_000,
			lease: 5 * time.Millisecond},
		"LOCK job ATLEAST 9 TOKEN t":        {name: "job", token: "t", atLeast: 9 * time.Millisecond},
		"LOCK job SYNC 0 META KEEPALIVE":    {name: "job", syncs: true, meta: "KEEPALIVE"},
		"WLOCK job SYNC 16":                 {name: "job", syncs: true, replicas: 16},
		"RENEW job t KEEPALIVE MAX 7":       {name: "job", token: "t", keep: true, renewals: 7},
		"RENEW job KEEPALIVE":               {name: "job", keep: true},
		"UNLOCK job KEEPALIVE":              {name: "job", token: "KEEPALIVE"}, // no option of UNLOCK
		"UNLOCK job":                        {name: "job"},
		"UNLOCK job PX":                     {name: "job", token: "PX"}, // no option of UNLOCK
		"UNLOCK job TOKEN FENCE":            {name: "job", token: "FENCE"},
		"UNLOCK job t FENCE 7":              {name: "job", token: "t", fence: 7},
		"UNLOCK job FENCE 7 t":              {name: "job", token: "t", fence: 7},
		"UNLOCK job fence 9007199254740992": {name: "job", fence: 1 << 53},
		"RENEW job PX 9 t":                  {name: "job", token: "t", lease: 9 * time.Millisecond},
		"RENEW job TOKEN t EX 9 FENCE 1": {name: "job", token: "t", lease: 9 * time.Second,
			fence: 1},
	} {
		var args [][]byte
		for _, word := range strings.Fields(line) {
			args = append(args, []byte(strings.ReplaceAll(word, `""`, "")))
		}
		var got arguments
		err := got.parse(verbs[string(args[0])], l, args)
		got.request = "" // each has its own
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", line, got, err, want)
		}
	}
}

// syntaxes are those of the verbs, by name in capitals.
func syntaxes(l *locks.Locker) map[string]*syntax {
	verbs := map[string]*syntax{}
	for _, v := range Verbs(Lockers{Plain: l}) {
		if v.Subs == nil {
			verbs[strings.ToUpper(v.Name)] = newSyntax(v)
		}
	}
	return verbs
}

// FuzzLockArgs has clients give verbs anything: it is an error with the syntax, or
// arguments within their bounds that only depend on what was given.
func FuzzLockArgs(f *testing.F) {
	for _, verb := range []string{"LOCK", "WLOCK", "RLOCK", "UNLOCK", "RENEW"} {
		f.Add(verb + " job t")
		f.Add(verb + " job TOKEN t PX 5000 FENCE 7 KEEPALIVE MAX 3")
		f.Add(verb + " job token t EX 5 WAIT 0 REENTRANT SYNC 1 META m ATLEAST 5 ID a-1")
		f.Add(verb + " job TRIES 3 EVERY 1000")
	}
	f.Add("LOCK job PX 18446744073709551617 EX -9223372036854775808")
	f.Add("UNLOCK  TOKEN TOKEN FENCE FENCE")
	l := locks.New(nil, locks.Options{})
	verbs := syntaxes(l)
	f.Fuzz(func(t *testing.T, line string) {
		var args [][]byte
		for word := range strings.SplitSeq(line, " ") {
			args = append(args, []byte(word))
		}
		s := verbs[strings.ToUpper(string(args[0]))]
		if s == nil || len(args) < 2 {
			return
		}
		var a, b arguments
		err := a.parse(s, l, args)
		if err != nil {
			if text := err.Error(); !strings.HasPrefix(text, "ERR ") ||
				!strings.Contains(text, ". Syntax: "+strings.ToUpper(s.verb.Name)+" ") {
				t.Errorf("%q: %v", line, err)
			}
			return
		}
		if a.lease < 0 || a.lease > l.MaxLease() || a.wait < 0 || a.wait > l.MaxWait() || a.tries < 0 ||
			a.tries > maxTries ||
			a.fence < 0 || a.fence > maxFence || len(a.token) > maxToken || a.wait > 0 && a.tries > 0 ||
			a.renewals < 0 || a.renewals > maxRenewals || a.renewals > 0 && !a.keep || a.replicas < 0 ||
			a.replicas > maxReplicas || a.replicas > 0 && !a.syncs ||
			len(a.meta) > maxMeta || a.name != string(args[1]) {
			t.Errorf("%q: %+v", line, a)
		}
		err = b.parse(s, l, args)
		if a.request == b.request {
			t.Errorf("%q: %s twice", line, a.request)
		}
		a.request, b.request = "", "" // each has its own
		if err != nil || a != b {
			t.Errorf("%q: %+v, then %+v", line, a, b)
		}
	})
}

func BenchmarkLockArgs(b *testing.B) {
	l := locks.New(nil, locks.Options{})
	s := newSyntax(Verbs(Lockers{Plain: l})[0])
	args := [][]byte{[]byte("LOCK"), []byte("job"), []byte("TOKEN"), []byte("0123456789abcdef"), []byte("PX"),
		[]byte("30000")}
	b.ReportAllocs()
	for b.Loop() {
		var a arguments
		if err := a.parse(s, l, args); err != nil {
			b.Fatal(err)
		}
	}
}
