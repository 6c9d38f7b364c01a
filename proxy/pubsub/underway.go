package pubsub

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pubsub"
	"lockproxy/internal/glob"
)

// Underway has the subscriptions of all loops that clients have asked for and no node has confirmed yet.
// Redis serves SUBSCRIBE of one connection before a later PUBLISH of another. Through a proxy the two go to
// the node over different connections, where the second may overtake the first. So PUBLISH and PUBSUB wait
// for the subscriptions that came before them.
//
// The zero value has none. Safe for concurrent use.
type Underway struct {
	n        atomic.Int64 // how many there are; most PUBLISHes find 0 and look no further
	mu       sync.Mutex
	requests requests
	channels map[channel]requests
	others   requests // requests for patterns, and for too many names to look at
}

// requests is a set of those under way. A set, so that thousands of clients that ask for one channel at once
// end their requests as fast as a few do.
type requests map[*request]struct{}

type channel struct {
	kind pubsub.Kind
	name string
}

// request is one command that subscribes.
type request struct {
	kind  pubsub.Kind
	names []string      // nil: too many to look at
	done  chan struct{} // closed at its end
}

// underwayMost bounds how long a command waits for subscriptions: those at a silent node end only after the
// retry budget.
const underwayMost = time.Second

// begin notes that a client asks for names; nil: too many to look at. The caller calls end once they are
// confirmed and counted, or refused.
func (u *Underway) begin(kind pubsub.Kind, names []string) (end func()) {
	r := &request{kind: kind, names: names, done: make(chan struct{})}
	u.n.Add(1)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.requests == nil {
		u.requests, u.others, u.channels = make(requests), make(requests), make(map[channel]requests)
	}
	u.requests[r] = struct{}{}
	if r.wide() {
		u.others[r] = struct{}{}
		return func() { u.end(r) }
	}
	for _, name := range names {
		at := channel{kind, name}
		if u.channels[at] == nil {
			u.channels[at] = make(requests, 1)
		}
		u.channels[at][r] = struct{}{}
	}
	return func() { u.end(r) }
}

// wide says that the names of r are not its channels: they are patterns, or too many.
func (r *request) wide() bool { return r.names == nil || r.kind == pubsub.Pattern }

// Len is how many there are.
func (u *Underway) Len() int { return int(u.n.Load()) }

func (u *Underway) end(r *request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n.Add(-1)
	close(r.done)
	delete(u.requests, r)
	if r.wide() {
		delete(u.others, r)
		return
	}
	for _, name := range r.names {
		at := channel{r.kind, name}
		if delete(u.channels[at], r); len(u.channels[at]) == 0 {
			delete(u.channels, at)
		}
	}
}

// concerned returns the requests whose clients may get what is published on a channel. A request that takes
// too many steps to decide counts as one of them.
func (u *Underway) concerned(name []byte, shard bool) (all []*request) {
	if u.n.Load() == 0 {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	kind := pubsub.Classic
	if shard {
		kind = pubsub.Shard
	}
	if len(name) <= cluster.MaxShared { // nobody can subscribe to a longer one, which takes long to look up
		all = slices.Collect(maps.Keys(u.channels[channel{kind, string(name)}]))
	}
	left := PublishSteps
	for r := range u.others {
		if r.names == nil || !shard && r.matches(name, &left) {
			all = append(all, r)
		}
	}
	return all
}

// matches says that a pattern of r matches a channel, or that no steps are left.
func (r *request) matches(name []byte, left *int) bool {
	for _, pattern := range r.names {
		var ok bool
		if ok, *left = glob.MatchWithin([]byte(pattern), name, *left); ok || *left < 0 {
			return true
		}
	}
	return false
}

// all are all requests.
func (u *Underway) all() []*request {
	if u.n.Load() == 0 {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Collect(maps.Keys(u.requests))
}

// await waits until all of them have ended, for underwayMost at most.
func await(all []*request) {
	over := time.NewTimer(underwayMost)
	defer over.Stop()
	for _, r := range all {
		select {
		case <-r.done:
		case <-over.C:
			return
		}
	}
}
