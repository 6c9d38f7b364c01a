package discovery

import (
	"context"
	"errors"
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
	// lateLeast is how long an answer may take before its node is in doubt, and lateFactor how many times as
	// long as its answers took lately.
	lateLeast  = 100 * time.Millisecond
	lateFactor = 4
	// troubledLook is the shortest pause between two looks at the topology while a master is in trouble. It
	// is an eighth of the time for which the trouble has lasted, but no longer than Options.Refresh.
	troubledLook  = 250 * time.Millisecond
	troubledShare = 8
)

// vigil waits for what becomes of masters that are in trouble: those that owe an answer for longer than they
// use to, cannot be reached, or are called failing by other nodes.
//
//	pulse: late, refused --> doubt --\
//	                                  +--> ROLE of its replicas, again and again --> "master": look at once
//	look: some call it fail? -> called /
//
// ROLE costs a replica next to nothing, and the replica is the first to know. It lasts until the master
// answers, or has left the topology.
type vigil struct {
	u    *Upstream
	wake chan struct{} // capacity 1: there is trouble

	mu     sync.Mutex
	habits map[string]time.Duration // how long answers took lately, by address
	called map[string]failReport    // by address: masters that other nodes call failing
	asking map[string]bool          // replicas that owe an answer
	claims map[string]bool          // replicas that have said that they are masters
}

// failReport is what other nodes say of a master.
type failReport struct{ first, last time.Time }

func newVigil(u *Upstream) *vigil {
	return &vigil{u: u, wake: make(chan struct{}, 1), habits: make(map[string]time.Duration),
		called: make(map[string]failReport), asking: make(map[string]bool), claims: make(map[string]bool)}
}

// run asks replicas while their masters are in trouble, until ctx ends.
func (v *vigil) run(ctx context.Context) {
	asked := make(map[string]time.Time) // by master
	for {
		var again <-chan time.Time
		if pause := v.ask(ctx, asked); pause > 0 {
			again = time.After(pause)
		}
		select {
		case <-ctx.Done():
			return
		case <-v.u.pulse.done:
			return
		case <-v.wake:
		case <-again:
		}
	}
}

// ask asks the replicas of masters in trouble, of each as often as it should be. It returns when the next one
// is to be asked; 0: none is in trouble.
func (v *vigil) ask(ctx context.Context, asked map[string]time.Time) (next time.Duration) {
	trouble := v.trouble()
	maps.DeleteFunc(asked, func(addr string, _ time.Time) bool { return trouble[addr].IsZero() })
	replicas := v.u.Topology().Replicas
	now := time.Now()
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
		if next == 0 || pause < next {
			next = pause
		}
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
	v.asking[addr] = v.u.spawn(func() { // ends with the time-out
		asking, cancel := context.WithTimeout(ctx, min(lookTimeout, v.u.o.ConnectTimeout))
		defer cancel()
		answers, err := v.u.asker.ask(asking, addr, v.u.o.Logins, []any{"ROLE"})
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.asking, addr)
		switch {
		case err != nil: // it is away, too
		case answers[0].IsError(): // it must not tell: the topology does
			hint(v.u.hint)
		case len(answers[0].Elems) > 0 && string(answers[0].Elems[0].Str) == "master":
			v.claims[addr] = true
			hint(v.u.atOnce)
		}
	})
}

// hint puts something into c, which has the capacity for one, unless it is there already.
func hint(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// trouble is the masters that are in trouble, and since when.
func (v *vigil) trouble() map[string]time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all map[string]time.Time
	for _, n := range v.u.Topology().Masters {
		since, doubted := v.u.outages.Doubted(n.Addr)
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

// pause is how long the next look at the topology may be put off.
func (v *vigil) pause() time.Duration {
	pause := v.u.o.Refresh
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

// listen calls ask, and puts the master at addr in doubt when the answer is late, or when there is none,
// until ctx ends. asking ends when the answer is not waited for any more.
func (v *vigil) listen(ctx, asking context.Context, addr string,
	ask func(context.Context, string) (string, error)) (string, error) {
	began := time.Now()
	v.mu.Lock()
	patience := max(lateLeast, lateFactor*v.habits[addr])
	v.mu.Unlock()
	var (
		mu       sync.Mutex
		answered bool
	)
	late := time.AfterFunc(patience, func() {
		mu.Lock()
		defer mu.Unlock()
		if !answered {
			v.doubt(addr, true)
		}
	})
	defer late.Stop()
	said, err := ask(asking, addr)
	mu.Lock()
	defer mu.Unlock()
	answered = true
	_, refused := errors.AsType[cluster.Unready](err)
	switch {
	case err == nil, refused:
		v.heard(addr, time.Since(began))
	case ctx.Err() == nil:
		v.doubt(addr, asking.Err() != nil)
	}
	return said, err
}

// doubt notes that the master at addr is in trouble.
func (v *vigil) doubt(addr string, silent bool) {
	if v.u.outages.Doubt(addr, silent) {
		hint(v.wake)
		hint(v.u.hint)
	}
}

// heard notes that the master at addr has answered.
func (v *vigil) heard(addr string, took time.Duration) {
	v.mu.Lock()
	v.habits[addr] = max(took, v.habits[addr]-v.habits[addr]/8)
	v.mu.Unlock()
	if v.u.outages.Trust(addr) {
		v.u.tell(v.u.Topology())
	}
}

// failing notes which masters other nodes call failing now, by id. Not all nodes are asked each time, so it
// is believed for a while.
func (v *vigil) failing(ids map[string]bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	for _, n := range v.u.Topology().Masters {
		if !ids[n.ID] {
			continue
		}
		c := v.called[n.Addr]
		if now.Sub(c.last) > lately {
			c.first = now
			hint(v.wake)
		}
		c.last = now
		v.called[n.Addr] = c
	}
}

// calm says that no master is known to be in trouble.
func (v *vigil) calm() bool { return len(v.trouble()) == 0 }

// forget drops what is remembered of nodes that are not wanted any more.
func (v *vigil) forget(wanted func(addr string) bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.DeleteFunc(v.called, func(addr string, _ failReport) bool { return !wanted(addr) })
	maps.DeleteFunc(v.habits, func(addr string, _ time.Duration) bool { return !wanted(addr) })
}

// hasFailing says that a node calls masters failing, as its CLUSTER INFO shows.
func hasFailing(info resp.Value) bool {
	for _, name := range []string{"cluster_slots_pfail", "cluster_slots_fail"} {
		if n := cluster.Field(info, name); n != "" && n != "0" {
			return true
		}
	}
	return false
}
