package client

import (
	"bytes"
	"errors"

	"lockproxy/commands"
	"lockproxy/internal/loop"
	"lockproxy/internal/resp"
)

// Ping asks whether a node is there; Asking goes before what a node runs in a slot that it imports.
var (
	Ping   = resp.AppendCommandStrings(nil, "PING")
	Asking = resp.AppendCommandStrings(nil, "ASKING")
)

// NoAnswer is what a client gets if a command ended without an answer.
var NoAnswer = []byte("-ERR internal error: the command made no answer\r\n")

// NoAuth is what a client gets that has to authenticate and has not.
var NoAuth = []byte("-NOAUTH Authentication required.\r\n")

// ErrNoMasters is for a client that asks all masters while there is none.
var ErrNoMasters = errors.New("CLUSTERDOWN The upstream has no master")

// LongFrom is the size from which on a command or reply is too long to be handled on a loop at once. It is
// more than loop.Shared, so the memory of a longer command is never written to.
const LongFrom = 256 << 10

// GoOn goes on with the current command.
type GoOn func(cmd *commands.Command, args [][]byte, raw []byte)

// Lasting returns raw, which aliases a read buffer, in memory that nobody writes to.
func Lasting(raw []byte) []byte {
	if len(raw) > loop.Shared {
		return raw
	}
	return bytes.Clone(raw)
}

// Passive is embedded in what takes replies, or owns a connection, and has nothing to do in these cases: a
// reply that was cut off is forgotten, the order of requests does not matter, pushes were not asked for, and
// the requests of a lost connection have failed before.
type Passive struct{}

// Discard implements pipe.Receiver.
func (Passive) Discard(uint32) bool { return true }

// Detour implements pipe.Receiver.
func (Passive) Detour(uint32) {}

// Push implements owned.Owner.
func (Passive) Push([]byte, bool) {}

// Lost implements owned.Owner.
func (Passive) Lost(error) {}
