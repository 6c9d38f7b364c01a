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
	n  atomic.Int64 // how many there are; most PUBLISHes find 0 and look no further
	mu sync.Mutex
	by map[pubsub.TopicName]subscribeRequests
}

// subscribeRequests is a set of those under way. A set, so that thousands of clients that ask for one channel
// at once end their requests as fast as a few do.
type subscribeRequests map[*subscribeRequest]struct{}

// subscribeRequest is one command that subscribes.
type subscribeRequest struct {
	topics   []pubsub.TopicName // where it is in Underway.by: its channels, or wide
	patterns []string           // of a wide one; nil: it may be about any channel
	done     chan struct{}      // closed at its end
}

// wide is in the place of channels for a request for patterns, or for too many names to look at.
var wide = pubsub.TopicName{Kind: pubsub.Pattern}

// underwayMost bounds how long a command waits for subscriptions: those at a silent node end only after the
// retry budget.
const underwayMost = time.Second

// beginRequest notes that a client asks for names; nil: too many to look at. The caller calls end once they
// are confirmed and counted, or refused. It runs on any loop, before a node is asked. end is called exactly
// once.
func (u *Underway) beginRequest(kind pubsub.Kind, names []string) (end func()) {
	r := &subscribeRequest{done: make(chan struct{})}
	if kind == pubsub.Pattern || names == nil {
		r.topics, r.patterns = []pubsub.TopicName{wide}, names
	} else {
		for _, name := range names {
			r.topics = append(r.topics, pubsub.TopicName{Kind: kind, Name: name})
		}
	}
	// Counted before it can be found: a PUBLISH that reads 0 has come before this request.
	u.n.Add(1)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.by == nil {
		u.by = make(map[pubsub.TopicName]subscribeRequests)
	}
	for _, t := range r.topics {
		if u.by[t] == nil {
			u.by[t] = make(subscribeRequests, 1)
		}
		u.by[t][r] = struct{}{}
	}
	return func() { u.endRequest(r) }
}

// Len is how many there are.
func (u *Underway) Len() int { return int(u.n.Load()) }

// endRequest lets go those who wait for it.
func (u *Underway) endRequest(r *subscribeRequest) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n.Add(-1)
	close(r.done)
	for _, t := range r.topics {
		if delete(u.by[t], r); len(u.by[t]) == 0 {
			delete(u.by, t)
		}
	}
}

// concernedRequests returns the requests whose clients may get what is published on a channel. A request that
// takes too many steps to decide counts as one of them.
func (u *Underway) concernedRequests(name []byte, shard bool) (all []*subscribeRequest) {
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
		all = slices.Collect(maps.Keys(u.by[pubsub.TopicName{Kind: kind, Name: string(name)}]))
	}
	left := PublishSteps
	for r := range u.by[wide] {
		if r.patterns == nil || !shard && r.matches(name, &left) {
			all = append(all, r)
		}
	}
	return all
}

// matches says that a pattern of r matches a channel, or that no steps are left.
func (r *subscribeRequest) matches(name []byte, left *int) bool {
	for _, pattern := range r.patterns {
		var ok bool
		if ok, *left = glob.MatchWithin([]byte(pattern), name, *left); ok || *left < 0 {
			return true
		}
	}
	return false
}

// allRequests are all requests. PUBSUB waits for them, whatever it is about.
func (u *Underway) allRequests() []*subscribeRequest {
	if u.n.Load() == 0 {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	all := make(subscribeRequests)
	for _, some := range u.by {
		maps.Copy(all, some)
	}
	return slices.Collect(maps.Keys(all))
}

// awaitRequests waits until all of them have ended, for underwayMost at most. It blocks, so it must not run
// on a loop. It does not matter in which order they end.
func awaitRequests(all []*subscribeRequest) {
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
