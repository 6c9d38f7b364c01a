package pipe

import (
	"lockproxy/cluster"
	"lockproxy/cluster/pipe/owned"
)

// Mode is the state that a connection to a node is put into before its first request, and whether one client
// has it to itself.
type Mode struct {
	Proto   int  // 2 or 3
	DB      int  // the database; 0 in a cluster
	Replica bool // reads at a replica: in a cluster READONLY was sent
	// Second is for a second connection of the same kind, used while a script keeps the first one busy; see
	// Pool.StuckEpoch.
	Second bool
	Own    *owned.Set // of the client that has the connection to itself; nil: it is shared
}

// ModeOf is the mode of requests that go over the connections of a client.
func ModeOf(s *owned.Set) Mode { return Mode{Proto: s.Mode().Proto, DB: s.Mode().DB, Own: s} }

// plain says that m is the mode of nearly all requests: database 0, at a master, over the first shared
// connection.
func (m Mode) plain() bool { return m.DB == 0 && !m.Replica && !m.Second && m.Own == nil }

// before says what goes in front of a request that is sent now.
func (m Mode) before() before {
	if m.Own != nil && m.Own.Precedes() {
		return sayPrivate
	}
	return nothing
}

// again is m for a request that is sent once more: at a master, and behind a script if one is running. If
// two requests of one client used second pipes, they would not stay in order when a script began or ended
// between them.
func (m Mode) again() Mode {
	m.Replica, m.Second = false, false
	return m
}

// dialled is the part of m that a connection is put into before its first request.
func (m Mode) dialled() cluster.Mode {
	d := cluster.Mode{Proto: m.Proto, DB: m.DB, Replica: m.Replica}
	if m.Own != nil {
		d.As = m.Own.Mode().As
	}
	return d
}

// nodeKey is where a pipe leads to, and in which mode.
type nodeKey struct {
	addr string
	mode Mode
}
