package discovery

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
)

const (
	// vigilLeast and vigilMost bound the pauses between two questions to a replica whose master is in
	// trouble. Between them a pause is a thousandth of the time for which the trouble has lasted: so a
	// promotion is seen within that part of it, and a master that never comes back is no load.
	vigilLeast = 15 * time.Millisecond
	vigilMost  = time.Second
	vigilShare = 1000
	// troubledLook is the shortest pause between two looks at the topology while a master is in trouble. It
	// is an eighth of the time for which the trouble has lasted, but no longer than Options.Refresh.
	troubledLook  = 250 * time.Millisecond
	troubledShare = 8
	// calmPause is the pause while no master is in trouble. The next trouble ends it.
	calmPause = time.Hour
)

// vigil waits for what becomes of masters that are in trouble: those that owe an answer for longer than they
// use to, cannot be reached, or are called failing by other nodes.
//
//	pulse: late, refused --> Doubt --\
//	                                  +--> ROLE of its replicas, again and again --> "master": look at once
//	look: some call it fail? -> called /
//
// ROLE costs a replica next to nothing, and the replica is the first to know. It lasts until the master
// answers, or has left the topology.
type vigil struct {
	*controlPlane
	wake waker // called when there is trouble

	mu     sync.Mutex
	called map[string]failReport // by address: masters that other nodes call failing
	asking map[string]bool       // replicas that owe an answer
	claims map[string]bool       // replicas that have said that they are masters
}

// failReport is what other nodes say of a master. One that is older than lately is not believed any more.
type failReport struct{ first, last time.Time }

func newVigil(c *controlPlane) *vigil {
	return &vigil{controlPlane: c, wake: newWaker(), called: make(map[string]failReport),
		asking: make(map[string]bool), claims: make(map[string]bool)}
}

// runVigil asks replicas while their masters are in trouble, until ctx ends.
func (v *vigil) runVigil(ctx context.Context) {
	asked := make(map[string]time.Time) // by master
	for v.wake.waitForTurn(ctx, v.askReplicas(ctx, asked)) {
	}
}

// askReplicas asks the replicas of masters in trouble, of each as often as it should be. It returns when the
// next one is to be asked. It does not wait for the answers. asked is when the replicas of each master were
// asked last, and belongs to the goroutine of runVigil.
func (v *vigil) askReplicas(ctx context.Context, asked map[string]time.Time) (next time.Duration) {
	trouble := v.trouble()
	maps.DeleteFunc(asked, func(addr string, _ time.Time) bool { return trouble[addr].IsZero() })
	replicas := v.Topology().Replicas
	now := time.Now()
	next = calmPause
	for addr, since := range trouble {
		pause := min(max(now.Sub(since)/vigilShare, vigilLeast), vigilMost)
		if left := asked[addr].Add(pause).Sub(now); left > 0 {
			pause = left
		} else {
			asked[addr] = now
			for _, n := range replicas {
				if n.Follows == addr {
					v.askRole(ctx, n.Addr)
				}
			}
		}
		next = min(next, pause)
	}
	return next
}

// askRole asks a replica whether it is one, unless it still owes an answer.
func (v *vigil) askRole(ctx context.Context, addr string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.asking[addr] {
		return
	}
	// The function waits for mu, so it deletes only behind this line.
	v.asking[addr] = v.asker.spawn(func() { // ends with the time-out
		asking, cancel := v.asker.limit(ctx)
		defer cancel()
		answers, err := v.asker.askNode(asking, addr, v.o.Logins, []any{"ROLE"})
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.asking, addr)
		switch {
		case err != nil: // it is away, too
		case answers[0].IsError(): // it must not tell: the topology does
			v.refresh.hint()
		case len(answers[0].Elems) > 0 && string(answers[0].Elems[0].Str) == "master":
			v.claims[addr] = true
			v.refresh.hintNow()
		}
	})
}

// trouble is the masters that are in trouble, and since when. The earlier sign counts. nil: all is calm,
// which is the rule, so that no map is made then.
func (v *vigil) trouble() map[string]time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all map[string]time.Time
	for _, n := range v.Topology().Masters {
		since, doubted := v.outages.Doubted(n.Addr)
		if c := v.called[n.Addr]; time.Since(c.last) <= lately && (!doubted || c.first.Before(since)) {
			since = c.first
		}
		if !since.IsZero() {
			if all == nil {
				all = make(map[string]time.Time)
			}
			all[n.Addr] = since
		}
	}
	return all
}

// lookPause is how long the next look at the topology may be put off. While a master is in trouble, the
// topology may change at any moment, and no hint need come: its clients wait.
func (v *vigil) lookPause() time.Duration {
	pause := v.o.Refresh
	for _, since := range v.trouble() {
		pause = min(pause, max(time.Since(since)/troubledShare, troubledLook))
	}
	return pause
}

// takeClaims returns the replicas that have said that they are masters since the last time.
func (v *vigil) takeClaims() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	claims := slices.Sorted(maps.Keys(v.claims))
	clear(v.claims)
	return claims
}

// noteFailing notes which masters other nodes call failing now, by id. Not all nodes are asked each time, so
// it is believed for a while.
func (v *vigil) noteFailing(ids map[string]bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	for _, n := range v.Topology().Masters {
		if !ids[n.ID] {
			continue
		}
		c := v.called[n.Addr]
		// It begins anew: between then and now nobody has called it so.
		if now.Sub(c.last) > lately {
			c.first = now
			v.wake.hintNow()
		}
		c.last = now
		v.called[n.Addr] = c
	}
}

// forgetNodes drops what is remembered of nodes that are not wanted any more. claims and asking end by
// themselves.
func (v *vigil) forgetNodes(wanted func(addr string) bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.DeleteFunc(v.called, func(addr string, _ failReport) bool { return !wanted(addr) })
}

// hasFailing says that a node calls masters failing, as its CLUSTER INFO shows.
func hasFailing(info resp.Value) bool {
	return slices.ContainsFunc([]string{"cluster_slots_pfail", "cluster_slots_fail"}, func(name string) bool {
		n := cluster.Field(info, name)
		return n != "" && n != "0"
	})
}
