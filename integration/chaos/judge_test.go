package main

import (
	"errors"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// forged are histories that never happened, and what the judge must say of them.
var forged = []struct {
	name  string
	ops   []op
	final state
	lossy bool
	want  verdict // without the counts of what was asked
}{
	{name: "all is well", final: state{"s": {"v"}, "i": {"1"}, "l": {"a", "b", "c"}, "q": {"y"}}, ops: []op{
		{verb: vSet, key: "s", elems: []string{"v"}}, {verb: vGet, key: "s", elems: []string{"v"},
			reply: "v"},
		{verb: vIncr, key: "i", reply: "1"}, {verb: vPush, key: "l", elems: []string{"a"}},
		{verb: vMulti, key: "l", elems: []string{"b", "c"}}, {verb: vQueue, key: "q", elems: []string{"x"}},
		{verb: vPop, key: "q", reply: "x"}, {verb: vQueue, key: "q", elems: []string{"y"}},
		{verb: vPop, key: "q"}}},
	{name: "nobody knows", final: state{"i": {"1"}, "l": {"b"}}, ops: []op{
		{verb: vSet, key: "s", elems: []string{"v"}, outcome: unknown}, {verb: vIncr, key: "i",
			outcome: unknown},
		{verb: vPush, key: "l", elems: []string{"a"}, outcome: unknown},
		{verb: vPush, key: "l", elems: []string{"b"}, outcome: unknown},
		{verb: vQueue, key: "q", elems: []string{"x"}}, {verb: vPop, key: "q", outcome: unknown}},
		want: verdict{Done: 3}},
	{name: "an unknown write may come late", final: state{"l": {"b", "a"}}, ops: []op{
		{verb: vPush, key: "l", elems: []string{"a"}, outcome: unknown},
		{verb: vPush, key: "l", elems: []string{"b"}}}, want: verdict{Done: 1}},
	{name: "not run", final: state{}, ops: []op{
		{verb: vSet, key: "s", elems: []string{"v"}, outcome: notRun}, {verb: vIncr, key: "i",
			outcome: notRun},
		{verb: vMulti, key: "l", elems: []string{"a", "b"}, outcome: notRun},
		{verb: vQueue, key: "q", elems: []string{"x"}, outcome: notRun}, {verb: vPop, key: "q",
			outcome: notRun}}},

	{name: "a lost SET", ops: []op{{verb: vSet, key: "s", elems: []string{"v"}}}, want: verdict{Lost: 1}},
	{name: "a lost INCR", ops: []op{{verb: vIncr, key: "i", reply: "1"}}, want: verdict{Lost: 1}},
	{name: "a lost RPUSH", final: state{"l": {"b"}}, ops: []op{{verb: vPush, key: "l", elems: []string{"a"}},
		{verb: vPush, key: "l", elems: []string{"b"}}}, want: verdict{Lost: 1}},
	{name: "a lost transaction", ops: []op{{verb: vMulti, key: "l", elems: []string{"a", "b"}}},
		want: verdict{Lost: 1}},
	{name: "a GET that finds nothing", final: state{"s": {"v"}}, ops: []op{
		{verb: vSet, key: "s", elems: []string{"v"}}, {verb: vGet, key: "s", elems: []string{"v"},
			null: true}},
		want: verdict{Lost: 1}},
	{name: "a lost element of a queue", ops: []op{{verb: vQueue, key: "q", elems: []string{"x"}}},
		want: verdict{Lost: 1}},
	{name: "a BLPOP that was not run and took one", ops: []op{{verb: vQueue, key: "q", elems: []string{"x"}},
		{verb: vPop, key: "q", outcome: notRun}}, want: verdict{Lost: 1}},
	{name: "one unknown BLPOP cannot take two", ops: []op{{verb: vQueue, key: "q", elems: []string{"x"}},
		{verb: vQueue, key: "q", elems: []string{"y"}}, {verb: vPop, key: "q", outcome: unknown}},
		want: verdict{Lost: 1, Done: 1}},

	{name: "a doubled INCR, as told", final: state{"i": {"2"}}, ops: []op{{verb: vIncr, key: "i",
		reply: "2"}},
		want: verdict{Doubled: 1}},
	{name: "a doubled INCR, as found", final: state{"i": {"2"}}, ops: []op{{verb: vIncr, key: "i",
		reply: "1"}},
		want: verdict{Doubled: 1}},
	{name: "a doubled INCR that is unknown", final: state{"i": {"2"}},
		ops: []op{{verb: vIncr, key: "i", outcome: unknown}}, want: verdict{Doubled: 1}},
	{name: "a doubled RPUSH", final: state{"l": {"a", "a"}},
		ops: []op{{verb: vPush, key: "l", elems: []string{"a"}}}, want: verdict{Doubled: 1}},
	{name: "a doubled script", final: state{"l": {"a", "b", "a", "b"}},
		ops: []op{{verb: vEval, key: "l", elems: []string{"a", "b"}}}, want: verdict{Doubled: 1}},
	{name: "an element that was taken twice", ops: []op{{verb: vQueue, key: "q", elems: []string{"x"}},
		{verb: vPop, key: "q", reply: "x"}, {verb: vPop, key: "q", reply: "x"}}, want: verdict{Doubled: 1}},
	{name: "an element that was taken and is there", final: state{"q": {"x"}}, ops: []op{
		{verb: vQueue, key: "q", elems: []string{"x"}}, {verb: vPop, key: "q", reply: "x"}},
		want: verdict{Doubled: 1}},
	{name: "the same where Redis may lose that it was taken", final: state{"q": {"x"}}, lossy: true,
		ops: []op{
			{verb: vQueue, key: "q", elems: []string{"x"}}, {verb: vPop, key: "q", reply: "x"}},
		want: verdict{Lost: 1}},
	{name: "an element that was pushed twice, though Redis may lose", final: state{"q": {"x", "x"}},
		lossy: true, ops: []op{{verb: vQueue, key: "q", elems: []string{"x"}}}, want: verdict{Doubled: 1}},

	{name: "a SET that ran", final: state{"s": {"v"}},
		ops: []op{{verb: vSet, key: "s", elems: []string{"v"}, outcome: notRun}}, want: verdict{Ran: 1}},
	{name: "an INCR that ran", final: state{"i": {"1"}}, ops: []op{{verb: vIncr, key: "i", outcome: notRun}},
		want: verdict{Ran: 1}},
	{name: "an RPUSH that ran", final: state{"l": {"a"}},
		ops: []op{{verb: vPush, key: "l", elems: []string{"a"}, outcome: notRun}}, want: verdict{Ran: 1}},
	{name: "an element that was pushed and taken", ops: []op{
		{verb: vQueue, key: "q", elems: []string{"x"}, outcome: notRun}, {verb: vPop, key: "q", reply: "x"}},
		want: verdict{Ran: 1}},

	{name: "half a transaction", final: state{"l": {"a"}},
		ops: []op{{verb: vMulti, key: "l", elems: []string{"a", "b"}}}, want: verdict{Torn: 1}},
	{name: "half a script whose outcome is unknown", final: state{"l": {"b"}},
		ops:  []op{{verb: vEval, key: "l", elems: []string{"a", "b"}, outcome: unknown}},
		want: verdict{Torn: 1}},
	{name: "the wrong order", final: state{"l": {"b", "a"}}, ops: []op{
		{verb: vPush, key: "l", elems: []string{"a"}}, {verb: vPush, key: "l", elems: []string{"b"}}},
		want: verdict{Order: 1}},
	{name: "the reply of another", final: state{"s": {"v"}}, ops: []op{
		{verb: vSet, key: "s", elems: []string{"v"}},
		{verb: vGet, key: "s", elems: []string{"v"}, reply: "w"}}, want: verdict{Crossed: 1}},
	{name: "the value of another", final: state{"s": {"w"}},
		ops: []op{{verb: vSet, key: "s", elems: []string{"v"}}}, want: verdict{Crossed: 1}},
	{name: "an element that nobody pushed", ops: []op{{verb: vPop, key: "q", reply: "x"}},
		want: verdict{Crossed: 1}},
}

// The judge finds what is wrong in forged histories, and nothing else. R33
func TestJudge(t *testing.T) {
	for _, tt := range forged {
		t.Run(tt.name, func(t *testing.T) {
			got := judge(tt.ops, tt.final, tt.lossy)
			wrong, words := got.violations(false), got.Wrong
			got.Writes, got.Acked, got.Unknown, got.NotRun, got.Reads, got.Wrong = 0, 0, 0, 0, 0, nil
			if got.Lost != tt.want.Lost || got.Doubled != tt.want.Doubled || got.Ran != tt.want.Ran ||
				got.Torn != tt.want.Torn || got.Order != tt.want.Order || got.Crossed != tt.want.Crossed ||
				got.Done != tt.want.Done {
				t.Errorf("got %+v %q, want %+v", got, words, tt.want)
			}
			want := tt.want.Lost+tt.want.Doubled+tt.want.Ran+tt.want.Torn+tt.want.Order+tt.want.Crossed > 0
			if want != (len(wrong) > 0) {
				t.Errorf("violations: %q", wrong)
			}
		})
	}
}

// What Redis itself may lose is no violation; all else is one all the same.
func TestLossesOfRedis(t *testing.T) {
	v := judge([]op{{verb: vSet, key: "s", elems: []string{"v"}}, {verb: vIncr, key: "i", reply: "2"}},
		state{"i": {"2"}}, true)
	if got := v.violations(true); v.Lost != 1 || len(got) == 0 || got[0] != "1 ran twice" {
		t.Errorf("%+v: %q", v, got)
	}
}

// What a client knows of its command: only a promise that it was not run counts as one.
func TestOutcomes(t *testing.T) {
	fails := func(text string) rig.Reply { return rig.Reply{Kind: '-', Text: text} }
	for _, tt := range []struct {
		verb verb
		v    rig.Reply
		err  error
		want outcome
		why  string
	}{
		{vSet, rig.Reply{Kind: '+', Text: "OK"}, nil, acked, ""},
		{vSet, fails("CLUSTERDOWN no node took it in time: the command was not run: dial tcp " +
			"127.0.0.1:7000: connect: connection refused"), nil, notRun, "CLUSTERDOWN no node took it in " +
			"time"},
		{vIncr, fails("ERR the connection was lost after the command was sent: it may or may not " +
			"have run: EOF"), nil, unknown, "it may or may not have run: EOF"},
		{vIncr, fails("ERR no node took a part of the command in time, and its other parts may have " +
			"run: x"), nil, unknown, "ERR no node took a part"},
		{vIncr, rig.Reply{}, errors.New("EOF"), unknown, "EOF"},
		{vIncr, rig.Reply{}, &unsent{errors.New("connection refused")}, notRun, "connection refused"},
		{vMulti, rig.Reply{Null: true}, nil, notRun, "EXEC said Null"},
		{vPop, rig.Reply{Null: true}, nil, acked, ""},
	} {
		o := op{verb: tt.verb}
		o.told(tt.v, tt.err)
		if o.outcome != tt.want || !strings.HasPrefix(o.why, tt.why) {
			t.Errorf("%s %+v %v: %d %q, want %d %q", tt.verb, tt.v, tt.err, o.outcome, o.why, tt.want, tt.why)
		}
	}
	if got, want := kindOf("read tcp 127.0.0.1:40404->127.0.0.1:11222: EOF after 12 bytes"),
		"read tcp NODE: EOF after N bytes"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Verdicts add up, with their words.
func TestVerdictsAddUp(t *testing.T) {
	var sum verdict
	sum.add(verdict{Writes: 2, Acked: 1, NotRun: 1, Ran: 1, Wrong: []string{"100 % wrong"}})
	sum.add(verdict{Writes: 1, Acked: 1, Lost: 1})
	if sum.Writes != 3 || sum.Acked != 2 || sum.Ran != 1 || sum.Lost != 1 || len(sum.Wrong) != 1 ||
		sum.Wrong[0] != "100 % wrong" {
		t.Errorf("%+v", sum)
	}
}
