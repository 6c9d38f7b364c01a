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

// The whole slot comes in one reply, so there has to be a bound.
var errScanSlot = resp.ErrorLine("ERR SCAN goes slot by slot as slots have moved or nodes have failed "+
	"over, and a slot has more than %d keys: begin anew", maxSlotKeys)

// slotScan is one page of slots. It answers when it has count keys, or has done enough slots, or the first
// one does not come to rest.
type slotScan struct {
	*scanning
	match, kind []byte // nil: any
	count       int
	keys        [][]byte
	// doubled with each batch that went well, 1 again when something has moved
	batch int // slots to ask for at once
	done  int // slots
	tries int // attempts at the first slot
}

// scanSlots goes on with the first slot. The keys of a slot come in whichever order, so a page has no cursor
// inside a slot: it ends between two.
func (s *scanning) scanSlots() []byte {
	p := &slotScan{scanning: s, count: defaultCount, batch: 1}
	if err := p.readOptions(s.args[2:]); err != nil {
		return err
	}
	return p.nextSlots()
}

// readOptions reads what follows the cursor. It returns an error reply if that is wrong. They are those of
// Redis. match and kind alias args.
func (p *slotScan) readOptions(args [][]byte) []byte {
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
func (p *slotScan) nextSlots() []byte {
	for p.first < slot.Count && p.nodes.Owner(p.first) < 0 {
		p.first++ // nobody serves it
	}
	if p.first >= slot.Count || len(p.keys) >= p.count || p.done >= maxScanSlots || p.tries >= maxScanTries {
		return p.endPage()
	}
	p.at = p.owner(p.first)
	n := 1
	for n < p.batch && p.first+n < slot.Count && p.owner(p.first+n) == p.at {
		n++
	}
	p.askSlots(n)
	return nil
}

// askSlots asks the node at p.at for n slots. All requests are behind each other on one connection: between
// the two looks at CLUSTER NODES stand all the keys.
func (p *slotScan) askSlots(n int) {
	reqs := [][]byte{askServed(p.first), askNodes}
	for i := range n {
		reqs = append(reqs, askKeys(p.first+i))
	}
	p.AskInTurn(p.at.addr, append(reqs, askNodes), func(_ int, replies [][]byte) []byte {
		if !served(replies[0]) {
			return p.astray(replies[0])
		}
		p.pickKeys(replies[2:2+n], func(picked []keysFound) []byte {
			return p.takeSlots(parseNodeView(replies[1]), picked, parseNodeView(replies[2+n]))
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
func (p *slotScan) pickKeys(replies [][]byte, then func(picked []keysFound) []byte) {
	var picked []keysFound
	p.runApart(func() {
		for began := time.Now(); len(picked) < len(replies) && (len(picked) == 0 ||
			time.Since(began) < maxPick); {
			picked = append(picked, findKeys(replies[len(picked)], p.match))
		}
	}, func() []byte { return then(picked) })
}

// runApart runs task on a goroutine, and goes on with then if the client is still there. Nothing else of the
// client runs meanwhile, so task may use p. An answer for a client that has gone goes nowhere.
func (p *slotScan) runApart(task func(), then func() []byte) {
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

// astray handles a node that does not serve the first slot. reply is its answer to askServed. Usually it is
// -MOVED: then the topology of the proxy is older than the cluster.
func (p *slotScan) astray(reply []byte) []byte {
	p.tries++
	if words := strings.Fields(string(reply)); len(words) == 3 && words[0] == "-MOVED" &&
		!strings.HasPrefix(words[2], ":") && !strings.HasPrefix(words[2], "?") && p.tries < maxScanTries {
		p.at = place{addr: words[2]} // the node that it names, whatever the topology says
		p.askSlots(1)
		return nil
	}
	// An ordinary read waits until some node serves the slot, for as long as its budget lasts.
	p.Ask(pipe.ToSlot(p.first), askServed(p.first), commands.Reread, func(reply []byte) []byte {
		if resp.IsError(reply) {
			return reply
		}
		return p.nextSlots()
	})
	return nil
}

// takeSlots takes the keys of the slots that are surely done. If the epoch has changed, a slot may have been
// elsewhere in between. picked are the keys of the slots from first on, before and after what the node said
// of itself around them. A slot that cannot be taken is asked for again, alone or at the start of the next
// batch.
func (p *slotScan) takeSlots(before nodeView, picked []keysFound, after nodeView) []byte {
	if before.epoch != after.epoch {
		p.tries, p.batch = p.tries+1, 1
		return p.nextSlots()
	}
	for i, found := range picked {
		switch from, to := before.target(p.first), after.target(p.first); {
		case !before.hasSlot(p.first) || !after.hasSlot(p.first) || from != to:
			p.tries++
			return p.nextSlots()
		// One that is being handed over is followed when it is the first.
		case from != "" && i > 0:
			return p.nextSlots()
		case from != "":
			return p.followSlot(found, after, to)
		}
		if found.err != nil {
			return found.err
		}
		p.keys = append(p.keys, found.keys...)
		p.visited()
	}
	p.batch *= 2
	return p.nextSlots()
}

// visited marks the first slot as done.
func (p *slotScan) visited() { p.first, p.done, p.tries = p.first+1, p.done+1, 0 }

// followSlot finishes a slot that is being handed over, according to before. here has the keys that were
// still at p.at. A key is at one of both nodes whenever it is looked for in this order, since none goes back.
// At the end the first node is asked whether the slot was on its way all the time.
func (p *slotScan) followSlot(here keysFound, before nodeView, to string) []byte {
	addr := p.addrOf(to, before)
	if addr == "" {
		return resp.ErrUnexpected
	}
	p.AskInTurn(addr, [][]byte{askKeys(p.first)}, func(_ int, replies [][]byte) []byte {
		p.pickKeys(replies, func(there []keysFound) []byte {
			p.AskInTurn(p.at.addr, [][]byte{askNodes}, func(_ int, replies [][]byte) []byte {
				if v := parseNodeView(replies[0]); !v.hasSlot(p.first) || v.target(p.first) != to ||
					v.epoch != before.epoch {
					p.tries++
					return p.nextSlots()
				}
				for _, found := range append([]keysFound{here}, there...) {
					if found.err != nil {
						return found.err
					}
					p.keys = append(p.keys, found.keys...)
				}
				p.visited()
				return p.nextSlots()
			})
			return nil
		})
		return nil
	})
	return nil
}

// addrOf is where the node of that id is reached: as the topology has it, else by what v says of it, a name
// if the topology has names. "": nobody says it.
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
func (p *slotScan) endPage() []byte {
	if p.kind == nil || len(p.keys) == 0 {
		return p.answerPage()
	}
	parts := make([]cut.Part, len(p.keys))
	p.runApart(func() {
		for i, key := range p.keys {
			name, _ := resp.BulkReply(key)
			parts[i] = cut.Part{Slot: slot.Of(name),
				Request: resp.AppendCommand(nil, []byte("TYPE"), name)}
		}
	}, func() []byte {
		p.AskParts(parts, commands.Reread, func(_ int, replies [][]byte) []byte {
			p.runApart(func() { p.keepKind(replies) }, func() []byte {
				if err := merge.FirstError(replies); err != nil {
					return err
				}
				return p.answerPage()
			})
			return nil
		})
		return nil
	})
	return nil
}

// keepKind keeps the keys of the wanted type, by the replies to TYPE. A key that has gone meanwhile has the
// type none, and goes with that. It overwrites p.keys in place.
func (p *slotScan) keepKind(replies [][]byte) {
	kept := p.keys[:0]
	for i, reply := range replies {
		if len(reply) > 0 && bytes.EqualFold(bytes.TrimSpace(reply[1:]), p.kind) {
			kept = append(kept, p.keys[i])
		}
	}
	p.keys = kept
}

// answerPage answers with the keys that are left. A page may have a million, so a goroutine joins them.
func (p *slotScan) answerPage() []byte {
	var page []byte
	p.runApart(func() {
		page = append(redcon.AppendArray(nil, len(p.keys)), bytes.Join(p.keys, nil)...)
	}, func() []byte { return p.showPage(page) })
	return nil
}
