package discovery

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

// shards asks the node at addr for CLUSTER SHARDS, which Redis has since 7.0, because the node refuses
// CLUSTER SLOTS, with the error why.
func (u *Upstream) shards(ctx context.Context, addr, why string) ([]share, error) {
	answers, err := u.asker.ask(ctx, addr, u.o.Logins, []any{"CLUSTER", "SHARDS"})
	if err != nil {
		return nil, err
	}
	if answers[0].IsError() {
		return nil, errors.New(why)
	}
	return parseShards(answers[0], addr)
}

var errShards = errors.New("its CLUSTER SHARDS reply cannot be understood")

// parseShards reads the reply of CLUSTER SHARDS as node from gave it. A shard without a master serves
// nothing.
func parseShards(v resp.Value, from string) ([]share, error) {
	var shares []share
	for _, shard := range v.Elems {
		var ranges, nodes []resp.Value
		for i := 0; i+1 < len(shard.Elems); i += 2 {
			switch string(shard.Elems[i].Str) {
			case "slots":
				ranges = shard.Elems[i+1].Elems
			case "nodes":
				nodes = shard.Elems[i+1].Elems
			}
		}
		members, mastered := shardNodes(nodes, from)
		if !mastered {
			continue
		}
		for i := 0; i+1 < len(ranges); i += 2 {
			first, last := ranges[i].Int, ranges[i+1].Int
			if first < 0 || last < first || last >= slot.Count {
				return nil, fmt.Errorf("%w: slots %d to %d", errShards, first, last)
			}
			shares = append(shares, share{int(first), int(last), members})
		}
	}
	return shares, nil
}

// shardNodes are the nodes of a shard, its master first, if it has one.
func shardNodes(nodes []resp.Value, from string) (members []cluster.Node, mastered bool) {
	for _, v := range nodes {
		fields := make(map[string]string)
		for i := 0; i+1 < len(v.Elems); i += 2 {
			fields[string(v.Elems[i].Str)] = v.Elems[i+1].Text()
		}
		host, port := fields["endpoint"], fields["port"]
		if host == "?" { // the node prefers a host name and has none
			host = fields["ip"]
		}
		if host == "" {
			host = hostOf(from)
		}
		if number, err := strconv.Atoi(port); err != nil || number < 1 {
			port = fields["tls-port"] // it may have no plain port
		}
		addr, ok := cluster.AddrOf(host, port)
		n := cluster.Node{Addr: addr, ID: fields["id"]}
		switch {
		case fields["health"] == "fail", !ok:
		case fields["role"] == "master" && !mastered:
			members, mastered = append([]cluster.Node{n}, members...), true
		default:
			members = append(members, n)
		}
	}
	return members, mastered
}
