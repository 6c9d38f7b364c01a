package pipe

import "errors"

// This file holds back what is sent again, as long as it could overtake what its client has sent before it:
// that waits (deferred.go), is aside (order.go), or is under way over another connection.

// errBehind is why a request is held back.
var errBehind = errors.New("what its client has sent before it is not answered")

// senders tell of each client, by slot, what is under way again.
type senders map[sender]*resends

// sender is a client that sends to a slot. The zero value is nobody whose requests have an order.
type sender struct {
	client int64
	slot   int16
}

// resends are the requests of one sender that are under way again, or aside.
type resends struct {
	pipe *Pipe // carries them, and may carry more; nil: one is aside, or was
	n    int
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
	return r != nil && r.pipe != pipe
}

// sends notes that pipe carries c; nil: that c is aside.
func (s senders) sends(pipe *Pipe, c *call) {
	of := senderOf(c)
	if of == (sender{}) {
		return
	}
	r := s[of]
	if r == nil {
		r = new(resends)
		s[of] = r
	}
	r.pipe, r.n = pipe, r.n+1
}

// ends notes that c is neither under way nor aside any more.
func (s senders) ends(c *call) {
	of := senderOf(c)
	if r := s[of]; r != nil {
		if r.n--; r.n == 0 {
			delete(s, of)
		}
	}
}
