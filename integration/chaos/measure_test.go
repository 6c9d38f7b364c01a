package main

import (
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// What clients felt is made of what they noted: forged clients, of which the fault strikes three. A replica
// takes over at 5 s.
func TestMeasure(t *testing.T) {
	at := func(d float64) time.Duration { return time.Duration(d * float64(time.Second)) }
	l := &load{ways: []way{{name: "lockproxy"}}, ended: at(7)}
	for i, spot := range []string{"shard 0", "shard 0", "shard 0", "shard 1"} {
		k := &worker{id: i, spot: spot, mix: mixes[0]}
		if i == 2 {
			k.mix = mixes[2]
		}
		l.workers = append(l.workers, k)
	}
	get := func(worker int, start, end float64, o outcome) op {
		return op{verb: vGet, worker: worker, start: at(start), end: at(end), outcome: o, why: "gone"}
	}
	l.ops = []op{
		get(0, 0.9, 0.91, acked), get(0, 1, 5.05, acked), get(0, 6, 6.5, acked), // it waits out the fault
		get(1, 1, 2, notRun), get(1, 2, 4.5, acked), get(1, 4.6, 5.2, acked), // it had success before
		{verb: vPop, worker: 2, start: at(1), end: at(6.9)}, // waits on purpose
		get(3, 0.1, 0.102, acked), get(3, 0.2, 0.202, acked), get(3, 3, 3.004, acked), get(3, 4, 4.1,
			unknown),
		{verb: vPop, worker: 3, start: at(0.3), end: at(1.9)},
	}
	l.ops = append(l.ops, get(guest, 0.5, 0.6, notRun), get(guest, 2, 5.3, acked), get(guest, 4, 5.1, notRun),
		get(guest, 5.2, 5.21, acked), get(guest, 5.1, 5.4, acked))
	s := &scene{OwnLife: &rig.OwnLife{}, load: l, spot: "shard 0", struck: at(1), over: at(6)}
	s.promoted.Store(int64(at(5)))
	f := figures{First: -1, Last: -1, New: -1, Errors: map[string]int{}}
	s.recovery(&f, 0, l.of(0), s.mark())
	s.newcomers(&f, 0, s.mark())
	if f.First != 50 || f.Last != 200 || f.Late != 0 || f.Longest != 4050 || f.New != 210 {
		t.Errorf("goes on %v..%v, %d late, longest %v, new %v; want 50..200, 0, 4050, 210", f.First,
			f.Last, f.Late,
			f.Longest, f.New)
	}
	if f.Errors["GET failed: gone"] != 1 || f.Errors["new connection: gone"] != 1 || len(f.Errors) != 2 ||
		f.Other != 1 || f.Visits != 4 || f.Refused != 1 {
		t.Errorf("errors %v, %d others, %d of %d visits", f.Errors, f.Other, f.Refused, f.Visits)
	}
	if f.Others.Before != 2 || f.Others.During != 4 {
		t.Errorf("p99 of others %v, want 2 and 4", f.Others)
	}
	// One that has had no success since then has not gone on.
	l.workers = append(l.workers, &worker{id: 4, spot: "shard 0", mix: mixes[0]})
	late := figures{First: -1, Last: -1, Errors: map[string]int{}}
	if s.recovery(&late, 0, l.of(0), s.mark()); late.Late != 1 || late.Last != -1 || late.First != 50 {
		t.Errorf("%d late, %v..%v; want 1, 50..-1", late.Late, late.First, late.Last)
	}
	// Without a promotion it counts from the end of the fault.
	s.promoted.Store(0)
	if s.mark() != at(6) {
		t.Errorf("it counts from %v", s.mark())
	}
	steps := rate(l.ops, s.struckOnly(0), at(1), at(6))
	if len(steps) != 24 || steps[0] != (point{-1, 0}) || steps[3] != (point{-0.25, 4}) || steps[20][1] != 8 {
		t.Errorf("rate %v", steps)
	}
}
