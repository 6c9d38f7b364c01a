package pipe

import (
	"sync/atomic"
	"time"

	"lockproxy/internal/slot"
)

// movingFor is for how long a slot counts as one that moves after a node has said so.
const movingFor = 2 * time.Second

// movingSlots are the slots of which a node has said lately, by ASK or TRYAGAIN, that some of their keys are
// at another one. Safe for concurrent use.
type movingSlots [slot.Count]atomic.Int64 // when, ms since 1970

// note notes that now a node says so of slot n.
func (m *movingSlots) note(n int16, now time.Time) {
	if n >= 0 {
		m[n].Store(now.UnixMilli())
	}
}

// Moving says that slot n is being moved from one node to another, as far as requests have met that lately.
// Messages of its sharded channels do not reach all who listen then.
func (c *Client) Moving(n int) bool {
	seen := c.pools[0].stats.moving[n].Load()
	return seen > 0 && time.Since(time.UnixMilli(seen)) < movingFor
}
