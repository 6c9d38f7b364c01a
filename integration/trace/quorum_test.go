package trace

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// What independent masters may answer, and what they may not. R27
func TestQuorum(t *testing.T) {
	const ms = time.Millisecond
	at := func(client int, from, to time.Duration, o Op) Op {
		o.Client, o.Key, o.Call, o.Return = client, "k", from*ms, to*ms
		if o.acquires() && o.Lease == 0 {
			o.Lease = 2000 * ms
		}
		return o
	}
	lock := func(token string, fence, count int64, ttl time.Duration) Op {
		return Op{Verb: Write, Token: token, Outcome: Granted, Fence: fence, Count: count, TTL: ttl * ms,
			Reentrant: count > 1}
	}
	null := func(v Verb, token string) Op { return Op{Verb: v, Token: token, Outcome: Null} }
	becomes := Op{Verb: Read, Token: "a", Switch: true, Outcome: Granted, Fence: 13, Count: 1, TTL: 1890 * ms}
	counted := lock("a", 12, 2, 1970)
	counted.Reentrant = false
	freed := Op{Verb: Unlock, Token: "a", Outcome: Done, Count: 1}
	broke := Op{Verb: Write, Token: "b", Break: true, Outcome: Null}
	reader := Op{Verb: Read, Token: "a", Outcome: Granted, Fence: 11, Count: 1, TTL: 1965 * ms}
	holds11 := Op{Verb: Check, Token: "a", Outcome: Done, Fence: 11, Count: 1, TTL: 1870 * ms}
	renewed10 := Op{Verb: Renew, Token: "a", Outcome: Null, Lease: 2000 * ms, Only: 10}
	holds10 := Op{Verb: Check, Token: "a", Outcome: Done, Fence: 10, Count: 1, TTL: 1900 * ms}
	closed := Op{Verb: Close, Token: "a", Outcome: Unknown, Lease: 2000 * ms}
	writesUp := lock("b", 12, 1, 1890)
	writesUp.Break = true
	soonUp := writesUp
	soonUp.TTL = 1940 * ms
	readsUp := soonUp
	readsUp.Verb = Read
	breakUp := Op{Verb: Free, Outcome: Done, Count: 1}
	inVain := Op{Verb: Write, Token: "a", Set: []string{"k", "l"}, Outcome: Unknown,
		Err: vain + "others hold one of the locks"}
	doubt := Op{Verb: Write, Token: "a", Outcome: Unknown,
		Err: "NOQUORUM 2/3: why; the token may hold what it asked for all the same"}
	disagreed := Op{Verb: Write, Token: "a", Outcome: Unknown,
		Err: "NOQUORUM 0/2 of the nodes could be had (they did not agree on a fence)"}
	away := Event{Name: "no majority", Start: 100 * ms, End: 900 * ms, Barren: true}
	fault := Event{Name: "cut", Start: 0, End: 50 * ms}
	for name, c := range map[string]struct {
		rule   string // "": no violation
		raised int
		events []Event
		ops    []Op
	}{
		"one after the other, the ttl shorter than the lease": {ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1975)),
			at(1, 1990, 2030, lock("b", 11, 1, 1945))}},
		"two within validity": {rule: "linearizable",
			ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1975)), at(1, 1900, 1950, lock("b", 11, 1, 1935))}},
		"a ttl without drift": {rule: "linearizable",
			ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1995))}},
		"a ttl that nothing explains": {rule: "linearizable",
			ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1500))}},
		"no fence without anybody else": {rule: "answered", ops: []Op{at(0, 0, 9, disagreed)}},
		"no fence behind a BREAK": {rule: "answered",
			ops: []Op{at(1, 0, 3, breakUp), at(0, 5, 9, disagreed)}},
		"no fence beside a BREAK": {ops: []Op{at(0, 0, 9, disagreed), at(1, 2, 8, breakUp)}},
		"no fence beside another that asks": {ops: []Op{at(0, 0, 9, disagreed),
			at(1, 2, 8, null(Write, "b"))}},
		"Null while another asks": {ops: []Op{at(0, 0, 9, null(Write, "a")),
			at(1, 2, 8, null(Write, "b"))}},
		"Null for no reason": {rule: "linearizable",
			ops: []Op{at(0, 0, 9, null(Write, "a")), at(2, 0, 9, null(Write, "c")),
				at(1, 1000, 1001, null(Write, "b"))}},
		"Null long after what a fault left": {events: []Event{fault},
			ops: []Op{at(0, 0, 9, null(Write, "a")), at(2, 0, 9, null(Write, "c")),
				at(1, 1000, 1001, null(Write, "b"))}},
		"the hold is gone within validity": {rule: "linearizable",
			ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1975)), at(0, 1000, 1001, null(Check, "a"))}},
		"a shorter ttl of other masters": {ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1975)),
			at(0, 100, 101,
				Op{Verb: Check, Token: "a", Outcome: Done, Fence: 10, Count: 1, TTL: 1000 * ms})}},
		"another fence for the same hold": {raised: 1,
			ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1975)), at(0, 1000, 1005, lock("a", 12, 2, 1975))}},
		"... after a fault": {raised: 1, events: []Event{fault},
			ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1975)), at(0, 1000, 1005, lock("a", 12, 2, 1975))}},
		"... but a lower one": {rule: "linearizable", events: []Event{fault},
			ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1975)), at(0, 1000, 1005, lock("a", 9, 2, 1975))}},
		"... and a count too high": {rule: "linearizable",
			ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1975)), at(0, 1000, 1005, lock("a", 12, 3, 1975))}},
		"a release of what is free": {rule: "linearizable",
			ops: []Op{at(0, 0, 5, Op{Verb: Unlock, Token: "a", Outcome: Done, Count: 1})}},
		"a lower fence later": {rule: "fence",
			ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1975)), at(1, 3000, 3005, lock("b", 9, 1, 1975))}},
		"a grant without a majority": {rule: "no majority", events: []Event{away},
			ops: []Op{at(0, 110, 120, lock("a", 10, 1, 1968))}},
		"Null without a majority": {rule: "no majority", events: []Event{away},
			ops: []Op{at(0, 110, 120, null(Check, "a"))}},
		"a grant that began before": {events: []Event{away},
			ops: []Op{at(0, 90, 120, lock("a", 10, 1, 1950))}},
		"no majority, with three masters away": {events: []Event{away},
			ops: []Op{at(0, 110, 120, Op{Verb: Write, Token: "a", Outcome: Unknown, Err: "NOQUORUM 2/3"})}},
		"a reader beside who was refused to become one": {raised: 1,
			ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1975)),
				at(0, 20, 30, Op{Verb: Read, Token: "a", Switch: true, Outcome: Null}), at(1, 10, 29,
					Op{Verb: Read, Token: "b", Outcome: Granted, Fence: 11, Count: 1, TTL: 1970 * ms})}},
		"... but not a writer": {rule: "linearizable", events: []Event{fault},
			ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1975)),
				at(0, 20, 30, Op{Verb: Read, Token: "a", Switch: true, Outcome: Null}), at(1, 10, 29,
					lock("b", 11, 1, 1970))}},
		"no majority for no reason": {rule: "answered",
			ops: []Op{at(0, 110, 120, Op{Verb: Write, Token: "a", Outcome: Unknown, Err: "NOQUORUM 2/3"})}},
		"a reader beside a writer that becomes one with a later fence": {raised: 1,
			ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1975)), at(0, 100, 200, becomes),
				at(1, 100, 150,
					Op{Verb: Read, Token: "b", Outcome: Granted, Fence: 11, Count: 1, TTL: 1940 * ms})}},
		"... but not another writer": {rule: "linearizable",
			ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1975)), at(0, 100, 200, becomes),
				at(1, 100, 150, lock("b", 11, 1, 1940))}},
		"a release of what is left of several": {events: []Event{fault},
			ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1975)), at(0, 10, 15, lock("a", 10, 2, 1975)),
				at(0, 2500, 2505, freed)}},
		"... but for no reason": {rule: "linearizable",
			ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1975)), at(0, 10, 15, lock("a", 10, 2, 1975)),
				at(0, 2500, 2505, freed)}},
		"a count of before": {events: []Event{fault},
			ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1975)),
				at(0, 20, 30, freed), at(0, 40, 45, counted)}},
		"... for no reason": {rule: "linearizable",
			ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1975)),
				at(0, 20, 30, freed), at(0, 40, 45, counted)}},
		"the fence of before, when nobody knows the last one": {raised: 1, events: []Event{fault},
			ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1975)),
				at(0, 10, 30, doubt), at(0, 40, 45, Op{Verb: Unlock, Token: "a", Outcome: Null, Only: 10})}},
		"a fence of its own at some masters, behind an UNLOCK that nobody knows the outcome of": {
			raised: 1, events: []Event{fault}, ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1975)), at(0, 10, 11,
				Op{Verb: Unlock, Token: "a", Outcome: Unknown, Err: "NOQUORUM 0/2"}),
				at(0, 40, 45, renewed10), at(0, 60, 65, holds10)}},
		"... but not behind the end of its connection": {rule: "linearizable", events: []Event{fault},
			ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1975)), at(0, 10, 11, closed), at(0, 40, 45, renewed10),
				at(0, 60, 65, holds10)}},
		"... but not without such an UNLOCK": {rule: "linearizable", events: []Event{fault},
			ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1975)), at(0, 40, 45, renewed10), at(0, 60, 65, holds10)}},
		"a BREAK in vain has ended a hold": {ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1975)),
			at(1, 100, 110, broke), at(0, 200, 205, null(Check, "a"))}},
		"... or has not": {ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1975)), at(1, 100, 110, broke),
			at(0, 200, 205,
				Op{Verb: Check, Token: "a", Outcome: Done, Fence: 10, Count: 1, TTL: 1770 * ms})}},
		"... but none that is granted later": {rule: "linearizable",
			ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1975)), at(1, 100, 110, broke),
				at(0, 200, 205, null(Check, "a")), at(0, 400, 405, lock("d", 11, 1, 1975)),
				at(0, 600, 605, null(Check, "d"))}},
		"a BREAK for no reason in vain": {rule: "linearizable", ops: []Op{at(1, 100, 110, broke)}},
		"a release of what a BREAK ended that crossed the grant": {
			ops: []Op{at(0, 0, 20, lock("a", 10, 1, 1958)), at(2, 5, 15, breakUp),
				at(1, 30, 35, lock("b", 11, 1, 1975)), at(0, 50, 55, freed)}},
		"... but not of what it ended later": {rule: "linearizable",
			ops: []Op{at(0, 0, 20, lock("a", 10, 1, 1958)), at(2, 405, 415, breakUp),
				at(1, 430, 435, lock("b", 11, 1, 1975)), at(0, 450, 455, freed)}},
		"... nor may its owner hold it beside the next": {rule: "linearizable",
			ops: []Op{at(0, 0, 20, lock("a", 10, 1, 1958)), at(2, 5, 15, breakUp),
				at(1, 30, 35, lock("b", 11, 1, 1975)),
				at(0, 50, 55,
					Op{Verb: Check, Token: "a", Outcome: Done, Fence: 10, Count: 1, TTL: 1920 * ms})}},
		"a reader behind a BREAK with a lower fence": {ops: []Op{at(1, 0, 50, readsUp),
			at(0, 20, 30, reader), at(0, 100, 105, holds11)}},
		"... but not behind that of a writer": {rule: "linearizable", ops: []Op{at(1, 0, 50, soonUp),
			at(0, 20, 30, reader), at(0, 100, 105, holds11)}},
		"granted to a third one between the rounds of a BREAK": {
			ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1975)), at(1, 10, 100, writesUp),
				at(2, 20, 30, lock("c", 11, 1, 1965))}},
		"... but not before them": {rule: "linearizable",
			ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1975)), at(1, 40, 130, writesUp),
				at(2, 20, 30, lock("c", 11, 1, 1965))}},
		"granted to two, after a BREAK that met the first at some masters and found nothing": {
			ops: []Op{at(0, 0, 20, lock("a", 10, 1, 1958)), at(2, 10, 25, null(Free, "")),
				at(1, 200, 205, lock("b", 11, 1, 1975))}},
		"... but not if the first was granted before": {rule: "linearizable",
			ops: []Op{at(0, 0, 5, lock("a", 10, 1, 1975)), at(2, 10, 25, null(Free, "")),
				at(1, 200, 205, lock("b", 11, 1, 1975))}},
		"granted to two, after a BREAK and a fault": {rule: "linearizable", events: []Event{fault},
			ops: []Op{at(2, 5, 15, breakUp), at(0, 30, 35, lock("a", 10, 1, 1975)),
				at(1, 50, 55, lock("b", 11, 1, 1975))}},
		"Null for what a set in vain left behind a fault": {events: []Event{fault},
			ops: []Op{at(0, 0, 9, inVain), at(1, 1000, 1001, null(Write, "b"))}},
		"... but not without one": {rule: "linearizable",
			ops: []Op{at(0, 0, 9, inVain), at(1, 1000, 1001, null(Write, "b"))}},
	} {
		t.Run(name, func(t *testing.T) {
			v := Judge(&History{
				Quorum: true, Keys: []string{"k"}, Slacks: Roomy, Ops: c.ops, Events: c.events,
			})
			rules := map[string]bool{}
			for _, violation := range v.Violations {
				rules[violation.Rule] = true
			}
			if c.rule == "" && len(rules) > 0 || c.rule != "" && !rules[c.rule] {
				t.Errorf("want %q: %v", c.rule, v.Violations)
			}
			if v.Exceptions[RaisedFence] != c.raised {
				t.Errorf("exceptions: %v", v.Exceptions)
			}
		})
	}
}

// Behind one proxy whoever waits longer comes first; between two nobody knows.
func TestQuorumOrder(t *testing.T) {
	for _, apart := range []int{0, 1} {
		grant := func(proxy int, call, fence int64) Op {
			return Op{Client: int(fence), Proxy: proxy, Key: "k", Verb: Write,
				Token: string(rune('a' + fence)),
				Lease: 2 * time.Second, Wait: 9 * time.Second,
				Call: time.Duration(call) * time.Second, Return: time.Duration(3*fence) * time.Second,
				Outcome: Granted, Fence: fence, Count: 1, TTL: 1978 * time.Millisecond}
		}
		h := &History{Quorum: true, Keys: []string{"k"}, Slacks: Roomy,
			Ops: []Op{grant(0, 2, 1), grant(apart, 0, 2)}}
		m := newMonitor(h, "k", h.Ops, &Verdict{Sum: Sum{Exceptions: map[string]int{}}})
		m.order()
		if n := len(m.v.Violations); n != 1-apart {
			t.Errorf("proxies %d apart: %v", apart, m.v.Violations)
		}
	}
}

// slowQuorum is a proxy whose masters stand still from 1 s on: one question is answered late, those until
// 3 s at once. At 5 s it says NOQUORUM for no reason, and from 7 s to 8 s nothing.
type slowQuorum struct{ *Running }

func (s slowQuorum) Do(d time.Duration, _ ...string) (Reply, error) {
	switch at := s.Now(); {
	case at >= 7*time.Second && at < 8*time.Second:
		time.Sleep(d)
		return Reply{}, errors.New("no answer")
	case at >= 8*time.Second:
	case at >= time.Second && at < 1100*time.Millisecond:
		time.Sleep(100 * time.Millisecond)
		return Reply{Error: "NOQUORUM 0/2"}, nil
	case at >= time.Second && at < 3*time.Second, at >= 5*time.Second:
		return Reply{Error: "NOQUORUM 0/2"}, nil
	}
	return Reply{}, nil
}

func (slowQuorum) Close() {}
func (slowQuorum) Cut()   {}

// A stall goes on until a majority answers again; NOQUORUM alone is none.
func TestProbeOfAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Running{Round: Round{Keys: []string{"k"}, Stall: 40 * time.Millisecond}, start: time.Now()}
		r.Dial = func(int) (Conn, error) { return slowQuorum{r}, nil }
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		r.probe(ctx, 0)
		for ms, want := range map[int64]bool{500: false, 1050: true, 2000: true, 2900: true, 4000: false,
			5500: false, 8000: true, 11000: false} {
			if got := felt(r.events, millis(ms), millis(ms)); got != want {
				t.Errorf("after %d ms: a stall is noted: %v", ms, got)
			}
		}
	})
}
