package scan

import (
	"bytes"
	"slices"
	"strconv"

	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

// This file is SCAN while nothing changes: each master is scanned with its own cursor, in the order of their
// lowest slots. That order, and hence which slots are done, holds only as long as the layout stays the same.
// And a cursor of Redis is good only in the process that made it, and only for keys that stay there. So the
// tag of the cursor is made of
//
//   - the run id of the process,
//   - the epoch of its node's configuration, which changes when a slot returns to it that it had lost,
//   - the layout.
//
// They are read when a master is begun and when it is done. For each page in between it is checked that the
// node being asked is the one of the tag. A cursor for a master that has not been asked yet has the tag of
// the layout alone.

// facts are what a node says about itself when it is begun or done.
type facts struct {
	run  string
	view nodeView
	fine bool // it serves exactly the slots it is believed to serve, and none is moving
}

// text is the part of the facts that goes into the tag.
func (f *facts) text() string { return f.run + " " + f.view.epoch }

var (
	askNodes = resp.AppendCommandStrings(nil, "CLUSTER", "NODES")
	askRunID = resp.AppendCommandStrings(nil, "INFO", "server")
)

// questions are the requests for the facts.
func (s *scanning) questions() [][]byte {
	if !s.clustered {
		return [][]byte{askRunID}
	}
	return [][]byte{askServed(s.first), askRunID, askNodes}
}

// read takes the facts from the replies to questions.
func (s *scanning) read(replies [][]byte) (f facts) {
	if !s.clustered {
		f.run = runID(replies[0])
		f.fine = f.run != ""
		return f
	}
	f.run, f.view = runID(replies[1]), parseNodeView(replies[2])
	f.fine = f.run != "" && served(replies[0]) && f.view.settled()
	i := s.nodes.Owner(s.first)
	f.fine = f.fine && s.owner(s.first) == s.at
	for n := 0; n < slot.Count && f.fine && !f.view.blind; n++ {
		f.fine = f.view.slots[n] == (s.nodes.Owner(n) == i)
	}
	return f
}

// master goes on with the master that has the slot first.
func (s *scanning) master() []byte {
	s.at, s.layout = s.owner(s.first), s.notes.Layout()
	fresh := s.first == 0 && s.node == 0
	switch {
	case s.at.addr == "", s.node == 0 && !fresh && !s.fits(s.notes.Layout()):
		return s.disturbed(resp.EmptyArray)
	case s.node != 0 && s.fits(s.notes.Of(s.at.name), s.notes.Layout()):
		s.settle(s.notes.Of(s.at.name))
		s.page(nil)
	default:
		s.page(s.questions())
	}
	return nil
}

// page asks for a page of keys, after the requests in before.
func (s *scanning) page(before [][]byte) {
	args := slices.Clone(s.args)
	args[1] = strconv.AppendUint(nil, s.node, 10)
	s.AskInTurn(s.at.addr, append(before, resp.AppendCommand(nil, args...)),
		func(_ int, replies [][]byte) []byte {
			if reply := replies[len(replies)-1]; resp.IsError(reply) {
				return s.failed(reply)
			}
			if len(before) == 0 || s.begun(s.read(replies)) {
				return s.turn(replies[len(before)])
			}
			return s.disturbed(resp.EmptyArray)
		})
}

// begun says whether the facts, read before a page, are still right. With the first page of a master they
// become its tag.
func (s *scanning) begun(f facts) bool {
	s.notes.Set(s.at.name, f.text())
	switch {
	case s.layout != s.notes.Layout(), // the layout has changed since the cursor was checked
		s.node == 0 && !f.fine,
		s.node > 0 && !s.fits(f.text(), s.layout):
		return false
	}
	s.settle(f.text())
	return true
}

// settle makes the whole tag from the texts that its bits are known to match.
func (s *scanning) settle(text string) { s.tag, s.bits = tagOf(text, s.notes.Layout()), 0 }

// turn answers with the page that a node gave.
func (s *scanning) turn(reply []byte) []byte {
	elems, ok := resp.Elements(reply)
	if !ok || len(elems) != 2 {
		return resp.ErrUnexpected
	}
	keys := bytes.Clone(elems[1])
	if s.node, ok = bulkNumber(elems[0]); !ok {
		return resp.ErrUnexpected
	}
	if s.node != 0 {
		return s.show(keys)
	}
	s.AskInTurn(s.at.addr, s.questions(), func(_ int, replies [][]byte) []byte {
		f := s.read(replies)
		if !f.fine || !s.fits(f.text(), s.notes.Layout()) {
			return s.disturbed(keys)
		}
		s.first, s.tag, s.bits = s.nextMaster(), tagOf(s.notes.Layout()), 0
		return s.nextPage(keys)
	})
	return nil
}

// nextPage goes on with the next master while this command has found fewer keys than COUNT: a SCAN of little
// data ends with its first page, as at one Redis.
func (s *scanning) nextPage(keys []byte) []byte {
	var o slotScan
	o.count = defaultCount
	if s.first == slot.Count || o.options(s.args[2:]) != nil || s.Gone() {
		return s.show(keys)
	}
	if s.keep(keys); s.count >= o.count {
		return s.show(resp.EmptyArray)
	}
	return s.master()
}

// failed answers with the error of a node, unless another node has its place by now. If keys of earlier
// masters were found, they are returned first; the client asks again and gets the error then.
func (s *scanning) failed(reply []byte) []byte {
	if s.count > 0 && s.node == 0 {
		return s.show(resp.EmptyArray)
	}
	if now := s.owner(s.first); now == s.at || now.addr == "" {
		return reply
	}
	return s.disturbed(resp.EmptyArray)
}

// disturbed gives up going node by node. Without slots the one master is scanned from its start.
func (s *scanning) disturbed(keys []byte) []byte {
	next := scanCursor{kind: bySlot, first: s.first}
	if !s.clustered {
		next.kind = byNode
		next.tag = 1 // only the last cursor may be 0
	}
	s.scanCursor = next
	return s.show(keys)
}

// nextMaster is the lowest slot of the master behind that of the slot first.
func (s *scanning) nextMaster() int {
	seen := make(map[int]bool)
	for n := range slot.Count {
		if owner := s.nodes.Owner(n); owner >= 0 && !seen[owner] {
			seen[owner] = true
			if n > s.first {
				return n
			}
		}
	}
	return slot.Count
}
