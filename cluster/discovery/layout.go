package discovery

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

// This file reads who has which slots, as node from says it.

var errSlots = errors.New("what it says of its slots cannot be understood")

// layout is what has been read so far. Its shares do not overlap: a node that gives a slot to two masters is
// not believed at all.
type layout struct {
	shares []share
	taken  [slot.Count]bool // slots of the shares
}

// addRange adds a range of slots and its nodes, the master first. Both ends are included, as in Redis. nodes
// is kept.
func (l *layout) addRange(first, last int64, nodes []cluster.Node) error {
	if first < 0 || last < first || last >= slot.Count {
		return fmt.Errorf("%w: slots %d to %d", errSlots, first, last)
	}
	for i := first; i <= last; i++ {
		if l.taken[i] {
			return fmt.Errorf("%w: slot %d twice", errSlots, i)
		}
		l.taken[i] = true
	}
	l.shares = append(l.shares, share{int(first), int(last), nodes})
	return nil
}

// parseSlots reads the reply of CLUSTER SLOTS, which all versions from 3.0 on have. Slots that nobody serves
// are in no row. An error leaves nothing of the reply, for half a layout would look like lost slots.
func parseSlots(v resp.Value, from string) ([]share, error) {
	if v.Kind != '*' {
		return nil, fmt.Errorf("%w: %.80q", errSlots, v.Str)
	}
	var l layout
	for _, row := range v.Elems {
		if len(row.Elems) < 3 || row.Elems[0].Kind != ':' || row.Elems[1].Kind != ':' {
			return nil, errSlots
		}
		var nodes []cluster.Node
		for _, e := range row.Elems[2:] {
			n, err := parseNode(e.Elems, from)
			if err != nil {
				return nil, err
			}
			nodes = append(nodes, n)
		}
		if nodes[0].Addr == "" { // then nobody serves them
			continue
		}
		nodes = slices.DeleteFunc(nodes, func(n cluster.Node) bool { return n.Addr == "" })
		if err := l.addRange(row.Elems[0].Int, row.Elems[1].Int, nodes); err != nil {
			return nil, err
		}
	}
	return l.shares, nil
}

// parseNode reads one node of CLUSTER SLOTS: endpoint, port, id and, since 7.0, more names for it. One that
// nobody can dial has no Addr. Such a one is the former self of a node that came back without its nodes.conf:
// the others still call that a master or a replica, but do not know where it is.
func parseNode(e []resp.Value, from string) (n cluster.Node, err error) {
	if len(e) < 2 || e[1].Kind != ':' {
		return n, errSlots
	}
	// "hostname" and "ip", whichever of them is not the endpoint (Redis documentation, CLUSTER SLOTS).
	names := map[string]string{}
	if len(e) > 3 {
		names = cluster.Pairs(e[3])
	}
	host := endpoint(string(e[0].Str), names["ip"], from)
	if addr, ok := cluster.AddrOf(host, strconv.FormatInt(e[1].Int, 10)); ok {
		n.Addr = addr
	}
	if len(e) > 2 {
		n.ID = string(e[2].Str)
	}
	return n, nil
}

// endpoint is the host of a node. One that prefers a host name and has none says "?", and ip may stand beside
// it. One without a host of its own is at the host of from (Redis documentation, CLUSTER SLOTS, "a NULL
// value").
func endpoint(host, ip, from string) string {
	if host == "?" {
		host = ip
	}
	if host == "?" {
		host = ""
	}
	return cmp.Or(host, hostOf(from))
}

// hostOf is the host of addr. A unix socket leads to this machine.
func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return "127.0.0.1"
	}
	return host
}

// parseShards reads the reply of CLUSTER SHARDS. A shard without a master serves nothing. Its ranges of slots
// are flat: first, last, first, last.
func parseShards(v resp.Value, from string) ([]share, error) {
	var l layout
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
			if err := l.addRange(ranges[i].Int, ranges[i+1].Int, members); err != nil {
				return nil, err
			}
		}
	}
	return l.shares, nil
}

// shardNodes are the nodes of a shard, its master first, if it has one. Those that have failed, or that
// nobody can dial, are left out.
func shardNodes(nodes []resp.Value, from string) (members []cluster.Node, mastered bool) {
	for _, v := range nodes {
		fields := cluster.Pairs(v)
		port := fields["port"]
		if number, err := strconv.Atoi(port); err != nil || number < 1 {
			port = fields["tls-port"] // it may have no plain port
		}
		addr, ok := cluster.AddrOf(endpoint(fields["endpoint"], fields["ip"], from), port)
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
