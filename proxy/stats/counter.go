// Package stats counts the commands of clients: for the metrics, whose counters only rise, and for INFO,
// which CONFIG RESETSTAT sets back.
//
//	a loop --> Counter.Observe <-- Counters.Commands (metrics), Own (INFO commandstats, errorstats)
package stats

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/commands"
	"lockproxy/proxy/client"
)

// durationBuckets is how many buckets the durations of a command fall into. Bucket i counts those below 16 µs
// << i, the last one all others.
const durationBuckets = 20

// BucketLimit is the upper bound of duration bucket i; the last one has none.
func BucketLimit(i int) time.Duration { return 16 * time.Microsecond << i }

// CommandCount counts one command, by its name in the upstream's table.
type CommandCount struct {
	Name          string
	Calls, Errors uint64
	// Took is the sum of the times from reading the command to the whole reply, without waits for locks.
	Took    time.Duration
	Buckets [durationBuckets]uint64 // calls by duration, not cumulative; see BucketLimit
}

// Counter counts one command on one loop. The loop writes, anybody reads. So a counter needs no lock, and a
// loop shares none with another. Who reads while commands run may find one call in some of the fields and not
// yet in others.
type Counter struct {
	Name      string // of the command
	Writes    bool   // it may write data; for the loop alone
	Blocks    bool   // it may block its client; likewise
	Publishes bool   // it may publish; likewise
	errors    atomic.Uint64
	nanos     atomic.Uint64
	buckets   [durationBuckets]atomic.Uint64 // each call is counted in one of them

	// The calls that the proxy answered without asking a node.
	own, ownFailed, ownNanos, rejected atomic.Uint64
}

// calls is how many calls were counted.
func (c *Counter) calls() (n uint64) {
	for i := range c.buckets {
		n += c.buckets[i].Load()
	}
	return n
}

// Observe counts a call that by has answered, with an error if it failed. It runs on the loop of the counter.
// took is until the whole answer was there, without waits for locks.
func (c *Counter) Observe(took time.Duration, failed bool, by client.By) {
	if failed {
		c.errors.Add(1)
	}
	c.nanos.Add(uint64(took))
	// 0 below the first limit, and one more each time that it doubles, as BucketLimit does.
	i := bits.Len64(uint64(took) / uint64(BucketLimit(0)))
	c.buckets[min(i, durationBuckets-1)].Add(1)
	switch by {
	case client.ByRefuse:
		c.rejected.Add(1)
	case client.ByProxy:
		c.own.Add(1)
		c.ownNanos.Add(uint64(took))
		if failed {
			c.ownFailed.Add(1)
		}
	}
}

// Loop has the counters of one loop, to which it belongs.
type Loop struct {
	all    *Counters
	byName map[string]*Counter
	// A slice, since each command is looked up here. byName is for new tables only.
	byID []*Counter // by Command.ID of the table that Use got last
}

// Use has the commands of a new table counted. A command that the loop has met before keeps its counter, even
// if a table in between lacked it: what the metrics show must never fall.
func (l *Loop) Use(table []*commands.Command) {
	l.byID = make([]*Counter, len(table))
	for i, cmd := range table {
		c := l.byName[cmd.Name]
		if c == nil {
			c = &Counter{Name: cmd.Name}
			l.all.addCounter(c)
			l.byName[cmd.Name] = c
		}
		c.Writes, c.Blocks = cmd.Flags&commands.Write != 0, cmd.Flags&commands.Blocking != 0
		c.Publishes = cmd.MayPublish()
		l.byID[i] = c
	}
}

// Of is the counter of a command.
func (l *Loop) Of(cmd *commands.Command) *Counter { return l.byID[cmd.ID] }

// Counters has the counters of all loops. Safe for concurrent use.
type Counters struct {
	mu  sync.Mutex
	all []*Counter
}

// Loop makes the counters of one more loop.
func (c *Counters) Loop() Loop { return Loop{all: c, byName: make(map[string]*Counter)} }

// addCounter has one more counter counted, of any loop. None is ever taken out.
func (c *Counters) addCounter(one *Counter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, one)
}

// listCounters returns all counters, in a slice that is never changed.
func (c *Counters) listCounters() []*Counter {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[:len(c.all):len(c.all)]
}

// Calls is how many calls of all commands were counted.
func (c *Counters) Calls() (n uint64) {
	for _, one := range c.listCounters() {
		n += one.calls()
	}
	return n
}

// Commands are the counts of each command, of all loops together.
func (c *Counters) Commands() (all []CommandCount) {
	at := make(map[string]int)
	for _, c := range c.listCounters() {
		i, ok := at[c.Name]
		if !ok {
			i = len(all)
			at[c.Name] = i
			all = append(all, CommandCount{Name: c.Name})
		}
		sum := &all[i]
		sum.Errors += c.errors.Load()
		sum.Took += time.Duration(c.nanos.Load())
		for b := range c.buckets {
			n := c.buckets[b].Load()
			sum.Buckets[b] += n
			sum.Calls += n
		}
	}
	return all
}
