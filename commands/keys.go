package commands

import (
	"errors"

	"lockproxy/commands/cut"
	"lockproxy/internal/slot"
)

// What Slot says when it cannot name one slot.
var (
	ErrCrossSlot = errors.New("CROSSSLOT Keys in request don't hash to the same slot")
	ErrAskKeys   = errors.New("commands: a node must be asked for the keys (COMMAND GETKEYS)")
)

// Slot is the slot of the keys in args, a whole command. AnySlot: it has no keys, or its arguments make no
// sense; then the node that gets it gives the error.
//
// The errors are ErrCrossSlot for keys of several slots, and ErrAskKeys for a command whose keys only Redis
// itself can find.
func (c *Command) Slot(args [][]byte) (int, error) {
	if c.key > 0 {
		if c.key >= len(args) {
			return AnySlot, nil
		}
		return slot.Of(args[c.key]), nil
	}
	if c.askKeys {
		return AnySlot, ErrAskKeys
	}
	found := AnySlot
	for i := range c.Keys {
		at, last, step, ok := c.Keys[i].span(args)
		for ; ok && at <= last; at += step {
			n := slot.Of(args[at])
			if found != AnySlot && found != n {
				// The number of arguments is wrong, and then that is the error, as in Redis.
				if !c.Fits(len(args)) {
					return AnySlot, nil
				}
				return AnySlot, ErrCrossSlot
			}
			found = n
		}
	}
	return found, nil
}

// KeyIndexes are the positions of the keys in args that the key specs find, in
// the order of the specs; behind them those of its inner command.
func (c *Command) KeyIndexes(args [][]byte) []int {
	var found []int
	for i := range c.Keys {
		at, last, step, ok := c.Keys[i].span(args)
		for ; ok && at <= last; at += step {
			found = append(found, at)
		}
	}
	if inner, begin := c.Inner(args); inner != nil {
		for _, at := range inner.KeyIndexes(args[begin:]) {
			found = append(found, begin+at)
		}
	}
	return found
}

// ReadsKeys says that the command reads keys and does nothing else, so that a replica can answer it.
func (c *Command) ReadsKeys() bool { return c.reads }

// settleKeys works out what Slot needs to be quick. For a command with one key at a fixed place, as most are,
// Slot does without KeySpecs.
func settleKeys(c *Command) {
	c.key, c.askKeys = 0, false
	c.reads = len(c.Keys) > 0 && c.Flags&(ReadOnly|Write|AtMaster) == ReadOnly && c.Route != AllNodes
	for _, k := range c.Keys {
		c.askKeys = c.askKeys || k.Unknown || k.Incomplete
	}
	if len(c.Keys) == 1 && !c.askKeys {
		if k := c.Keys[0]; k.Keyword == "" && !k.Counted && k.Last == 0 {
			c.key = k.Begin
		}
	}
}

// KeyAt is the position of the one key that decides where the command goes; 0: there is no such one.
func (c *Command) KeyAt() int { return c.key }

// Streams says that the command may go to its node as it comes: its first arguments tell where it goes, the
// node judges all else, and it is one that may be long. So the rest of it is forwarded while it still comes,
// and never stands in memory as a whole.
func (c *Command) Streams() bool {
	return c.Route == ByKeys && c.plain && c.key > 0 && c.Flags&(Write|Scripted|Alone|LockVerb) == Write
}

// CutBySlot says how to cut a command whose Route is Split, and gives the Merge that makes one reply of the
// replies to the parts. The arguments before the first key and behind the last one go into each part. The Cut
// is nil if the arguments make no sense.
func (c *Command) CutBySlot(args [][]byte) (*cut.Cut, Merge) {
	parts := cut.New(args, max(c.FirstKey, 1), c.Step, c.tail)
	switch {
	case parts == nil:
		return nil, nil
	case c.Merge != nil:
		return parts, c.Merge
	}
	return parts, parts.Join
}
