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
// All of these wait for their next time, or for a hint, by a waker, and stand on one controlPlane.
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
	"sync/atomic"
	"time"

	"lockproxy/cluster"
)

const (
	// hedge is how long the nodes asked first may be silent before the others are asked too: a silent one
	// delays a look by no more than that.
	hedge = 200 * time.Millisecond
	// patience is how long the slower nodes are waited for after a good answer. Their views count too: the
	// first answer may be that of a node with a wrong one.
	patience = 200 * time.Millisecond
	// polled is how many nodes are asked in each refresh, so that one node with a wrong view is outvoted.
	polled = 3
	// mostAsked is how many nodes are asked at most besides those that are asked first.
	mostAsked = 64
	// suspicion is for how long a node that has failed is asked last. Then it may be among the first again,
	// which shows whether it is back.
	suspicion = 5 * time.Second
	// lookTimeout ends a refresh if no node answers.
	lookTimeout = time.Second
	// alert bounds the pauses between the refreshes that follow a hint as long as no node confirms it: the
	// first pause is hintGap, each later one twice as long.
	alert = 400 * time.Millisecond
)

// Upstream is the control plane: it knows the nodes of the upstream and keeps
// that knowledge fresh. Safe for concurrent use.
type Upstream struct {
	*controlPlane
	sentinelLogins *cluster.Logins
	readers        *readers
	pulse          *pulse
	vigil          *vigil
	// by how redirects call them, the addresses of the cluster when an unknown one was last looked for
	members  atomic.Pointer[map[string]string]
	stranger atomic.Bool     // one was asked for since
	life     context.Context // ends with Close, by end
	end      context.CancelFunc

	// The rest belongs to the goroutine that refreshes: Find, then Run.
	turn      int                       // rises with each look: who is asked first changes
	epoch     uint64                    // of the topology
	servers   map[string]cluster.Server // by id or else address of the node
	suspects  map[string]time.Time      // by address: nodes that failed, until when they are asked last
	sentinels []string                  // learnt ones
}

// newUpstream asks nobody yet. Its topology is empty, and its parts wait until Run.
func newUpstream(o Options) *Upstream {
	c := &controlPlane{o: o.withDefaults(), refresh: newWaker()}
	c.topology.Store(&cluster.Topology{})
	u := &Upstream{
		controlPlane:   c,
		sentinelLogins: c.o.SentinelLogins,
		servers:        make(map[string]cluster.Server),
		suspects:       make(map[string]time.Time),
	}
	u.life, u.end = context.WithCancel(context.Background())
	c.asker = &asker{dialer: c.o.dialer(), life: u.life, clients: make(map[askKey]*nodeClient)}
	u.readers = &readers{controlPlane: c, wake: newWaker()}
	u.vigil = newVigil(c)
	u.pulse = newPulse(c, u.vigil)
	return u
}

// Dial is Dialer.Dial. It sends READONLY to nodes of a cluster only, because others refuse it.
func (u *Upstream) Dial(ctx context.Context, addr string, m cluster.Mode,
	before *cluster.Identity) (net.Conn, error) {
	m.Replica = m.Replica && u.kind == cluster.Cluster
	return u.asker.dialer.Dial(ctx, addr, m, before)
}

// Login is how connections to the nodes authenticate that are dialled now.
func (u *Upstream) Login() *cluster.Login { return u.asker.dialer.Login() }

// Refresh hints that the topology may be out of date: a node redirected, or a
// connection was lost. It never blocks; many hints make one refresh.
func (u *Upstream) Refresh() {
	u.refresh.hint()
	u.pulse.wake.hint()
}

// Suspect hints that a master may be in trouble: a reply is late. All of them are asked, and no more unless
// that one is late, too. It never blocks; many hints make one question.
func (u *Upstream) Suspect() { u.pulse.wake.hint() }

// WatchReplicas has the replicas checked from now on, so that Topology.Readers has those that may be read
// from. It never blocks.
func (u *Upstream) WatchReplicas() {
	if !u.readers.wanted.Swap(true) {
		u.readers.wake.hintNow()
	}
}

// Run keeps the topology fresh until ctx ends, and then closes u: each
// Options.Refresh, and soon after a call of Refresh. It may be called once.
func (u *Upstream) Run(ctx context.Context) {
	defer u.Close()
	defer context.AfterFunc(ctx, u.end)()
	// Close ends it as well as ctx does.
	ctx = u.life
	for _, run := range []func(context.Context){u.readers.runReaders, u.pulse.runPulse, u.vigil.runVigil} {
		u.asker.spawn(func() { run(ctx) }) // ends when ctx does
	}
	var (
		good = time.Now()  // when it was fresh last
		told bool          // the log knows that it is not
		next time.Duration // until the next refresh after a hint; 0: as usual
	)
	for pause := u.o.Refresh; u.refresh.waitForTurn(ctx, pause); {
		if u.refresh.hinted {
			next = hintGap
		}
		before := u.Topology()
		err := u.lookUpstream(ctx)
		// The hint was right, or it has been looked at for long enough.
		if next > alert || u.Topology() != before {
			next = 0
		}
		pause = u.vigil.lookPause()
		if next != 0 && next < pause {
			pause = next
			next *= 2
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && told:
			u.o.Log.Info("topology is fresh again")
			told = false
		// Without a master that serves, the lines about the masters say enough.
		case err != nil && !told && time.Since(good) > stale && u.Serves():
			u.o.Log.Warn("topology cannot be refreshed", "err", err)
			told = true
		}
		if err == nil {
			good = time.Now()
		}
	}
}

// stale is how long a topology cannot be refreshed before the log tells. By then masters that do not answer
// count as lost. If all of them are, their own lines are enough.
const stale = 10 * time.Second

// Close ends Run and the connections of the control plane, and waits for them. Run does
// so by itself; calling it again does nothing.
func (u *Upstream) Close() {
	u.end()
	u.asker.waitForTasks()
}

// lookUpstream asks for the topology once and publishes what it finds. It is for the goroutine that
// refreshes. Without an error the topology is fresh, whether or not it has changed.
func (u *Upstream) lookUpstream(ctx context.Context) error {
	ctx, cancel := u.asker.limit(ctx)
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

// candidates are the nodes to be asked, the most promising first. Those that were named in the options are
// always among them. Each call begins with another master or address, so that no node is asked more than
// others, and a wrong one not always.
func (u *Upstream) candidates() []string {
	u.turn++
	t := u.Topology()
	var all []string
	switch u.kind {
	case cluster.Cluster:
		var told []string
		for i := range t.Masters {
			n := t.Masters[(u.turn+i)%len(t.Masters)]
			// Masters whose version is not known come first: publishView needs all of them.
			if u.servers[n.ID].Version == "" {
				all = append(all, n.Addr)
			} else {
				told = append(told, n.Addr)
			}
		}
		all = append(all, told...)
		all = append(all, addrs(t.Replicas)...)
	case cluster.Sentinel:
		all = append(all, u.sentinels...)
	}
	for i := range u.o.Addrs {
		all = append(all, u.o.Addrs[(u.turn+i)%len(u.o.Addrs)])
	}
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(u.suspicion(a), u.suspicion(b)) })
	// A replica that has said that it is a master knows most. Without a cluster it is found in other ways.
	if claims := u.vigil.takeClaims(); u.kind == cluster.Cluster {
		all = append(claims, all...)
	}
	return unique(all)
}

// suspicion is how late the node at addr had better be asked: 0, 1 if it has failed not long ago, and 2 if it
// is in doubt now, for a look waits for the first few.
func (u *Upstream) suspicion(addr string) int {
	if _, doubted := u.outages.Doubted(addr); doubted {
		return 2
	}
	if time.Now().Before(u.suspects[addr]) {
		return 1
	}
	return 0
}

// unique is all without repetitions, in its order and in its memory.
func unique(all []string) []string {
	seen := make(map[string]bool, len(all))
	return slices.DeleteFunc(all, func(a string) bool {
		again := seen[a]
		seen[a] = true
		return again
	})
}

// suspectNodes remembers the nodes that failed. Until the suspicion ends they are asked behind the others.
func (u *Upstream) suspectNodes(failed []cluster.NodeError) {
	for _, f := range failed {
		u.suspects[f.Addr] = time.Now().Add(suspicion)
	}
}

// publishView makes v the topology, if anything in it is new. Its Server is what all masters have in common,
// so that nothing is asked of one that does not know it.
func (u *Upstream) publishView(v *view) {
	var server cluster.Server
	for _, s := range v.shares {
		n := s.nodes[0]
		said, ok := u.servers[cmp.Or(n.ID, n.Addr)]
		if !ok { // it does not tell its id
			said = u.servers[n.Addr]
		}
		server = server.With(said)
	}
	t, is := u.changeTopology(func(before *cluster.Topology) *cluster.Topology {
		t := v.topology(before, server)
		if t != before {
			t.Readers = u.readers.readersOf(t)
		}
		return t
	})
	if !is {
		return
	}
	u.o.Log.Info("topology changed", "kind", t.Kind, "version", t.Version, "product", t.Server.Product,
		"release", t.Server.Release, "masters", addrs(t.Masters), "replicas", len(t.Replicas), "slots",
		t.Served(), "node", v.from)
	u.forgetNodes(t)
	u.readers.wake.hintNow()
	u.pulse.wake.hint()
	u.announce(t)
}

// forgetNodes drops what is remembered of nodes that are not in t. The nodes of the options stay, and the
// Sentinels.
func (u *Upstream) forgetNodes(t *cluster.Topology) {
	present := make(map[string]bool)
	for _, n := range t.Nodes() {
		present[n.Addr], present[n.ID] = true, true
	}
	for _, addr := range slices.Concat(u.o.Addrs, u.sentinels) {
		present[addr] = true
	}
	u.asker.keepClients(func(addr string) bool { return present[addr] })
	maps.DeleteFunc(u.servers, func(name string, _ cluster.Server) bool { return !present[name] })
	maps.DeleteFunc(u.suspects, func(addr string, _ time.Time) bool { return !present[addr] })
	u.vigil.forgetNodes(func(addr string) bool { return present[addr] })
	u.outages.Masters(t)
}

// addrs are where nodes are reached.
func addrs(nodes []*cluster.Node) []string {
	all := make([]string, len(nodes))
	for i, n := range nodes {
		all[i] = n.Addr
	}
	return all
}
