package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

// lookCluster asks nodes of a cluster and publishes the best view.
func (u *Upstream) lookCluster(ctx context.Context, first, rest []string) error {
	type testimony struct {
		view
		id      string
		server  cluster.Server
		members map[string]string
		failing map[string]bool // ids of masters
	}
	questions := slices.Concat([][]any{{"CLUSTER", "SLOTS"}, {"CLUSTER", "INFO"}, {"CLUSTER", "MYID"}},
		cluster.ServerQuestions)
	asked := len(questions)
	stranger := u.stranger.Swap(false)
	if stranger {
		questions = append(questions, []any{"CLUSTER", "NODES"})
	}
	heard, failed := gather(u, ctx, first, rest, patience,
		func(ctx context.Context, addr string) (t testimony, err error) {
			answers, err := u.asker.ask(ctx, addr, u.o.Logins, questions...)
			if err != nil {
				return t, err
			}
			slots, info, id := answers[0], answers[1], answers[2]
			ok := info.IsError() || cluster.Field(info, "cluster_state") == "ok"
			t.view = view{kind: cluster.Cluster, from: addr, ok: ok}
			t.id, t.server = string(id.Str), cluster.ServerOf(answers[3:asked]...)
			t.epoch, _ = strconv.ParseUint(cluster.Field(info, "cluster_current_epoch"), 10, 64)
			if stranger {
				t.members = parseMembers(answers[asked], addr)
			}
			if slots.IsError() {
				t.shares, err = u.shards(ctx, addr, string(slots.Str))
			} else {
				t.shares, err = parseSlots(slots, addr)
			}
			if err == nil && len(t.shares) == 0 {
				err = errors.New("it knows of no slots: is the cluster set up?")
			}
			if id.IsError() { // then the address identifies the node
				t.id = addr
			}
			t.view.self = t.id
			if err == nil && (hasFailing(info) || hidesNodes(info, t.shares)) {
				if answers, err := u.asker.ask(ctx, addr, u.o.Logins, []any{"CLUSTER", "NODES"}); err == nil {
					t.failing = parseFailing(answers[0])
					addHidden(t.shares, parseNodes(answers[0], addr))
				}
			}
			return t, cmp.Or(err, credible(t.shares))
		})
	u.suspect(failed)
	if len(heard) == 0 {
		return &cluster.DiscoverError{Failed: failed}
	}
	views := make([]*view, 0, len(heard))
	members, failing := make(map[string]string), make(map[string]bool)
	for i := range heard {
		t := &heard[i]
		u.servers[t.id] = t.server
		if u.trusts(&t.view) {
			views = append(views, &t.view)
			maps.Copy(members, t.members)
			maps.Copy(failing, t.failing)
		}
	}
	u.vigil.failing(failing)
	if len(views) == 0 {
		return fmt.Errorf("cluster: node %s belongs to another cluster", heard[0].from)
	}
	if stranger {
		u.members.Store(&members)
	}
	best := u.best(views)
	if !best.ok && best.epoch < u.epoch {
		return fmt.Errorf("cluster: node %s is cut off from the cluster", best.from)
	}
	u.epoch = best.epoch
	u.publish(best)
	return nil
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
	addr, ok := address(host, strconv.FormatInt(e[1].Int, 10))
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
