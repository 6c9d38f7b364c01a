package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"lockproxy/cluster"
)

// notMaster is the error of a node that follows another one.
type notMaster struct{ identity }

func (e notMaster) Error() string {
	if e.follows == "" {
		return "it is a replica, and does not say whose (allow its user +info, or name the master)"
	}
	return "it is a replica of " + e.follows + ", and the master could not be reached"
}

// lookSingle asks the one Redis whether it is still a master. If not, it looks for the master among the nodes
// of the options and the replicas. A replica names its master, which is asked then, over three hops at most:
// a chain of replicas, or two nodes that follow each other.
func (u *Upstream) lookSingle(ctx context.Context) error {
	t := u.Topology()
	var first []string
	rest := slices.Concat(u.o.Addrs, addrs(t.Replicas))
	grace := patience
	if len(t.Masters) > 0 {
		current := t.Masters[0].Addr
		first = []string{current}
		rest = slices.DeleteFunc(rest, func(a string) bool { return a == current })
	} else {
		// Nothing is known yet: if there are two masters, both must be heard.
		first, rest, grace = rest, nil, lookTimeout
	}
	masters, failed := gather(ctx, u.asker, unique(first), unique(rest), grace, u.identifyMaster)
	// Those who answered are replicas: they know where their master is.
	for hops := 0; len(masters) == 0 && hops < 3; hops++ {
		leads := unfollowed(failed)
		if len(leads) == 0 {
			break
		}
		var more []cluster.NodeError
		masters, more = gather(ctx, u.asker, leads, nil, grace, u.identifyMaster)
		failed = append(failed, more...)
	}
	if len(masters) == 0 {
		return &cluster.DiscoverError{Failed: failed}
	}
	// The present master comes before all others that call themselves one. An old one may come back as a
	// master, and must not end the service of the present one, which may only be slow. A replica of it is
	// believed at once.
	present := func(addr string) bool { return len(t.Masters) > 0 && addr == t.Masters[0].Addr }
	late := func(f cluster.NodeError) bool {
		_, lost := u.outages.Of(f.Addr)
		return present(f.Addr) && f.Err == errLate && !lost
	}
	// by any of its addresses: the run ids tell below whether all are one
	followed := func(m identity) bool { return slices.Contains(addrs(t.Replicas), m.addr) }
	i := masters[0]
	if at := slices.IndexFunc(masters, func(m identity) bool { return present(m.addr) }); at >= 0 {
		i = masters[at]
	} else if slices.ContainsFunc(failed, late) && !slices.ContainsFunc(masters, followed) {
		return &cluster.DiscoverError{Failed: failed}
	}
	// A master that stays is not compared with the others.
	if !present(i.addr) {
		for _, m := range masters {
			if m.server.RunID != i.server.RunID {
				return &cluster.DiscoverError{Failed: []cluster.NodeError{{Addr: m.addr,
					Err: cluster.Refusal(fmt.Sprintf(
						"it is a master, and %s is another one: name the nodes of one Redis only", i.addr))}}}
			}
		}
	}
	u.servers[i.addr] = i.server
	u.publishView(wholeView(cluster.Single, i.addr, i.replicas))
	return nil
}

// identifyMaster is identifyNode with notMaster as the error of a replica. i is what it says in any case.
func (u *Upstream) identifyMaster(ctx context.Context, addr string) (identity, error) {
	i, err := u.identifyNode(ctx, addr)
	if err == nil && !i.master {
		err = notMaster{i}
		if cluster.Named(addr) { // the name may lead to another node by now
			u.asker.redialNode(addr)
		}
	}
	return i, err
}

// unfollowed are the masters that failed nodes, which are replicas, have named, and that have not been asked
// yet.
func unfollowed(failed []cluster.NodeError) []string {
	var leads []string
	for _, f := range failed {
		n, follows := errors.AsType[notMaster](f.Err)
		asked := func(e cluster.NodeError) bool { return e.Addr == n.follows }
		if follows && n.follows != "" && !slices.ContainsFunc(failed, asked) {
			leads = append(leads, n.follows)
		}
	}
	return unique(leads)
}
