package scan

import (
	"hash/fnv"
	"strconv"
)

// A cursor of SCAN over several nodes contains all that is needed to go on, so that any proxy can:
//
//	63                                 17     3     0
//	| cursor of the node | tag | first slot | form |
//
// All keys of slots below the first slot have been returned. The cursor 0 begins a scan, and 0 as an answer
// ends it, as in Redis: so the cursors in between are never 0.
type scanCursor struct {
	kind  scanKind
	first int    // the first slot that is not done
	tag   uint64 // byNode: hash of what must not change while a master is scanned; see nodes.go
	bits  uint   // bits of the tag that are known; 0: all of them
	node  uint64 // byNode: the cursor of the master; 0: it has not been asked yet
}

// scanKind says how the keys from the first slot on are found. A scan may go from byNode to bySlot, and never
// back.
type scanKind uint8

const (
	byNode scanKind = iota // master by master, in the order of their lowest slots, with their own cursors
	bySlot                 // slot by slot
)

// scanForms are the layouts of a cursor's bits. The first one of a kind that has room for the cursor of the
// node is taken: that of a large table needs more bits, which leaves less for the tag. The index is the form.
// A form must not change its meaning while cursors of an older version may be about: new ones go behind the
// last.
var scanForms = [...]struct {
	kind      scanKind
	tag, node uint
}{
	{byNode, 20, 16}, // as long as it stays below 2^53, the integers that JavaScript has
	{byNode, 13, 23},
	{byNode, 12, 34},
	{byNode, 4, 42},
	{bySlot, 0, 0},
}

// slotBits are for 16384 slots. The end, slot.Count, needs no bit more: its cursor is 0.
const (
	formBits = 3
	slotBits = 14
	slotMask = 1<<slotBits - 1
)

// parseScanCursor reads the cursor that a client gives. It is wrong if no cursor of ours has these bits, such
// as one of a node.
func parseScanCursor(arg []byte) (c scanCursor, ok bool) {
	n, err := strconv.ParseUint(string(arg), 10, 64)
	form := n & (1<<formBits - 1)
	if err != nil || n>>63 != 0 || form >= uint64(len(scanForms)) {
		return scanCursor{}, false
	}
	f := scanForms[form]
	n >>= formBits
	c = scanCursor{kind: f.kind, first: int(n & slotMask), bits: f.tag}
	n >>= slotBits
	c.tag = n & (1<<f.tag - 1)
	c.node = n >> f.tag
	// more bits than the form has
	return c, c.node>>f.node == 0
}

// number is c as clients get it. It reports false if the cursor of the node has no room.
func (c scanCursor) number() (n uint64, ok bool) {
	for form, f := range scanForms {
		if f.kind != c.kind || c.node>>f.node != 0 {
			continue
		}
		n = c.node<<f.tag | c.tag&(1<<f.tag-1)
		n = n<<slotBits | uint64(c.first)
		return n<<formBits | uint64(form), true
	}
	return 0, false
}

// fitsTag says whether the tag of c, which may have been cut, matches the hash what. The shortest tag has
// four bits, and fits by chance one time in sixteen; only cursors of a node with more than 34 bits are left
// with that.
func (c scanCursor) fitsTag(what ...string) bool {
	tag := tagOf(what...)
	if c.bits > 0 {
		tag &= 1<<c.bits - 1
	}
	return c.tag == tag
}

// tagOf makes the tag of texts, not cut. Texts are ended by NUL, so "a", "bc" and "ab", "c" differ.
func tagOf(what ...string) uint64 {
	h := fnv.New64a()
	for _, w := range what {
		h.Write([]byte(w))
		h.Write([]byte{0})
	}
	n := h.Sum64()
	return n ^ n>>32 // the low bits are the ones that are kept
}
