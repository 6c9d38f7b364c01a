package commands

import "context"

// Announcer publishes what the proxy itself has to tell.
type Announcer interface {
	// Announce publishes a message, at most once, and says who has heard it. err says why that is not known,
	// or why it was not published. It blocks until ctx ends at most.
	Announce(ctx context.Context, channel, message string) (Heard, error)
}

// Heard says what became of a message.
type Heard uint8

// What may become of it. Only Unsent may be followed by another attempt.
const (
	Unsent  Heard = iota // it was certainly not published
	Unheard              // it was published, and nobody listened
	InDoubt              // nobody knows
	Told                 // somebody listened
)
