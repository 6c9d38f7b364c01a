package proxy

import (
	"io"
	"net"
	"time"

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

// deliveries has the answers that one client may not have received yet, and how far its output has come.
type deliveries struct {
	all      []delivery
	appended uint64 // bytes ever given to the output
	written  uint64 // bytes ever written
}

// add notes that lost must be told if the client does not get all of its output so far.
func (d *deliveries) add(now time.Time, lost redlock.Delivery) {
	d.all = append(d.all, delivery{d.appended, now, lost})
}

// prove forgets the answers that the client has most likely read, since it has sent more after they were
// written.
func (d *deliveries) prove() {
	n := 0
	for n < len(d.all) && d.all[n].upto <= d.written {
		d.all[n].lost.Arrived()
		n++
	}
	if n > 0 {
		d.all = append(d.all[:0], d.all[n:]...)
	}
}

// end takes back what the client certainly did not get, now that the connection of s has ended with err. What
// is in doubt is not taken back: a grant that nobody uses costs one lease, while a lock that is granted twice
// may cost data.
func (d *deliveries) end(s *session, err error) {
	acked, known, final := s.conn.Acknowledged()
	broken := known && err != io.EOF && err != net.ErrClosed
	for _, one := range d.all {
		// The end of the client's side acknowledges all that came before it. What is still not acknowledged
		// after that has met a closed socket.
		settled := final || s.eof || s.w.loop.Now().Sub(one.at) > ackWithin
		if one.upto > d.written || broken && settled && one.upto > acked {
			one.lost.Lost()
		}
	}
	d.all = nil
}
