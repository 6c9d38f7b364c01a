package commands

import (
	"slices"

	"lockproxy/internal/resp"
	"lockproxy/internal/slot"

	"github.com/tidwall/redcon"
)

// Part is what of a command goes to one slot. A node refuses keys of several
// slots in one command even when it serves them all.
type Part struct {
	Slot    int
	Request []byte // a whole command
}

// SplitBySlot cuts a command whose Route is Split: the parts, and the Merge that
// makes one reply of theirs. What stands before the first key and behind the last
// one goes into each part. The parts do not alias args; there are none when the
// arguments make no sense.
func (c *Command) SplitBySlot(args [][]byte) ([]Part, Merge) {
	first := max(c.first, 1)
	end := len(args) - c.tail
	if end <= first || (end-first)%c.Step != 0 {
		return nil, nil
	}
	keys := make([]splitKey, (end-first)/c.Step)
	for i := range keys {
		keys[i] = splitKey{slot.Of(args[first+i*c.Step]), i}
	}
	slices.SortFunc(keys, func(a, b splitKey) int {
		if a.slot != b.slot {
			return a.slot - b.slot
		}
		return a.position - b.position
	})
	var parts []Part
	var request [][]byte
	for rest := keys; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].slot == rest[0].slot {
			n++
		}
		request = append(request[:0], args[:first]...)
		for _, k := range rest[:n] {
			at := first + k.position*c.Step
			request = append(request, args[at:at+c.Step]...)
		}
		request = append(request, args[end:]...)
		size := 32
		for _, arg := range request {
			size += len(arg) + 16 // "$", its length and the ends of lines
		}
		parts = append(parts, Part{rest[0].slot, resp.AppendCommand(make([]byte, 0, size), request...)})
		rest = rest[n:]
	}
	if c.Merge != nil {
		return parts, c.Merge
	}
	return parts, func(_ int, replies [][]byte) []byte { return byPosition(keys, replies) }
}

// splitKey is the key at a position among the keys of a command.
type splitKey struct{ slot, position int }

// byPosition puts the elements of the parts' replies back in the order of the
// keys.
func byPosition(keys []splitKey, replies [][]byte) []byte {
	if err := firstError(replies); err != nil {
		return err
	}
	ordered := make([][]byte, len(keys))
	size := 16
	for _, reply := range replies {
		elems, ok := elements(reply)
		if !ok || len(elems) > len(keys) {
			return errUnexpected
		}
		for i, elem := range elems {
			ordered[keys[i].position] = elem
			size += len(elem)
		}
		keys = keys[len(elems):]
	}
	if len(keys) > 0 {
		return errUnexpected
	}
	out := redcon.AppendArray(make([]byte, 0, size), len(ordered))
	for _, elem := range ordered {
		out = append(out, elem...)
	}
	return out
}
