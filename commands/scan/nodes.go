package scan

import (
	"bytes"
	"slices"
	"strconv"

	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

// This file is SCAN while nothing happens: each master is gone through with its own cursor, in the
// order of their lowest slots. That order, and with it the slots which are done, hold as long as the layout
// is the same. And a cursor of Redis is good at the process only that made it, and for the keys only that
// were there all the time. So the tag of the cursor is made of
//
//   - the run id of the process,
//   - the epoch of its node's configuration, which changes when a slot comes to it that it has lost before,
//   - the layout.
//
// They are asked for when a master is begun and when it is done; and for each page between it is made sure
// that the tag is of the node which is asked. A cursor for a master that has yet to begin has the tag of the
// layout alone.

// facts are what a node says of itself when it is begun or done.
type facts struct {
	run  string
	view nodeView
	fine bool // it serves just what it is thought to serve, and no slot of it is moving
}

// text is what is noted of the node.
func (f *facts) text() string { return f.run + " " + f.view.epoch }

var (
	askNodes = resp.AppendCommandStrings(nil, "CLUSTER", "NODES")
	askRunID = resp.AppendCommandStrings(nil, "INFO", "server")
)

// questions are the requests that bring the facts.
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
	f.fine = f.run != "" && served(replies[0]) && f.view.slots != nil && len(f.view.moving) == 0
	i := s.nodes.Owner(s.first)
	f.fine = f.fine && s.owner(s.first) == s.at
	for n := 0; n < slot.Count && f.fine; n++ {
		f.fine = f.view.slots[n] == (s.nodes.Owner(n) == i)
	}
	return f
}

// master has the master go on that has the slot first.
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

// page asks for a page of keys, and before for what else there is to ask.
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

// begun says whether the facts, before a page, are as they must be. At the first page of a master they
// become its tag.
func (s *scanning) begun(f facts) bool {
	s.notes.Set(s.at.name, f.text())
	switch {
	case s.layout != s.notes.Layout(), // since the cursor was found to be for it
		s.node == 0 && !f.fine,
		s.node > 0 && !s.fits(f.text(), s.layout):
		return false
	}
	s.settle(f.text())
	return true
}

// settle makes the whole tag of what its bits are known to be of.
func (s *scanning) settle(text string) { s.tag, s.bits = tagOf(text, s.notes.Layout()), 0 }

// turn is the answer with the page that a node gave.
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

// nextPage goes on with the next master while keys, those of a master that is done, and what was found
// before are fewer than COUNT: a SCAN of little data ends with its first page, as it does at one Redis.
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

// failed shows the error of a node, unless there is another one in its place by now. Behind keys of masters
// that are done the client asks once more, and is shown it then.
func (s *scanning) failed(reply []byte) []byte {
	if s.count > 0 && s.node == 0 {
		return s.show(resp.EmptyArray)
	}
	if now := s.owner(s.first); now == s.at || now.addr == "" {
		return reply
	}
	return s.disturbed(resp.EmptyArray)
}

// disturbed gives up going by nodes. Where there are no slots, the one master is gone through from its start.
func (s *scanning) disturbed(keys []byte) []byte {
	next := scanCursor{kind: bySlot, first: s.first}
	if !s.clustered {
		next.kind = byNode
		next.tag = 1 // no cursor is 0 but the last one
	}
	s.scanCursor = next
	return s.show(keys)
}

// nextMaster is the lowest slot of the master that comes behind the one of the slot first.
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
