package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

// knownSentinels bounds how many Sentinels are learnt of.
const knownSentinels = 32

// report is what one Sentinel says of the group.
type report struct {
	master   string
	epoch    uint64
	replicas []string
	peers    []string // other Sentinels
}

// lookSentinel asks Sentinels for the master, and then the master whether it is one.
func (u *Upstream) lookSentinel(ctx context.Context, first, rest []string) error {
	reports, failed := gather(u, ctx, first, rest, patience, u.consult)
	u.suspect(failed)
	if len(reports) == 0 {
		return &cluster.DiscoverError{Failed: failed}
	}
	votes := make(map[string]int)
	for _, r := range reports {
		votes[r.master]++
		for _, peer := range r.peers {
			if len(u.sentinels) < knownSentinels && !slices.Contains(u.sentinels, peer) {
				u.sentinels = append(u.sentinels, peer)
			}
		}
	}
	best := reports[0]
	for _, r := range reports[1:] {
		if r.epoch > best.epoch || r.epoch == best.epoch && votes[r.master] > votes[best.master] {
			best = r
		}
	}
	i, err := u.identify(ctx, best.master)
	if err == nil && !i.master {
		err = errors.New("the Sentinels call it the master, but it is a replica: a fail-over is not " +
			"finished yet")
	}
	if err != nil {
		return &cluster.DiscoverError{Failed: []cluster.NodeError{{Addr: best.master, Err: err}}}
	}
	u.servers[i.addr] = i.server
	u.publish(wholeView(cluster.Sentinel, i.addr, best.replicas))
	return nil
}

// wholeView is the view of an upstream in which one master has all slots.
func wholeView(kind cluster.Kind, master string, replicas []string) *view {
	nodes := []cluster.Node{{Addr: master}}
	for _, addr := range replicas {
		nodes = append(nodes, cluster.Node{Addr: addr})
	}
	return &view{kind: kind, from: master, ok: true, shares: []share{{0, slot.Count - 1, nodes}}}
}

// consult asks the Sentinel at addr.
func (u *Upstream) consult(ctx context.Context, addr string) (r report, err error) {
	ask := func(questions ...[]any) ([]resp.Value, error) {
		return u.asker.ask(ctx, addr, u.sentinelLogins, questions...)
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
			return r, errors.New(string(answers[0].Str))
		case len(names) == 0:
			return r, cluster.Refusal("this Sentinel watches no master")
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
			return r, errors.New(string(answers[0].Str))
		}
		return r, cluster.Refusal(fmt.Sprintf("this Sentinel watches no master named %q", name))
	}
	r.master = net.JoinHostPort(string(at[0].Str), string(at[1].Str))
	r.epoch, _ = strconv.ParseUint(cluster.Pairs(answers[1])["config-epoch"], 10, 64)
	for _, v := range answers[2].Elems {
		replica := cluster.Pairs(v)
		if addr := net.JoinHostPort(replica["ip"], replica["port"]); addr != r.master &&
			!strings.Contains(replica["flags"], "down") {
			r.replicas = append(r.replicas, addr)
		}
	}
	for _, v := range answers[3].Elems {
		peer := cluster.Pairs(v)
		r.peers = append(r.peers, net.JoinHostPort(peer["ip"], peer["port"]))
	}
	return r, nil
}
