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

// facts are what a node says about itself when it is begun or done. The zero value is not fine, so a reply
// that cannot be read disturbs the scan.
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

// questions are the requests for the facts. Without slots there is one master, and only its process can
// change.
func (s *scanning) questions() [][]byte {
	if !s.clustered {
		return [][]byte{askRunID}
	}
	return [][]byte{askServed(s.first), askRunID, askNodes}
}

// readFacts takes the facts from the replies to questions. replies may have more behind those. fine needs
// each slot to be where the topology of this proxy has it: otherwise keys could be missed.
func (s *scanning) readFacts(replies [][]byte) (f facts) {
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

// scanMaster goes on with the master that has the slot first. What was noted of a node saves the questions
// for pages in between; if it is out of date, the facts at the end of the master tell.
func (s *scanning) scanMaster() []byte {
	s.at, s.layout = s.owner(s.first), s.notes.Layout()
	// the cursor 0, or one that begins again: its tag means nothing
	fresh := s.first == 0 && s.node == 0
	switch {
	case s.at.addr == "", s.node == 0 && !fresh && !s.fitsTag(s.notes.Layout()):
		return s.disturbed(resp.EmptyArray)
	case s.node != 0 && s.fitsTag(s.notes.Of(s.at.name), s.notes.Layout()):
		s.settleTag(s.notes.Of(s.at.name))
		s.askPage(nil)
	default:
		s.askPage(s.questions())
	}
	return nil
}

// askPage asks for a page of keys, after the requests in before. before is empty, or has the questions. They
// go over one connection, so the answers are of the same node in that order.
func (s *scanning) askPage(before [][]byte) {
	args := slices.Clone(s.args)
	args[1] = strconv.AppendUint(nil, s.node, 10)
	s.AskInTurn(s.at.addr, append(before, resp.AppendCommand(nil, args...)),
		func(_ int, replies [][]byte) []byte {
			if reply := replies[len(replies)-1]; resp.IsError(reply) {
				return s.failPage(reply)
			}
			if len(before) == 0 || s.checkFacts(s.readFacts(replies)) {
				return s.takePage(replies[len(before)])
			}
			return s.disturbed(resp.EmptyArray)
		})
}

// checkFacts says whether the facts, read before a page, are still right. With the first page of a master
// they become its tag. What the node said is noted, for the next page of any client.
func (s *scanning) checkFacts(f facts) bool {
	s.notes.Set(s.at.name, f.text())
	switch {
	case s.layout != s.notes.Layout(), // the layout has changed since the cursor was checked
		s.node == 0 && !f.fine,
		s.node > 0 && !s.fitsTag(f.text(), s.layout):
		return false
	}
	s.settleTag(f.text())
	return true
}

// settleTag makes the whole tag from the texts that its bits are known to match. A cursor may have lost some
// bits of the tag; here all of them are known again.
func (s *scanning) settleTag(text string) { s.tag, s.bits = tagOf(text, s.notes.Layout()), 0 }

// takePage answers with the page that a node gave. At the end of a master its facts are read once more: they
// must have held for the whole time.
func (s *scanning) takePage(reply []byte) []byte {
	elems, ok := resp.Elements(reply)
	if !ok || len(elems) != 2 {
		return resp.ErrUnexpected
	}
	keys := bytes.Clone(elems[1])
	if s.node, ok = bulkNumber(elems[0]); !ok {
		return resp.ErrUnexpected
	}
	if s.node != 0 {
		return s.showPage(keys)
	}
	s.AskInTurn(s.at.addr, s.questions(), func(_ int, replies [][]byte) []byte {
		f := s.readFacts(replies)
		if !f.fine || !s.fitsTag(f.text(), s.notes.Layout()) {
			return s.disturbed(keys)
		}
		s.first, s.tag, s.bits = s.nextMaster(), tagOf(s.notes.Layout()), 0
		return s.nextPage(keys)
	})
	return nil
}

// nextPage goes on with the next master while this command has found fewer keys than COUNT: a SCAN of little
// data ends with its first page, as at one Redis. keys, an array, are those of the last page of a master. The
// next master begins with the tag of the layout alone.
func (s *scanning) nextPage(keys []byte) []byte {
	if s.first == slot.Count || s.readOptions() != nil || s.Gone() {
		return s.showPage(keys)
	}
	if s.keepKeys(keys); len(s.keys) >= s.most {
		return s.showPage(resp.EmptyArray)
	}
	return s.scanMaster()
}

// failPage answers with the error of a node, unless another node has its place by now. If keys of earlier
// masters were found, they are returned first; the client asks again and gets the error then. If the master
// of the slot is another one by now, the error is taken for a part of that change.
func (s *scanning) failPage(reply []byte) []byte {
	if len(s.keys) > 0 && s.node == 0 {
		return s.showPage(resp.EmptyArray)
	}
	if now := s.owner(s.first); now == s.at || now.addr == "" {
		return reply
	}
	return s.disturbed(resp.EmptyArray)
}

// disturbed gives up going node by node. Without slots the one master is scanned from its start. What was
// found so far is shown all the same. Keys of slots from first on may come twice.
func (s *scanning) disturbed(keys []byte) []byte {
	next := scanCursor{kind: bySlot, first: s.first}
	if !s.clustered {
		next.kind = byNode

		next.tag = 1 // only the last cursor may be 0
	}
	s.scanCursor = next
	return s.showPage(keys)
}

// nextMaster is the lowest slot of the master behind that of the slot first. slot.Count: it was the last.
// Masters come in the order of their lowest slots.
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
