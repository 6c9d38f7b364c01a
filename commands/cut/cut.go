// Package cut cuts a command by the slots of its keys, and puts the replies to the parts together again.
//
//	MGET a b c --> New --> Cut: b of slot 3300, c of 7365, a of 15495 --> Parts: a command each
//	[B] [C] [A] --> Cut.Join --> [A B C]
//
// A Cut knows the sizes of its parts before they are made, so that a long command is made in pieces.
package cut

import (
	"runtime"
	"slices"

	"lockproxy/commands/merge"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"

	"github.com/tidwall/redcon"
)

// Part is the part of a command that goes to one slot. A node refuses keys of several slots in one command
// even if it serves them all. A node may hold several of them; they are sent one by one.
type Part struct {
	Slot    int
	Place   int    // among the parts of its command
	Request []byte // a whole command
}

// New cuts a command with keys from argument first on, each of step arguments, and tail arguments behind the
// last key's. nil: the arguments make no sense. It costs a sort of the keys; long commands are cut on a
// goroutine. The arguments must stay as they are for as long as the Cut is used.
func New(args [][]byte, first, step, tail int) *Cut {
	end := len(args) - tail
	if end <= first || (end-first)%step != 0 {
		return nil
	}
	c := &Cut{args: args, first: first, end: end, step: step}
	c.sortKeys((end - first) / step)
	c.measureParts()
	return c
}

// Cut is how the keys of a command, and what belongs to each, lie on slots. It aliases the arguments of the
// command. Its methods may be called from several goroutines at once.
type Cut struct {
	args             [][]byte
	first, end, step int
	positions        []int32 // of the keys among the keys of the command, by slot
	slots            []slotKeys
}

// slotKeys are the keys of one slot, from the end of those of the slot before on. Slots and positions have 32
// bits, since a long command may have millions of keys.
type slotKeys struct {
	slot int32
	to   int32 // of positions
	size int   // of the request in bytes; while the keys are sorted, of their share in it
}

// sortKeys sorts n keys by slot, and keys of one slot by their positions. Slot and position are packed into
// one number, which sorts much faster than a pair.
func (c *Cut) sortKeys(n int) {
	packed := make([]uint64, n)
	for i := range packed {
		packed[i] = uint64(slot.Of(c.key(i)))<<32 | uint64(i)
	}
	slices.Sort(packed)
	c.positions = make([]int32, n)
	for at, p := range packed {
		i, s := int32(uint32(p)), int32(p>>32)
		c.positions[at] = i
		if last := len(c.slots) - 1; last < 0 || c.slots[last].slot != s {
			c.slots = append(c.slots, slotKeys{slot: s})
		}
		k := &c.slots[len(c.slots)-1]
		k.to, k.size = int32(at+1), k.size+c.share(int(i))
	}
}

// measureParts works out the sizes of the requests from the shares of the keys. What stands in front of the
// keys and behind them goes into each request.
func (c *Cut) measureParts() {
	fixed := 0
	for _, args := range [][][]byte{c.args[:c.first], c.args[c.end:]} {
		for _, arg := range args {
			fixed += bulkSize(arg)
		}
	}
	from := 0
	for i := range c.slots {
		k := &c.slots[i]
		k.size += fixed + headerSize(c.first+(int(k.to)-from)*c.step+len(c.args)-c.end)
		from = int(k.to)
	}
}

// key is the i-th key of the command.
func (c *Cut) key(i int) []byte { return c.args[c.first+i*c.step] }

// share is how many bytes the i-th key and what belongs to it take up in a request.
func (c *Cut) share(i int) (size int) {
	at := c.first + i*c.step
	for _, arg := range c.args[at : at+c.step] {
		size += bulkSize(arg)
	}
	return size
}

// Len is how many parts there are.
func (c *Cut) Len() int { return len(c.slots) }

// Slot is that of the i-th part. They come by slot.
func (c *Cut) Slot(i int) int { return int(c.slots[i].slot) }

// SizeOf is how many bytes the i-th part has.
func (c *Cut) SizeOf(i int) int { return c.slots[i].size }

// All makes all parts.
func (c *Cut) All() []Part {
	which := make([]int32, len(c.slots))
	for i := range which {
		which[i] = int32(i)
	}
	return c.Parts(which)
}

// Parts makes some of the parts. They do not alias the arguments, and lie one behind the other in memory of
// their own. which are places of parts, and the result is in their order.
func (c *Cut) Parts(which []int32) []Part {
	size := 0
	for _, i := range which {
		size += c.slots[i].size
	}
	// It never grows, so the requests stay where they are.
	all := make([]byte, 0, size)
	parts := make([]Part, 0, len(which))
	for _, i := range which {
		from := len(all)
		all = c.appendPart(all, int(i))
		parts = append(parts, Part{Slot: c.Slot(int(i)), Place: int(i), Request: all[from:]})
	}
	return parts
}

// appendPart appends the request of the i-th part.
func (c *Cut) appendPart(dst []byte, i int) []byte {
	from := 0
	if i > 0 {
		from = int(c.slots[i-1].to)
	}
	positions := c.positions[from:c.slots[i].to]
	dst = redcon.AppendArray(dst, c.first+len(positions)*c.step+len(c.args)-c.end)
	for _, arg := range c.args[:c.first] {
		dst = redcon.AppendBulk(dst, arg)
	}
	for ; len(positions) > 0; positions = positions[min(ahead, len(positions)):] {
		near := positions[:min(ahead, len(positions))]
		c.fetchKeys(near)
		for _, position := range near {
			at := c.first + int(position)*c.step
			for _, arg := range c.args[at : at+c.step] {
				dst = redcon.AppendBulk(dst, arg)
			}
		}
	}
	for _, arg := range c.args[c.end:] {
		dst = redcon.AppendBulk(dst, arg)
	}
	return dst
}

// ahead is how many keys are fetched at a time. The keys of one slot lie anywhere in a long command, and
// memory that is far away is fetched several times faster when nothing waits for each piece of it.
const ahead = 16

// fetchKeys loads the beginnings of keys into the cache.
func (c *Cut) fetchKeys(positions []int32) {
	sum := byte(0)
	for _, position := range positions {
		if key := c.key(int(position)); len(key) > 0 {
			sum |= key[0] | key[len(key)-1]
		}
	}
	if sum == 0 { // never matters, but keeps the compiler from leaving the loads out
		runtime.KeepAlive(c)
	}
}

// headerSize is how many bytes the line with a length takes.
func headerSize(n int) int {
	size := 4 // its kind, a digit, and the end of the line
	for ; n > 9; n /= 10 {
		size++
	}
	return size
}

// bulkSize is how many bytes arg takes up in a command.
func bulkSize(arg []byte) int { return headerSize(len(arg)) + len(arg) + 2 }

// Join is the Merge that puts the elements of the parts' replies back in the order of the keys. Each reply is
// an array with an element for each key of its part. If there are too few or too many in all, the order is
// not known, and the answer is an error.
func (c *Cut) Join(_ int, replies [][]byte) []byte {
	positions := c.positions // which come by slot
	if err := merge.FirstError(replies); err != nil {
		return err
	}
	ordered := make([][]byte, len(positions))
	size := 16
	for _, reply := range replies {
		n, body, ok := resp.Aggregate(reply)
		if !ok || n > len(positions) {
			return resp.ErrUnexpected
		}
		for range n {
			var f resp.Framer
			used, done, err := f.Next(body)
			if err != nil || !done {
				return resp.ErrUnexpected
			}
			// Its capacity ends with it, so that nothing can be appended into the next one.
			ordered[positions[0]], body = body[:used:used], body[used:]
			positions = positions[1:]
			size += used
		}
	}
	if len(positions) > 0 {
		return resp.ErrUnexpected
	}
	out := redcon.AppendArray(make([]byte, 0, size), len(ordered))
	for _, elem := range ordered {
		out = append(out, elem...)
	}
	return out
}
