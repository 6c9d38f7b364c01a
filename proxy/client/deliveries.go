package client

import (
	"io"
	"net"
	"time"

	"lockproxy/internal/loop"
	"lockproxy/redlock"
)

// delivery is an answer that must be taken back if the client does not get it.
type delivery struct {
	upto uint64    // the answer ends at this byte of the connection's output
	at   time.Time // when it was appended to the output
	lost redlock.Delivery
}

// ackWithin is the time in which a peer acknowledges what it has received: TCP may delay that for half a
// second (RFC 1122, 4.2.3.2), and the network may take as long.
const ackWithin = time.Second

// Deliveries has the answers that one client may not have received yet, and how far its output has come.
type Deliveries struct {
	all      []delivery
	Appended uint64 // bytes ever given to the output
	Written  uint64 // bytes ever written
}

// Any says that there are such answers.
func (d *Deliveries) Any() bool { return len(d.all) > 0 }

// Add notes that lost must be told if the client does not get all of its output so far.
func (d *Deliveries) Add(now time.Time, lost redlock.Delivery) {
	d.all = append(d.all, delivery{d.Appended, now, lost})
}

// Prove forgets the answers that the client has most likely read, since it has sent more after they were
// written.
func (d *Deliveries) Prove() {
	n := 0
	for n < len(d.all) && d.all[n].upto <= d.Written {
		d.all[n].lost.Arrived()
		n++
	}
	if n > 0 {
		d.all = append(d.all[:0], d.all[n:]...)
	}
}

// End takes back what the client certainly did not get, now that conn has ended with err, after the end of
// the client's side if eof. What is in doubt is not taken back: a grant that nobody uses costs one lease,
// while a lock that is granted twice may cost data.
func (d *Deliveries) End(conn *loop.Conn, now time.Time, eof bool, err error) {
	acked, known, final := conn.Acknowledged()
	broken := known && err != io.EOF && err != net.ErrClosed
	for _, one := range d.all {
		// The end of the client's side acknowledges all that came before it. What is still not acknowledged
		// after that has met a closed socket.
		settled := final || eof || now.Sub(one.at) > ackWithin
		if one.upto > d.Written || broken && settled && one.upto > acked {
			one.lost.Lost()
		}
	}
	d.all = nil
}
