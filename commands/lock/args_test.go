package lock

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/keepalive"
	"lockproxy/redlock/locks"
)

type acquire = redlock.Acquire

const ms = time.Millisecond

// What is read, in any case and order; a word that is the name of an option of the verb is the option.
func TestLockArgs(t *testing.T) {
	l := locks.New(nil, locks.Options{})
	verbs := syntaxes(l)
	for line, want := range map[string]arguments{
		"LOCK job":                 {Acquire: acquire{Name: "job"}},
		"LOCK PX":                  {Acquire: acquire{Name: "PX"}},
		`LOCK ""`:                  {},
		"LOCK job px 86400000":     {Acquire: acquire{Name: "job", Lease: 24 * time.Hour}},
		"LOCK job Ex 86400":        {Acquire: acquire{Name: "job", Lease: 24 * time.Hour}},
		"LOCK job TOKEN PX PX 5":   {Acquire: acquire{Name: "job", Token: "PX", Lease: 5 * ms}},
		"LOCK job TOKEN KEEPALIVE": {Acquire: acquire{Name: "job", Token: "KEEPALIVE"}},
		"LOCK job WAIT 250":        {Acquire: acquire{Name: "job", Wait: 250 * time.Millisecond}},
		"LOCK job WAIT 0":          {Acquire: acquire{Name: "job", Wait: 10 * time.Minute}},
		"LOCK job every 100 tries 1000000": {
			Acquire: acquire{Name: "job"}, tries: 1_000_000, every: 100 * time.Millisecond,
		},
		"WLOCK job WAIT 5 reentrant PX 7": {
			Acquire: acquire{Name: "job", Wait: 5 * ms, Reentrant: true, Lease: 7 * ms},
		},
		"RLOCK job PX 7 TOKEN t WAIT 5": {
			Acquire: acquire{Name: "job", Wait: 5 * ms, Token: "t", Lease: 7 * ms},
		},
		"LOCK job KEEPALIVE": {Acquire: acquire{Name: "job", Keep: true}},
		"LOCK job keepalive max 3 PX 5": {
			Acquire: acquire{Name: "job", Keep: true, Lease: 5 * ms}, terms: keepalive.Terms{Max: 3},
		},
		"RLOCK job MAX 1000000000 PX 5 KEEPALIVE": {
			Acquire: acquire{Name: "job", Keep: true, Lease: 5 * ms},
			terms:   keepalive.Terms{Max: 1_000_000_000},
		},
		"LOCK job ATLEAST 9 TOKEN t": {
			Acquire: acquire{Name: "job", Token: "t", AtLeast: 9 * ms},
		},
		"LOCK job SYNC 0 META KEEPALIVE": {Acquire: acquire{Name: "job", Meta: "KEEPALIVE"}, syncs: true},
		"WLOCK job SYNC 16":              {Acquire: acquire{Name: "job", Sync: 16}, syncs: true},
		"RENEW job t KEEPALIVE MAX 7": {
			Acquire: acquire{Name: "job", Token: "t", Keep: true}, terms: keepalive.Terms{Max: 7},
		},
		"RENEW job KEEPALIVE":               {Acquire: acquire{Name: "job", Keep: true}},
		"UNLOCK job KEEPALIVE":              {Acquire: acquire{Name: "job", Token: "KEEPALIVE"}},
		"UNLOCK job":                        {Acquire: acquire{Name: "job"}},
		"UNLOCK job PX":                     {Acquire: acquire{Name: "job", Token: "PX"}},
		"UNLOCK job TOKEN FENCE":            {Acquire: acquire{Name: "job", Token: "FENCE"}},
		"UNLOCK job t FENCE 7":              {Acquire: acquire{Name: "job", Token: "t"}, only: 7},
		"UNLOCK job FENCE 7 t":              {Acquire: acquire{Name: "job", Token: "t"}, only: 7},
		"UNLOCK job fence 9007199254740992": {Acquire: acquire{Name: "job"}, only: 1 << 53},
		"RENEW job PX 9 t":                  {Acquire: acquire{Name: "job", Token: "t", Lease: 9 * ms}},
		"RENEW job TOKEN t EX 9 FENCE 1": {
			Acquire: acquire{Name: "job", Token: "t", Lease: 9 * time.Second}, only: 1,
		},
	} {
		var args [][]byte
		for _, word := range strings.Fields(line) {
			args = append(args, []byte(strings.ReplaceAll(word, `""`, "")))
		}
		var got arguments
		err := got.parseArgs(verbs[string(args[0])], l, args)
		got.ID = "" // each has its own
		if err != nil || !reflect.DeepEqual(got, want) {
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
		err := a.parseArgs(s, l, args)
		if err != nil {
			if text := err.Error(); !strings.HasPrefix(text, "ERR ") ||
				!strings.Contains(text, ". Syntax: "+strings.ToUpper(s.verb.Name)+" ") {
				t.Errorf("%q: %v", line, err)
			}
			return
		}
		if a.Lease < 0 || a.Lease > l.MaxLease() || a.Wait < 0 || a.Wait > l.MaxWait() || a.tries < 0 ||
			a.tries > maxTries ||
			a.only < 0 || a.only > maxFence || len(a.Token) > maxToken || a.Wait > 0 && a.tries > 0 ||
			a.terms.Max < 0 || a.terms.Max > maxRenewals || a.terms.Max > 0 && !a.Keep || a.Sync < 0 ||
			a.Sync > maxReplicas || a.Sync > 0 && !a.syncs ||
			len(a.Meta) > maxMeta || a.Name != string(args[1]) {
			t.Errorf("%q: %+v", line, a)
		}
		err = b.parseArgs(s, l, args)
		if a.ID == b.ID {
			t.Errorf("%q: %s twice", line, a.ID)
		}
		a.ID, b.ID = "", "" // each has its own
		if err != nil || !reflect.DeepEqual(a, b) {
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
		if err := a.parseArgs(s, l, args); err != nil {
			b.Fatal(err)
		}
	}
}
