package cluster

import (
	"errors"
	"fmt"
	"strings"
)

// What became of a request that got no reply.
var (
	// ErrUnknownOutcome: the connection was lost after the request had been
	// written, and the request may not be sent twice.
	ErrUnknownOutcome = errors.New("the connection was lost after the command was sent: " +
		"it may or may not have run")
	// ErrUnavailable: no node took the request within the time budget. It has not run.
	ErrUnavailable = errors.New("the command was not run")
)

// Untaken is the error of a request that no node took in time, and that has not run. It wraps ErrUnavailable.
type Untaken struct {
	Why   error // what stood in the way
	Nodes bool  // and a node stood ready: it redirects, or has no place
	Part  bool  // it is a part of a command, and other parts may have run
	Once  bool  // the command may change something again if it is sent twice; only with Part
}

// OfPart is e for a command of which other parts may have run. again says that the command may be sent again
// all the same, because it only reads, or has the same effect twice.
func (e *Untaken) OfPart(again bool) *Untaken {
	return &Untaken{Why: e.Why, Nodes: e.Nodes, Part: true, Once: !again}
}

// Error is the text without Word.
func (e *Untaken) Error() string {
	if e.Part {
		return "no node took a part of the command in time, and its other parts may have run: " +
			e.Why.Error()
	}
	if errors.Is(e.Why, ErrUnavailable) {
		return "no node took it in time: " + e.Why.Error()
	}
	return "no node took it in time: " + ErrUnavailable.Error() + ": " + e.Why.Error()
}

func (e *Untaken) Unwrap() []error { return []error{ErrUnavailable, e.Why} }

// Word tells clients whether they may send the request again: TRYAGAIN, LOADING, or CLUSTERDOWN if no node
// could be reached. It is ERR if a node refuses for a lasting reason, and if the command must not be sent
// again, because clients do that unasked.
func (e *Untaken) Word() string {
	text := e.Why.Error()
	if node, ok := errors.AsType[NodeError](e.Why); ok {
		text = node.Err.Error()
	}
	word, _, _ := strings.Cut(text, " ")
	switch {
	case e.Once:
		return "ERR"
	case e.Nodes:
		return "TRYAGAIN"
	case word == "LOADING", word == "CLUSTERDOWN", word == "TRYAGAIN":
		return word
	case len(word) > 1 && strings.ToUpper(word) == word, errors.Is(e.Why, ErrMode):
		return "ERR" // its own words, as of a wrong password
	}
	return "CLUSTERDOWN"
}

// NotTaken is the error of a request that no node took in time. outcome is ErrUnavailable or
// ErrUnknownOutcome. why is what stood in the way, nodes as in Untaken.
func NotTaken(outcome, why error, nodes bool) error {
	if outcome == ErrUnavailable {
		return &Untaken{Why: why, Nodes: nodes}
	}
	return fmt.Errorf("no node took it in time: %w: %w", outcome, why)
}

// How a node broke its connection.
var (
	ErrFraming = errors.New("the node sent what is no reply")
	ErrHasty   = errors.New("the node answered a request before it had it")
)

// ErrMode is why a request was not run: its node can be reached, but refuses the Mode of the connection. The
// error that wraps it has the node's own words, such as those about a database that it does not have. Asking
// again is of no use.
var ErrMode = errors.New("the node refuses the mode")

// ModeError has the node's words. It wraps ErrMode.
type ModeError struct{ Text string }

func (e *ModeError) Error() string { return e.Text }
func (e *ModeError) Unwrap() error { return ErrMode }
