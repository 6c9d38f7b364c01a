package pipe

import (
	"errors"
	"time"

	"lockproxy/cluster"
)

// This file is pipes of modes that only some clients need: to databases other than 0, and to
// replicas. They are made when first needed like the others, and closed again when nobody has
// used them for a while.

const (
	// sideIdle is how long such a pipe is kept without use.
	sideIdle = 30 * time.Second
	// maxDatabases is how many pipes to databases other than 0 a loop keeps beside those that
	// have requests on their way, of which each client has some in one database only.
	maxDatabases = 64
)

// errIdle is why a pipe that nobody used was closed.
var errIdle = errors.New("nobody used it")

// notRun is the ModeError that a request is told which has not run because of it. It wraps ErrUnavailable,
// too.
type notRun struct{ *cluster.ModeError }

func (e notRun) Unwrap() []error { return []error{e.ModeError, cluster.ErrUnavailable} }

// refusedMode is the error of a node that will not be put into mode m, if err is one. A replica is not asked
// twice either, but its master is.
func refusedMode(err error, m Mode) error {
	var refused *cluster.ModeError
	if !m.Replica && errors.As(err, &refused) {
		return notRun{refused}
	}
	return nil
}

// Reaches says that a connection to the database of m is there: so the upstream has that database.
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

// side is the pipe to the i-th master in a mode that is not plain. The one used last is found at once.
func (p *Pool) side(i int, m Mode) *Pipe {
	if pipe := p.sides[i]; pipe != nil && pipe.mode == m {
		return pipe
	}
	pipe := p.pipe(p.topology.Masters[i].Addr, m)
	p.sides[i] = pipe
	return pipe
}

// unused says that the pipe has nothing to do.
func (p *Pipe) unused() bool { return p.calls.len() == 0 && !p.dialing }

// roomForDatabase closes the pipe to a database other than 0 that has been unused for the longest
// time, if there are as many as may be kept.
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
		p.drop(oldest, errIdle)
	}
}

// drop closes a shared pipe and forgets it.
func (p *Pool) drop(pipe *Pipe, why error) {
	delete(p.byNode, nodeKey{pipe.addr, pipe.mode})
	for i, side := range p.sides {
		if side == pipe {
			p.sides[i] = nil
		}
	}
	p.readers.forget(pipe)
	p.stuck.set(pipe, false)
	pipe.hangUp(why)
}
