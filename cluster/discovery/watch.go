// Package discovery finds the upstream and keeps what is known of it fresh: it is the control plane. Nothing
// of it runs on a loop; it may block.
//
//	Find --> what are these nodes? --> Upstream --> Run: look, each second and after each hint
//	                                                 |
//	             CLUSTER SLOTS of several nodes  <---+---> SENTINEL of several     one INFO
//	                      |                                    |                      |
//	                      +--> views --> the best one --> cluster.Topology --> OnChange
//
// Several nodes are asked at once (gather.go), for one may be cut off, or belong to another cluster by now.
// The view that knows masters for the most slots wins, then that of the highest epoch, then what most say
// (view.go).
//
// A hint (Upstream.Refresh) comes from whoever was redirected or has lost a connection. Hints are free: many
// of them make one look.
//
// Whether each master serves is asked of itself (pulse.go), and what is wrong is Upstream.Ready. While one is
// in trouble, its replicas are asked again and again whether they have taken over (vigil.go).
//
// Questions go through one go-redis client a node (ask.go). Replicas that may be read from are looked after
// once somebody wants to (readers.go).
package discovery

import (
	"cmp"
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/cluster"
)

const (
	// hedge is how long the nodes asked first may be silent before the others are asked too.
	hedge = 200 * time.Millisecond
	// patience is how long the slower nodes are waited for after a good answer.
	patience = 200 * time.Millisecond
	// polled is how many nodes are asked in each refresh, so that one node with a wrong view is outvoted.
	polled = 3
	// mostAsked is how many nodes are asked at most.
	mostAsked = 64
	// suspicion is for how long a node that has failed is asked last.
	suspicion = 5 * time.Second
	// lookTimeout ends a refresh if no node answers.
	lookTimeout = time.Second
	// A refresh comes hintDelay after a hint, but not before hintGap has passed since the last refresh.
	hintDelay = 10 * time.Millisecond
	hintGap   = 50 * time.Millisecond
	// alert bounds the pauses between the refreshes that follow a hint as long as no node confirms it: the
	// first pause is hintGap, each later one twice as long.
	alert = 400 * time.Millisecond
)

// Upstream is the control plane: it knows the nodes of the upstream and keeps
// that knowledge fresh. Safe for concurrent use.
type Upstream struct {
	o              Options
	kind           cluster.Kind // does not change after Discover
	sentinelLogins *cluster.Logins
	dialer         *cluster.Dialer
	asker          *asker
	readers        *readers
	pulse          *pulse
	vigil          *vigil
	topology       atomic.Pointer[cluster.Topology]
	outages        cluster.Outages
	// by how redirects call them, the addresses of the cluster when an unknown one was last looked for
	members  atomic.Pointer[map[string]string]
	stranger atomic.Bool // one was asked for since
	hint     chan struct{}
	atOnce   chan struct{}  // capacity 1: a replica has become master
	tasks    sync.WaitGroup // goroutines that ask nodes

	mu        sync.Mutex
	listeners []func(*cluster.Topology)
	closed    bool

	// The rest belongs to the goroutine that refreshes: Discover, then Run.
	turn      int
	epoch     uint64                    // of the topology
	servers   map[string]cluster.Server // by id or else address of the node
	suspects  map[string]time.Time      // nodes that failed, until when they are asked last
	sentinels []string                  // learnt ones
}

func newUpstream(o Options) *Upstream {
	u := &Upstream{
		o:        o.withDefaults(),
		hint:     make(chan struct{}, 1),
		atOnce:   make(chan struct{}, 1),
		servers:  make(map[string]cluster.Server),
		suspects: make(map[string]time.Time),
	}
	u.sentinelLogins = u.o.SentinelLogins
	u.dialer = u.o.dialer()
	u.asker = &asker{dialer: u.dialer, clients: make(map[askKey]*nodeClient),
		leaving: make(map[*nodeClient]bool)}
	u.readers = newReaders(u)
	u.pulse = newPulse(u)
	u.vigil = newVigil(u)
	u.topology.Store(&cluster.Topology{})
	return u
}

// Topology is the latest view of the upstream. It never blocks and is never nil.
func (u *Upstream) Topology() *cluster.Topology { return u.topology.Load() }

// OnChange calls f with each new topology from now on, and with the present one when a master serves again
// that was in trouble. f must not block, and may be called several times at once.
func (u *Upstream) OnChange(f func(*cluster.Topology)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.listeners = append(u.listeners, f)
}

// Dial is Dialer.Dial. It sends READONLY to nodes of a cluster only, because others refuse it.
func (u *Upstream) Dial(ctx context.Context, addr string, m cluster.Mode,
	before *cluster.Identity) (net.Conn, error) {
	m.Replica = m.Replica && u.kind == cluster.Cluster
	return u.dialer.Dial(ctx, addr, m, before)
}

// Login is how connections to the nodes authenticate that are dialled now.
func (u *Upstream) Login() *cluster.Login { return u.dialer.Login() }

// Refresh hints that the topology may be out of date: a node redirected, or a
// connection was lost. It never blocks; many hints make one refresh.
func (u *Upstream) Refresh() {
	hint(u.hint)
	u.pulse.soon()
}

// Suspect hints that a master may be in trouble: a reply is late. All of them are asked, and no more unless
// that one is late, too. It never blocks; many hints make one question.
func (u *Upstream) Suspect() { u.pulse.soon() }

// Run keeps the topology fresh until ctx ends, and then closes u: each
// Options.Refresh, and soon after a call of Refresh. It may be called once.
func (u *Upstream) Run(ctx context.Context) {
	defer u.Close()
	u.spawn(func() { u.readers.run(ctx) }) // ends when ctx does
	u.spawn(func() { u.pulse.run(ctx) })   // so does this, or with Close
	u.spawn(func() { u.vigil.run(ctx) })   // the same
	timer := time.NewTimer(u.o.Refresh)
	defer timer.Stop()
	var (
		began time.Time
		good  = time.Now()  // when it was fresh last
		told  bool          // the log knows that it is not
		next  time.Duration // until the next refresh after a hint; 0: as usual
	)
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-u.atOnce:
		case <-u.hint:
			pause := max(hintDelay, time.Until(began.Add(hintGap)))
			select {
			case <-ctx.Done():
				return
			case <-u.atOnce:
			case <-time.After(pause):
			}
			select { // this refresh serves the hints of meanwhile too
			case <-u.hint:
			default:
			}
			next = hintGap
		}
		began = time.Now()
		before := u.Topology()
		err := u.look(ctx)
		if next > alert || u.Topology() != before {
			next = 0
		}
		pause := u.vigil.pause()
		if next != 0 && next < pause {
			pause = next
			next *= 2
		}
		timer.Reset(pause)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && told:
			u.o.Log.Info("topology is fresh again")
			told = false
		case err != nil && !told && time.Since(good) > stale && !u.allLost():
			u.o.Log.Warn("topology cannot be refreshed", "err", err)
			told = true
		}
		if err == nil {
			good = time.Now()
		}
	}
}

// stale is how long a topology cannot be refreshed before the log tells. By then masters that do not answer
// count as lost, and have lines of their own.
const stale = 10 * time.Second

// allLost says that no master serves, of which the log has lines of its own.
func (u *Upstream) allLost() bool {
	for _, n := range u.Topology().Masters {
		if _, lost := u.outages.Of(n.Addr); !lost {
			return false
		}
	}
	return true
}

// Close ends the connections of the control plane. Run does
// so by itself; calling it again does nothing.
func (u *Upstream) Close() {
	u.mu.Lock()
	if !u.closed {
		u.closed = true
		close(u.pulse.done)
	}
	u.mu.Unlock()
	u.readers.close()
	u.asker.close()
	u.tasks.Wait()
}

// spawn runs f on a goroutine that Close waits for. After Close it reports false.
func (u *Upstream) spawn(f func()) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.closed {
		u.tasks.Go(f)
	}
	return !u.closed
}

// look asks for the topology once and publishes what it finds.
func (u *Upstream) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, min(lookTimeout, u.o.ConnectTimeout))
	defer cancel()
	all := u.candidates()
	first, rest := all[:min(polled, len(all))], all[min(polled, len(all)):]
	switch u.kind {
	case cluster.Cluster:
		return u.lookCluster(ctx, first, rest)
	case cluster.Sentinel:
		return u.lookSentinel(ctx, first, rest)
	}
	return u.lookSingle(ctx)
}

// candidates are the nodes to be asked, the most promising first. Those that
// were named in the options are always among them.
func (u *Upstream) candidates() []string {
	u.turn++
	t := u.Topology()
	var all []string
	switch u.kind {
	case cluster.Cluster:
		var told []string
		for i := range t.Masters {
			n := t.Masters[(u.turn+i)%len(t.Masters)]
			if u.servers[n.ID].Version == "" {
				all = append(all, n.Addr)
			} else {
				told = append(told, n.Addr)
			}
		}
		all = append(all, told...)
		for _, n := range t.Replicas {
			all = append(all, n.Addr)
		}
	case cluster.Sentinel:
		all = append(all, u.sentinels...)
	}
	for i := range u.o.Addrs {
		all = append(all, u.o.Addrs[(u.turn+i)%len(u.o.Addrs)])
	}
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(u.blemish(a), u.blemish(b)) })
	if claims := u.vigil.takeClaims(); u.kind == cluster.Cluster {
		all = append(claims, all...)
	}
	return unique(all)
}

func (u *Upstream) blemish(addr string) int {
	if _, doubted := u.outages.Doubted(addr); doubted {
		return 1
	}
	if until, ok := u.suspects[addr]; ok {
		if time.Now().Before(until) {
			return 1
		}
		delete(u.suspects, addr)
	}
	return 0
}

func unique(all []string) []string {
	seen := make(map[string]bool, len(all))
	return slices.DeleteFunc(all, func(a string) bool {
		again := seen[a]
		seen[a] = true
		return again
	})
}

// suspect remembers the nodes that failed.
func (u *Upstream) suspect(failed []cluster.NodeError) {
	for _, f := range failed {
		u.suspects[f.Addr] = time.Now().Add(suspicion)
	}
}

// publish makes v the topology, if anything in it is new.
func (u *Upstream) publish(v *view) {
	var server cluster.Server
	for _, s := range v.shares {
		n := s.nodes[0]
		said, ok := u.servers[cmp.Or(n.ID, n.Addr)]
		if !ok { // it does not tell its id
			said = u.servers[n.Addr]
		}
		server = server.With(said)
	}
	u.readers.mu.Lock()
	old := u.Topology()
	t := v.topology(old, server)
	if t == old {
		u.readers.mu.Unlock()
		return
	}
	t.Readers = u.readers.of(t)
	u.topology.Store(t)
	u.readers.mu.Unlock()
	masters := make([]string, len(t.Masters))
	for i, m := range t.Masters {
		masters[i] = m.Addr
	}
	u.o.Log.Info("topology changed", "kind", t.Kind, "version", t.Version, "product", t.Server.Product,
		"release", t.Server.Release, "masters", masters, "replicas", len(t.Replicas), "slots",
		t.Served(), "node", v.from)
	u.forget(t)
	u.readers.changed()
	u.pulse.soon()
	u.tell(t)
}

// tell has everybody know that t is the topology, or that masters serve again that did not.
func (u *Upstream) tell(t *cluster.Topology) {
	u.mu.Lock()
	listeners := slices.Clone(u.listeners)
	u.mu.Unlock()
	for _, f := range listeners {
		f(t)
	}
}

// forget drops what is remembered of nodes that are not in t.
func (u *Upstream) forget(t *cluster.Topology) {
	present := make(map[string]bool)
	for _, n := range slices.Concat(t.Masters, t.Replicas) {
		present[n.Addr], present[n.ID] = true, true
	}
	for _, addr := range slices.Concat(u.o.Addrs, u.sentinels) {
		present[addr] = true
	}
	u.asker.keep(func(addr string) bool { return present[addr] })
	maps.DeleteFunc(u.servers, func(name string, _ cluster.Server) bool { return !present[name] })
	maps.DeleteFunc(u.suspects, func(addr string, _ time.Time) bool { return !present[addr] })
	u.vigil.forget(func(addr string) bool { return present[addr] })
	u.outages.Masters(t)
}
