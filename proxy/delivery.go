package proxy

// delivery is an answer that must be taken back when the client did not get it.
type delivery struct {
	upto uint64 // the answer ends at this byte of the connection's output
	lost func()
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
