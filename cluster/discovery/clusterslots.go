package discovery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

// lookCluster asks nodes of a cluster and publishes the best view.
func (u *Upstream) lookCluster(ctx context.Context, first, rest []string) error {
	stranger := u.stranger.Swap(false)
	heard, failed := gather(ctx, u.asker, first, rest, patience,
		func(ctx context.Context, addr string) (*view, error) { return u.viewOf(ctx, addr, stranger) })
	u.suspect(failed)
	if len(heard) == 0 {
		return &cluster.DiscoverError{Failed: failed}
	}
	var views []*view
	members, failing := make(map[string]string), make(map[string]bool)
	for _, v := range heard {
		u.servers[v.self] = v.server
		if u.trusts(v) {
			views = append(views, v)
			maps.Copy(members, addressesOf(v.members))
			maps.Copy(failing, failingOf(v.members))
		}
	}
	u.vigil.failing(failing)
	if len(views) == 0 {
		return fmt.Errorf("cluster: node %s belongs to another cluster", heard[0].from)
	}
	if stranger {
		u.members.Store(&members)
	}
	best := best(views, u.Topology(), u.vigil.trouble())
	if !best.ok && best.epoch < u.epoch {
		return fmt.Errorf("cluster: node %s is cut off from the cluster", best.from)
	}
	u.epoch = best.epoch
	u.publish(best)
	return nil
}

// viewOf asks the node at addr, and if stranger is set, also for nodes that serve nothing.
func (u *Upstream) viewOf(ctx context.Context, addr string, stranger bool) (*view, error) {
	answers, err := u.asker.ask(ctx, addr, u.o.Logins, append([][]any{{"CLUSTER", "SLOTS"},
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
	if slots.IsError() {
		v.shares, err = u.shards(ctx, addr, string(slots.Str))
	} else {
		v.shares, err = parseSlots(slots, addr)
	}
	switch {
	case err != nil:
		return nil, err
	case len(v.shares) == 0:
		return nil, errors.New("it knows of no slots: is the cluster set up?")
	}
	if stranger || hasFailing(info) || hidesNodes(info, v.shares) {
		if answers, err := u.asker.ask(ctx, addr, u.o.Logins, []any{"CLUSTER", "NODES"}); err == nil {
			v.members = cluster.Members(answers[0], hostOf(addr))
			addHidden(v.shares, v.members)
		}
	}
	return v, credible(v.shares)
}

var errSlots = errors.New("its CLUSTER SLOTS reply cannot be understood")

// parseSlots reads the reply of CLUSTER SLOTS, which all versions from 3.0 on have,
// as node from gave it. A node without a host of its own is reached by the host
// of from (Redis documentation, CLUSTER SLOTS, "a NULL value").
func parseSlots(v resp.Value, from string) ([]share, error) {
	if v.Kind != '*' {
		return nil, fmt.Errorf("%w: %.80q", errSlots, v.Str)
	}
	var taken [slot.Count]bool
	var shares []share
	for _, row := range v.Elems {
		if len(row.Elems) < 3 || row.Elems[0].Kind != ':' || row.Elems[1].Kind != ':' {
			return nil, errSlots
		}
		first, last := row.Elems[0].Int, row.Elems[1].Int
		if first < 0 || last < first || last >= slot.Count {
			return nil, fmt.Errorf("%w: slots %d to %d", errSlots, first, last)
		}
		for i := first; i <= last; i++ {
			if taken[i] {
				return nil, fmt.Errorf("%w: slot %d twice", errSlots, i)
			}
			taken[i] = true
		}
		s := share{first: int(first), last: int(last)}
		for _, e := range row.Elems[2:] {
			n, err := parseNode(e, from)
			if err != nil {
				return nil, err
			}
			s.nodes = append(s.nodes, n)
		}
		shares = append(shares, s)
	}
	return shares, nil
}

// parseNode reads one node of CLUSTER SLOTS: endpoint, port, id and, since 7.0,
// more names for it.
func parseNode(v resp.Value, from string) (cluster.Node, error) {
	e := v.Elems
	if len(e) < 2 || e[1].Kind != ':' {
		return cluster.Node{}, errSlots
	}
	host := string(e[0].Str)
	if host == "?" && len(e) > 3 {
		// The node prefers a host name and has none. An address may stand beside it.
		for i := 0; i+1 < len(e[3].Elems); i += 2 {
			if string(e[3].Elems[i].Str) == "ip" {
				host = string(e[3].Elems[i+1].Str)
			}
		}
	}
	if host == "" || host == "?" {
		host = hostOf(from)
	}
	addr, ok := cluster.AddrOf(host, strconv.FormatInt(e[1].Int, 10))
	if !ok {
		return cluster.Node{}, fmt.Errorf("%w: %.80q is no host", errSlots, host)
	}
	n := cluster.Node{Addr: addr}
	if len(e) > 2 {
		n.ID = string(e[2].Str)
	}
	return n, nil
}

// hostOf is the host of addr. A unix socket leads to this machine.
func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return "127.0.0.1"
	}
	return host
}
