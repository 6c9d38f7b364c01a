package scan

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/commands/cut"
	"lockproxy/commands/merge"
	"lockproxy/internal/glob"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

// This file is SCAN slot by slot. All keys of a slot come in one reply of the node that serves it, so they
// are those of one instant. Before and after, the node is asked about its slots:
//
//	[EXISTS, CLUSTER NODES, GETKEYSINSLOT 7, GETKEYSINSLOT 8 ..., CLUSTER NODES] --> node
//
// A slot is done if the node served it both times and was not handing it over. The keys of a slot that is
// being handed over are read at that node and then at the next: keys move in that direction only.

const (
	// defaultCount is the default of COUNT.
	defaultCount = 10
	// maxScanSlots bounds the slots of one page.
	maxScanSlots = 1024
	// maxSlotKeys bounds the keys of a slot that is read in one piece.
	maxSlotKeys = 1_000_000
	// maxPick is how long keys are matched before it is checked that the client is still there.
	maxPick = 100 * time.Millisecond
	// maxScanTries bounds how often one page asks for a slot that moves meanwhile.
	maxScanTries = 8
)

// The whole slot comes in one reply, so there has to be a bound.
var errScanSlot = resp.ErrorLine("ERR SCAN goes slot by slot as slots have moved or nodes have failed "+
	"over, and a slot has more than %d keys: begin anew", maxSlotKeys)

// scanSlots goes on with the first slot. A page ends when it has enough keys, or has done enough slots, or
// the first one does not come to rest. The keys of a slot come in whichever order, so a page has no cursor
// inside a slot: it ends between two.
func (s *scanning) scanSlots() []byte {
	if err := s.readOptions(); err != nil {
		return err
	}
	s.batch = 1
	return s.nextSlots()
}

// readOptions reads what follows the cursor. It returns an error reply if that is wrong. They are those of
// Redis. match and ofType alias args.
func (s *scanning) readOptions() []byte {
	s.most = defaultCount
	for args := s.args[2:]; len(args) > 0; args = args[2:] {
		if len(args) == 1 {
			return resp.ErrSyntax
		}
		switch value := args[1]; strings.ToLower(string(args[0])) {
		case "match":
			s.match = value
		case "type":
			s.ofType = value
		case "count":
			n, err := strconv.Atoi(string(value))
			if err != nil {
				return resp.ErrInteger
			}
			if n < 1 {
				return resp.ErrSyntax
			}
			s.most = n
		default:
			return resp.ErrSyntax
		}
	}
	return nil
}

// askServed is a read that the node of a slot answers with an integer, and any other with an error. The key
// hashes to the slot, and need not be there.
func askServed(n int) []byte { return resp.AppendCommandStrings(nil, "EXISTS", slot.Tag(n)) }

// served says whether the reply to askServed comes from a node that serves the slot. A node that lets this
// user read no key does not tell. A node that hands the slot over answers -ASK for a key that it does not
// have (any more): it still serves it.
func served(reply []byte) bool {
	return !resp.IsError(reply) || bytes.HasPrefix(reply, []byte("-ASK ")) ||
		bytes.HasPrefix(reply, []byte("-NOPERM"))
}

// askKeys asks for all keys of a slot.
func askKeys(n int) []byte {
	return resp.AppendCommandStrings(nil, "CLUSTER", "GETKEYSINSLOT", strconv.Itoa(n),
		strconv.Itoa(maxSlotKeys))
}

// nextSlots asks for further slots of one node, or ends the page. Nobody serves a slot that has no owner, so
// it is passed over: no node could have its keys.
func (s *scanning) nextSlots() []byte {
	for s.first < slot.Count && s.nodes.Owner(s.first) < 0 {
		s.first++ // nobody serves it
	}
	if s.first >= slot.Count || len(s.keys) >= s.most || s.done >= maxScanSlots || s.tries >= maxScanTries {
		return s.endPage()
	}
	s.at = s.owner(s.first)
	n := 1
	for n < s.batch && s.first+n < slot.Count && s.owner(s.first+n) == s.at {
		n++
	}
	s.askSlots(n)
	return nil
}

// askSlots asks the node at s.at for n slots. All requests are behind each other on one connection: between
// the two looks at CLUSTER NODES stand all the keys.
func (s *scanning) askSlots(n int) {
	reqs := [][]byte{askServed(s.first), askNodes}
	for i := range n {
		reqs = append(reqs, askKeys(s.first+i))
	}
	s.AskInTurn(s.at.addr, append(reqs, askNodes), func(_ int, replies [][]byte) []byte {
		if !served(replies[0]) {
			return s.astray(replies[0])
		}
		s.pickKeys(replies[2:2+n], func(picked []keysFound) []byte {
			return s.takeSlots(parseNodeView(replies[1]), picked, parseNodeView(replies[2+n]))
		})
		return nil
	})
}

// keysFound are the keys of a slot that match, or an error reply.
type keysFound struct {
	keys [][]byte
	err  []byte
}

// pickKeys makes a goroutine pick the matching keys out of replies that have the keys of a slot each: there
// may be a million, and each may take long. then goes on with the first slots, at least one. picked may be
// shorter than replies, in which case the rest is asked for again. The replies are not written to any more,
// so a goroutine may read them.
func (s *scanning) pickKeys(replies [][]byte, then func(picked []keysFound) []byte) {
	var picked []keysFound
	s.runApart(func() {
		for began := time.Now(); len(picked) < len(replies) && (len(picked) == 0 ||
			time.Since(began) < maxPick); {
			picked = append(picked, findKeys(replies[len(picked)], s.match))
		}
	}, func() []byte { return then(picked) })
}

// runApart runs task on a goroutine, and goes on with then if the client is still there. Nothing else of the
// client runs meanwhile, so task may use s. An answer for a client that has gone goes nowhere.
func (s *scanning) runApart(task func(), then func() []byte) {
	s.Await(func(done func([]byte)) {
		go func() { // ends by itself
			task()
			done(nil)
		}()
	}, func([]byte) []byte {
		if s.Gone() {
			return resp.EmptyArray
		}
		return then()
	}, nil)
}

// astray handles a node that does not serve the first slot. reply is its answer to askServed. Usually it is
// -MOVED: then the topology of the proxy is older than the cluster.
func (s *scanning) astray(reply []byte) []byte {
	s.tries++
	if words := strings.Fields(string(reply)); len(words) == 3 && words[0] == "-MOVED" &&
		!strings.HasPrefix(words[2], ":") && !strings.HasPrefix(words[2], "?") && s.tries < maxScanTries {
		s.at = place{addr: words[2]} // the node that it names, whatever the topology says
		s.askSlots(1)
		return nil
	}
	// An ordinary read waits until some node serves the slot, for as long as its budget lasts.
	s.Ask(pipe.ToSlot(s.first), askServed(s.first), commands.Reread, func(reply []byte) []byte {
		if resp.IsError(reply) {
			return reply
		}
		return s.nextSlots()
	})
	return nil
}

// takeSlots takes the keys of the slots that are surely done. If the epoch has changed, a slot may have been
// elsewhere in between. picked are the keys of the slots from first on, before and after what the node said
// of itself around them. A slot that cannot be taken is asked for again, alone or at the start of the next
// batch.
func (s *scanning) takeSlots(before nodeView, picked []keysFound, after nodeView) []byte {
	if before.epoch != after.epoch {
		s.tries, s.batch = s.tries+1, 1
		return s.nextSlots()
	}
	for i, found := range picked {
		switch from, to := before.target(s.first), after.target(s.first); {
		case !before.hasSlot(s.first) || !after.hasSlot(s.first) || from != to:
			s.tries++
			return s.nextSlots()
		// One that is being handed over is followed when it is the first.
		case from != "" && i > 0:
			return s.nextSlots()
		case from != "":
			return s.followSlot(found, after, to)
		}
		if found.err != nil {
			return found.err
		}
		s.keys = append(s.keys, found.keys...)
		s.visited()
	}
	s.batch *= 2
	return s.nextSlots()
}

// visited marks the first slot as done.
func (s *scanning) visited() { s.first, s.done, s.tries = s.first+1, s.done+1, 0 }

// followSlot finishes a slot that is being handed over, according to before. here has the keys that were
// still at s.at. A key is at one of both nodes whenever it is looked for in this order, since none goes back.
// At the end the first node is asked whether the slot was on its way all the time.
func (s *scanning) followSlot(here keysFound, before nodeView, to string) []byte {
	addr := s.addrOf(to, before)
	if addr == "" {
		return resp.ErrUnexpected
	}
	s.AskInTurn(addr, [][]byte{askKeys(s.first)}, func(_ int, replies [][]byte) []byte {
		s.pickKeys(replies, func(there []keysFound) []byte {
			s.AskInTurn(s.at.addr, [][]byte{askNodes}, func(_ int, replies [][]byte) []byte {
				if v := parseNodeView(replies[0]); !v.hasSlot(s.first) || v.target(s.first) != to ||
					v.epoch != before.epoch {
					s.tries++
					return s.nextSlots()
				}
				for _, found := range append([]keysFound{here}, there...) {
					if found.err != nil {
						return found.err
					}
					s.keys = append(s.keys, found.keys...)
				}
				s.visited()
				return s.nextSlots()
			})
			return nil
		})
		return nil
	})
	return nil
}

// addrOf is where the node of that id is reached: as the topology has it, else by what v says of it, a name
// if the topology has names. "": nobody says it.
func (s *scanning) addrOf(id string, v nodeView) string {
	for i := range s.nodes.Masters() {
		if s.nodes.Name(i) == id {
			return s.nodes.Addr(i)
		}
	}
	if name := v.names[id]; name != "" && cluster.Named(s.at.addr) {
		return name
	}
	return v.addrs[id]
}

// findKeys returns the keys in reply, those of one slot, that match. A reply with as many keys as were asked
// for may lack some, which is an error. The keys are bulk strings, as they came, and copied: they outlast the
// reply.
func findKeys(reply, match []byte) keysFound {
	if resp.IsError(reply) {
		return keysFound{err: reply}
	}
	keys, ok := resp.Elements(reply)
	switch {
	case !ok:
		return keysFound{err: resp.ErrUnexpected}
	case len(keys) >= maxSlotKeys:
		return keysFound{err: errScanSlot}
	}
	var picked [][]byte
	for _, key := range keys {
		if name, _ := resp.BulkReply(key); match == nil || glob.Match(match, name) {
			picked = append(picked, bytes.Clone(key))
		}
	}
	return keysFound{keys: picked}
}

// endPage answers with the keys, unless TYPE must be asked first. TYPE is asked of each key by itself, at the
// master of its slot, since no node filters GETKEYSINSLOT.
func (s *scanning) endPage() []byte {
	if s.ofType == nil || len(s.keys) == 0 {
		return s.answerPage()
	}
	parts := make([]cut.Part, len(s.keys))
	s.runApart(func() {
		for i, key := range s.keys {
			name, _ := resp.BulkReply(key)
			parts[i] = cut.Part{Slot: slot.Of(name),
				Request: resp.AppendCommand(nil, []byte("TYPE"), name)}
		}
	}, func() []byte {
		s.AskParts(parts, commands.Reread, func(_ int, replies [][]byte) []byte {
			if err := merge.FirstError(replies); err != nil {
				return err
			}
			s.runApart(func() { s.keepKind(replies) }, s.answerPage)
			return nil
		})
		return nil
	})
	return nil
}

// keepKind keeps the keys of the wanted type, by the replies to TYPE. A key that has gone meanwhile has the
// type none, and goes with that. It overwrites s.keys in place.
func (s *scanning) keepKind(replies [][]byte) {
	kept := s.keys[:0]
	for i, reply := range replies {
		if len(reply) > 0 && bytes.EqualFold(bytes.TrimSpace(reply[1:]), s.ofType) {
			kept = append(kept, s.keys[i])
		}
	}
	s.keys = kept
}

// answerPage answers with the keys that are left. A page may have a million, so a goroutine joins them.
func (s *scanning) answerPage() []byte {
	var page []byte
	s.runApart(func() {
		page, s.keys = s.joinKeys(), nil
	}, func() []byte { return s.showPage(page) })
	return nil
}
