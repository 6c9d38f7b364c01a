package loop

import (
	"net"
	"time"
)

// Acceptor gets the connections that a loop accepts. Its methods run on the loop.
type Acceptor interface {
	// Accepted is given a connection, which is to be given to Loop.Take or refused. Whoever does neither
	// leaks the descriptor: nothing else closes it.
	Accepted(in Incoming)
	// AcceptFailed says that none can be accepted now. The loop tries again.
	AcceptFailed(err error)
}

// Incoming is a connection that was accepted and is not served yet. It has the TCP options of its Listener.
// Its descriptor does not block, and whoever holds the Incoming owns it.
type Incoming struct {
	fd            int
	Remote, Local string // addresses; those of unix sockets are empty
}

// Listener accepts connections on a loop. Its fields belong to the loop: other goroutines post to change
// them.
type Listener struct {
	loop     *Loop
	acceptor Acceptor
	addr     net.Addr
	local    string // the address of the loop's end of every connection; "": each has its own
	fd       int
	path     string        // of a unix socket, which is removed at the end; ""
	idle     time.Duration // see KeepAlive
	// it doubles with each failure up to retryMost, and is retryFirst again after a success
	retry  time.Duration // how long nothing is accepted after the next failure
	closed bool
	// Connections that wait to be accepted were made with the options that the socket has now. Then accept4
	// has given them those, and setting them again would be four system calls for nothing.
	inherited bool
}

const (
	// maxAccepts is how many connections a listener accepts before others have their turn.
	maxAccepts = 64
	// retryFirst and retryMost are how long a loop waits after a failure, as when no descriptors are left.
	retryFirst = 5 * time.Millisecond
	retryMost  = time.Second
)

// Addr is the address that it listens on.
func (l *Listener) Addr() net.Addr { return l.addr }
