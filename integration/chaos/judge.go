package main

import (
	"fmt"
	"slices"
)

// verdict is what became of what clients asked for.
type verdict struct {
	Writes  int `json:"writes"`
	Acked   int `json:"acked"`   // of the writes
	Unknown int `json:"unknown"` // "may or may not have run"
	Done    int `json:"done"`    // of the unknown ones, as far as data tell
	NotRun  int `json:"notrun"`  // told that it has not run
	Reads   int `json:"reads"`
	Failed  int `json:"failed"` // of the reads

	Lost    int `json:"lost"`    // acknowledged, and not there
	Doubled int `json:"doubled"` // ran twice
	Ran     int `json:"ran"`     // "not run", and it ran
	Torn    int `json:"torn"`    // half of a transaction or of a script
	Order   int `json:"order"`   // in another order than they were acknowledged
	Crossed int `json:"crossed"` // a reply that is another one's

	Wrong []string `json:"wrong,omitempty"` // the first of these, in words
}

// state is what is there in the end: a string is a list of one element.
type state map[string][]string

const mostWords = 8 // that a verdict keeps

// found counts something that must not be, and says it.
func (v *verdict) found(count *int, format string, args ...any) {
	*count++
	v.say(format, args...)
}

func (v *verdict) say(format string, args ...any) {
	if len(v.Wrong) < mostWords {
		v.Wrong = append(v.Wrong, fmt.Sprintf(format, args...))
	}
}

// queue is what clients did with one queue.
type queue struct {
	pushed  map[string]op
	popped  map[string]int
	unknown int // BLPOPs, each of which may have taken an element
}

// judge compares what clients were told with what is there. lossy: the fault may make Redis itself lose what
// it has acknowledged, the removal of an element included.
//
// Each key belongs to one client, which does one thing after the other, and no element is written twice; only
// a queue has two clients, of which one writes, and the other takes.
func judge(ops []op, final state, lossy bool) verdict {
	var v verdict
	lists, queues := map[string][]op{}, map[string]*queue{}
	for _, o := range ops {
		v.count(o)
		switch o.verb {
		case vGet:
			v.read(o, lossy)
		case vSet, vIncr:
			v.single(o, final[o.key])
		case vPush, vMulti, vEval:
			lists[o.key] = append(lists[o.key], o)
		case vQueue, vPop:
			if queues[o.key] == nil {
				queues[o.key] = &queue{pushed: map[string]op{}, popped: map[string]int{}}
			}
			queues[o.key].note(o)
		}
	}
	for key, all := range lists {
		v.list(key, all, final[key])
	}
	for key, q := range queues {
		v.queue(key, q, final[key], lossy)
	}
	return v
}

func (v *verdict) count(o op) {
	if !o.writes() {
		v.Reads++
		if o.outcome != acked {
			v.Failed++
		}
		return
	}
	v.Writes++
	switch o.outcome {
	case acked:
		v.Acked++
	case unknown:
		v.Unknown++
	case notRun:
		v.NotRun++
	}
}

// read judges a GET of what its client has been told is there.
func (v *verdict) read(o op, lossy bool) {
	switch {
	case o.outcome != acked || len(o.elems) == 0 || !o.null && o.reply == o.elems[0] || o.null && lossy:
	case o.null:
		v.found(&v.Lost, "GET %s says Null, though %q was acknowledged", o.key, o.elems[0])
	default:
		v.found(&v.Crossed, "GET %s says %q, which is not its value", o.key, o.reply)
	}
}

// single judges a SET or an INCR of a key of its own.
func (v *verdict) single(o op, got []string) {
	there := len(got) > 0
	twice := o.verb == vIncr && (there && got[0] != "1" || o.outcome == acked && o.reply != "1")
	switch {
	case twice:
		v.found(&v.Doubled, "INCR of the fresh %s said %q, and %q is there", o.key, o.reply, got)
	case there && o.verb == vSet && got[0] != o.elems[0]:
		v.found(&v.Crossed, "%s is %q, and was set to %q alone", o.key, got[0], o.elems[0])
	case there && o.outcome == notRun:
		v.found(&v.Ran, "%s %s was told %q, and is there", o.verb, o.key, o.why)
	case there && o.outcome == unknown:
		v.Done++
	case !there && o.outcome == acked:
		v.found(&v.Lost, "%s %s was acknowledged, and is not there", o.verb, o.key)
	}
}

// list judges what one client has pushed onto a list.
func (v *verdict) list(key string, all []op, got []string) {
	times, place := map[string]int{}, map[string]int{}
	for i, e := range got {
		times[e]++
		place[e] = i
	}
	last := -1
	for _, o := range all {
		some, most := 0, 0
		for _, e := range o.elems {
			some += min(times[e], 1)
			most = max(most, times[e])
		}
		switch {
		case most > 1:
			v.found(&v.Doubled, "%s %s: %q is there %d times", o.verb, key, o.elems, most)
		case some > 0 && some < len(o.elems):
			v.found(&v.Torn, "%s %s: a part of %q is there", o.verb, key, o.elems)
		case some > 0 && o.outcome == notRun:
			v.found(&v.Ran, "%s %s was told %q, and %q is there", o.verb, key, o.why, o.elems)
		case some > 0 && o.outcome == unknown:
			v.Done++
		case some == 0 && o.outcome == acked:
			v.found(&v.Lost, "%s %s: %q was acknowledged, and is not there", o.verb, key, o.elems)
		case some > 0 && o.outcome == acked:
			at := place[o.elems[0]]
			if at < last {
				v.found(&v.Order, "%s %s: %q stands before what was acknowledged earlier", o.verb, key,
					o.elems)
			}
			last = max(last, at)
		}
	}
}

func (q *queue) note(o op) {
	switch {
	case o.verb == vQueue:
		q.pushed[o.elems[0]] = o
	case o.outcome == unknown:
		q.unknown++
	case o.outcome == acked && o.reply != "":
		q.popped[o.reply]++
	}
}

// queue judges what was pushed to a queue and taken from it.
func (v *verdict) queue(key string, q *queue, got []string, lossy bool) {
	times := map[string]int{}
	for _, e := range got {
		times[e]++
	}
	for e := range q.popped {
		if _, ok := q.pushed[e]; !ok {
			v.found(&v.Crossed, "BLPOP %s got %q, which nobody pushed", key, e)
		}
	}
	gone := 0
	for e, o := range q.pushed {
		seen := times[e] + q.popped[e]
		switch {
		case times[e] > 1 || seen > 1 && !lossy:
			v.found(&v.Doubled, "%s: %q was taken %d times and is there %d times", key, e, q.popped[e],
				times[e])
		case seen > 1: // the removal of it was lost
			v.Lost++
		case seen == 1 && o.outcome == notRun:
			v.found(&v.Ran, "RPUSH %s %q was told %q, and is there", key, e, o.why)
		case seen == 1 && o.outcome == unknown:
			v.Done++
		case seen == 0 && o.outcome == acked:
			gone++
		}
	}
	taken := min(gone, q.unknown)
	v.Done += taken
	if lost := gone - taken; lost > 0 {
		v.Lost += lost
		v.say("%s: %d elements are gone, and %d BLPOPs may have taken one", key, gone, q.unknown)
	}
}

// violations are what must not be. What Redis itself may lose is none.
func (v verdict) violations(lossy bool) (all []string) {
	for _, of := range []struct {
		n    int
		what string
	}{
		{v.Lost, "acknowledged and lost"}, {v.Doubled, "ran twice"}, {v.Ran, `ran, though told "not run"`},
		{v.Torn, "ran by half"}, {v.Order, "out of order"}, {v.Crossed, "wrong replies"},
	} {
		if of.n > 0 && !(lossy && of.what == "acknowledged and lost") {
			all = append(all, fmt.Sprintf("%d %s", of.n, of.what))
		}
	}
	if all != nil {
		all = append(all, slices.Clone(v.Wrong)...)
	}
	return all
}

// counts are all that a verdict counts.
func (v *verdict) counts() []*int {
	return []*int{&v.Writes, &v.Acked, &v.Unknown, &v.Done, &v.NotRun, &v.Reads, &v.Failed, &v.Lost,
		&v.Doubled, &v.Ran, &v.Torn, &v.Order, &v.Crossed}
}

// add adds up verdicts.
func (v *verdict) add(w verdict) {
	for i, n := range w.counts() {
		*v.counts()[i] += *n
	}
	for _, words := range w.Wrong {
		v.say("%s", words)
	}
}
