package trace

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

// granted is a LOCK that got the lock with a lease of a second.
func granted(client int, token string, call, back time.Duration, fence int64) Op {
	return Op{Client: client, Key: "k", Verb: Write, Token: token, Lease: time.Second,
		Call: call, Return: back,
		Outcome: Granted, Fence: fence, TTL: time.Second, Count: 1}
}

func history(events []Event, ops ...Op) *History {
	return &History{Keys: []string{"k"}, Slacks: Roomy, Ops: ops, Events: events}
}

// rules are the names of the rules that were broken.
func rules(v *Verdict) (rules []string) {
	for _, violation := range v.Violations {
		rules = append(rules, violation.Rule)
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}

// What histories of a few calls come to, each beside one that differs in a single respect.
func TestJudge(t *testing.T) {
	unlock := func(token string, call time.Duration, outcome Outcome) Op {
		return Op{
			Key: "k", Verb: Unlock, Token: token, Call: call, Return: call + ms, Outcome: outcome, Count: 1,
		}
	}
	brieflyGranted := func(client int, token string, call, back time.Duration, fence int64) Op {
		o := granted(client, token, call, back, fence)
		o.Lease, o.TTL = 299*ms, 299*ms
		return o
	}
	moving := func(ops ...Op) *History {
		h := history(nil, ops...)
		h.Moves = true
		return h
	}
	refusedAfter := func(took time.Duration) Op { // with a lease of 0.3 s
		return Op{Key: "k", Verb: Write, Token: took.String(), Lease: 300 * ms, Call: ms, Return: ms + took,
			Outcome: Null}
	}
	forLonger := func(o Op) Op {
		o.Lease, o.TTL = 2*time.Second, 2*time.Second
		return o
	}
	waiting := func(o Op, wait time.Duration) Op {
		o.Wait = wait
		return o
	}
	overtakenBehind := func(breaks time.Duration) []Op { // b waits since before c
		return []Op{granted(0, "a", 0, ms, 1),
			waiting(forLonger(granted(1, "b", 10*ms, 2003*ms, 3)), 5*time.Second), unlock("a", 600*ms, Done),
			waiting(granted(2, "c", 620*ms, 1002*ms, 2), 5*time.Second),
			{Client: 3, Key: "k", Verb: Free, Call: breaks, Return: breaks + ms, Outcome: Done, Count: 1}}
	}
	failover := Event{Name: "fail-over", Start: 100 * ms, End: 200 * ms, Loses: []string{"k"}, Resent: true}
	cut := Event{Name: "cut", Start: 0, End: 20 * ms, Resent: true}
	lost := granted(0, "a", 0, ms, 1)
	lost.Outcome, lost.Fence, lost.TTL, lost.Count = Unknown, 0, 0, 0
	tooLate := func(lease time.Duration) Op {
		o := lost
		o.Lease, o.Wait, o.Return = lease, time.Second, 500*ms
		o.Err = "TRYAGAIN the lock was granted, but its lease may be over already, for ..."
		return o
	}
	stray, later := lost, failover
	stray.Err, stray.Call, stray.Return = Stray+"timeout k", 300*ms, 300*ms
	later.Start = 400 * ms
	overtaken := lost
	overtaken.Break = true
	overtaken.Err = "TRYAGAIN the slot of this lock moves: the lock was taken away and granted, but ..."
	kept := granted(0, "a", 0, ms, 1)
	short := kept
	short.Keep, short.Lease, short.TTL = true, stall, stall
	kept.Keep = true
	halfway, second := granted(0, "a", 0, 100*ms, 2), granted(1, "b", 30*ms, 40*ms, 1)
	halfway.Verb, second.Verb = Read, Read
	refused := Op{Client: 1, Key: "k", Verb: Write, Token: "b", Lease: time.Second, Call: 10 * ms,
		Return: 20 * ms, Outcome: Null}
	unanswered := Op{Key: "k", Verb: Write, Token: "z", Lease: time.Second, Call: 5 * ms, Return: 150 * ms,
		Outcome: Unknown}
	stalled := kept
	stalled.Return = 1100 * ms
	tardy := kept
	tardy.Return = 3 * time.Second
	late := unlock("a", 3010*ms, Lost)
	late.Fence = 1
	told := unlock("a", 2*time.Second, Lost)
	told.Fence = 1
	lostWait := told
	lostWait.Verb, lostWait.Wait, lostWait.Lease = Write, 400*ms, time.Second
	other := told
	other.Fence = 9
	brief := kept
	brief.Lease, brief.TTL = 90*ms, 90*ms
	slow := unlock("a", 500*ms, Null)
	slow.Return = 600 * ms
	closed := Op{Key: "k", Verb: Close, Token: "a", Lease: time.Second, Keep: true, Call: 2 * time.Second,
		Return: 2 * time.Second, Outcome: Unknown}
	for _, c := range []struct {
		name      string
		h         *History
		exception string
		want      string // the rule that is broken
	}{
		{"granted after the lease",
			history(nil, granted(0, "a", 0, ms, 1), granted(1, "b", 1001*ms, 1002*ms, 2)),
			"", ""},
		{"a lease that has lasted longer", history(nil, granted(0, "a", 0, ms, 1),
			granted(0, "a", 1500*ms, 1501*ms, 1)), "", "linearizable"},
		{"a lease that has lasted longer while its lock moved", moving(granted(0, "a", 0, ms, 1),
			granted(0, "a", 1500*ms, 1501*ms, 1)), "", ""},
		{"a lease that was over while its lock moved", moving(granted(0, "a", 0, ms, 1),
			granted(1, "b", 980*ms, 990*ms, 2)), "", "linearizable"},
		{"refused by a reader of a moving lock that got its fence later than the next one",
			moving(halfway, refused, second), "", ""},
		{"refused by a reader that got its fence later than the next one",
			history(nil, halfway, refused, second), "", "linearizable"},
		{"granted within the lease",
			history(nil, granted(0, "a", 0, ms, 1), granted(1, "b", 980*ms, 990*ms, 2)),
			"", "linearizable"},
		{"asked within the lease, answered after it",
			history(nil, granted(0, "a", 0, ms, 1), granted(1, "b", 10*ms, 1002*ms, 2)), "", ""},
		{"lost in a fail-over", history([]Event{failover}, granted(0, "a", 0, ms, 1),
			granted(1, "b", 300*ms, 301*ms, 2)), LostInFailover, ""},
		{"lost without a fail-over of its shard", history([]Event{cut}, granted(0, "a", 0, ms, 1),
			granted(1, "b", 300*ms, 301*ms, 2)), "", "linearizable"},
		{"granted twice after a fail-over", history([]Event{failover}, granted(0, "a", 0, ms, 1),
			granted(1, "b", 300*ms, 301*ms, 2), granted(0, "c", 400*ms, 401*ms, 3)), "", "linearizable"},
		{"the fence after a fail-over", history([]Event{failover}, granted(0, "a", 0, ms, 5),
			granted(1, "b", 300*ms, 301*ms, 5)), "", "fence, linearizable"},
		{"a release that is told to be none, though its answer may have been lost",
			history([]Event{cut}, granted(0, "a", 0, ms, 1), unlock("a", 15*ms, Null),
				granted(1, "b", 30*ms, 31*ms, 2)), "", "linearizable"},
		{"a grant that may have been made", history([]Event{cut}, lost,
			Op{Key: "k", Verb: Write, Token: "b", Call: 15 * ms, Return: 16 * ms, Outcome: Null}), "", ""},
		{"no answer without a fault", history(nil, lost), "", "answered"},
		{"a grant that came later than its lease", history(nil, tooLate(299*ms)), "", ""},
		{"a grant that came later than a lease that no pause takes", history(nil, tooLate(300*ms)), "",
			"answered"},
		{"a BREAK that runs while a fail-over begins", history([]Event{failover}, granted(0, "a", 0, ms, 1),
			granted(1, "b", 50*ms, 99*ms, 2), Op{Client: 2, Key: "k", Verb: Free, Call: 98 * ms,
				Return: 101 * ms, Outcome: Done, Count: 1}, granted(2, "c", 300*ms, 301*ms, 3)),
			LostInFailover, ""},
		{"refused by one that a fail-over keeps without an answer", history([]Event{failover}, unanswered,
			refused, granted(0, "a", 80*ms, 81*ms, 1), granted(2, "c", 300*ms, 301*ms, 2)),
			LostInFailover, ""},
		{"refused by nobody before a fail-over", history([]Event{failover}, refused,
			granted(0, "a", 80*ms, 81*ms, 1), granted(2, "c", 300*ms, 301*ms, 2)), "", "linearizable"},
		{"a message twice, behind a fail-over", history([]Event{failover}, stray), ToldTwice, ""},
		{"a message twice, before it", history([]Event{later}, stray), "", "one message"},
		{"a take-over that was overtaken in a moving slot", moving(overtaken), Overtaken, ""},
		{"a take-over that was overtaken in one that does not move", history(nil, overtaken), "", "answered"},
		{"a kept hold outlives its lease", history(nil, kept, unlock("a", 2*time.Second, Done),
			granted(1, "b", 3*time.Second, 3001*ms, 2)), "", ""},
		{"a kept hold is gone and nobody says so", history(nil, kept, unlock("a", 2*time.Second, Null)), "",
			"linearizable"},
		{"another one got a kept hold", history(nil, kept, granted(1, "b", 1500*ms, 1501*ms, 2),
			unlock("a", 2*time.Second, Done)), "", "linearizable"},
		{"a kept hold is reported lost",
			history(nil, kept, granted(1, "b", 1500*ms, 1501*ms, 2), told), "", ""},
		{"a wait relied on a hold that was lost, and its grant is being taken back",
			history(nil, kept, granted(1, "b", 1500*ms, 1501*ms, 2), unlock("b", 1800*ms, Done), lostWait,
				unlock("a", 2100*ms, Done)), "", ""},
		{"another hold is reported lost", history(nil, kept, granted(1, "b", 1500*ms, 1501*ms, 2), other,
			unlock("a", 2100*ms, Done)), "", "linearizable"},
		{"a hold stays of which another is reported lost",
			history(nil, kept, other, unlock("a", 2100*ms, Done)),
			"", ""},
		{"a kept hold ends while nobody could renew it", history(nil, brief, slow), "", ""},
		{"a kept hold has ended before that, and nobody says so",
			history(nil, brief, granted(1, "b", 480*ms, 481*ms, 2),
				Op{Key: "k", Verb: Check, Token: "a", Call: 490 * ms, Return: 491 * ms,
					Outcome: Done, Fence: 1,
					TTL: 90 * ms, Count: 1}, slow), "", "linearizable"},
		{"a kept hold ends while its proxy stands still",
			history([]Event{{Name: "stall", Start: 1300 * ms, End: 1980 * ms}}, kept,
				unlock("a", 2*time.Second, Null)), "", ""},
		{"a kept hold ends while its grant is on the way and the machine stands still",
			history([]Event{{Name: "stall", Start: 100 * ms, End: 1090 * ms}}, stalled,
				unlock("a", 1110*ms, Null)), "", ""},
		{"a kept hold ends while its grant is on the way, and the machine goes on",
			history(nil, stalled, unlock("a", 1110*ms, Null)), "", "linearizable, on time"},
		{"a kept hold of a short lease ends in a stall that is too short to be noted",
			history(nil, short, unlock("a", 2*time.Second, Null)), "", ""},
		{"a kept hold ends long after its proxy stood still",
			history([]Event{{Name: "stall", Start: 300 * ms, End: 980 * ms}}, kept,
				unlock("a", 2*time.Second, Null)), "", "linearizable"},
		{"a kept hold is given up that was granted later than its lease",
			history(nil, tardy, late, granted(1, "b", 3020*ms, 3021*ms, 2)), "", "on time"},
		{"a kept hold outlives its connection", history(nil, kept, closed,
			Op{Client: 1, Key: "k", Verb: Write, Token: "b", Call: 5 * time.Second, Return: 5001 * ms,
				Outcome: Null}), "", "linearizable"},
		{"refused by nobody",
			history(nil, Op{Key: "k", Verb: Write, Token: "b", Call: 15 * ms, Return: 16 * ms,
				Outcome: Null}), "", "linearizable"},
		{"in turn", history(nil, granted(0, "a", 0, ms, 1),
			waiting(granted(1, "b", 10*ms, 1002*ms, 2),
				5*time.Second), waiting(granted(2, "c", 600*ms, 2003*ms, 3),
				5*time.Second)), "", ""},
		{"overtaken", history(nil, granted(0, "a", 0, ms, 1),
			waiting(granted(1, "b", 10*ms, 2003*ms, 3),
				5*time.Second), waiting(granted(2, "c", 600*ms, 1002*ms, 2),
				5*time.Second)), "", "first come first served"},
		{"refused by one who was not told in time", history(nil, refusedAfter(400*ms),
			refusedAfter(100*ms)), "", "linearizable"},
		{"refused by one who was not told in time while its lock moved", moving(refusedAfter(400*ms),
			refusedAfter(100*ms)), "", ""},
		{"overtaken by a brief one while its lock moved", moving(granted(0, "a", 0, ms, 1),
			waiting(forLonger(granted(1, "b", 10*ms, 2003*ms, 3)), 5*time.Second),
			waiting(brieflyGranted(2, "c", 600*ms, 1002*ms, 2), 5*time.Second)), "",
			"first come first served"},
		{"a brief one was overtaken while its lock moved", moving(granted(0, "a", 0, ms, 1),
			waiting(brieflyGranted(1, "b", 10*ms, 2003*ms, 3), 5*time.Second),
			waiting(granted(2, "c", 600*ms, 1002*ms, 2), 5*time.Second)), "", ""},
		{"overtaken behind a BREAK while its lock moved", moving(overtakenBehind(700 * ms)...), "", ""},
		{"overtaken behind a BREAK in a slot that does not move", history(nil, overtakenBehind(700*ms)...),
			"", "first come first served"},
		{"overtaken before a BREAK while its lock moved", moving(overtakenBehind(1100 * ms)...), "",
			"first come first served"},
		{"asleep", history(nil, granted(0, "a", 0, ms, 1),
			waiting(granted(1, "b", 10*ms, 3500*ms, 2), 5*time.Second)), "", "lost wake-up"},
		{"a free lock, and a wait in vain", history(nil, granted(0, "a", 0, ms, 1), unlock("a", 10*ms, Done),
			Op{Key: "k", Verb: Write, Token: "b", Wait: 3 * time.Second, Call: 5 * ms, Return: 3005 * ms,
				Outcome: Null}), "", "lost wake-up"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := Judge(c.h)
			if c.want == "" && len(v.Violations) > 0 || c.want != "" &&
				!slices.Equal(rules(v), strings.Split(c.want, ", ")) {
				t.Errorf("got %v, want %q", v.Violations, c.want)
			}
			if n := v.Exceptions[c.exception]; c.exception != "" && n != 1 || c.exception == "" &&
				len(v.Exceptions) > 0 {
				t.Errorf("exceptions: %v", v.Exceptions)
			}
		})
	}
}

// An error after which the token holds the lock says that it may.
func TestJudgeErrors(t *testing.T) {
	for said, want := range map[string][]string{
		"CLUSTERDOWN no node took it in time: the command was not run":     {"linearizable"},
		"TRYAGAIN why; the token may hold what it asked for all the same":  nil,
		"TRYAGAIN the connection was lost ...: it may or may not have run": nil,
		"EOF": nil,
	} {
		asked := Op{Key: "k", Verb: Write, Token: "a", Lease: time.Second, Return: ms, Outcome: Unknown,
			Err: said}
		holds := Op{Key: "k", Verb: Check, Token: "a", Call: 100 * ms, Return: 101 * ms, Outcome: Done,
			Fence: 1, Count: 1, TTL: 900 * ms}
		stall := Event{Name: "stall", End: time.Second}
		if got := rules(Judge(history([]Event{stall}, asked, holds))); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", said, got, want)
		}
	}
}
