package pubsub

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

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
	channels map[channel][]*request
	others   []*request // of patterns, and of too many names to look at
}

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
	if names == nil || kind == pubsub.Pattern {
		u.others = append(u.others, r)
		return func() { u.end(r) }
	}
	if u.channels == nil {
		u.channels = make(map[channel][]*request)
	}
	for _, name := range names {
		at := channel{kind, name}
		u.channels[at] = append(u.channels[at], r)
	}
	return func() { u.end(r) }
}

// Len is how many there are.
func (u *Underway) Len() int { return int(u.n.Load()) }

func (u *Underway) end(r *request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n.Add(-1)
	close(r.done)
	is := func(o *request) bool { return o == r }
	if r.names == nil || r.kind == pubsub.Pattern {
		u.others = slices.DeleteFunc(u.others, is)
		return
	}
	for _, name := range r.names {
		at := channel{r.kind, name}
		if left := slices.DeleteFunc(u.channels[at], is); len(left) > 0 {
			u.channels[at] = left
		} else {
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
	if shard {
		all = slices.Clone(u.channels[channel{pubsub.Shard, string(name)}])
	} else {
		all = slices.Clone(u.channels[channel{pubsub.Classic, string(name)}])
	}
	left := PublishSteps
	for _, r := range u.others {
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
func (u *Underway) all() (all []*request) {
	if u.n.Load() == 0 {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	all = slices.Clone(u.others)
	seen := make(map[*request]bool)
	for _, some := range u.channels {
		for _, r := range some {
			if !seen[r] {
				seen[r] = true
				all = append(all, r)
			}
		}
	}
	return all
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
