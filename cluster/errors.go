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
}

// Error says so, without Word.
func (e *Untaken) Error() string {
	if errors.Is(e.Why, ErrUnavailable) {
		return "no node took it in time: " + e.Why.Error()
	}
	return "no node took it in time: " + ErrUnavailable.Error() + ": " + e.Why.Error()
}

func (e *Untaken) Unwrap() []error { return []error{ErrUnavailable, e.Why} }

// Word is the one by which clients know that they may send the request again: TRYAGAIN, LOADING, or
// CLUSTERDOWN when no node could be reached. It is ERR when a node refuses for a reason that stays.
func (e *Untaken) Word() string {
	text := e.Why.Error()
	var node NodeError
	if errors.As(e.Why, &node) {
		text = node.Err.Error()
	}
	word, _, _ := strings.Cut(text, " ")
	switch {
	case e.Nodes:
		return "TRYAGAIN"
	case word == "LOADING", word == "CLUSTERDOWN", word == "TRYAGAIN":
		return word
	case len(word) > 1 && strings.ToUpper(word) == word, errors.Is(e.Why, ErrMode):
		return "ERR" // its own words, as of a wrong password
	}
	return "CLUSTERDOWN"
}

// NotTaken is what becomes of a request that no node took in time: outcome is ErrUnavailable or
// ErrUnknownOutcome.
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

// ErrMode is why a request was not run: its node can be reached and will not be put into its Mode. The error
// that wraps it is in the node's own words, as of a database that it has not, and to ask again is no use.
var ErrMode = errors.New("the node refuses the mode")

// ModeError is what the node said. It wraps ErrMode.
type ModeError struct{ Text string }

func (e *ModeError) Error() string { return e.Text }
func (e *ModeError) Unwrap() error { return ErrMode }
