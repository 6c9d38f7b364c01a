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

// Underway are the subscriptions of all loops that clients have asked for and no node has confirmed yet.
// Redis serves SUBSCRIBE of one connection before PUBLISH of another that comes later; through a proxy the
// two go over different connections to the node, where the second may overtake the first. So what is
// published, and PUBSUB, waits for the subscriptions that came before it.
//
// The zero value has none. Safe for concurrent use.
type Underway struct {
	n        atomic.Int64 // of all; most PUBLISHes find 0 and look no further
	mu       sync.Mutex
	requests requests
	channels map[channel]requests
	others   requests // of patterns, and of too many names to look at
}

// requests are some of those under way: as a set, so that thousands of clients who ask for one channel at
// once end their requests in no more time than few do.
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

// underwayMost is for how long at most a command waits for subscriptions: those at a node that is silent end
// after the retry budget only.
const underwayMost = time.Second

// begin notes that a client asks for names; nil stands for too many to look at. The caller calls end once
// they are confirmed and counted, or refused.
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

// wide says that the names of r are not those of its channels.
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

// concerned are the requests whose clients are to get what is published on a channel. A request that more
// than some steps would be needed for to find that out is taken for one of them.
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

// matches says that one of the patterns of r matches a channel, or that nothing is left of the steps.
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

// await waits for the end of all, for underwayMost at most.
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
