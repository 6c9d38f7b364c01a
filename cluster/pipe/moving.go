package pipe

import (
	"sync/atomic"
	"time"

	"lockproxy/internal/slot"
)

// movingFor is how long a slot counts as moving after a node has said so.
const movingFor = 2 * time.Second

// movingSlots are the slots of which a node has lately said, by ASK or TRYAGAIN, that some of their keys are
// at another node. Safe for concurrent use.
type movingSlots [slot.Count]atomic.Int64 // when, ms since 1970

// note notes that a node says so of slot n now.
func (m *movingSlots) note(n int16, now time.Time) {
	if n >= 0 {
		m[n].Store(now.UnixMilli())
	}
}

// Moving says that slot n is moving from one node to another, as far as requests have shown that lately.
// Then messages of its sharded channels do not reach all subscribers.
func (c *Client) Moving(n int) bool {
	seen := c.pools[0].stats.moving[n].Load()
	return seen > 0 && time.Since(time.UnixMilli(seen)) < movingFor
}
