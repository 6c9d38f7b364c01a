package proxy

import (
	"io"
	"net"
	"time"
)

// delivery is an answer that must be taken back when the client did not get it.
type delivery struct {
	upto uint64    // the answer ends at this byte of the connection's output
	at   time.Time // when it was appended to that
	lost func()
}

// ackWithin is after how long a peer that has got something has acknowledged it: TCP lets it wait for half
// a second (RFC 1122, 4.2.3.2), and the way may take as long.
const ackWithin = time.Second

// loseDeliveries takes back what the client surely did not get, now that its connection has ended with err. When
// in doubt nothing is taken back: a grant that nobody uses costs one lease, one that is given
// twice may cost data.
func (s *session) loseDeliveries(err error) {
	acked, known, final := s.conn.Acknowledged()
	broken := known && err != io.EOF && err != net.ErrClosed
	for _, d := range s.deliveries {
		// The end of the client's side acknowledges all that came before it: what is still
		// not acknowledged after that has met a closed socket.
		settled := final || s.eof || s.w.loop.Now().Sub(d.at) > ackWithin
		if d.upto > s.written || broken && settled && d.upto > acked {
			d.lost()
		}
	}
	s.deliveries = nil
}

// proveDelivery forgets the answers that the client has most likely read, since
// it has sent more after they were written.
func (s *session) proveDelivery() {
	n := 0
	for n < len(s.deliveries) && s.deliveries[n].upto <= s.written {
		n++
	}
	if n > 0 {
		s.deliveries = append(s.deliveries[:0], s.deliveries[n:]...)
	}
}
