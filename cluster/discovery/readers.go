package discovery

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"

	"lockproxy/cluster"
)

// maxSilence is how many seconds ago a replica may have heard of its master at most. The master sends a PING
// at least every ten seconds.
const maxSilence = 20

// readers checks the replicas, once a client wants to read from one: a replica is fit if its link to its
// master is up. The fit ones become Topology.Readers.
type readers struct {
	*controlPlane
	wake   waker
	wanted atomic.Bool // somebody reads from replicas

	// Replicas to read from, and masters in Options.Zone, by address, at the last look; nil: there was none.
	// It is read and written while the bulletin changes, which orders lookAtReplicas and publishView.
	fit map[string]bool
}

// runReaders checks the replicas each Options.Refresh, and when the topology changes, until ctx ends.
func (r *readers) runReaders(ctx context.Context) {
	for r.wake.waitForTurn(ctx, r.wake.restOfPause(r.o.Refresh)) {
		// Most proxies never read from replicas, and their nodes are not asked then.
		if r.wanted.Load() {
			r.lookAtReplicas(ctx)
		}
	}
}

// lookAtReplicas asks all replicas about their state and their zone, and then the masters for their zone: a
// master in the proxy's zone answers the reads itself. A node that does not answer is not fit. Topologies are
// announced only if the choice has changed.
func (r *readers) lookAtReplicas(ctx context.Context) {
	t := r.Topology()
	asked := addrs(t.Replicas)
	if r.o.Zone != "" && len(asked) > 0 {
		asked = append(asked, addrs(t.Masters)...)
	}
	good, _ := gatherAll(ctx, r.asker, asked, r.askReplica)
	if ctx.Err() != nil {
		return
	}
	fit := make(map[string]bool)
	for _, addr := range good {
		fit[addr] = addr != ""
	}
	t, is := r.changeTopology(func(before *cluster.Topology) *cluster.Topology {
		r.fit = fit
		t := *before
		t.Readers = r.readersOf(&t)
		if (t.Readers == nil) == (before.Readers == nil) &&
			maps.EqualFunc(t.Readers, before.Readers, slices.Equal) {
			return before
		}
		return &t
	})
	if is {
		r.o.Log.Info("replicas to read from changed", "replicas", len(t.Replicas), "fit",
			len(slices.Concat(slices.Collect(maps.Values(t.Readers))...)))
		r.announce(t)
	}
}

// askReplica returns addr, or "" when the node there should not be read from. A replica whose link is down,
// or that is loading, would answer MASTERDOWN or LOADING, or with what is old. Masters are asked only for
// their zone.
func (r *readers) askReplica(ctx context.Context, addr string) (string, error) {
	zone := r.o.Zone
	questions := [][]any{{"INFO", "replication"}, {"INFO", "persistence"}}
	if zone != "" {
		questions = append(questions, cluster.ServerQuestions[0])
	}
	answers, err := r.asker.askNode(ctx, addr, r.o.Logins, questions...)
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

// readersOf returns the replicas of t that are fit to be read from, by master. A master that is fit itself,
// being in the zone, has none: reads go to it. nil: nothing is known yet, or there are no replicas. It is
// called while the bulletin changes.
func (r *readers) readersOf(t *cluster.Topology) map[*cluster.Node][]*cluster.Node {
	if r.fit == nil || len(t.Replicas) == 0 {
		return nil
	}
	found := make(map[*cluster.Node][]*cluster.Node)
	for _, n := range t.Replicas {
		if m := t.Master(n.Follows); m != nil && r.fit[n.Addr] && (r.o.Zone == "" || !r.fit[m.Addr]) {
			found[m] = append(found[m], n)
		}
	}
	return found
}
