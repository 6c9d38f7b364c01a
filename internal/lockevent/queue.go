package lockevent

import (
	"sync/atomic"
	"time"
)

// MostQueued is how many events may wait in a Queue.
const MostQueued = 8192

// Queue has events on their way to the one goroutine that tells of them. Nobody waits for that: what has no
// room, or cannot be told, is counted, and the next that is told is behind an event that says how many were
// missed. Safe for concurrent use.
type Queue struct {
	C          chan Event
	missed     atomic.Uint64 // lost ones of which those who are told have still to hear
	told, lost atomic.Uint64
}

// NewQueue returns an empty Queue.
func NewQueue() *Queue { return &Queue{C: make(chan Event, MostQueued)} }

// Put adds an event, and says whether there was room for it. If not, it is for the caller to Lose it.
func (q *Queue) Put(e Event) bool {
	select {
	case q.C <- e:
		return true
	default:
		return false
	}
}

// Lose counts events that are not told.
func (q *Queue) Lose(n uint64) {
	q.lost.Add(n)
	q.missed.Add(n)
}

// Told counts events that were told.
func (q *Queue) Told(n uint64) { q.told.Add(n) }

// Gap is an event of the proxy with that id about those that were lost since the last Gap; Count 0: none.
func (q *Queue) Gap(at time.Time, proxy string) Event {
	return Event{Time: at, Kind: Missed, Proxy: proxy, Count: q.missed.Swap(0)}
}

// Again takes back a Gap that could not be told.
func (q *Queue) Again(gap Event) { q.missed.Add(gap.Count) }

// Counts is how many events were told, and how many were lost.
func (q *Queue) Counts() (told, lost uint64) { return q.told.Load(), q.lost.Load() }
