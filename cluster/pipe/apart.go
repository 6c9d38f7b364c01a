package pipe

import (
	"bytes"

	"lockproxy/internal/resp"
)

// This file is about long replies. A shared pipe cannot wait for a client that reads slowly. So the long
// replies of a client come over connections of its own, from which no more is read while the client takes
// nothing. Before a reply begins nobody knows how long it is:
//
//	shared pipe: "$16777216\r\n..." --> Chooser.Apart --> the request again, over a Private
//	                       \----> the rest of that reply is dropped

// Chooser is a Receiver that chooses what becomes of a long reply.
type Chooser interface {
	Receiver
	// Apart is told how long the reply to request tag is, which begins to come over a shared pipe. If it
	// returns true, the reply is dropped, and the request is sent again, over connections of mode m.
	Apart(tag uint32, size int) (m Mode, again bool)
}

// announced is how long the reply is that begins with chunk, if it is a string; otherwise 0.
func announced(chunk []byte) int {
	if chunk[0] != '$' {
		return 0
	}
	line, _, _ := bytes.Cut(chunk[1:], []byte("\r\n"))
	n, _ := resp.Integer(line)
	return int(n)
}

// HasRoom says that owner may have one more connection to itself at once.
func HasRoom(p *Pool, owner Counted) bool {
	o := &p.own
	return len(o.all)+len(o.queue) < o.most && o.shares.within(owner.Party(), o.most)
}

// Pause stops reading from the connections, as long as their client does not take what came: the nodes keep
// the rest. Otherwise they are read on.
func (o *Private) Pause(on bool) {
	o.paused = on
	for _, pp := range o.byAddr {
		pp.pause()
	}
}

// pause does what Private.Pause has said.
func (pp *privatePipe) pause() {
	p := pp.pipe
	switch {
	case p.conn == nil:
	case pp.of.paused:
		p.conn.Pause(0)
	default:
		p.progress = p.loop.Now()
		p.conn.Resume()
	}
}

// isPaused says that nothing is read from a pipe for which its client is the reason.
func (pp *privatePipe) isPaused() bool { return pp != nil && pp.of.paused }
