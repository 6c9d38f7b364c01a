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
	// ForgottenRelease: a release that is sent again after a cut finds the lock free, and
	// is remembered only until the next one of that lock: the answer is Null then.
	ForgottenRelease = "forgotten release"
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
	Violations []Violation
	Exceptions map[string]int // how often one was needed, by name
	Ops        int
	Grants     int
	Of         map[string]int // of the grants: how many were of a kind; and how many holds had to linger
	Unanswered []Op           // those that nobody knows the outcome of

	pictures map[string]porcupine.LinearizationInfo // by key
}

// Judge judges a history.
func Judge(h *History) *Verdict {
	v := &Verdict{Exceptions: map[string]int{}, Of: map[string]int{},
		pictures: map[string]porcupine.LinearizationInfo{}}
	for _, key := range h.Keys {
		ops := h.of(key)
		slices.SortStableFunc(ops, func(a, b Op) int { return int(a.Call - b.Call) })
		for _, o := range ops {
			if o.isNote() {
				if o.lingers(h.Events) > o.Call+o.Lease {
					v.Of["LINGER"]++
				}
				continue
			}
			v.Ops++
			switch o.Outcome {
			case Granted:
				v.Grants++
				v.kind(o)
			case Unknown:
				if !o.inVain() {
					v.Unanswered = append(v.Unanswered, o)
				}
			case Done:
				if o.Verb == Free {
					v.Of["LOCKCTL BREAK"]++
				}
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
	return v
}

// kind counts a grant.
func (v *Verdict) kind(o Op) {
	for name, is := range map[string]bool{"SEMLOCK": o.Verb == Permit, "ATLEAST": o.AtLeast > 0,
		"KEEPALIVE": o.Keep, "BREAK": o.Break, "MLOCK": len(o.Set) > 0} {
		if is {
			v.Of[name]++
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
	v.pictures[key] = info
}

// explain looks for an order of the ops by a model, first without exceptions, then with more and more of
// them. It counts the one that it needs, and returns the history with all of them if no order was found.
func (v *Verdict) explain(h *History, key string, ops []Op, by porcupine.Model) (
	history []porcupine.Operation, result porcupine.CheckResult) {
	var lossy, resent []Event
	for _, e := range h.Events {
		if e.Resent {
			resent = append(resent, e)
		}
		if slices.Contains(e.Loses, key) {
			lossy = append(lossy, e)
		}
	}
	exceptions := []string{""}
	if h.Quorum {
		exceptions = append(exceptions, astray...)
	}
	if resent != nil {
		exceptions = append(exceptions, ForgottenRelease)
	}
	if lossy != nil {
		exceptions = append(exceptions, LostInFailover)
	}
	for _, exception := range exceptions {
		switch exception {
		case "":
			history = operations(ops, h.Moves, h.Events, nil, nil)
			if h.Quorum {
				history = h.weigh(history, ops)
			}
		case ForgottenRelease:
			history = operations(ops, h.Moves, h.Events, resent, nil)
		case LostInFailover:
			history = operations(ops, h.Moves, h.Events, resent, lossy)
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
