package trace

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Who may get a lock when the connection closes that kept it alive. The holds have a lease of a
// second; b asks at 3 s, one second before the lease of the last request for it can be over.
// R18
func TestJudgeKept(t *testing.T) {
	const s = time.Second
	over := func(conn int, o Op) Op {
		o.Conn = conn
		return o
	}
	keep := func(o Op) Op {
		o.Keep = true
		return o
	}
	again := func(o Op, count int64) Op {
		o.Count, o.Reentrant = count, count > 1
		return o
	}
	lock := func(at time.Duration) Op { return granted(0, "a", at, at+ms, 1) }
	renew := func(at time.Duration) Op {
		return Op{
			Key: "k", Verb: Renew, Token: "a", Lease: s, Call: at, Return: at + ms, Outcome: Done, TTL: s,
		}
	}
	closes := func(at time.Duration) Op {
		return Op{
			Key: "k", Verb: Close, Token: "a", Lease: s, Keep: true, Call: at, Return: at, Outcome: Unknown,
		}
	}
	unlock := func(at time.Duration, count int64) Op {
		return Op{Key: "k", Verb: Unlock, Token: "a", Call: at, Return: at + ms, Outcome: Done, Count: count}
	}
	check := func(at time.Duration, outcome Outcome) Op {
		o := Op{Key: "k", Verb: Check, Token: "a", Call: at, Return: at + ms, Outcome: outcome}
		if outcome == Done {
			o.Fence, o.TTL, o.Count = 1, s, 1
		}
		return o
	}
	other := func(at time.Duration) Op { return granted(1, "b", at, at+ms, 2) }
	refused := func(at time.Duration) Op {
		return Op{Client: 1, Key: "k", Verb: Write, Token: "b", Call: at, Return: at + ms, Outcome: Null}
	}
	lost := func(at time.Duration) Op {
		return Op{Key: "k", Verb: Renew, Token: "a", Lease: s, Fence: 1, Call: at, Return: at + ms,
			Outcome: Lost}
	}
	resting := func(o Op) Op {
		o.AtLeast = 4 * s
		return o
	}
	reads := func(at time.Duration) Op {
		return Op{Key: "k", Verb: Read, Token: "a", Switch: true, Call: at, Return: at + ms, Outcome: Null}
	}
	lingering := func(o Op) Op {
		o.Linger = 2 * s
		return o
	}
	cut := []Event{{Name: "cut", Start: 100 * ms, End: 1500 * ms}}
	gaveBack := func(at time.Duration) Op {
		o := lost(at)
		o.Verb, o.Err = Write, "LOCKLOST k was lost (broken), fence 1: Stop what it protects, then lock "+
			"again; the token may hold what it asked for all the same, until it is taken back"
		return o
	}
	notRun := func(at time.Duration) Op {
		o := gaveBack(at)
		o.Lease, o.Err = 9*s, "LOCKLOST k was lost (broken), fence 1: send this command again: it was not run"
		return o
	}
	waited := func(from, to time.Duration) Op {
		return Op{Client: 1, Key: "k", Verb: Write, Token: "b", Wait: to - from, Call: from, Return: to,
			Outcome: Null}
	}
	longer := lock(0)
	longer.Lease, longer.TTL = 900*ms, 900*ms
	shorter := func(at time.Duration) Op { // of which the proxy heard only when it was nearly over
		o := lock(at)
		o.Lease, o.TTL, o.Return = 300*ms, 300*ms, at+290*ms
		return o
	}
	failover := Event{Name: "fail-over", Start: 100 * ms, End: 200 * ms, Loses: []string{"k"}}
	shared := keep(lock(0))
	shared.Verb = Read
	again2 := again(lock(1500*ms), 2)
	again2.Verb = Read
	writes := lock(1500 * ms)
	writes.Switch, writes.Fence = true, 2
	next := func(at time.Duration) Op { return granted(1, "b", at, at+ms, 3) }
	failing := keep(lock(50 * ms))
	looks := func(at time.Duration) Op { // and sees what a got by asking again
		return Op{Client: 2, Key: "k", Verb: Look, Call: at, Return: at + ms, Outcome: Done,
			Holders: []Holder{{Digest: digest("a"), Fence: 2, Count: 1, TTL: 900 * ms}}}
	}
	silent := keep(lock(0)) // its client waits for an answer for very long, and closes its connection then
	silent.Outcome, silent.Fence, silent.TTL, silent.Count, silent.Return = Unknown, 0, 0, 0, 20*s
	permit := func(o Op) Op {
		o.Verb, o.Permits = Permit, 2
		return o
	}
	dropped := closes(100 * ms)
	dropped.Verb = Drop
	unheard := silent
	unheard.Keep, unheard.Call, unheard.Return = false, 200*ms, 201*ms
	hears := Event{Name: "half-open", Start: 0, End: 20 * s}
	for _, c := range []struct {
		name string
		h    *History
		want string // the rule that is broken
	}{
		{"freed by the close", history(nil, keep(lock(0)), closes(3*s), other(3*s+2*ms)), ""},
		{"given up, and a permit of somebody who was told nothing", history([]Event{hears},
			permit(granted(1, "b", 0, ms, 1)), dropped, permit(unheard), check(300*ms, Done)), ""},
		{"kept until its client gives up", history([]Event{hears}, silent, refused(20*s+100*ms)), ""},
		{"kept for long after its client has given up", history([]Event{hears}, silent, refused(23*s)),
			"linearizable"},
		{"freed before the close",
			history(nil, keep(lock(0)), other(2900*ms), check(2950*ms, Done), closes(3*s)),
			"linearizable"},
		{"freed by the close of another connection",
			history(nil, keep(lock(0)), over(1, closes(3*s)), other(3*s+2*ms),
				check(4*s, Null)), "linearizable"},

		{"asked for again over its own connection",
			history(nil, keep(lock(0)), lock(2900*ms), closes(3*s), other(3*s+2*ms)), ""},
		{"counted over its own connection", history(nil, shared, again2, unlock(2900*ms, 0), closes(3*s),
			other(3*s+2*ms)), ""},
		{"counted over its own connection, and kept on",
			history(nil, shared, again2, other(2800*ms), unlock(2900*ms, 0), closes(3*s)), "linearizable"},
		{"renewed over its own connection", history(nil, keep(lock(0)), renew(2900*ms), closes(3*s),
			other(3*s+2*ms)), ""},
		{"renewed over its own connection, and kept on",
			history(nil, keep(lock(0)), renew(500*ms), other(2800*ms), unlock(2900*ms, 1),
				closes(3*s)), "linearizable"},
		{"kept again over its own connection", history(nil, keep(lock(0)), keep(lock(2900*ms)), closes(3*s),
			closes(3*s), other(3*s+2*ms)), ""},

		{"asked for over another connection", history(nil, keep(lock(0)), over(1, lock(2900*ms)), closes(3*s),
			other(3*s+2*ms)), "linearizable"},
		{"asked for over another connection, after its lease",
			history(nil, keep(lock(0)), over(1, lock(2900*ms)), closes(3*s), other(3902*ms)), ""},
		{"asked for over another connection, and there for ever",
			history(nil, keep(lock(0)), over(1, lock(2900*ms)), closes(3*s), refused(6*s)), "linearizable"},
		{"renewed over another connection", history(nil, keep(lock(0)), over(1, renew(2900*ms)), closes(3*s),
			other(3*s+2*ms)), "linearizable"},
		{"looked at over another connection", history(nil, keep(lock(0)), over(1, check(2900*ms, Done)),
			closes(3*s), other(3*s+2*ms)), ""},
		{"asked for over another connection, which is kept over the first one",
			history(nil, lock(0), over(1, keep(lock(500*ms))), over(1, closes(600*ms)), other(602*ms)), ""},
		{"kept by another connection", history(nil, keep(lock(0)), over(1, keep(lock(2900*ms))), closes(3*s),
			other(5*s), over(1, check(6*s, Null))), "linearizable"},
		{"kept by another connection, until that closes",
			history(nil, keep(lock(0)), over(1, keep(lock(2900*ms))), closes(3*s), over(1, closes(5*s)),
				other(5*s+2*ms)), ""},
		{"kept by another connection with RENEW", history(nil, keep(lock(0)), over(1, keep(renew(2900*ms))),
			closes(3*s), over(1, closes(5*s)), other(5*s+2*ms)), ""},
		{"kept by another connection, while a third one relies on it",
			history(nil, keep(lock(0)), over(2, lock(s)), over(1, keep(lock(2900*ms))), over(1, closes(3*s)),
				other(3*s+2*ms)), "linearizable"},
		{"kept by another connection, after a third one has asked",
			history(nil, lock(0), over(2, lock(500*ms)), over(1, keep(lock(900*ms))), over(1, closes(s)),
				other(s+2*ms)), ""},

		{"told after the close that it is there",
			history(nil, keep(lock(0)), closes(3*s), over(1, lock(3*s+2*ms)),
				other(3*s+10*ms)), "linearizable"},
		{"told after the close that it is there, after its lease",
			history(nil, keep(lock(0)), closes(3*s), over(1, lock(3*s+2*ms)), other(4*s+2*ms)), ""},
		{"renewed after the close", history(nil, keep(lock(0)), closes(3*s), over(1, renew(3*s+2*ms)),
			other(3*s+10*ms)), "linearizable"},
		{"looked at after the close", history(nil, keep(lock(0)), closes(3*s), over(1, check(3*s+2*ms, Done)),
			other(3*s+10*ms)), ""},
		{"made a writer after the close",
			history(nil, shared, closes(1400*ms), over(1, writes), next(1600*ms)),
			"linearizable"},
		{"made a writer after the close, after its lease",
			history(nil, shared, closes(1400*ms), over(1, writes), next(2500*ms)), ""},

		{"lost, and freed by an UNLOCK before its proxy did", history(nil, keep(lock(0)), lost(2*s),
			unlock(2*s+2*ms, 1), other(2*s+10*ms)), ""},
		{"lost, and held all the same", history(nil, keep(lock(0)), lost(2*s), refused(2*s+100*ms),
			refused(5*s)), "linearizable"},
		{"lost before its lease was over", history(nil, keep(lock(0)), lost(500*ms)), "linearizable"},
		{"kept for less than its lease", history(nil, longer, keep(shorter(400*ms)), lost(750*ms)), ""},
		{"kept for its lease", history(nil, keep(longer), keep(shorter(400*ms)), lost(750*ms)),
			"linearizable"},
		{"lost while it was asked for again, and given back", history(nil, keep(lock(0)), gaveBack(2*s),
			refused(2*s+2*ms), other(2*s+20*ms)), ""},
		{"lost while it was asked for again, and in the way before that is given back",
			history(nil, keep(lock(0)), gaveBack(2*s), refused(2*s+100*ms)), ""},
		{"lost while it was asked for again, and in the way for longer than it can be there",
			history(nil, keep(lock(0)), gaveBack(2*s), refused(9*s)), "linearizable"},
		{"lost before it was asked for again, which did not run, and in the way",
			history(nil, keep(lock(0)), notRun(2*s), refused(5*s)), "linearizable"},
		{"lost while it was asked for again, and seen before it is given back",
			history(nil, keep(lock(0)), gaveBack(2*s), looks(2*s+2*ms)), ""},
		{"lost while it was asked for again, and seen for longer than it can be there",
			history(nil, keep(lock(0)), gaveBack(2*s), looks(9*s)), "linearizable"},
		{"lost before it was asked for again", history(nil, keep(lock(0)), lost(2*s), other(2*s+2*ms),
			unlock(2*s+4*ms, 1)), "linearizable"},
		{"made a writer, and kept", history(nil, shared, writes, waited(s, 5*s)), ""},
		{"made a writer, and let go of", history(nil, shared, writes, unlock(1600*ms, 1), waited(s, 5*s)),
			"lost wake-up"},
		{"closed, and refused to its reader while it rests", history(nil, resting(keep(lock(0))), closes(3*s),
			reads(3100*ms)), ""},
		{"closed, and refused to its reader", history(nil, keep(lock(0)), closes(3*s), reads(3100*ms)),
			"linearizable"},
		{"not asked for while it could not be renewed, and closed", history(cut, lingering(keep(lock(0))),
			other(2*s), lingering(closes(3*s))), ""},
		{"not asked for, and closed", history(nil, lingering(keep(lock(0))), other(2*s),
			lingering(closes(3*s))), "linearizable"},
		{"lost by a keeper that has gone, while another relies on it",
			history(nil, keep(lock(0)), closes(800*ms), over(1, lock(900*ms)), lost(1100*ms),
				over(1, check(1200*ms, Done))), ""},
		{"lost by a keeper that has gone, and gone", history(nil, keep(lock(0)), closes(800*ms),
			over(1, lock(900*ms)), lost(1100*ms), other(1200*ms)), "linearizable"},

		{"kept through a fail-over", history([]Event{failover}, failing, lock(2900*ms), closes(3*s),
			other(3*s+2*ms)), ""},
		{"kept through a fail-over, told after the close that it is there",
			history([]Event{failover}, failing, closes(2900*ms), over(1, lock(2902*ms)),
				other(3*s)), "linearizable"},
		{"closed before a fail-over", history([]Event{failover}, keep(lock(0)), closes(2*ms), refused(5*s)),
			"linearizable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			slices.SortStableFunc(c.h.Ops, func(a, b Op) int { return int(a.Return - b.Return) })
			v := Judge(c.h)
			if c.want == "" && len(v.Violations) > 0 || c.want != "" &&
				!slices.Equal(rules(v), strings.Split(c.want, ", ")) {
				t.Errorf("got %v, want %q", v.Violations, c.want)
			}
		})
	}
}
