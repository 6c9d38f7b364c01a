package pipe

import (
	"net"
	"time"
)

// This file is about host names that lead to another node. A managed service fails over by giving the name
// of the master to its replica, while the old master lives on and answers READONLY, or MOVED to that very
// name. Then a new connection is needed, which looks the name up again.

// leastLife is how long a connection lasts before its name is looked up again: a replica that gets only
// writes answers READONLY each time.
const leastLife = 250 * time.Millisecond

// leavingPipes are the shared pipes of a pool that get no new requests.
type leavingPipes map[*Pipe]struct{}

// redial makes later requests to the pipe's node use a new connection, if its name may lead elsewhere.
// Requests that were sent are answered over the old one, or have not run.
func (p *Pool) redial(pipe *Pipe, reply []byte) {
	young := p.loop.Now().Sub(pipe.since) < leastLife
	switch {
	case pipe.conn == nil || pipe.leaving || young || !misled(pipe.addr, reply):
	case pipe.private != nil:
		pipe.private.fade()
	case pipe.owner == nil:
		pipe.leaving = true
		p.leaving[pipe] = struct{}{}
		p.forget(pipe)
		p.redials++
		p.own.endIdle(pipe.addr)
	}
}

// patrol closes those whose requests are all answered, and those whose node is silent.
func (l leavingPipes) patrol(now time.Time, timeout time.Duration) {
	for pipe := range l {
		switch {
		case pipe.conn == nil:
			delete(l, pipe)
		case pipe.calls.len() == 0:
			pipe.hangUp(errReleased)
		case now.Sub(pipe.progress) > timeout:
			pipe.hangUp(errSilent)
		}
	}
}

// close ends all of them.
func (l leavingPipes) close() {
	for pipe := range l {
		pipe.hangUp(net.ErrClosed)
	}
}
