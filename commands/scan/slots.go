package scan

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/redcon"

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

var errScanSlot = resp.ErrorLine("ERR SCAN goes slot by slot as slots have moved or nodes have failed "+
	"over, and a slot has more than %d keys: begin anew", maxSlotKeys)

// slotScan is one page of slots.
type slotScan struct {
	*scanning
	match, kind []byte // nil: any
	count       int
	keys        [][]byte
	batch       int // slots to ask for at once
	done        int // slots
	tries       int // attempts at the first slot
}

// slots goes on with the first slot.
func (s *scanning) slots() []byte {
	p := &slotScan{scanning: s, count: defaultCount, batch: 1}
	if err := p.options(s.args[2:]); err != nil {
		return err
	}
	return p.next()
}

// options reads what follows the cursor. It returns an error reply if that is wrong.
func (p *slotScan) options(args [][]byte) []byte {
	for ; len(args) > 0; args = args[2:] {
		if len(args) == 1 {
			return resp.ErrSyntax
		}
		switch value := args[1]; strings.ToLower(string(args[0])) {
		case "match":
			p.match = value
		case "type":
			p.kind = value
		case "count":
			n, err := strconv.Atoi(string(value))
			if err != nil {
				return resp.ErrInteger
			}
			if n < 1 {
				return resp.ErrSyntax
			}
			p.count = n
		default:
			return resp.ErrSyntax
		}
	}
	return nil
}

// askServed is a read that the node of a slot answers with an integer, and any other with an error.
func askServed(n int) []byte { return resp.AppendCommandStrings(nil, "EXISTS", slot.Tag(n)) }

// served says whether the reply to askServed comes from a node that serves the slot. A node that lets this
// user read no key does not tell.
func served(reply []byte) bool {
	return !resp.IsError(reply) || bytes.HasPrefix(reply, []byte("-ASK ")) ||
		bytes.HasPrefix(reply, []byte("-NOPERM"))
}

func askKeys(n int) []byte {
	return resp.AppendCommandStrings(nil, "CLUSTER", "GETKEYSINSLOT", strconv.Itoa(n),
		strconv.Itoa(maxSlotKeys))
}

// next asks for further slots of one node, or ends the page.
func (p *slotScan) next() []byte {
	for p.first < slot.Count && p.nodes.Owner(p.first) < 0 {
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
	p.AskInTurn(p.at.addr, append(reqs, askNodes), func(_ int, replies [][]byte) []byte {
		if !served(replies[0]) {
			return p.astray(replies[0])
		}
		p.pick(replies[2:2+n], func(picked []keysFound) []byte {
			return p.take(parseNodeView(replies[1]), picked, parseNodeView(replies[2+n]))
		})
		return nil
	})
}

// keysFound are the keys of a slot that match, or an error reply.
type keysFound struct {
	keys [][]byte
	err  []byte
}

// pick makes a goroutine pick the matching keys out of replies that have the keys of a slot each: there may
// be a million, and each may take long. then goes on with the first slots, at least one.
func (p *slotScan) pick(replies [][]byte, then func(picked []keysFound) []byte) {
	var picked []keysFound
	p.apart(func() {
		for began := time.Now(); len(picked) < len(replies) && (len(picked) == 0 ||
			time.Since(began) < maxPick); {
			picked = append(picked, findKeys(replies[len(picked)], p.match))
		}
	}, func() []byte { return then(picked) })
}

// apart runs task on a goroutine, and goes on with then if the client is still there.
func (p *slotScan) apart(task func(), then func() []byte) {
	p.Await(func(done func([]byte)) {
		go func() { // ends by itself
			task()
			done(nil)
		}()
	}, func([]byte) []byte {
		if p.Gone() {
			return resp.EmptyArray
		}
		return then()
	}, nil)
}

// astray handles a node that does not serve the first slot.
func (p *slotScan) astray(reply []byte) []byte {
	p.tries++
	if words := strings.Fields(string(reply)); len(words) == 3 && words[0] == "-MOVED" &&
		!strings.HasPrefix(words[2], ":") && !strings.HasPrefix(words[2], "?") && p.tries < maxScanTries {
		p.at = place{addr: words[2]} // the node that it names, whatever the topology says
		p.ask(1)
		return nil
	}
	// An ordinary read waits until some node serves the slot, for as long as its budget lasts.
	p.Ask(pipe.ToSlot(p.first), askServed(p.first), commands.Reread, func(reply []byte) []byte {
		if resp.IsError(reply) {
			return reply
		}
		return p.next()
	})
	return nil
}

// take takes the keys of the slots that are surely done. If the epoch has changed, a slot may have been
// elsewhere in between.
func (p *slotScan) take(before nodeView, picked []keysFound, after nodeView) []byte {
	if before.epoch != after.epoch {
		p.tries, p.batch = p.tries+1, 1
		return p.next()
	}
	for i, found := range picked {
		switch from, to := before.target(p.first), after.target(p.first); {
		case !before.has(p.first) || !after.has(p.first) || from != to:
			p.tries++
			return p.next()
		case from != "" && i > 0:
			return p.next()
		case from != "":
			return p.follow(found, after, to)
		}
		if found.err != nil {
			return found.err
		}
		p.keys = append(p.keys, found.keys...)
		p.visited()
	}
	p.batch *= 2
	return p.next()
}

// visited marks the first slot as done.
func (p *slotScan) visited() { p.first, p.done, p.tries = p.first+1, p.done+1, 0 }

// follow finishes a slot that is being handed over, according to before. here has the keys that were still at
// p.at.
func (p *slotScan) follow(here keysFound, before nodeView, to string) []byte {
	addr := p.addrOf(to, before)
	if addr == "" {
		return resp.ErrUnexpected
	}
	p.AskInTurn(addr, [][]byte{askKeys(p.first)}, func(_ int, replies [][]byte) []byte {
		p.pick(replies, func(there []keysFound) []byte {
			p.AskInTurn(p.at.addr, [][]byte{askNodes}, func(_ int, replies [][]byte) []byte {
				if v := parseNodeView(replies[0]); !v.has(p.first) || v.target(p.first) != to ||
					v.epoch != before.epoch {
					p.tries++
					return p.next()
				}
				for _, found := range append([]keysFound{here}, there...) {
					if found.err != nil {
						return found.err
					}
					p.keys = append(p.keys, found.keys...)
				}
				p.visited()
				return p.next()
			})
			return nil
		})
		return nil
	})
	return nil
}

// addrOf is where the node of that id is reached: as the topology has it, else by what v says of it, a name
// if the topology has names.
func (p *slotScan) addrOf(id string, v nodeView) string {
	for i := range p.nodes.Masters() {
		if p.nodes.Name(i) == id {
			return p.nodes.Addr(i)
		}
	}
	if name := v.names[id]; name != "" && cluster.Named(p.at.addr) {
		return name
	}
	return v.addrs[id]
}

// findKeys returns the keys in reply, those of one slot, that match.
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
		if match == nil || glob.Match(match, bulkBytes(key)) {
			picked = append(picked, bytes.Clone(key))
		}
	}
	return keysFound{keys: picked}
}

// end answers with the keys, unless TYPE must be asked first.
func (p *slotScan) end() []byte {
	if p.kind == nil || len(p.keys) == 0 {
		return p.answer()
	}
	parts := make([]cut.Part, len(p.keys))
	p.apart(func() {
		for i, key := range p.keys {
			name := bulkBytes(key)
			parts[i] = cut.Part{Slot: slot.Of(name),
				Request: resp.AppendCommand(nil, []byte("TYPE"), name)}
		}
	}, func() []byte {
		p.AskParts(parts, commands.Reread, func(_ int, replies [][]byte) []byte {
			p.apart(func() { p.keepKind(replies) }, func() []byte {
				if err := merge.FirstError(replies); err != nil {
					return err
				}
				return p.answer()
			})
			return nil
		})
		return nil
	})
	return nil
}

// keepKind keeps the keys of the wanted type, by the replies to TYPE.
func (p *slotScan) keepKind(replies [][]byte) {
	kept := p.keys[:0]
	for i, reply := range replies {
		if len(reply) > 0 && bytes.EqualFold(bytes.TrimSpace(reply[1:]), p.kind) {
			kept = append(kept, p.keys[i])
		}
	}
	p.keys = kept
}

func (p *slotScan) answer() []byte {
	var page []byte
	p.apart(func() {
		page = append(redcon.AppendArray(nil, len(p.keys)), bytes.Join(p.keys, nil)...)
	}, func() []byte { return p.show(page) })
	return nil
}
