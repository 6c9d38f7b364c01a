package discovery

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"lockproxy/cluster"
)

// maxSilence is how many seconds ago a replica may have heard of its master at most. The master sends a PING
// at least every ten seconds.
const maxSilence = 20

// readers checks the replicas, once a client wants to read from one: a replica is fit if its link to its
// master is up. The fit ones become Topology.Readers.
type readers struct {
	u      *Upstream
	wanted chan struct{} // closed once somebody reads from replicas
	want   sync.Once
	hint   chan struct{} // capacity 1: the topology has changed
	closed chan struct{} // closed by close
	end    sync.Once

	mu  sync.Mutex      // held while a topology is made and published
	fit map[string]bool // replicas to read from, and masters in Options.Zone, by address, at the last look
}

func newReaders(u *Upstream) *readers {
	return &readers{u: u, wanted: make(chan struct{}), hint: make(chan struct{}, 1),
		closed: make(chan struct{})}
}

// WatchReplicas has the replicas checked from now on, so that Topology.Readers has those that may be read
// from. It never blocks.
func (u *Upstream) WatchReplicas() {
	u.readers.want.Do(func() { close(u.readers.wanted) })
}

// close ends run. Calling it again does nothing.
func (r *readers) close() { r.end.Do(func() { close(r.closed) }) }

// run checks the replicas each Options.Refresh, and when the topology changes, until ctx ends or close is
// called.
func (r *readers) run(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-r.closed:
		return
	case <-r.wanted:
	}
	tick := time.NewTicker(r.u.o.Refresh)
	defer tick.Stop()
	for {
		r.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-r.closed:
			return
		case <-tick.C:
		case <-r.hint:
		}
	}
}

// changed says that there is a new topology. It never blocks.
func (r *readers) changed() {
	select {
	case r.hint <- struct{}{}:
	default:
	}
}

// look asks all replicas about their state and their zone, and then the masters for their zone: a master in
// the proxy's zone answers the reads itself.
func (r *readers) look(ctx context.Context) {
	var addrs []string
	t := r.u.Topology()
	for _, n := range t.Replicas {
		addrs = append(addrs, n.Addr)
	}
	if r.u.o.Zone != "" && len(addrs) > 0 {
		for _, n := range t.Masters {
			addrs = append(addrs, n.Addr)
		}
	}
	fit := make(map[string]bool)
	if len(addrs) > 0 {
		ctx, cancel := context.WithTimeout(ctx, min(lookTimeout, r.u.o.ConnectTimeout))
		defer cancel()
		good, _ := gather(r.u, ctx, addrs, nil, lookTimeout, r.ask)
		for _, addr := range good {
			fit[addr] = addr != ""
		}
	}
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	old := r.u.Topology()
	r.fit = fit
	next := *old
	next.Readers = r.of(&next)
	same := (next.Readers == nil) == (old.Readers == nil) &&
		maps.EqualFunc(next.Readers, old.Readers, slices.Equal)
	if !same {
		r.u.topology.Store(&next)
	}
	r.mu.Unlock()
	if !same {
		r.u.o.Log.Info("replicas to read from changed", "replicas", len(next.Replicas), "fit",
			readable(&next))
		r.u.tell(&next)
	}
}

// ask returns addr, or "" when the node there should not be read from.
func (r *readers) ask(ctx context.Context, addr string) (string, error) {
	zone := r.u.o.Zone
	questions := [][]any{{"INFO", "replication"}, {"INFO", "persistence"}}
	if zone != "" {
		questions = append(questions, cluster.ServerQuestions[0])
	}
	answers, err := r.u.asker.ask(ctx, addr, r.u.o.Logins, questions...)
	switch {
	case err != nil:
		return "", err
	case zone != "" && cluster.ServerOf(answers[2]).Zone != zone:
		return "", nil
	case zone != "" && cluster.Field(answers[0], "role") == "master":
		return addr, nil
	}
	silent, err := strconv.Atoi(cluster.Field(answers[0], "master_last_io_seconds_ago"))
	if cluster.Field(answers[0], "role") != "slave" ||
		cluster.Field(answers[0], "master_link_status") != "up" ||
		cluster.Field(answers[1], "loading") == "1" ||
		err == nil && silent > maxSilence {
		return "", nil
	}
	return addr, nil
}

// of returns the replicas of t that are fit to be read from, by master. mu is held.
func (r *readers) of(t *cluster.Topology) map[*cluster.Node][]*cluster.Node {
	if r.fit == nil || len(t.Replicas) == 0 {
		return nil
	}
	masters := make(map[string]*cluster.Node, len(t.Masters))
	for _, n := range t.Masters {
		masters[n.Addr] = n
	}
	found := make(map[*cluster.Node][]*cluster.Node)
	for _, n := range t.Replicas {
		if m := masters[n.Follows]; m != nil && r.fit[n.Addr] && (r.u.o.Zone == "" || !r.fit[m.Addr]) {
			found[m] = append(found[m], n)
		}
	}
	return found
}

// readable is how many replicas may be read from.
func readable(t *cluster.Topology) int {
	n := 0
	for _, list := range t.Readers {
		n += len(list)
	}
	return n
}
