package pipe

import (
	"sync/atomic"
	"time"

	"lockproxy/internal/slot"
)

// movingSlots are when a node last said, by ASK or TRYAGAIN, that some keys of a slot are at another node:
// the time since born, which no change of the clock affects; 0: never. Safe for concurrent use.
type movingSlots [slot.Count]atomic.Int64

var born = time.Now()

// note notes that a node says so of slot n now.
func (m *movingSlots) note(n int16, now time.Time) {
	if n >= 0 {
		m[n].Store(int64(now.Sub(born)))
	}
}

// Parted is when a node last said that some keys of slot n are at another node, because it moves there. The
// zero time: never.
func (c *Client) Parted(n int) time.Time {
	if at := c.pools[0].stats.moving[n].Load(); at != 0 {
		return born.Add(time.Duration(at))
	}
	return time.Time{}
}
