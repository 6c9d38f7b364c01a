package scatter

import (
	"lockproxy/cluster"
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/commands/cut"
	"lockproxy/proxy/client"
)

// This file sends the parts of a command to their nodes. The parts of a long command are made by a goroutine
// while earlier ones are being sent, and for the masters in turn, so that all of them are at work:
//
//	beginSpread --> prepareParts --(goroutine)--> takeMade --> sendSome: to the nodes, one round's worth
//	                     ^                                         |
//	                     +-----------------------------------------+

// spreadRound is how many bytes of parts are sent in one round of the loop.
const spreadRound = 256 << 10

// Parts are the parts of a command.
type Parts struct {
	made  []cut.Part // but not sent yet
	cut   *cut.Cut   // makes the remaining ones; nil: there are none
	order []int32    // of cut, in which its parts are going to be made
	bytes int        // that cut has in memory
}

// Made are parts that are there.
func Made(parts []cut.Part) *Parts { return &Parts{made: parts} }

// ToMake are parts that are going to be made of cut, which has so many bytes in memory.
func ToMake(cut *cut.Cut, bytes int) *Parts { return &Parts{cut: cut, bytes: bytes} }

func (l *Parts) len() int {
	if l.cut != nil {
		return l.cut.Len()
	}
	return len(l.made)
}

// takePlaces is the places of the next parts to be made, and how many bytes they have.
func (l *Parts) takePlaces() (places []int32, size int) {
	n := 0
	for ; n < len(l.order) && size < spreadRound; n++ {
		size += l.cut.SizeOf(int(l.order[n]))
	}
	places, l.order = l.order[:n], l.order[n:]
	return places, size
}

// spread sends the parts of a command to their nodes, some of them in each round of the loop, and none while
// the queue of a node is full.
type spread struct {
	*Gather
	list   *Parts
	next   []cut.Part // made while those of list are being sent
	making bool       // of next
	waits  bool       // sendSome will be called
	sizes  []int      // size of each part, if they are counted for the client
	how    How
	mode   pipe.Mode
	// CLIENT CACHING came before the command, and so comes before each part, whenever that is sent
	caching bool
}

// How says how the parts of a command are sent.
type How struct {
	Resend  bool // they only read
	Readers pipe.Readers
	// Pure is the command whose merge needs nothing but the replies, and may run on any goroutine; or nil.
	Pure *commands.Command
}

// Send sends the parts of the current command of h to the nodes of their slots, and merges the replies.
func Send(h Host, list *Parts, how How, merge commands.Merge) {
	x := &spread{Gather: NewGather(h, list.len(), merge, false), list: list, mode: h.Mode(), how: how}
	x.caching = x.mode.Own.Precedes()
	if x.writes = !how.Resend; how.Pure != nil {
		x.pure, x.most = true, mostOf(how.Pure)
	}
	x.beginSpread()
}

// beginSpread sends the first parts. Of a long command, two rounds' worth of parts are in memory, besides
// those that nodes have not answered.
func (x *spread) beginSpread() {
	l := x.list
	if l.cut == nil {
		x.sendSome()
		return
	}
	x.h.SetHold(client.HoldLong)
	x.h.KeepFor(x.tag, l.bytes)
	x.sizes = make([]int, l.cut.Len())
	for i := range x.sizes {
		x.sizes[i] = l.cut.SizeOf(i)
	}
	pool := x.h.Pool()
	l.order = inTurn(l.cut, len(pool.Topology().Masters), pool.Owner)
	x.prepareParts()
}

// inTurn orders the parts: for one master as many as go in one round, then for the next one. owner returns
// the number of the master of a slot; negative: no master serves it.
func inTurn(cut *cut.Cut, masters int, owner func(slot int) int) []int32 {
	lists := make([]Parts, masters+1) // the first list is for slots that no master serves
	for i := range cut.Len() {
		l := &lists[owner(cut.Slot(i))+1]
		l.order = append(l.order, int32(i))
	}
	order := make([]int32, 0, cut.Len())
	for len(order) < cut.Len() {
		for i := range lists {
			lists[i].cut = cut
			places, _ := lists[i].takePlaces()
			order = append(order, places...)
		}
	}
	return order
}

// prepareParts makes a goroutine make the next parts. When none are left it forgets the command.
func (x *spread) prepareParts() {
	l := x.list
	places, size := l.takePlaces()
	if len(places) == 0 {
		x.h.KeepFor(x.tag, -l.bytes)
		l.cut = nil
		return
	}
	x.making = true
	whole := l.cut
	var parts []cut.Part
	x.h.Background(func() { parts = whole.Parts(places) }, func() { x.takeMade(parts, size) })
}

// takeMade takes over the parts that the goroutine has made.
func (x *spread) takeMade(parts []cut.Part, size int) {
	x.making, x.next = false, parts
	x.h.KeepFor(x.tag, size)
	if !x.waits {
		x.sendSome()
	}
}

// sendSome sends one round's worth of parts. At least one part goes in each round, however long it is.
func (x *spread) sendSome() {
	l := x.list
	if x.h.Gone() && x.mode.Own != nil {
		x.giveUp()
		return
	}
	for sent := 0; ; {
		if len(l.made) == 0 && x.next != nil {
			l.made, x.next = x.next, nil
			x.prepareParts()
		}
		if len(l.made) == 0 {
			break
		}
		part := l.made[0]
		if sent += len(part.Request); sent > spreadRound && sent > len(part.Request) {
			x.sendLater(func(goOn func()) { x.h.Loop().Post(goOn) })
			return
		}
		l.made = l.made[1:]
		if p := x.sendPart(part); p != nil && p.Full() && (len(l.made) > 0 || x.making || x.next != nil) {
			x.sendLater(p.WhenReady)
			return
		}
	}
	if !x.making {
		l.made = nil
		x.h.ClearHold(client.HoldLong)
	}
}

// sendLater calls sendSome once wait calls the function it is given. Until then no further command of the
// client is read.
func (x *spread) sendLater(wait func(goOn func())) {
	x.h.SetHold(client.HoldLong)
	x.waits = true
	wait(func() {
		x.waits = false
		x.sendSome()
	})
}

// giveUp fails the parts that were not sent: the connections of a client that has gone carry nothing any
// more.
func (x *spread) giveUp() {
	l := x.list
	for _, part := range append(l.made, x.next...) {
		x.Gather.Fail(uint32(part.Place), cluster.ErrUnavailable)
	}
	for _, place := range l.order {
		x.Gather.Fail(uint32(place), cluster.ErrUnavailable)
	}
	l.made, l.order, l.cut, x.next = nil, nil, nil, nil
}

// sendPart sends one part.
func (x *spread) sendPart(part cut.Part) (p *pipe.Pipe) {
	x.mode.Own.Preceding(x.caching, func() {
		p = x.h.Pool().Send(&pipe.Request{
			Target: pipe.ToSlot(part.Slot), Mode: x.mode, Bytes: part.Request, Kept: x.sizes != nil, To: x,
			Tag: uint32(part.Place), Resend: x.how.Resend, Readers: x.how.Readers, Seed: x.h.About().ID,
		})
	})
	x.h.Sent(p, x.how.Resend)
	return p
}

// Receive implements pipe.Receiver.
func (x *spread) Receive(i uint32, chunk []byte, last bool) {
	if last {
		x.partAnswered(i)
	}
	x.Gather.Receive(i, chunk, last)
}

// Fail implements pipe.Receiver.
func (x *spread) Fail(i uint32, err error) {
	x.partAnswered(i)
	x.Gather.Fail(i, err)
}

// partAnswered stops counting a part that need not be sent again.
func (x *spread) partAnswered(i uint32) {
	if x.sizes != nil {
		x.h.KeepFor(x.tag, -x.sizes[i])
	}
}
