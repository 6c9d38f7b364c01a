// Package signs is about what the replies of a node show beside what they say:
//
//	Congestion   the node answers, but later and later: it gets more than it can do
//	Pace         a reply comes drop by drop, and others wait behind it
//	Proof        the replies belong to their requests, and none came too many or too few
//
// A pipe has one of each. They know no pipe, and no clock but the times that they are given.
package signs

import "time"

// A node that gets more than it can do answers all the time, but later and later. Then new requests had
// better be refused at once than wait for longer than their clients do.

// Congestion is how late the answers of a pipe are, and how fast they come. One request at a time is timed,
// from when it is queued until it is answered. One that takes long may stand behind a long command. The node
// is overloaded if the next one takes long, too, or if twice as many wait as it answers in time: from then on
// only so many requests wait as it answers in time. Clients that all get their answers at once, and all ask
// again at once, ask when the timed request is a moment old: then the two before it tell. All of it is in the
// time of the loop.
type Congestion struct {
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

// Queued is told that n requests wait, one of them new.
func (l *Congestion) Queued(n int, now time.Time) {
	if n == 1 {
		l.last = now
	}
	if l.ahead == 0 {
		l.ahead, l.since = n, now
	}
}

// Answered is told that the oldest request is answered.
func (l *Congestion) Answered(now time.Time) {
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

// Exceeds says whether answers take longer than limit, while n requests wait, so that one more is too many.
func (l *Congestion) Exceeds(n int, now time.Time, limit time.Duration) bool {
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

// Pace is how fast the oldest reply comes.
type Pace struct {
	since time.Time // others have waited, or were looked at last
	bytes int       // came since
	some  bool      // or at least something that is no whole line
	whole bool      // a reply ended since
}

// Came notes that so many bytes came, perhaps none that make a line; Ended, whether a reply did end.
func (o *Pace) Came(bytes int)  { o.some, o.bytes = true, o.bytes+bytes }
func (o *Pace) Ended(last bool) { o.whole = o.whole || last }

// Crawls says that for longer than limit too little has come of a reply behind which others wait, if any do.
// It is asked again and again.
func (o *Pace) Crawls(others bool, now time.Time, limit time.Duration) bool {
	was := *o
	if !others || was.whole || was.since.IsZero() {
		*o = Pace{since: now}
		return false
	}
	waited := now.Sub(was.since)
	if waited <= limit {
		return false
	}
	*o = Pace{since: now}
	return was.some && float64(was.bytes) < leastRate*waited.Seconds()
}
