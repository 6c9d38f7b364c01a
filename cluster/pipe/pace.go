package pipe

import "time"

// This file is about replies that come drop by drop. Each byte is a sign of life, but nothing behind such a
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

// crawls says that for longer than Options.Timeout too little has come of a reply behind which others wait.
// It is asked again and again.
func crawls(p *Pipe, now time.Time) bool {
	was := p.pace
	if p.conn == nil || p.calls.len() < 2 || was.whole || was.since.IsZero() {
		p.pace = pace{since: now}
		return false
	}
	waited := now.Sub(was.since)
	if waited <= p.o.Timeout {
		return false
	}
	p.pace = pace{since: now}
	return was.some && float64(was.bytes) < leastRate*waited.Seconds()
}
