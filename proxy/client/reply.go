package client

import (
	"bytes"
	"errors"

	"lockproxy/internal/loop"
)

// NoAnswer is what a client gets if a command is done and has made no answer.
var NoAnswer = []byte("-ERR internal error: the command made no answer\r\n")

// ErrNoMasters is what a client is told that asks for all masters while there is none.
var ErrNoMasters = errors.New("CLUSTERDOWN The upstream has no master")

// LongFrom is how many bytes of a command or of a reply a loop deals with at once. It is
// more than loop.Shared, so nobody writes to the memory of a command that is longer.
const LongFrom = 256 << 10

// Lasting is raw, which aliases a read buffer, in memory that nobody writes to.
func Lasting(raw []byte) []byte {
	if len(raw) > loop.Shared {
		return raw
	}
	return bytes.Clone(raw)
}

// Collector is a pipe.Receiver of one reply. Then is given it, or nil if there is none.
type Collector struct {
	Then  func(reply []byte)
	reply []byte
}

// Receive implements pipe.Receiver.
func (c *Collector) Receive(_ uint32, chunk []byte, last bool) {
	if c.reply = append(c.reply, chunk...); last {
		c.Then(c.reply)
	}
}

// Fail implements pipe.Receiver.
func (c *Collector) Fail(uint32, error) { c.Then(nil) }

// Discard implements pipe.Receiver.
func (c *Collector) Discard(uint32) bool {
	c.reply = nil
	return true
}

// Detour implements pipe.Receiver.
func (c *Collector) Detour(uint32) {}
