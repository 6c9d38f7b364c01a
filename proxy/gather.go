package proxy

import (
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/proxy/client"
)

// gather collects the replies of several nodes to the parts of one command.
type gather struct {
	s       *session
	tag     uint32
	replies []collected
	missing int
	merge   commands.Merge
	always  bool // merge runs also when the client has gone
	pure    bool // merge asks for nothing but the replies, and may run anywhere
}

// newGather prepares for n replies to the current command of s.
func newGather(s *session, n int, merge commands.Merge) *gather {
	g := &gather{s: s, tag: s.current, replies: make([]collected, n), missing: n, merge: merge}
	if n == 0 {
		s.Answer(g.tag, commands.ErrorReply(client.ErrNoMasters))
	}
	return g
}

// Receive implements pipe.Receiver.
func (g *gather) Receive(i uint32, chunk []byte, last bool) {
	if !g.s.gone || g.always {
		g.replies[i].add(chunk)
		g.s.out.held += len(chunk)
		g.s.answers.at(g.tag).touched = true
		g.s.out.check()
	}
	if last {
		g.arrived()
	}
}

// Fail implements pipe.Receiver.
func (g *gather) Fail(i uint32, err error) {
	if !g.s.gone || g.always {
		g.s.out.held -= g.replies[i].size()
		g.replies[i] = collected{buf: commands.ErrorReply(err)}
		g.s.out.held += len(g.replies[i].buf)
	}
	g.arrived()
}

// Discard implements pipe.Receiver.
func (g *gather) Discard(i uint32) bool {
	if !g.s.gone || g.always {
		g.s.out.held -= g.replies[i].size()
	}
	g.replies[i] = collected{}
	return true
}

// Detour implements pipe.Receiver.
func (g *gather) Detour(uint32) { g.s.Detour(g.tag) }

func (g *gather) arrived() {
	if g.missing--; g.missing > 0 {
		return
	}
	size := 0
	for i := range g.replies {
		size += g.replies[i].size()
	}
	if size > client.LongFrom && (!g.s.gone || g.always) {
		g.mergeApart(size)
		return
	}
	if w := g.s.w; w.late() {
		w.inTurn(func() { g.conclude(size, g.wholes()) })
		return
	}
	g.conclude(size, g.wholes())
}

// wholes are the replies, each in one piece.
func (g *gather) wholes() [][]byte {
	replies := make([][]byte, len(g.replies))
	for i := range g.replies {
		replies[i] = g.replies[i].whole()
	}
	return replies
}

// conclude makes the answer of replies, which have size bytes.
func (g *gather) conclude(size int, replies [][]byte) {
	s := g.s
	if s.gone && !g.always {
		s.settle(g.tag)
		return
	}
	if !s.gone {
		s.out.held -= size
		s.CountMemory()
	}
	s.current, s.acted = g.tag, false
	switch answer := g.merge(s.Proto, replies); {
	case answer != nil:
		s.Answer(g.tag, answer)
	case !s.acted:
		s.Answer(g.tag, client.NoAnswer)
	case size > client.LongFrom && !s.gone && s.answers.has(g.tag):
		if a := s.answers.at(g.tag); a.then != nil { // a goroutine has the replies now
			a.lent = size
			s.out.held += size
			s.CountMemory()
		}
	}
}

// send sends req to all masters, whose replies g collects.
func (g *gather) send(req []byte, resend bool) {
	s := g.s
	for i := range g.replies {
		p := s.w.pool.Send(pipe.Request{
			Target: pipe.ToShard(i), Mode: s.Mode(), Bytes: req, To: g, Tag: uint32(i), Resend: resend,
		})
		if !resend {
			s.writes.Add(p)
		}
		s.Feed(p)
	}
}

// sendOwn is send over connections that nobody else uses meanwhile.
func (g *gather) sendOwn(req []byte) {
	s := g.s
	mode := pipe.Mode{Proto: s.Proto}
	if s.own.User() != nil {
		mode = s.Mode()
	}
	for i, n := range s.w.pool.Topology().Masters {
		a := &apart{gather: g}
		a.pipe = s.w.pool.Own(n.Addr, mode, a)
		a.pipe.Request(req, a, uint32(i))
	}
}

// apart has a connection of its own for one request.
type apart struct {
	*gather
	pipe *pipe.Pipe
}

// Receive implements pipe.Receiver.
func (a *apart) Receive(i uint32, chunk []byte, last bool) {
	if last {
		a.pipe.Release()
	}
	a.gather.Receive(i, chunk, last)
}

// Push implements pipe.Owner: nothing was asked for that would send any.
func (a *apart) Push([]byte, bool) {}

// Lost implements pipe.Owner: the request has failed before.
func (a *apart) Lost(error) {}

// Party implements pipe.Counted.
func (a *apart) Party() pipe.Party { return client.PartyOf(&a.s.Client) }
