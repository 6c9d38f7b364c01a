package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

// knownSentinels is how many Sentinels are remembered: the latest that were learnt of. Those of them that are
// gone are suspected again and again, so the others are asked before them.
const knownSentinels = 32

// sentinelReport is what one Sentinel says of the group.
type sentinelReport struct {
	master   string   // its address
	epoch    uint64   // config-epoch: of the fail-over that made it the master; a later one has more
	replicas []string // addresses; those that are down are left out
	peers    []string // other Sentinels
}

// lookSentinel asks Sentinels for the master, and then the master whether it is one. Sentinels say who should
// be the master; only the node itself says that it is. Peers that most of the answers name are asked the next
// time.
func (u *Upstream) lookSentinel(ctx context.Context, first, rest []string) error {
	reports, failed := gather(ctx, u.asker, first, rest, patience, u.consult)
	u.suspectNodes(failed)
	if len(reports) == 0 {
		return &cluster.DiscoverError{Failed: failed}
	}
	peers := make(map[string]int)
	for _, r := range reports {
		// Most of them must name it, for one Sentinel may know of what is gone, or be of another group.
		for _, peer := range unique(r.peers) {
			peers[peer]++
			if 2*peers[peer] > len(reports) && !slices.Contains(u.sentinels, peer) {
				u.sentinels = append(u.sentinels, peer)
				if len(u.sentinels) > knownSentinels {
					u.sentinels = u.sentinels[1:]
					u.forgetNodes(u.Topology())
				}
			}
		}
	}
	var refused []cluster.NodeError
	// The first of them that is a master, by its own word, is published.
	for _, r := range elect(u.Topology(), reports, len(reports)+len(failed)) {
		i, err := u.identifyNode(ctx, r.master)
		if err == nil && i.master {
			u.servers[i.addr] = i.server
			u.publishView(wholeView(cluster.Sentinel, i.addr, r.replicas))
			return nil
		}
		if err == nil {
			err = errors.New("the Sentinels call it the master, but it is a replica: a fail-over is not " +
				"finished yet")
		}
		refused = append(refused, cluster.NodeError{Addr: r.master, Err: err})
	}
	if refused == nil {
		refused = []cluster.NodeError{{Addr: reports[0].master, Err: errors.New("too few Sentinels call it " +
			"the master, and it was no replica of the group")}}
	}
	return &cluster.DiscoverError{Failed: refused}
}

// elect puts the reports in order, the best first, one for each master. A master that was not of the group
// before, t, needs most of the Sentinels that were asked: the others know it a moment later. Of those that
// were, the latest counts, for who has led the fail-over knows of it first. reports is sorted and cut in
// place.
func elect(t *cluster.Topology, reports []sentinelReport, asked int) []sentinelReport {
	of := addrs(t.Nodes())
	votes := make(map[string]int)
	for _, r := range reports {
		votes[r.master]++
	}
	slices.SortStableFunc(reports, func(a, b sentinelReport) int {
		// With nothing known, most Sentinels decide. Later, a fail-over is known to its leader first.
		byVotes := cmp.Compare(votes[b.master], votes[a.master])
		if len(of) == 0 {
			return cmp.Or(byVotes, cmp.Compare(b.epoch, a.epoch))
		}
		return cmp.Or(cmp.Compare(b.epoch, a.epoch), byVotes)
	})
	seen := make(map[string]bool)
	return slices.DeleteFunc(reports, func(r sentinelReport) bool {
		again := seen[r.master]
		seen[r.master] = true
		return again || len(of) > 0 && !slices.Contains(of, r.master) && 2*votes[r.master] <= asked
	})
}

// wholeView is the view of an upstream in which one master has all slots.
func wholeView(kind cluster.Kind, master string, replicas []string) *view {
	nodes := []cluster.Node{{Addr: master}}
	for _, addr := range replicas {
		nodes = append(nodes, cluster.Node{Addr: addr})
	}
	return &view{kind: kind, from: master, ok: true, shares: []share{{0, slot.Count - 1, nodes}}}
}

// consult asks the Sentinel at addr. Without a name in the options it must watch one master only. A Refusal
// is its word that trying again cannot help.
func (u *Upstream) consult(ctx context.Context, addr string) (r sentinelReport, err error) {
	ask := func(questions ...[]any) ([]resp.Value, error) {
		return u.asker.askNode(ctx, addr, u.sentinelLogins, questions...)
	}
	name := u.o.SentinelMaster
	if name == "" {
		answers, err := ask([]any{"SENTINEL", "MASTERS"})
		if err != nil {
			return r, err
		}
		var names []string
		for _, m := range answers[0].Elems {
			names = append(names, cluster.Pairs(m)["name"])
		}
		switch {
		case answers[0].IsError():
			return r, cluster.Said(string(answers[0].Str))
		case len(names) == 0:
			return r, cluster.Refusal("this Sentinel watches no master")
		// They may be unrelated: the proxy must not choose.
		case len(names) > 1:
			return r, cluster.Refusal("this Sentinel watches several masters, name one of them: " +
				strings.Join(names, ", "))
		}
		name = names[0]
	}
	answers, err := ask(
		[]any{"SENTINEL", "GET-MASTER-ADDR-BY-NAME", name},
		[]any{"SENTINEL", "MASTER", name},
		[]any{"SENTINEL", "REPLICAS", name},
		[]any{"SENTINEL", "SENTINELS", name})
	if err != nil {
		return r, err
	}
	at := answers[0].Elems
	if len(at) != 2 {
		if answers[0].IsError() {
			return r, cluster.Said(string(answers[0].Str))
		}
		return r, cluster.Refusal(fmt.Sprintf("this Sentinel watches no master named %q", name))
	}
	var ok bool
	// What a Sentinel names is dialled, and given the password: it must be an address at least.
	if r.master, ok = cluster.AddrOf(at[0].Text(), at[1].Text()); !ok {
		return r, fmt.Errorf("it names %.80q as the master, where none can be", r.master)
	}
	r.epoch, _ = strconv.ParseUint(cluster.Pairs(answers[1])["config-epoch"], 10, 64)
	for _, v := range answers[2].Elems {
		replica := cluster.Pairs(v)
		if addr, ok := cluster.AddrOf(replica["ip"], replica["port"]); ok && addr != r.master &&
			!strings.Contains(replica["flags"], "down") && len(r.replicas) < cluster.MostNodes {
			r.replicas = append(r.replicas, addr)
		}
	}
	for _, v := range answers[3].Elems {
		peer := cluster.Pairs(v)
		if addr, ok := cluster.AddrOf(peer["ip"], peer["port"]); ok {
			r.peers = append(r.peers, addr)
		}
	}
	return r, nil
}
