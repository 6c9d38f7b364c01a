package trace

import (
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// judging is how long porcupine may look at one key.
const judging = 5 * time.Minute

// The exceptions of the promise, by name. A history is judged without them first.
const (
	// LostInFailover: an asynchronous fail-over may lose what was granted, renewed or
	// released before it.
	LostInFailover = "lost in fail-over"
	// ToldTwice: while a subscription moves from one node to another, because the first one is
	// no master any more, both may pass on what is published.
	ToldTwice = "told twice"
	// Overtaken: a LOCK with BREAK takes the lock while its slot moves, but others have it
	// before that is known, and keep it.
	Overtaken = "take-over overtaken"
)

// Violation is one broken promise.
type Violation struct {
	Rule string // which one
	Key  string
	What string
	At   time.Duration
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: %s at %.4f: %s", v.Rule, v.Key, v.At.Seconds(), v.What)
}

// Verdict is what the judge says of a history.
type Verdict struct {
	Sum
	Violations []Violation
	Unanswered []Op // those that nobody knows the outcome of
}

// Judge judges a history.
func Judge(h *History) *Verdict {
	v := &Verdict{Sum: Sum{Took: h.Took.Seconds(), Rounds: 1, Of: map[string]int{}, Faults: map[string]int{},
		Exceptions: map[string]int{}}}
	for _, e := range h.Events {
		if e.Start >= 0 { // else of the round before
			v.Faults[e.Name]++
		}
	}
	for _, key := range h.Keys {
		ops := h.of(key)
		slices.SortStableFunc(ops, func(a, b Op) int { return int(a.Call - b.Call) })
		for _, o := range ops {
			if o.isNote() {
				continue
			}
			v.Ops++
			v.kind(o)
			switch {
			case o.Outcome == Granted:
				v.Grants++
			case o.Outcome == Unknown && !o.inVain():
				v.Unanswered = append(v.Unanswered, o)
			}
		}
		v.linearize(h, key, ops)
		m := newMonitor(h, key, ops, v)
		m.fences()
		m.order()
		m.wakeups()
		m.punctual()
		m.barren()
		m.messages()
	}
	v.Sum.Violations, v.Sum.Unanswered = len(v.Violations), len(v.Unanswered)
	return v
}

// kind counts an op.
func (v *Verdict) kind(o Op) {
	name := string(o.Verb)
	if len(o.Set) > 0 {
		name = "M" + name
	}
	v.Of[name]++
	for option, is := range map[string]bool{"with ATLEAST": o.AtLeast > 0, "with KEEPALIVE": o.Keep,
		"with BREAK": o.Break, "with NOTIFY": o.Notify, "with LINGER": o.Linger > 0} {
		if is && o.Outcome == Granted {
			v.Of[option]++
		}
	}
}

// linearize asks porcupine whether an order of the ops explains the replies.
func (v *Verdict) linearize(h *History, key string, ops []Op) {
	if _, result := v.explain(h, key, ops, quick); result == porcupine.Ok {
		return
	}
	history, result := v.explain(h, key, ops, model)
	if result == porcupine.Ok {
		return
	}
	_, info := porcupine.CheckOperationsVerbose(model, history, judging)
	rule, what := "linearizable", "no order of the calls explains the replies"
	if result == porcupine.Unknown {
		rule, what = "undecided", fmt.Sprintf("porcupine found no answer within %v", judging)
	}
	var longest []int
	for _, part := range info.PartialLinearizations() {
		for _, line := range part {
			if len(line) > len(longest) {
				longest = line
			}
		}
	}
	at := time.Duration(0)
	for i, o := range history { // the first op that the longest explanation leaves out
		if in := o.Input.(*input); !slices.Contains(longest, i) {
			at = in.Call
			what += fmt.Sprintf("; of %d the longest explains %d, not %v", len(history), len(longest), in.Op)
			break
		}
	}
	v.Violations = append(v.Violations, Violation{rule, key, what, at})
}

// explain looks for an order of the ops by a model, first without exceptions, then with more and more of
// them. It counts the one that it needs, and returns the history with all of them if no order was found.
func (v *Verdict) explain(h *History, key string, ops []Op, by porcupine.Model) (
	history []porcupine.Operation, result porcupine.CheckResult) {
	var lossy []Event
	for _, e := range h.Events {
		if slices.Contains(e.Loses, key) {
			lossy = append(lossy, e)
		}
	}
	exceptions := []string{""}
	if h.Quorum {
		exceptions = append(exceptions, astray...)
	}
	if lossy != nil {
		exceptions = append(exceptions, LostInFailover)
	}
	for _, exception := range exceptions {
		switch exception {
		case "":
			history = operations(ops, h.Moves, h.Events, nil)
			if h.Quorum {
				history = h.weigh(history, ops)
			}
		case LostInFailover:
			history = operations(ops, h.Moves, h.Events, lossy)
		default:
			history = h.stray(history, exception)
		}
		result = porcupine.CheckOperationsTimeout(by, history, judging)
		if result == porcupine.Ok {
			if exception != "" {
				v.Exceptions[exception]++
			}
			break
		}
	}
	return history, result
}
