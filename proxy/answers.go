package proxy

import (
	"time"

	"lockproxy/commands"
	"lockproxy/proxy/client"
	"lockproxy/proxy/lockorder"
	"lockproxy/proxy/stats"
	"lockproxy/redlock"
)

// answer is the answer to one command, complete or not. It is in the queue by value: pointers to it are good
// until the next command is begun, which may let the queue grow.
type answer struct {
	client.Collected // what has arrived of it before its turn, or for then
	counter          *stats.Counter
	// When the command was read, by the clock of the loop. Waits for locks are added to it.
	start time.Time
	then  redlock.Exchange // turns the node's reply into the answer; nil: the reply is the answer
	owed  bool             // the client has gone, and Drain waits for the outcome
	kept  int              // memory of the command until it is answered, in bytes
	// takes the answer back if the client does not get it; nil: nothing does
	lost      redlock.Delivery
	started   bool      // its first bytes have arrived
	failed    bool      // it is an error
	touched   bool      // something that it is made of has arrived
	silent    bool      // the client must not get it
	done      bool      // it is complete
	heldBytes int       // bytes that are held for what then waits for
	by        client.By // who made it
}

// isShown says that the client has a part of it, if it is the oldest.
func (a *answer) isShown() bool { return a.started && a.then == nil && !a.silent }

// leaveOutWait takes a wait for a lock out of the time that the command took.
func (a *answer) leaveOutWait(d time.Duration) { a.start = a.start.Add(d) }

// answers is a queue of answers, in the order of the numbers of their commands. While empty it holds no
// memory. Numbers wrap around at 2^32, which does no harm: never so many are under way. The place of number n
// in buf is n modulo its length.
type answers struct {
	buf        []answer // a power of two
	head, tail uint32
	published  uint32 // the last command that may publish, if there was one; it may be answered
}

// These queues have room for fewAnswers, then for manyAnswers, and then for twice as many each time. Workers
// keep those of the first two sizes for re-use.
const (
	fewAnswers  = 4
	manyAnswers = 32
)

// spareAnswers are queues for re-use, about 5 MB of each size at most. They are empty. Most clients have a
// few commands under way, and then none: so thousands of idle ones share these.
type spareAnswers struct{ few, many [][]answer }

// takeQueue returns a queue with room for n. n is a power of two.
func (s *spareAnswers) takeQueue(n int) []answer {
	list, _ := s.listFor(n)
	last := len(*list) - 1
	if last < 0 {
		return make([]answer, n)
	}
	q := (*list)[last]
	*list = (*list)[:last]
	return q
}

// giveQueue takes back a queue, which is empty. What is too many, or too long, is left to the garbage
// collector.
func (s *spareAnswers) giveQueue(q []answer) {
	if list, most := s.listFor(len(q)); len(*list) < most {
		*list = append(*list, q)
	}
}

// listFor has the queues with room for n, and says how many they may be.
func (s *spareAnswers) listFor(n int) (list *[][]answer, most int) {
	switch n {
	case fewAnswers:
		return &s.few, 8192
	case manyAnswers:
		return &s.many, 1024
	}
	return new([][]answer), 0
}

func (q *answers) len() int { return int(q.tail - q.head) }

// unanswered are the numbers of those that wait.
func (q *answers) unanswered() lockorder.Unanswered {
	return lockorder.Unanswered{First: q.head, Next: q.tail}
}

// at is the answer to command n, which must be one that is not answered.
func (q *answers) at(n uint32) *answer { return &q.buf[n&uint32(len(q.buf)-1)] }

// first is the oldest one. There must be one.
func (q *answers) first() *answer { return q.at(q.head) }

// pushAnswer adds an answer, of which nothing is known but the counter of its command, or nil.
func (q *answers) pushAnswer(spare *spareAnswers, c *stats.Counter) (n uint32, a *answer) {
	switch n := q.len(); {
	case q.buf == nil:
		q.buf = spare.takeQueue(fewAnswers)
	case n == len(q.buf):
		grown := spare.takeQueue(max(2*n, manyAnswers))
		for i := q.head; i != q.tail; i++ {
			grown[i&uint32(len(grown)-1)] = *q.at(i)
		}
		clear(q.buf)
		spare.giveQueue(q.buf)
		q.buf = grown
	}
	n = q.tail
	q.tail++
	if c != nil && c.Publishes {
		q.published = n
	}
	a = q.at(n)
	a.counter = c
	return n, a
}

// popAnswer takes out the oldest, whose number counts as answered from now on.
func (q *answers) popAnswer(spare *spareAnswers) {
	*q.first() = answer{}
	q.head++
	if q.head == q.tail {
		spare.giveQueue(q.buf)
		q.buf = nil
	}
}

// Answered implements client.Answers.
func (q *answers) Answered() uint32 { return q.head - 1 }

// Oldest implements client.Answers.
func (q *answers) Oldest() (tag uint32, any bool) { return q.head, q.len() > 0 }

// Touched implements client.Answers. An invalidation that comes now must not overtake that command, whose
// answer it may be about. If there is no such command, it is one that has been answered.
func (q *answers) Touched() (tag uint32, latest bool) {
	for tag = q.tail; tag != q.head; tag-- {
		if a := q.at(tag - 1); a.started || a.done || a.touched {
			return tag - 1, tag == q.tail
		}
	}
	return q.head - 1, q.len() == 0
}

// Speak implements client.Answers.
func (q *answers) Speak(tag uint32) { q.at(tag).silent = false }

// Expect implements client.Answers.
func (q *answers) Expect(tag uint32, then func(reply []byte) []byte) {
	a := q.at(tag)
	if a.then = redlock.ExchangeFunc(then); then == nil {
		a.then = nil
	}
}

// hasCommand says that command tag is not answered yet. Unsigned numbers make that one comparison, also where
// they wrap around.
func (q *answers) hasCommand(tag uint32) bool { return tag-q.head < q.tail-q.head }

// isAnswered says that the answer to command tag is complete, whether or not its turn has come.
func (q *answers) isAnswered(tag uint32) bool { return !q.hasCommand(tag) || q.at(tag).done }

// midAnswer says that a part of an answer is written. Then what arrives of the oldest answer is written at
// once, unless the command makes its own answer of it.
func (q *answers) midAnswer() bool {
	return q.len() > 0 && q.first().isShown() && !q.first().done
}

// noteBegun notes the first bytes of an answer. An error begins with - or, in RESP3, with ! if it is long.
func (a *answer) noteBegun(chunk []byte) {
	if !a.started && len(chunk) > 0 {
		a.started = true
		a.failed = chunk[0] == '-' || chunk[0] == '!'
	}
}

// silence is what CLIENT REPLY has set: 0, or one of
type silence uint8

const (
	silentOnce   silence = 1 << iota // the next command gets no answer
	silentAlways                     // no command gets one
)

// setReplies is CLIENT REPLY. It says whether CLIENT REPLY itself is answered.
func (s *silence) setReplies(r commands.Replies) bool {
	switch {
	case r == commands.RepliesOn:
		*s = 0
		return true
	case r == commands.RepliesOff:
		*s = silentAlways
	case *s == 0:
		*s = silentOnce
	}
	return false
}
