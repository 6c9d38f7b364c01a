package scan

import (
	"bytes"
	"strconv"

	"github.com/tidwall/redcon"

	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

// scan is SCAN cursor [MATCH pattern] [COUNT n] [TYPE type]. In front of one Redis the cursors are its own.
// With several masters, or a master that another may replace, they are scanCursors:
//
//	byNode: master, master, master, end
//	           \ slots move, or another process has taken over
//	bySlot:     slot, slot, slot, slot ... end
//
// While nothing changes each master is scanned with its own cursor. When something does, the slots that are
// not done are read slot by slot, to the end: such a page is made in one instant, so nothing can disturb it,
// and the scan ends whatever happens. A single Redis that nobody can take over from has no need of all that.
func scan(c *commands.Call) []byte {
	if c.Nodes().Single() || c.Nodes().Masters() == 0 {
		c.Forward(commands.AnySlot)
		return nil
	}
	cursor, ok := parseScanCursor(c.Args[1])
	if !ok {
		return errCursor
	}
	s := &scanning{Actions: c.Actions, nodes: c.Nodes(), notes: c.Nodes().Notes(),
		clustered: c.Server.Clustered(), scanCursor: cursor,
		args: resp.CloneArgs(c.Args), // they are sent again when the call has ended
	}
	if s.kind == bySlot {
		return s.scanSlots()
	}
	return s.scanMaster()
}

// scanning is one SCAN on its way. Its methods return the answer, or nil when nodes have been asked. It stays
// on the loop of its client, but for what runApart has a goroutine do meanwhile.
type scanning struct {
	commands.Actions
	nodes commands.Nodes
	notes commands.Notes
	scanCursor
	clustered     bool
	args          [][]byte
	match, ofType []byte // options; nil: any
	most          int    // keys, by COUNT
	at            place
	layout        string   // byNode: when the command began
	keys          [][]byte // of masters or slots that this command has finished, as bulk strings

	// bySlot. The batch is doubled with each that went well, and 1 again when something has moved.
	batch int // slots to ask for at once
	done  int // slots
	tries int // attempts at the first slot
}

// place is a node to ask. Two are the same node if both are the same: a node may come back at another
// address, and another one at this. The zero value is nobody.
type place struct {
	name, addr string
}

// owner is the master of slot n, by the topology of now.
func (s *scanning) owner(n int) place {
	i := s.nodes.Owner(n)
	if i < 0 {
		return place{}
	}
	return place{s.nodes.Name(i), s.nodes.Addr(i)}
}

// showPage answers with a page of keys, an array, behind those of masters that are finished. The cursor is 0
// once all slots are done.
func (s *scanning) showPage(keys []byte) []byte {
	if len(s.keys) > 0 {
		s.keepKeys(keys)
		keys = s.joinKeys()
	}
	n := uint64(0)
	if s.first < slot.Count {
		var ok bool
		if n, ok = s.number(); !ok {
			return errScanRoom
		}
	}
	return appendScan(nil, n, keys)
}

// keepKeys adds keys, an array, to those to be shown. It does not copy them.
func (s *scanning) keepKeys(keys []byte) {
	all, _ := resp.Elements(keys)
	s.keys = append(s.keys, all...)
}

// joinKeys makes an array of the keys.
func (s *scanning) joinKeys() []byte {
	return append(redcon.AppendArray(nil, len(s.keys)), bytes.Join(s.keys, nil)...)
}

var errScanRoom = []byte("-ERR the cursor of the node is too large for SCAN through lockproxy\r\n")

// appendScan appends the reply to SCAN: cursor, and keys, which are an array.
func appendScan(dst []byte, cursor uint64, keys []byte) []byte {
	dst = redcon.AppendArray(dst, 2)
	dst = redcon.AppendBulk(dst, strconv.AppendUint(nil, cursor, 10))
	return append(dst, keys...)
}

// bulkNumber is the unsigned number that a bulk string spells.
func bulkNumber(elem []byte) (uint64, bool) {
	text, ok := resp.BulkReply(elem)
	n, err := strconv.ParseUint(string(text), 10, 64)
	return n, ok && err == nil
}

var errCursor = []byte("-ERR invalid cursor\r\n")
