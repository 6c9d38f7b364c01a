package pipe

import (
	"errors"
	"time"
)

// This file holds back what is sent again, as long as it could overtake what its client has sent before it:
// that waits, or is under way over another connection.

// errBehind is why a request is held back.
var errBehind = errors.New("what its client has sent before it is not answered")

// senders tell of each client, by slot, what is sent again.
type senders map[sender]*resends

// sender is a client that sends to a slot. The zero value is nobody whose requests have an order.
type sender struct {
	client int64
	slot   int16
}

// resends are the requests of one sender that are sent again.
type resends struct {
	pipe    *Pipe         // carries those that are under way
	sent    int           // these
	aside   int           // those that are aside; see order.go
	waiting int           // those that are deferred
	first   time.Duration // when the first of these came
}

func senderOf(c *call) sender {
	if client, _, _ := orderOf(c); client != 0 && c.slot >= 0 {
		return sender{client, c.slot}
	}
	return sender{}
}

// blocks says that c, which is sent again, must not go over pipe yet.
func (s senders) blocks(pipe *Pipe, c *call) bool {
	r := s[senderOf(c)]
	return r != nil && (r.aside > 0 || r.waiting > 0 && r.first < c.came || r.sent > 0 && r.pipe != pipe)
}

// note has change note what becomes of c.
func (s senders) note(c *call, change func(r *resends)) {
	of := senderOf(c)
	if of == (sender{}) {
		return
	}
	r := s[of]
	if r == nil {
		r = new(resends)
		s[of] = r
	}
	if change(r); r.sent+r.aside+r.waiting == 0 {
		delete(s, of)
	}
}

// defers notes that c is deferred.
func (s senders) defers(c *call) {
	s.note(c, func(r *resends) {
		if r.waiting == 0 || c.came < r.first {
			r.first = c.came
		}
		r.waiting++
	})
}

// tries notes that c is not deferred any more; left are those that are.
func (s senders) tries(c *call, left []*deferred) {
	of := senderOf(c)
	s.note(c, func(r *resends) {
		r.waiting--
		r.first = 1<<63 - 1
		for _, d := range left {
			if senderOf(&d.call) == of {
				r.first = min(r.first, d.came)
			}
		}
	})
}

// sends notes that pipe carries c.
func (s senders) sends(pipe *Pipe, c *call) {
	s.note(c, func(r *resends) { r.pipe, r.sent = pipe, r.sent+1 })
}

// ends notes that no pipe carries c any more.
func (s senders) ends(c *call) { s.note(c, func(r *resends) { r.sent-- }) }

// puts notes that n more of the requests like c are aside.
func (s senders) puts(c *call, n int) { s.note(c, func(r *resends) { r.aside += n }) }
