package pipe

import (
	"bytes"
	"errors"
	"fmt"
	"lockproxy/cluster"
	"math/rand/v2"
	"time"
)

// A node that gets more than it can do answers all the time, but later and later. Then new requests had
// better be refused at once than wait for longer than their clients do: with Options.ShedAfter the sender
// asks Pool.Overloaded first.

// congestion is how late the answers of a pipe are, and how fast they come. One request at a time is timed,
// from when it is queued until it is answered. One that takes long may stand behind a long command. The node
// is overloaded if the next one takes long, too, or if twice as many wait as it answers in time: from then
// on only so many requests wait as it answers in time. Clients that all get their answers at once, and all
// ask again at once, ask when the timed request is a moment old: then the two before it tell.
type congestion struct {
	ahead  int           // so many answers are to come until that of the timed request; 0: none is timed
	since  time.Time     // when it was queued
	took   time.Duration // the one before it
	before time.Duration // the one before that
	last   time.Time     // when an answer came, or the first request was queued
	until  time.Time     // when the node stops counting as overloaded, unless one more is too many before

	answers int           // those of the stretch of time that lasts
	busy    time.Duration // for how long of it requests waited
	full    time.Time     // when that was long enough
	rate    float64       // answers a second in the stretch before
}

const (
	// stretch is for how long answers are counted at least. A node that has read many requests answers them
	// all at once, so shorter ones say little.
	stretch = 100 * time.Millisecond
	// together is how far apart answers are at most that were sent at once. They are counted with the wait
	// for the first of them.
	together = stretch / 10
	// wary is for how many times the limit a node counts as overloaded after it was. Without that, all who
	// were refused could come back at the moment at which nothing waits, and wait for as long as before.
	wary = 10
)

// queued is told that n requests wait, one of them new.
func (l *congestion) queued(n int, now time.Time) {
	if n == 1 {
		l.last = now
	}
	if l.ahead == 0 {
		l.ahead, l.since = n, now
	}
}

// answered is told that the oldest request is answered.
func (l *congestion) answered(now time.Time) {
	if l.busy >= stretch && now.Sub(l.full) > together {
		l.rate = float64(l.answers) / l.busy.Seconds()
		l.answers, l.busy = 0, 0
	}
	waited := now.Sub(l.last)
	if l.busy < stretch && l.busy+waited >= stretch {
		l.full = now
	}
	l.busy += waited
	l.last = now
	l.answers++
	if l.ahead > 0 {
		if l.ahead--; l.ahead == 0 {
			l.before, l.took = l.took, now.Sub(l.since)
		}
	}
}

// exceeds says whether answers take longer than limit, while n requests wait, so that one more is too many.
func (l *congestion) exceeds(n int, now time.Time, limit time.Duration) bool {
	if now.Sub(l.last) > 2*max(l.took, limit) { // standing still is another trouble
		return false
	}
	inTime := l.rate * limit.Seconds()
	tooMany := l.rate > 0 && float64(n) > 2*inTime
	seen := l.ahead > 0 && now.Sub(l.since) > limit && (l.took > limit || tooMany) ||
		min(l.before, l.took) > limit && tooMany
	if !seen && now.After(l.until) || float64(n) < inTime {
		return false
	}
	l.until = now.Add(wary * limit)
	return true
}

// Replies may come drop by drop. Each byte is a sign of life, but nothing behind such a
// reply is delivered before the last one.

// leastRate is how many bytes a second come of a reply behind which others wait.
const leastRate = 16 << 10

// pace is how fast the oldest reply comes.
type pace struct {
	since time.Time // others have waited, or were looked at last
	bytes int       // came since
	some  bool      // or at least something that is no whole line
	whole bool      // a reply ended since
}

// crawls says that for longer than limit too little has come of a reply behind which others wait, if any do.
// It is asked again and again.
func (o *pace) crawls(others bool, now time.Time, limit time.Duration) bool {
	was := *o
	if !others || was.whole || was.since.IsZero() {
		*o = pace{since: now}
		return false
	}
	waited := now.Sub(was.since)
	if waited <= limit {
		return false
	}
	*o = pace{since: now}
	return was.some && float64(was.bytes) < leastRate*waited.Seconds()
}

// This file proves that the replies of a shared connection belong to their requests. A node, or something on
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

// proof is what a pipe knows about that.
type proof struct {
	queued int       // requests since the last question, or since nothing was owed
	at     time.Time // when that was
	secret uint64    // of this pipe
	asked  uint32
	answer []byte // to the question at the head of the queue, as far as it has come
}

// rest notes that nothing is owed.
func (o *proof) rest(now time.Time) { o.queued, o.at = 0, now }

// due counts a request that is about to be queued, and says whether a question comes first.
func (o *proof) due(now time.Time) bool {
	o.queued++
	return o.queued > proveAfter || now.Sub(o.at) >= proveEvery
}

// question is what is asked next.
func (o *proof) question(now time.Time) (tag uint32, req []byte) {
	o.rest(now)
	for o.secret == 0 {
		o.secret = rand.Uint64()
	}
	o.asked++
	return o.asked, fmt.Appendf(nil, "*2\r\n$4\r\nPING\r\n%s", o.expected(o.asked))
}

// expected is the answer to a question.
func (o *proof) expected(tag uint32) []byte {
	return fmt.Appendf(nil, "$16\r\n%016x\r\n", (o.secret+uint64(tag))*0x9e3779b97f4a7c15)
}

// take takes a part of the reply to a question, and says whether it may be right. Errors prove nothing: the
// node is loading, or busy, or PING is not allowed.
func (o *proof) take(tag uint32, chunk []byte, last bool) error {
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
