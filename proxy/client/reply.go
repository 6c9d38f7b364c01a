package client

import (
	"bytes"
	"errors"

	"lockproxy/internal/loop"
)

// NoAnswer is what a client gets if a command ended without an answer.
var NoAnswer = []byte("-ERR internal error: the command made no answer\r\n")

// ErrNoMasters is for a client that asks all masters while there is none.
var ErrNoMasters = errors.New("CLUSTERDOWN The upstream has no master")

// LongFrom is the size from which on a command or reply is too long to be handled on a loop at once. It is
// more than loop.Shared, so the memory of a longer command is never written to.
const LongFrom = 256 << 10

// Lasting returns raw, which aliases a read buffer, in memory that nobody writes to.
func Lasting(raw []byte) []byte {
	if len(raw) > loop.Shared {
		return raw
	}
	return bytes.Clone(raw)
}
