package proxy

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/proxy/client"
)

// durationBuckets is how many buckets the durations of a command fall into. Bucket i counts those below 16 µs
// << i, the last one all others.
const durationBuckets = 20

// BucketLimit is the upper bound of duration bucket i; the last one has none.
func BucketLimit(i int) time.Duration { return 16 * time.Microsecond << i }

// counter counts one command on one worker. The worker writes, anybody reads.
type counter struct {
	name      string
	writes    bool // it may write data; for the worker alone
	blocks    bool // it may block its client; likewise
	publishes bool // it may publish; likewise
	errors    atomic.Uint64
	nanos     atomic.Uint64
	buckets   [durationBuckets]atomic.Uint64 // each call is counted in one of them

	// The calls that the proxy answered without asking a node.
	own, ownFailed, ownNanos, rejected atomic.Uint64
}

// calls is how many calls were counted.
func (c *counter) calls() (n uint64) {
	for i := range c.buckets {
		n += c.buckets[i].Load()
	}
	return n
}

// counters has the counters of all loops. Safe for concurrent use.
type counters struct {
	mu  sync.Mutex
	all []*counter
}

func (c *counters) add(one *counter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, one)
}

// list returns all counters, in a slice that is never changed.
func (c *counters) list() []*counter {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[:len(c.all):len(c.all)]
}

// observeOwn counts a call that the proxy answered itself.
func (c *counter) observeOwn(took time.Duration, a *answer) {
	if a.by == client.ByRefuse {
		c.rejected.Add(1)
		return
	}
	c.own.Add(1)
	c.ownNanos.Add(uint64(took))
	if a.failed {
		c.ownFailed.Add(1)
	}
}

func (c *counter) observe(took time.Duration, failed bool) {
	if failed {
		c.errors.Add(1)
	}
	c.nanos.Add(uint64(took))
	i := bits.Len64(uint64(took) / uint64(BucketLimit(0)))
	c.buckets[min(i, durationBuckets-1)].Add(1)
}
