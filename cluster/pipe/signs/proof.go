package signs

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"lockproxy/cluster"
)

// A proof shows that the replies of a shared connection belong to their requests. A node, or something on
// the way to it, that sends one reply too many or too few would give each client the reply of another:
//
//	--> GET a   PING 7f03...   GET b
//	<-- "1"     "7f03..."      "2"    in order: go on
//	<-- "1"     "5"            ...    hang up
//
// While nothing is owed, a reply too many is seen at once. So there is a question only while the queue does
// not get empty, and a connection that is not busy pays nothing.

const (
	// proveAfter is how many requests are queued between two questions, and proveEvery how much time passes.
	proveAfter = 500
	proveEvery = 50 * time.Millisecond
)

// errAskew is why a connection is given up whose replies do not belong to their requests.
var errAskew = errors.New("the replies do not belong to the requests: the node, or something before it, " +
	"sent one too many or too few")

// Proof is what a pipe knows about that.
type Proof struct {
	queued int       // requests since the last question, or since nothing was owed
	at     time.Time // when that was
	secret uint64    // of this pipe, so that nobody can foresee an answer; 0: it is still to be drawn
	asked  uint32    // questions so far: the tag of the latest
	answer []byte    // to the question at the head of the queue, as far as it has come
}

// Begin begins a connection.
func (o *Proof) Begin() { o.answer = o.answer[:0] }

// Rest notes that nothing is owed.
func (o *Proof) Rest(now time.Time) { o.queued, o.at = 0, now }

// Due counts a request that is about to be queued, and says whether a question comes first.
func (o *Proof) Due(now time.Time) bool {
	o.queued++
	return o.queued > proveAfter || now.Sub(o.at) >= proveEvery
}

// Question is what is asked next.
func (o *Proof) Question(now time.Time) (tag uint32, req []byte) {
	o.Rest(now)
	for o.secret == 0 {
		o.secret = rand.Uint64()
	}
	o.asked++
	return o.asked, fmt.Appendf(nil, "*2\r\n$4\r\nPING\r\n%s", o.expected(o.asked))
}

// expected is the answer to a question. All are equally long, and no client has one as a value but by a
// chance of 2^-64.
func (o *Proof) expected(tag uint32) []byte {
	return fmt.Appendf(nil, "$16\r\n%016x\r\n", (o.secret+uint64(tag))*0x9e3779b97f4a7c15)
}

// Take takes a part of the reply to a question, and says whether it may be right. Errors prove nothing:
// the node is loading, or busy, or PING is not allowed. A part that is wrong is enough: the connection ends
// before a client gets what is behind it.
func (o *Proof) Take(tag uint32, chunk []byte, last bool) error {
	o.answer = append(o.answer, chunk...)
	answer, right := o.answer, o.expected(tag)
	if last {
		o.answer = o.answer[:0]
	}
	if answer[0] != '-' && (!bytes.HasPrefix(right, answer) || last && len(answer) < len(right)) {
		return fmt.Errorf("%w: %w", cluster.ErrFraming, errAskew)
	}
	return nil
}
