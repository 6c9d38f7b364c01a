package commands

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/tidwall/redcon"

	"lockproxy/internal/glob"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

// This file is SCAN slot by slot. All keys of a slot come in one reply of the node that serves it, so that
// they are those of one instant. Before and behind them stands what the node says of its slots:
//
//	[EXISTS, CLUSTER NODES, GETKEYSINSLOT 7, GETKEYSINSLOT 8 ..., CLUSTER NODES] --> node
//
// A slot counts as visited when the node served it both times, and was not handing it over. The keys of one
// that is being handed over are asked for at that node, and then where they go: keys go one way only.

const (
	// maxScanSlots is how many slots one page goes through at the most.
	maxScanSlots = 1024
	// maxSlotKeys is how many keys a slot may have that is gone through in one piece.
	maxSlotKeys = 1_000_000
	// maxScanTries is how often one page asks for a slot that changes its place meanwhile.
	maxScanTries = 8
)

var errScanSlot = errorLine("ERR SCAN goes slot by slot as slots have moved or nodes have failed over, and a slot has more than %d keys: begin anew", maxSlotKeys)

// slotScan is one page of slots.
type slotScan struct {
	*scanning
	match, kind []byte // nil: any
	count       int
	keys        [][]byte
	batch       int // slots to ask for at once
	done        int // slots
	tries       int // for the slot first
}

// slots goes on from the slot first.
func (s *scanning) slots() []byte {
	p := &slotScan{scanning: s, count: 10, batch: 1}
	if err := p.options(s.args[2:]); err != nil {
		return err
	}
	return p.next()
}

// options reads what stands behind the cursor, and returns an error reply if it is wrong.
func (p *slotScan) options(args [][]byte) []byte {
	for ; len(args) > 0; args = args[2:] {
		if len(args) == 1 {
			return errSyntax
		}
		switch value := args[1]; strings.ToLower(string(args[0])) {
		case "match":
			p.match = value
		case "type":
			p.kind = value
		case "count":
			n, err := strconv.Atoi(string(value))
			if err != nil {
				return errInteger
			}
			if n < 1 {
				return errSyntax
			}
			p.count = n
		default:
			return errSyntax
		}
	}
	return nil
}

// askServed is a read that the node of a slot answers with an integer, and any other with an error.
func askServed(n int) []byte { return resp.AppendCommandStrings(nil, "EXISTS", slot.Tag(n)) }

// served says whether the reply to askServed is of a node that serves the slot. Where
// no key may be read that is not known.
func served(reply []byte) bool {
	return !isError(reply) || bytes.HasPrefix(reply, []byte("-ASK ")) || bytes.HasPrefix(reply, []byte("-NOPERM"))
}

func askKeys(n int) []byte {
	return resp.AppendCommandStrings(nil, "CLUSTER", "GETKEYSINSLOT", strconv.Itoa(n), strconv.Itoa(maxSlotKeys))
}

// next asks for further slots of one node, or ends the page.
func (p *slotScan) next() []byte {
	for p.first < slot.Count && p.Owner(p.first) < 0 {
		p.first++ // nobody serves it
	}
	if p.first >= slot.Count || len(p.keys) >= p.count || p.done >= maxScanSlots || p.tries >= maxScanTries {
		return p.end()
	}
	p.at = p.owner(p.first)
	n := 1
	for n < p.batch && p.first+n < slot.Count && p.owner(p.first+n) == p.at {
		n++
	}
	p.ask(n)
	return nil
}

// ask asks the node at p.at for n slots.
func (p *slotScan) ask(n int) {
	reqs := [][]byte{askServed(p.first), askNodes}
	for i := range n {
		reqs = append(reqs, askKeys(p.first+i))
	}
	p.SendAll(p.at.addr, append(reqs, askNodes), func(_ int, replies [][]byte) []byte {
		if !served(replies[0]) {
			return p.astray(replies[0])
		}
		return p.take(parseNodeView(replies[1]), replies[2:2+n], parseNodeView(replies[2+n]))
	})
}

// astray deals with a node that does not serve the slot first.
func (p *slotScan) astray(reply []byte) []byte {
	p.tries++
	if words := strings.Fields(string(reply)); len(words) == 3 && words[0] == "-MOVED" && !strings.HasPrefix(words[2], ":") && p.tries < maxScanTries {
		p.at = place{addr: words[2]} // as it says itself, whatever the topology says
		p.ask(1)
		return nil
	}
	// An ordinary read waits until somebody serves it, for as long as its budget goes.
	p.Send(p.first, askServed(p.first), true, func(reply []byte) []byte {
		if isError(reply) {
			return reply
		}
		return p.next()
	}, nil)
	return nil
}

// take takes the keys of as many slots as are visited for sure. When the epoch has changed a slot may have been
// elsewhere in between.
func (p *slotScan) take(before nodeView, replies [][]byte, after nodeView) []byte {
	if before.epoch != after.epoch {
		p.tries, p.batch = p.tries+1, 1
		return p.next()
	}
	for i, reply := range replies {
		switch from, to := before.target(p.first), after.target(p.first); {
		case !before.has(p.first) || !after.has(p.first) || from != to:
			p.tries++
			return p.next()
		case from != "" && i > 0:
			return p.next()
		case from != "":
			return p.follow(reply, after, to)
		}
		if err := p.add(reply); err != nil {
			return err
		}
		p.visited()
	}
	p.batch *= 2
	return p.next()
}

// visited goes on behind the slot first.
func (p *slotScan) visited() { p.first, p.done, p.tries = p.first+1, p.done+1, 0 }

// follow visits a slot that is being handed over, as before has it. here are the keys that were still at p.at.
func (p *slotScan) follow(here []byte, before nodeView, to string) []byte {
	addr := before.addrs[to]
	if addr == "" {
		return errUnexpected
	}
	p.SendAll(addr, [][]byte{askKeys(p.first)}, func(_ int, there [][]byte) []byte {
		p.SendAll(p.at.addr, [][]byte{askNodes}, func(_ int, replies [][]byte) []byte {
			if v := parseNodeView(replies[0]); !v.has(p.first) || v.target(p.first) != to || v.epoch != before.epoch {
				p.tries++
				return p.next()
			}
			for _, reply := range [][]byte{here, there[0]} {
				if err := p.add(reply); err != nil {
					return err
				}
			}
			p.visited()
			return p.next()
		})
		return nil
	})
	return nil
}

// add takes the keys of a slot. It returns an error reply if there are none to take.
func (p *slotScan) add(reply []byte) []byte {
	if isError(reply) {
		return reply
	}
	keys, ok := elements(reply)
	if !ok {
		return errUnexpected
	}
	if len(keys) >= maxSlotKeys {
		return errScanSlot
	}
	for _, key := range keys {
		if p.match == nil || glob.Match(p.match, bulkBytes(key)) {
			p.keys = append(p.keys, bytes.Clone(key))
		}
	}
	return nil
}

// end answers with the keys, if there is no type to ask for.
func (p *slotScan) end() []byte {
	if p.kind == nil || len(p.keys) == 0 {
		return p.answer()
	}
	parts := make([]Part, len(p.keys))
	for i, key := range p.keys {
		name := bulkBytes(key)
		parts[i] = Part{Slot: slot.Of(name), Request: resp.AppendCommand(nil, []byte("TYPE"), name)}
	}
	p.Split(parts, true, func(_ int, replies [][]byte) []byte {
		kept := p.keys[:0]
		for i, reply := range replies {
			if isError(reply) {
				return reply
			}
			if bytes.EqualFold(bytes.TrimSpace(reply[1:]), p.kind) {
				kept = append(kept, p.keys[i])
			}
		}
		p.keys = kept
		return p.answer()
	})
	return nil
}

func (p *slotScan) answer() []byte {
	return p.show(append(redcon.AppendArray(nil, len(p.keys)), bytes.Join(p.keys, nil)...))
}
