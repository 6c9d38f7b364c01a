package cluster

import "errors"

// What became of a request that got no reply.
var (
	// ErrUnknownOutcome: the connection was lost after the request had been
	// written, and the request may not be sent twice.
	ErrUnknownOutcome = errors.New("the connection was lost after the command was sent: " +
		"it may or may not have run")
	// ErrUnavailable: no node took the request within the time budget. It has not run.
	ErrUnavailable = errors.New("the command was not run")
)

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
