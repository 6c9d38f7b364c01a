package pipe

import (
	"net"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe/owned"
)

// This file is about the pipes that clients share: one for each node and mode, made when first needed.
//
// Those in modes that few clients need, to databases other than 0 and to replicas, are closed when they have
// not been used for a while.
//
// Host names may lead to another node later. A managed service fails over by giving the name of the master to
// its replica, while the old master lives on and answers READONLY, or MOVED to that very name. Then a new
// connection is needed, which looks the name up again (redialPipe).

const (
	// sideIdle is how long a pipe in a rare mode is kept without use.
	sideIdle = 30 * time.Second
	// maxDatabases is how many idle pipes to databases other than 0 a loop keeps. There are more only while
	// they have requests on their way, and a client has those in one database at a time.
	maxDatabases = 64
	// leastLife is how long a connection lasts before its name is looked up again: a replica that gets only
	// writes answers READONLY each time.
	leastLife = 250 * time.Millisecond
)

// sharedPipes are the pipes of a loop that clients share.
type sharedPipes struct {
	*env
	*routing
	*ownedPipes
	leaving map[*Pipe]struct{} // those that are forgotten and still owe replies: they are patrolled
	masters []node             // as in topology.Masters
	readers [][]node           // by master: the replicas that may be read from
	stuckPipes
}

// node is a node of the topology. The shared pipes to it that were used last are found quickly.
type node struct {
	addr string
	last [2]*Pipe // by protocol - 2
}

// pipe finds or makes the pipe to the node.
func (n *node) pipe(s *sharedPipes, m Mode) *Pipe {
	pipe := n.last[m.Proto-2]
	if pipe == nil || pipe.leaving || pipe.mode != m {
		if pipe = s.pipe(n.addr, m); m.Own == nil {
			n.last[m.Proto-2] = pipe
		}
	}
	return pipe
}

// pipe finds or makes the pipe to addr.
func (s *sharedPipes) pipe(addr string, m Mode) *Pipe {
	if m.Own != nil {
		return pipeOf(m.Own.At(addr))
	}
	if m.Second {
		m = s.around(addr, m)
	}
	key := nodeKey{addr, m}
	pipe := s.byNode[key]
	if pipe == nil {
		if m.DB != 0 {
			s.roomForDatabase()
		}
		pipe = newPipe(s.env, addr, m)
		s.byNode[key] = pipe
	}
	return pipe
}

// master finds or makes the pipe to the i-th master.
func (s *sharedPipes) master(i int, m Mode) *Pipe { return s.masters[i].pipe(s, m) }

// redialPipe makes later requests to the pipe's node use a new connection, if its name may lead elsewhere.
// Requests that were sent are answered over the old one, or have not run.
func (s *sharedPipes) redialPipe(pipe *Pipe, reply []byte) {
	young := s.loop.Now().Sub(pipe.since) < leastLife
	switch {
	case pipe.conn == nil || pipe.leaving || young || !misled(pipe.addr, reply):
	case pipe.InSet():
		pipe.Fade()
	case pipe.Conn == nil:
		s.leaving[pipe] = struct{}{}
		s.forgetPipe(pipe)
		s.redials++
		s.own.EndIdle(pipe.addr)
	}
}

// Reaches says that there is a connection to the database of m, so the upstream has that database.
func (s *sharedPipes) Reaches(m Mode) bool {
	for _, n := range s.topology.Masters {
		for m.Proto = 2; m.Proto <= 3; m.Proto++ {
			if pipe := s.byNode[nodeKey{n.Addr, m}]; pipe != nil && pipe.conn != nil {
				return true
			}
		}
	}
	return false
}

// roomForDatabase closes the pipe to a database other than 0 that has been unused for the longest time, if
// there are as many as may be kept.
func (s *sharedPipes) roomForDatabase() {
	n := 0
	var oldest *Pipe
	for key, pipe := range s.byNode {
		if key.mode.DB == 0 {
			continue
		}
		n++
		if pipe.unused() && (oldest == nil || pipe.progress.Before(oldest.progress)) {
			oldest = pipe
		}
	}
	// Where all of them are at work, there are more for a while.
	if n >= maxDatabases && oldest != nil {
		s.forgetPipe(oldest)
		oldest.hangUp(errIdle)
	}
}

// forgetPipe has another pipe made for what would be sent over this one. The pipe itself goes on: its caller
// ends it, or lets it be answered.
func (s *sharedPipes) forgetPipe(pipe *Pipe) {
	pipe.leaving = true
	delete(s.byNode, nodeKey{pipe.addr, pipe.mode})
	s.setStuck(pipe, false)
	s.crowd(pipe, 0)
}

// retirePipes notes which nodes have left the topology. They have retireAfter to be answered, unless they
// come back.
func (s *sharedPipes) retirePipes(t *cluster.Topology) {
	present, replicas := make(map[string]bool), make(map[string]bool)
	s.masters = make([]node, len(t.Masters))
	for i, n := range t.Masters {
		present[n.Addr], s.masters[i].addr = true, n.Addr
	}
	for _, n := range t.Replicas {
		replicas[n.Addr] = true
	}
	for _, pipe := range s.pipes() {
		pipe.noteRetired(!present[pipe.addr] && !(pipe.mode.Replica && replicas[pipe.addr]), s.loop.Now())
	}
}

// patrolShared gives up nodes that owe replies and are silent, or nearly so, and closes pipes whose node has
// left the topology.
func (s *sharedPipes) patrolShared(now time.Time) {
	for _, pipe := range s.byNode {
		pipe.renewLogin()
		switch {
		case !pipe.retired.IsZero() && now.Sub(pipe.retired) > retireAfter && !pipe.dialing:
			s.forgetPipe(pipe)
			pipe.hangUp(owned.ErrRetired)
		case !pipe.mode.plain() && pipe.unused() && now.Sub(pipe.progress) > sideIdle:
			s.forgetPipe(pipe)
			pipe.hangUp(errIdle)
		// A script may run for as long as it likes, if the node says so.
		case pipe.conn != nil && pipe.calls.Len() > 0 && now.Sub(pipe.progress) > s.o.Timeout:
			if !s.busyWith(pipe, now) {
				pipe.hangUp(errSilent)
			}
		case pipe.pace.Crawls(pipe.conn != nil && pipe.calls.Len() >= 2, now, s.o.Timeout):
			cutOff(pipe, errCrawls)
		}
	}
	for pipe := range s.leaving {
		switch {
		case pipe.conn == nil:
			delete(s.leaving, pipe)
		case pipe.calls.Len() == 0:
			pipe.hangUp(owned.ErrReleased)
		case now.Sub(pipe.progress) > s.o.Timeout:
			pipe.hangUp(errSilent)
		}
	}
}

// closeShared ends all of them. A dial is only cancelled, so what waits for it fails here.
func (s *sharedPipes) closeShared() {
	for _, pipe := range s.byNode {
		if pipe.dialing {
			pipe.cancel()
			s.home.abandonRequests(pipe, net.ErrClosed)
		}
		pipe.hangUp(net.ErrClosed)
	}
	for pipe := range s.leaving {
		pipe.hangUp(net.ErrClosed)
	}
}

// Reads may go to replicas:
//
//	Request.Readers --> a fit replica of the slot's master ... reply
//	                                    \--> in trouble: the master, at once
//
// A read that a replica cannot answer goes to the master like any other request; it may run twice.

// followReaders takes over which replicas may be read from. Reads that are on their way to other replicas are
// sent again elsewhere.
func (s *sharedPipes) followReaders(t *cluster.Topology) {
	s.readers = make([][]node, len(t.Masters))
	fit := make(map[string]bool)
	for i, master := range t.Masters {
		for _, n := range t.Readers[master] {
			fit[n.Addr] = true
			s.readers[i] = append(s.readers[i], node{addr: n.Addr})
		}
	}
	for _, pipe := range s.byNode {
		switch {
		case !pipe.mode.Replica || fit[pipe.addr]:
		case pipe.dialing:
			pipe.cancel()
		default:
			pipe.hangUp(errUnfit)
		}
	}
}

// readerFor is the pipe to a replica that may answer r now: a replica of its slot's master, or of the only
// master if r names no slot. nil: r goes to the master. A client with connections of its own has them to
// masters only.
func (s *sharedPipes) readerFor(r *Request) *Pipe {
	n, i := r.Target.n, 0
	if n >= 0 {
		i = int(s.index[n])
	}
	if r.Mode.Own != nil || i < 0 || i >= len(s.readers) || n < 0 && len(s.masters) != 1 {
		return nil
	}
	return s.reader(s.readers[i], r.Mode, uint64(r.Seed), r.Readers == AllReaders)
}

// reader is the pipe to one of the readers; nil if none can be used now, or if it is the master's turn.
func (s *sharedPipes) reader(all []node, m Mode, seed uint64, share bool) *Pipe {
	n := uint64(len(all))
	if n == 0 || share && seed%(n+1) == n {
		return nil
	}
	now := s.loop.Now()
	for k := range n {
		pipe := all[(seed+k)%n].pipe(s, Mode{Proto: m.Proto, DB: m.DB, Replica: true})
		if !now.Before(pipe.retryAt) && !now.Before(pipe.shunned) {
			return pipe
		}
	}
	return nil
}
