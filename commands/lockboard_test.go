package commands_test

import (
	"context"
	"sync"

	"lockproxy/commands"
)

// mostWaits is how many waits with NOTIFY the clients of withLocks have room for.
const mostWaits = 6

// board is an Announcer that keeps what was announced. Safe for concurrent use.
type board struct {
	mu  sync.Mutex
	all []string
	// Answer says what becomes of a message; nil: somebody hears it. It is set before there are any.
	Answer func(channel, message string) (commands.Heard, error)
}

// Announce implements commands.Announcer.
func (b *board) Announce(_ context.Context, channel, message string) (commands.Heard, error) {
	heard, err := commands.Told, error(nil)
	if b.Answer != nil {
		heard, err = b.Answer(channel, message)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if heard != commands.Unsent {
		b.all = append(b.all, channel+": "+fences.ReplaceAllString(message, "F"))
	}
	return heard, err
}

// Take returns the messages that were published since the last call.
func (b *board) Take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.all
	b.all = nil
	return all
}
