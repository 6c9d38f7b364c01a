package pipe

import (
	"errors"
	"time"
)

// This file is about pipes in modes that few clients need: to databases other than 0, and to replicas. They
// are made when first needed, like the others, and closed when they have not been used for a while.

const (
	// sideIdle is how long such a pipe is kept without use.
	sideIdle = 30 * time.Second
	// maxDatabases is how many idle pipes to databases other than 0 a loop keeps. There are more only while
	// they have requests on their way, and a client has those in one database at a time.
	maxDatabases = 64
)

// errIdle is why a pipe that nobody used was closed.
var errIdle = errors.New("nobody used it")

// Reaches says that there is a connection to the database of m, so the upstream has that database.
func (p *Pool) Reaches(m Mode) bool {
	for _, n := range p.topology.Masters {
		for m.Proto = 2; m.Proto <= 3; m.Proto++ {
			if pipe := p.byNode[nodeKey{n.Addr, m}]; pipe != nil && pipe.conn != nil {
				return true
			}
		}
	}
	return false
}

// unused says that the pipe has nothing to do.
func (p *Pipe) unused() bool { return p.calls.len() == 0 && !p.dialing }

// roomForDatabase closes the pipe to a database other than 0 that has been unused for the longest time, if
// there are as many as may be kept.
func (p *Pool) roomForDatabase() {
	n := 0
	var oldest *Pipe
	for key, pipe := range p.byNode {
		if key.mode.DB == 0 {
			continue
		}
		n++
		if pipe.unused() && (oldest == nil || pipe.progress.Before(oldest.progress)) {
			oldest = pipe
		}
	}
	if n >= maxDatabases && oldest != nil {
		p.forget(oldest)
		oldest.hangUp(errIdle)
	}
}

// forget has another pipe made for what would be sent over this one.
func (p *Pool) forget(pipe *Pipe) {
	delete(p.byNode, nodeKey{pipe.addr, pipe.mode})
	for i := range p.masters {
		p.masters[i].forget(pipe)
	}
	for _, all := range p.readers {
		for i := range all {
			all[i].forget(pipe)
		}
	}
	p.freed(pipe)
	p.crowd(pipe, 0)
}
