package proxy

import (
	"io"
	"net"
	"time"

	"lockproxy/redlock"
)

// delivery is an answer that must be taken back when the client did not get it.
type delivery struct {
	upto uint64    // the answer ends at this byte of the connection's output
	at   time.Time // when it was appended to that
	lost redlock.Delivery
}

// ackWithin is after how long a peer that has got something has acknowledged it: TCP lets it wait for half
// a second (RFC 1122, 4.2.3.2), and the way may take as long.
const ackWithin = time.Second

// deliveries are the answers of one client that it may not have got yet, and how far its output has come.
type deliveries struct {
	all      []delivery
	appended uint64 // bytes ever given to the output
	written  uint64 // bytes ever written
}

// add notes that lost is to be told if the client does not get what was given to its output so far.
func (d *deliveries) add(now time.Time, lost redlock.Delivery) {
	d.all = append(d.all, delivery{d.appended, now, lost})
}

// prove forgets the answers that the client has most likely read, since it has sent more after they were
// written.
func (d *deliveries) prove() {
	n := 0
	for n < len(d.all) && d.all[n].upto <= d.written {
		n++
	}
	if n > 0 {
		d.all = append(d.all[:0], d.all[n:]...)
	}
}

// end takes back what the client surely did not get, now that the connection of s has ended with err. When in
// doubt nothing is taken back: a grant that nobody uses costs one lease, one that is given twice may cost
// data.
func (d *deliveries) end(s *session, err error) {
	acked, known, final := s.conn.Acknowledged()
	broken := known && err != io.EOF && err != net.ErrClosed
	for _, one := range d.all {
		// The end of the client's side acknowledges all that came before it: what is still
		// not acknowledged after that has met a closed socket.
		settled := final || s.eof || s.w.loop.Now().Sub(one.at) > ackWithin
		if one.upto > d.written || broken && settled && one.upto > acked {
			one.lost.Lost()
		}
	}
	d.all = nil
}
