package trace

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// judged is a history and the rules that it breaks.
type judged struct {
	name string
	h    *History
	want string
}

func judgeAll(t *testing.T, all []judged) {
	t.Helper()
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			if v := Judge(c.h); c.want == "" && len(v.Violations) > 0 || c.want != "" &&
				!slices.Equal(rules(v), strings.Split(c.want, ", ")) {
				t.Errorf("got %v, want %q", v.Violations, c.want)
			}
		})
	}
}

// on is a call of a verb with a token, which took a millisecond.
func on(client int, verb Verb, token string, at time.Duration, outcome Outcome) Op {
	o := Op{Client: client, Key: "k", Verb: verb, Token: token, Call: at, Return: at + ms, Outcome: outcome}
	if o.acquires() || verb == Renew {
		o.Lease = time.Second
	}
	if verb == Renew && outcome == Done {
		o.TTL = time.Second
	}
	if verb == Unlock && outcome == Done {
		o.Count = 1
	}
	return o
}

// What a name does that rests: a's hold of a lease of a second keeps others out for half a second.
func TestJudgeAtLeast(t *testing.T) {
	atLeast := func(o Op) Op {
		o.AtLeast = 500 * ms
		return o
	}
	reads := func(o Op) Op {
		o.Verb = Read
		return o
	}
	a, freed := atLeast(granted(0, "a", 0, ms, 1)), on(0, Unlock, "a", 10*ms, Done)
	b := func(at time.Duration) Op { return granted(1, "b", at, at+ms, 2) }
	unknown := on(0, Unlock, "a", 10*ms, Unknown)
	cut := Event{Name: "cut", Start: 5 * ms, End: 12 * ms}
	again := atLeast(granted(0, "a", 300*ms, 301*ms, 1))
	kept := a
	kept.Keep = true
	closed := on(0, Close, "a", 10*ms, Unknown)
	closed.Keep, closed.Lease, closed.Return = true, time.Second, closed.Call
	waits := b(2700 * ms)
	waits.Call, waits.Wait = 20*ms, 5*time.Second
	byMasters := func(o Op) *History {
		h := history(nil, a, freed, o)
		h.Quorum = true
		h.Ops[0].TTL, h.Ops[2].TTL = 985*ms, 985*ms
		return h
	}
	judgeAll(t, []judged{
		{"taken after its rest", history(nil, a, freed, b(501*ms)), ""},
		{"taken while it rests", history(nil, a, freed, b(480*ms)), "linearizable"},
		{"without ATLEAST", history(nil, granted(0, "a", 0, ms, 1), freed, b(480*ms)), ""},
		{"refused while it rests", history(nil, a, freed, on(1, Write, "b", 480*ms, Null)), ""},
		{"refused after its rest", history(nil, a, freed, on(1, Write, "b", 520*ms, Null)), "linearizable"},
		{"freed twice", history(nil, a, freed, on(0, Unlock, "a", 20*ms, Null)), ""},
		{"freed twice, each time for the first", history(nil, a, freed, on(0, Unlock, "a", 20*ms, Done)),
			"linearizable"},
		{"renewed while it rests", history(nil, a, freed, on(0, Renew, "a", 20*ms, Done)), "linearizable"},
		{"taken by its former owner while it rests", history(nil, a, freed, granted(0, "a", 20*ms, 21*ms, 2)),
			"linearizable"},
		{"read behind a reader that rests", history(nil, reads(a), freed, reads(b(20*ms))), ""},
		{"written behind a reader that rests", history(nil, reads(a), freed, b(20*ms)), "linearizable"},
		{"read behind a writer that rests", history(nil, a, freed, reads(b(20*ms))), "linearizable"},
		{"freed, as far as anybody knows, and taken", history([]Event{cut}, a, unknown, b(480*ms)),
			"linearizable"},
		{"freed, as far as anybody knows, and taken after its rest",
			history([]Event{cut}, a, unknown, b(501*ms)), ""},
		{"asked for again",
			history(nil, a, again, on(0, Unlock, "a", 310*ms, Done), b(790*ms)), "linearizable"},
		{"asked for again, and taken after that",
			history(nil, a, again, on(0, Unlock, "a", 310*ms, Done), b(801*ms)), ""},
		{"kept, and closed", history(nil, kept, closed, b(480*ms)), "linearizable"},
		{"kept, and closed, and taken after its rest", history(nil, kept, closed, b(501*ms)), ""},
		{"waited for, and forgotten", history(nil, a, freed, waits), "lost wake-up"},
		{"independent masters: taken after its rest", byMasters(b(501 * ms)), ""},
		{"independent masters: taken while it rests", byMasters(b(470 * ms)), "linearizable"},
	})
}

// What permits are given and refused: there are two.
func TestJudgePermits(t *testing.T) {
	permit := func(o Op) Op {
		o.Verb, o.Permits = Permit, 2
		return o
	}
	p := func(client int, token string, at time.Duration, fence int64) Op {
		return permit(granted(client, token, at, at+ms, fence))
	}
	of := func(n int64, o Op) Op {
		o.Permits = n
		return o
	}
	waiting := func(o Op, back time.Duration) Op {
		o.Wait, o.Return = 5*time.Second, back
		return o
	}
	told := func(o Op, text string) Op {
		o.Outcome, o.Err = Refused, text
		return o
	}
	a, b := p(0, "a", 0, 1), p(1, "b", 10*ms, 2)
	none := permit(on(2, Permit, "c", 20*ms, Null))
	at := func(call time.Duration, o Op) Op {
		o.Call, o.Return = call, call+ms
		return o
	}
	freed, rests := on(0, Unlock, "a", 30*ms, Done), a
	rests.AtLeast = 500 * ms
	more := p(0, "a", 40*ms, 2)
	more.AtLeast = 500 * ms
	lock := on(2, Write, "c", 20*ms, Null)
	const inUse, others = "LOCKTYPE it is a semaphore", "PERMITS 2 is how many there are"
	met := func(moves bool) *History { // a SEMLOCK that came in vain had the key for a moment
		refused := told(permit(on(0, Permit, "a", 20*ms, Null)), "LOCKTYPE it is a lock")
		h := history(nil, refused, told(lock, inUse),
			granted(3, "d", 20*ms, 25*ms, 1))
		h.Moves = moves
		return h
	}
	judgeAll(t, []judged{
		{"a semaphore for a moment, while it moved", met(true), ""},
		{"a semaphore for a moment", met(false), "linearizable"},
		{"both", history(nil, a, b), ""},
		{"a third", history(nil, a, b, p(2, "c", 20*ms, 3)), "linearizable"},
		{"a third while one is freed",
			history(nil, a, b, freed, permit(granted(2, "c", 20*ms, 31*ms, 3))), ""},
		{"a third after a lease", history(nil, a, b, p(2, "c", 1001*ms, 3)), ""},
		{"a third and a fourth after one lease",
			history(nil, a, p(1, "b", 500*ms, 2), p(2, "c", 1001*ms, 3), p(3, "d", 1002*ms, 4)),
			"linearizable"},
		{"a third, while it cannot be known which has ended", history(nil, a, b, p(2, "c", 1005*ms, 3),
			on(1, Check, "b", 1006*ms, Null)), ""},
		{"a third, and both go on", history(nil, a, b, permit(granted(2, "c", 900*ms, 990*ms, 3))),
			"linearizable"},
		{"none is free", history(nil, a, b, none), ""},
		{"one is free, and refused", history(nil, a, none), "linearizable"},
		{"the same fence", history(nil, a, p(1, "b", 10*ms, 1)), "fence, linearizable"},
		{"a lower fence", history(nil, a, p(1, "b", 10*ms, 3), freed, p(2, "c", 40*ms, 2)),
			"fence, linearizable"},
		{"a lock of it", history(nil, a, granted(2, "c", 20*ms, 21*ms, 3)), "linearizable"},
		{"a lock of it is refused as if it were a lock", history(nil, a, lock), "linearizable"},
		{"a lock of it is refused", history(nil, a, told(lock, inUse)), ""},
		{"a lock of it is refused while nobody has a permit", history(nil, a, freed,
			told(on(2, Write, "c", 40*ms, Null), inUse)), "linearizable"},
		{"a permit of a lock", history(nil, granted(0, "a", 0, ms, 1), b), "linearizable"},
		{"a permit of a lock is refused", history(nil, granted(0, "a", 0, ms, 1), told(none, inUse)), ""},
		{"a lock is refused as if it were a semaphore",
			history(nil, granted(0, "a", 0, ms, 1), told(lock, inUse)),
			"linearizable"},
		{"of another number", history(nil, a, of(3, b)), "linearizable"},
		{"of another number, refused", history(nil, a, told(of(3, b), others)), ""},
		{"of another number, refused after the last one has gone", history(nil, a, freed,
			told(of(3, p(1, "b", 40*ms, 2)), others)), "linearizable"},
		{"of another number after the last one has gone",
			history(nil, a, freed, of(3, p(1, "b", 40*ms, 2))), ""},
		{"of the same number, refused for that", history(nil, a, told(b, others)), "linearizable"},
		{"in turn", history(nil, a, b, waiting(p(2, "c", 20*ms, 3), 1002*ms),
			waiting(p(3, "d", 600*ms, 4), 1500*ms), on(1, Unlock, "b", 1490*ms, Null)), ""},
		{"overtaken", history(nil, a, b, waiting(p(2, "c", 20*ms, 4), 1900*ms),
			waiting(p(3, "d", 600*ms, 3), 1012*ms)), "first come first served"},
		{"asleep", history(nil, a, b, waiting(p(2, "c", 20*ms, 3), 3500*ms)), "lost wake-up"},
		{"a third beside one that rests", history(nil, rests, b, freed, p(2, "c", 480*ms, 3)),
			"linearizable"},
		{"a third after its rest", history(nil, rests, b, freed, p(2, "c", 501*ms, 3)), ""},
		{"a third and a fourth after its rest",
			history(nil, rests, b, freed, p(2, "c", 501*ms, 3), p(3, "d", 503*ms, 4)), "linearizable"},
		{"refused beside one that rests", history(nil, rests, b, freed, at(480*ms, none)), ""},
		{"refused after its rest", history(nil, rests, b, freed, at(520*ms, none)), "linearizable"},
		{"refused beside one that rests, and one is free", history(nil, rests, freed, at(480*ms, none)),
			"linearizable"},
		{"one rests and one is free", history(nil, rests, freed, p(2, "c", 40*ms, 3)), ""},
		{"of another number while one rests",
			history(nil, rests, freed, of(3, p(1, "b", 40*ms, 2))), "linearizable"},
		{"a third beside two of one token that rest", history(nil, rests, freed, more,
			on(0, Unlock, "a", 50*ms, Done), p(2, "c", 60*ms, 3)), "linearizable"},
		{"a third beside one that rests of two of one token", history(nil, rests, freed, more,
			on(0, Unlock, "a", 50*ms, Done), p(2, "c", 501*ms, 3)), ""},
		{"asleep beside one that is held", history(nil, of(2, permit(func() Op {
			o := a
			o.Lease, o.TTL = 9*time.Second, 9*time.Second
			return o
		}())), b, waiting(p(2, "c", 20*ms, 3), 3500*ms)), "lost wake-up"},
	})
}

// What a hold does whose connection has gone, if it is to linger for two seconds. Its lease is one.
func TestJudgeLinger(t *testing.T) {
	const s = time.Second
	lingers := func(o Op) Op {
		o.Keep, o.Linger = true, 2*s
		return o
	}
	over := func(conn int, o Op) Op {
		o.Conn = conn
		return o
	}
	ends := func(verb Verb, at time.Duration, why error) Op {
		o := on(0, verb, "a", at, Unknown)
		o.Lease, o.Return = s, o.Call
		if why != nil {
			o.Err = why.Error()
		}
		return lingers(o)
	}
	a := lingers(granted(0, "a", 0, ms, 1))
	quit := ends(Close, 10*ms, errQuit)
	quit.Linger = 0
	b := func(at time.Duration) Op { return granted(1, "b", at, at+ms, 2) }
	renewed := over(1, on(0, Renew, "a", s, Done))
	keeps := renewed
	keeps.Keep = true
	locked := over(1, granted(0, "a", 1500*ms, 1501*ms, 1))
	locked.TTL, locked.Lease = 900*ms, 500*ms
	again := []Op{over(1, granted(0, "a", 20*ms, 21*ms, 1)), over(1, granted(0, "a", 40*ms, 41*ms, 1))}
	freed := over(1, on(0, Unlock, "a", 1200*ms, Done))
	closed := ends(Close, 10*ms, nil)
	closed.Linger = 0
	killed := Event{Name: "proxy killed", Start: 100 * ms, End: 200 * ms}
	later := killed
	later.Start, later.End = 1500*ms, 1600*ms
	harmless := killed
	harmless.Clean = true
	judgeAll(t, []judged{
		{"closed", history(nil, a, ends(Close, 10*ms, nil), b(2012*ms)), ""},
		{"closed, and taken too soon", history(nil, a, ends(Close, 10*ms, nil), b(1990*ms)), "linearizable"},
		{"closed, and refused",
			history(nil, a, ends(Close, 10*ms, nil), on(1, Write, "b", 1900*ms, Null)), ""},
		{"closed, and refused for ever",
			history(nil, a, ends(Close, 10*ms, nil), on(1, Write, "b", 6*s, Null)),
			"linearizable"},
		{"closed, and gone for its owner", history(nil, a, ends(Close, 10*ms, nil),
			over(1, on(0, Check, "a", s, Null))), "linearizable"},
		{"the client closed it, at some time",
			history(nil, a, ends(Drop, 10*ms, errDropped), b(2012*ms)), ""},
		{"the client closed it, and it was taken too soon",
			history(nil, a, ends(Drop, 10*ms, errDropped), b(1900*ms)), "linearizable"},
		{"nobody knows why it broke", history(nil, a, ends(Drop, 10*ms, nil), b(1900*ms)), ""},
		{"the proxy closed it", history(nil, a, ends(Cut, 10*ms, errCut), b(3012*ms)), ""},
		{"the proxy closed it, and it was taken too soon",
			history(nil, a, ends(Cut, 10*ms, errCut), b(1900*ms)),
			"linearizable"},
		{"taken over", history(nil, a, ends(Close, 10*ms, nil), keeps, over(1, on(0, Unlock, "a", 4*s, Done)),
			b(4010*ms)), ""},
		{"taken over, and freed all the same", history(nil, a, ends(Close, 10*ms, nil), keeps, b(2100*ms),
			over(1, on(0, Unlock, "a", 4*s, Null))), "linearizable"},
		{"asked for meanwhile", history(nil, a, ends(Close, 10*ms, nil), locked, b(2412*ms)), ""},
		{"asked for meanwhile, and taken too soon",
			history(nil, a, ends(Close, 10*ms, nil), locked, b(2100*ms)),
			"linearizable"},
		{"unlocked meanwhile", history(nil, a, ends(Close, 10*ms, nil), over(1, on(0, Unlock, "a", s, Done)),
			b(1010*ms)), ""},
		{"QUIT", history(nil, a, quit, b(12*ms)), ""},
		{"QUIT, and it lingers", history(nil, a, quit, on(1, Write, "b", 900*ms, Null)), "linearizable"},
		{"asked for twice, while its keeper does not know of its end",
			history(nil, a, closed, again[0], again[1], freed), ""},
		{"asked for twice, and its keeper knows",
			history(nil, a, quit, again[0], again[1], freed), "linearizable"},
		{"its proxy was killed meanwhile",
			history([]Event{killed}, a, ends(Close, 10*ms, nil), b(1100*ms)), ""},
		{"its proxy was killed just before",
			history([]Event{killed}, a, ends(Close, 300*ms, nil), b(1100*ms)), ""},
		{"its proxy was killed later", history([]Event{later}, a, ends(Close, 10*ms, nil), b(1100*ms)),
			"linearizable"},
		{"clients were killed meanwhile", history([]Event{harmless}, a, ends(Close, 10*ms, nil), b(1100*ms)),
			"linearizable"},
	})
}

// What BREAK does to the holds of others, and what a BREAK of unknown outcome may have done.
func TestJudgeBreak(t *testing.T) {
	breaks := func(o Op) Op {
		o.Break = true
		return o
	}
	a, b := granted(0, "a", 0, ms, 1), breaks(granted(1, "b", 10*ms, 11*ms, 2))
	kept := a
	kept.Keep = true
	rests := a
	rests.AtLeast = 500 * ms
	reads := breaks(granted(1, "b", 10*ms, 11*ms, 2))
	reads.Verb = Read
	unknown := breaks(on(1, Write, "b", 10*ms, Unknown))
	before, meanwhile := granted(0, "a", 0, 9*ms, 1), granted(0, "a", 0, 11*ms, 1)
	before.Verb, meanwhile.Verb = Read, Read
	second, third := granted(2, "c", 10*ms, 11*ms, 2), breaks(granted(1, "b", 10*ms, 11*ms, 3))
	second.Verb, third.Verb = Read, Read
	moving := func(ops ...Op) *History {
		h := history(nil, ops...)
		h.Moves = true
		return h
	}
	cut := []Event{{Name: "cut", Start: 5 * ms, End: 12 * ms}}
	judgeAll(t, []judged{
		{"taken over", history(nil, a, b), ""},
		{"taken over from one that is kept", history(nil, kept, b, on(0, Unlock, "a", 20*ms, Null)), ""},
		{"taken while it rests", history(nil, rests, on(0, Unlock, "a", 5*ms, Done), b), ""},
		{"read by who took it over, and by the former owner too", history(nil, a, reads,
			on(0, Unlock, "a", 20*ms, Done)), "linearizable"},
		{"read by who took it over, and by who came in meanwhile, while it moved", moving(meanwhile, reads,
			on(0, Unlock, "a", 20*ms, Done)), ""},
		{"read by who took it over, and by who came in meanwhile", history(nil, meanwhile, reads,
			on(0, Unlock, "a", 20*ms, Done)), "linearizable"},
		{"read by who took it over, and by who read before, while it moved", moving(before, reads,
			on(0, Unlock, "a", 20*ms, Done)), "linearizable"},
		{"broken for a reader, and another one got its fence first, while it moved",
			moving(a, third, second), ""},
		{"broken for a reader, and another one got its fence first", history(nil, a, third, second),
			"linearizable"},
		{"broken for a reader, and another one had come before, while it moved", moving(a,
			func() Op { early := second; early.Call, early.Return = 8*ms, 9*ms; return early }(), third),
			"linearizable"},
		{"freed by the former owner", history(nil, a, b, on(0, Unlock, "a", 20*ms, Done)), "linearizable"},
		{"taken from who took it over", history(nil, a, b, granted(2, "c", 20*ms, 21*ms, 3)), "linearizable"},
		{"taken over, as far as anybody knows",
			history(cut, a, unknown, on(0, Unlock, "a", 20*ms, Null)), ""},
		{"taken after a BREAK of unknown outcome",
			history(cut, a, unknown, granted(2, "c", 20*ms, 21*ms, 3)), ""},
		{"freed after a BREAK that may not have run",
			history(cut, a, unknown, on(0, Unlock, "a", 20*ms, Done)), ""},
	})
}

// What LOCKCTL BREAK ends, and when it may say that there was nothing to end.
func TestJudgeFree(t *testing.T) {
	a := granted(0, "a", 0, ms, 1)
	rests := a
	rests.AtLeast = 500 * ms
	free := func(at time.Duration, outcome Outcome) Op { return on(1, Free, "", at, outcome) }
	slow := func(moves bool) *History { // the one that came later, by another proxy, has gone
		near, far := granted(2, "near", 12*ms, 13*ms, 2), granted(3, "far", 20*ms, 21*ms, 3)
		near.Verb, far.Verb, far.Proxy = Read, Read, 1
		breaks := free(10*ms, Done)
		breaks.Return = 40 * ms
		h := history(nil, near, far, breaks, on(2, Unlock, "near", 50*ms, Done),
			on(3, Unlock, "far", 50*ms, Null))
		h.Moves = moves
		return h
	}
	cut := []Event{{Name: "cut", Start: 5 * ms, End: 12 * ms}}
	overtakenAt := func(events []Event, proxy int, at time.Duration) *History {
		late, takes := free(at, Null), granted(2, "c", 12*ms, 20*ms, 2)
		late.Return, takes.Break, takes.Proxy = at+20*ms, true, proxy
		return history(events, a, late, takes)
	}
	overtaken := func(events []Event, proxy int) *History { return overtakenAt(events, proxy, 10*ms) }
	judgeAll(t, []judged{
		{"broken", history(nil, a, free(10*ms, Done), on(0, Unlock, "a", 20*ms, Null)), ""},
		{"broken, and held still", history(nil, a, free(10*ms, Done), on(0, Unlock, "a", 20*ms, Done)),
			"linearizable"},
		{"it says that nobody has it", history(nil, a, free(10*ms, Null)), "linearizable"},
		{"it says that nobody has it, since it came late and its own proxy has asked meanwhile",
			overtaken(cut, 0), ""},
		{"it says that nobody has it, and its own proxy has asked shortly before",
			overtakenAt([]Event{{Name: "cut", Start: 5 * ms, End: 40 * ms}}, 0, 13*ms), ""},
		{"it says that nobody has it, and its own proxy has asked long before",
			overtakenAt([]Event{{Name: "cut", Start: 5 * ms, End: 210 * ms}}, 0, 200*ms), "linearizable"},
		{"it says that nobody has it, and another proxy has asked meanwhile", overtaken(cut, 1),
			"linearizable"},
		{"it says that nobody has it, although its own proxy has asked meanwhile", overtaken(nil, 0),
			"linearizable"},
		{"it says that nobody has it, and it is free",
			history(nil, a, on(0, Unlock, "a", 5*ms, Done), free(10*ms, Null)), ""},
		{"it says that nobody has it while it rests",
			history(nil, rests, on(0, Unlock, "a", 5*ms, Done), free(10*ms, Null)), "linearizable"},
		{"it ends a rest", history(nil, rests, on(0, Unlock, "a", 5*ms, Done), free(10*ms, Done),
			granted(2, "c", 20*ms, 21*ms, 2)), ""},
		{"slow while it moved, and a reader of its own proxy asked meanwhile", slow(true), ""},
		{"slow, and a reader of its own proxy asked meanwhile", slow(false), "linearizable"},
		{"broken, as far as anybody knows",
			history(cut, a, free(10*ms, Unknown), on(0, Unlock, "a", 20*ms, Null)), ""},
	})
}

// An MLOCK in vain holds nothing any more when it says so, and may have held its locks before.
func TestJudgeSet(t *testing.T) {
	set := Op{Client: 1, Verb: Write, Set: []string{"k", "l"}, Token: "b", Lease: time.Second, Call: 10 * ms,
		Return: 40 * ms}
	in := func(r Reply) Op { return set.parts(r, nil)[0] }
	vain, got := in(Reply{Null: true}), in(Reply{Array: []int64{7, 8, 900}})
	refused := func(at time.Duration) Op { return on(2, Write, "c", at, Null) }
	judgeAll(t, []judged{
		{"refused while it lasts", history(nil, vain, refused(20*ms)), ""},
		{"refused later", history(nil, vain, refused(200*ms)), "linearizable"},
		{"granted", history(nil, got, on(1, Check, "b", 60*ms, Null)), "linearizable"},
		{"granted beside another", history(nil, granted(0, "a", 0, ms, 1), got), "linearizable"},
	})
}

// An MRENEW tells the least ttl of its locks: each may have a longer one. Where one of them is not held, the
// others are renewed.
func TestJudgeSetRenewed(t *testing.T) {
	const s = time.Second
	renews := Op{Verb: Renew, Set: []string{"k", "l"}, Token: "a", Lease: s, Call: 500 * ms, Return: 501 * ms}
	in := func(ttl int64) Op { return renews.parts(Reply{Int: ttl}, nil)[0] }
	alone := in(1000)
	alone.Set = nil
	long := granted(0, "a", 0, ms, 1)
	long.Lease, long.TTL = 3*s, 3*s
	check := Op{Key: "k", Verb: Check, Token: "a", Call: 600 * ms, Return: 601 * ms, Outcome: Done, Fence: 1,
		TTL: 2400 * ms, Count: 1}
	next := func(at time.Duration) Op { return granted(1, "b", at, at+ms, 2) }
	refused := func(at time.Duration) Op { return on(1, Write, "b", at, Null) }
	short := granted(0, "a", 0, ms, 1)
	judgeAll(t, []judged{
		{"its own lease is longer", history(nil, long, in(1000), check), ""},
		{"... but not than what RENEW told", history(nil, long, alone, check), "linearizable"},
		{"the next one once it is over", history(nil, short, in(1000), next(1510*ms)), ""},
		{"... and before", history(nil, short, in(1000), next(1400*ms)), "linearizable"},
		{"a ttl shorter than the lease", history(nil, short, in(900)), "linearizable"},
		{"renewed, though another was not held", history(nil, short, in(0), refused(1400*ms)), ""},
		{"... and it was one that was not held", history(nil, short, in(0), next(1100*ms)), ""},
		{"... and the lease is over long since", history(nil, short, in(0), refused(1600*ms)),
			"linearizable"},
	})
}
