package discovery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"lockproxy/cluster"
)

// lookCluster asks nodes of a cluster and publishes the best view. first are asked at once, rest only if none
// of them answers (gather). An error leaves the topology as it was.
func (u *Upstream) lookCluster(ctx context.Context, first, rest []string) error {
	// Taken before the question: who is asked for from now on is looked for the next time.
	stranger := u.stranger.Swap(false)
	views, failed := gather(ctx, u.asker, first, rest, patience,
		func(ctx context.Context, addr string) (*view, error) { return u.viewOf(ctx, addr, stranger) })
	u.suspectNodes(failed)
	if len(views) == 0 {
		return &cluster.DiscoverError{Failed: failed}
	}
	members, failing := make(map[string]string), make(map[string]bool)
	for _, v := range views {
		u.servers[v.self] = v.server
		maps.Copy(members, addressesOf(v.members))
		maps.Copy(failing, failingOf(v.members))
	}
	u.vigil.noteFailing(failing)
	if stranger {
		u.members.Store(&members)
	}
	// A node that is cut off from most masters keeps its old view, and says that the cluster has failed. Its
	// epoch has stayed behind.
	best := best(views, u.Topology(), u.vigil.trouble())
	if !best.ok && best.epoch < u.epoch {
		return fmt.Errorf("cluster: node %s is cut off from the cluster", best.from)
	}
	u.epoch = best.epoch
	u.publishView(best)
	return nil
}

// viewOf asks the node at addr, and if stranger is set, also for nodes that serve nothing. CLUSTER NODES is
// long in a large cluster, so it is asked for only when something in the shorter answers wants it.
func (u *Upstream) viewOf(ctx context.Context, addr string, stranger bool) (*view, error) {
	answers, err := u.asker.askNode(ctx, addr, u.o.Logins, append([][]any{{"CLUSTER", "SLOTS"},
		{"CLUSTER", "INFO"}, {"CLUSTER", "MYID"}}, cluster.ServerQuestions...)...)
	if err != nil {
		return nil, err
	}
	slots, info, id := answers[0], answers[1], answers[2]
	v := &view{kind: cluster.Cluster, from: addr, self: id.Text(), server: cluster.ServerOf(answers[3:]...),
		ok: info.IsError() || cluster.Field(info, "cluster_state") == "ok"}
	if id.IsError() { // then the address identifies the node
		v.self = addr
	}
	v.epoch, _ = strconv.ParseUint(cluster.Field(info, "cluster_current_epoch"), 10, 64)
	v.shares, err = parseSlots(slots, addr)
	if slots.IsError() { // Redis has another command for it since 7.0
		if answers, err = u.asker.askNode(ctx, addr, u.o.Logins, []any{"CLUSTER", "SHARDS"}); err != nil {
			return nil, err
		}
		v.shares, err = parseShards(answers[0], addr)
		if answers[0].IsError() {
			err = cluster.Said(slots.Text())
		}
	}
	switch {
	case err != nil:
		return nil, err
	// It may have been reset, or not have met the others yet: its view would empty the topology.
	case len(v.shares) == 0:
		return nil, errors.New("it knows of no slots: is the cluster set up?")
	// Others are asked then: the cluster may have been made anew where it was.
	case !u.trusts(v):
		return nil, errors.New("it belongs to another cluster")
	}
	if stranger || hasFailing(info) || hidesNodes(info, v.shares) {
		// Without the answer the view would lack nodes that are there.
		if answers, err = u.asker.askNode(ctx, addr, u.o.Logins, []any{"CLUSTER", "NODES"}); err != nil {
			return nil, err
		}
		v.members = cluster.Members(answers[0], hostOf(addr))
		addHidden(v.shares, v.members)
	}
	return v, credible(v.shares)
}
