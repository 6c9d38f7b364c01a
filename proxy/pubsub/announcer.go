package pubsub

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pubsub"
	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// Announcer publishes messages of the proxy's own and finds out whether anybody has got them. It implements
// commands.Announcer. Safe for concurrent use.
//
// The reply to PUBLISH counts the subscribers of one master alone, though the nodes of a cluster pass the
// message on to those of all. So they are asked before who has subscribers, and it is published there. If
// nobody has got it at that master they are asked once more, for a subscription may have moved meanwhile. No
// server tells to which patterns its clients listen: where there are any, somebody may have got it.
//
// Replicas are asked if no master has any: a master that becomes one keeps its subscribers until they notice.
// Sentinels end such subscriptions themselves. For a while some nodes do not tell of the former master, for
// they have not heard yet whose replica it is: then nobody knows who listens there.
type Announcer struct {
	Nodes    Asked
	Upstream Upstream
	Topology func() *cluster.Topology

	mu   sync.Mutex
	all  []*cluster.Node // of the latest topology
	left time.Time       // when one of them was missing in the next
}

// settling is for how long a node may be missing that is there: those of a cluster tell each other of
// themselves within half a cluster-node-timeout, which is 15 s if nobody has set it.
const settling = 10 * time.Second

// Follow takes over the current topology. A node that is missing in it makes the next seconds unsettled. It
// must not block.
func (a *Announcer) Follow(t *cluster.Topology) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := t.Nodes()
	for _, n := range a.all {
		if !slices.ContainsFunc(all, func(m *cluster.Node) bool { return m.Addr == n.Addr }) {
			a.left = time.Now()
		}
	}
	a.all = all
}

// isSettled says that no node is missing.
func (a *Announcer) isSettled() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Since(a.left) > settling
}

// Asked is how the nodes are asked.
type Asked interface {
	// DoNode sends req to the node at addr. The error wraps cluster.ErrUnavailable if it has not run.
	DoNode(ctx context.Context, addr string, req []byte, resend bool) ([]byte, error)
}

// ears says whether clients listen at one node.
type ears struct {
	*cluster.Node
	heard bool  // to the channel, or to one of this process's patterns
	doubt error // why nobody knows whether others do
}

// errPatterns is the doubt at a node that has patterns of others, which may fit the channel.
var errPatterns = errors.New("clients listen to patterns at a node of the cluster, which does not say " +
	"to which")

// errLeft is the doubt about listeners at a node that is missing.
var errLeft = errors.New("clients may listen at a node that was one of the cluster until a moment ago")

// askTimeout is how long a node may take to say who listens there. It is for all nodes together: they are
// asked at the same time.
const askTimeout = time.Second

// Announce implements commands.Announcer. It blocks. Unsent: nothing was published. An error beside InDoubt
// says why nobody knows.
func (a *Announcer) Announce(ctx context.Context, channel, message string) (commands.Heard, error) {
	top := a.Topology()
	switch {
	case len(top.Masters) == 0:
		return commands.Unsent, fmt.Errorf("%w: there is no master", cluster.ErrUnavailable)
	case top.Kind != cluster.Cluster:
		return a.publishAt(ctx, top.Masters[0].Addr, channel, message)
	}
	before := a.askListeners(ctx, top.Masters, channel)
	if !slices.ContainsFunc(before, func(e ears) bool { return e.heard }) {
		before = append(before, a.askListeners(ctx, top.Replicas, channel)...)
	}
	at := a.bestMaster(before)
	heard, err := a.publishAt(ctx, at, channel, message)
	if heard == commands.Unheard {
		heard, err = elsewhere(before, at)
	}
	// A subscription that moved meanwhile may have been seen at neither node, so all are asked anew.
	if heard == commands.Unheard {
		heard, err = elsewhere(a.askListeners(ctx, a.Topology().Nodes(), channel), at)
	}
	if heard == commands.Unheard && !a.isSettled() {
		return commands.InDoubt, errLeft
	}
	return heard, err
}

// elsewhere says whether somebody has got the message at another node than at. at has said itself how many
// got it there.
func elsewhere(all []ears, at string) (heard commands.Heard, doubt error) {
	heard = commands.Unheard
	for _, e := range all {
		switch {
		case e.Addr == at:
		case e.heard:
			return commands.Told, nil
		case e.doubt != nil:
			heard, doubt = commands.InDoubt, e.doubt
		}
	}
	return heard, doubt
}

// bestMaster is the master to publish at: one that has subscribers, and of those the one at which this
// process subscribes its own. A master about which nothing is known still is better than none: some node has
// to publish.
func (a *Announcer) bestMaster(all []ears) string {
	home, best, most := a.Upstream.Home(), "", -1
	for _, e := range all {
		rank := 0
		switch {
		case !e.Master:
			continue
		case e.heard:
			rank = 4
		case e.doubt == errPatterns:
			rank = 2
		}
		if e.Addr == home {
			rank++
		}
		if rank > most {
			best, most = e.Addr, rank
		}
	}
	return best
}

// askListeners asks nodes for their subscribers. It blocks until all have answered, or askTimeout is over.
// The result has the order of nodes.
func (a *Announcer) askListeners(ctx context.Context, nodes []*cluster.Node, channel string) []ears {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	topics := a.concernedTopics(channel)
	all := make([]ears, len(nodes))
	var asking sync.WaitGroup
	for i, n := range nodes {
		asking.Go(func() { all[i] = a.earsOf(ctx, n, channel, topics) }) // ends with ctx
	}
	asking.Wait()
	return all
}

// concernedTopics are the topics of this process that get what is published on the channel. It may take as
// many steps as there are: no loop waits for it.
func (a *Announcer) concernedTopics(channel string) []*pubsub.Topic {
	topics, _ := a.Upstream.Concerned([]byte(channel), false, math.MaxInt)
	return topics
}

// earsOf asks one node. topics are those of this process that get the message. The node counts this process
// once for each topic, with whoever listens behind it. So that is taken off before others are seen.
func (a *Announcer) earsOf(
	ctx context.Context, n *cluster.Node, channel string, topics []*pubsub.Topic,
) ears {
	e, addr := ears{Node: n}, n.Addr
	own := 0 // subscribers of the channel itself that are this process
	for _, t := range topics {
		if t.Kind == pubsub.Classic {
			own += t.CountedAt(addr)
		}
		e.heard = e.heard || t.CountedAt(addr) > 0 && t.Listeners() > 0
	}
	subscribers, err := a.askCount(ctx, addr, "NUMSUB", channel)
	if err != nil {
		e.doubt = err
		return e
	}
	patterns, err := a.askCount(ctx, addr, "NUMPAT")
	switch e.heard = e.heard || subscribers > own; {
	case err != nil:
		e.doubt = err
	case patterns > countedAt(a.Upstream.Topics(pubsub.Pattern), addr):
		e.doubt = errPatterns
	}
	return e
}

// askCount asks a node for a number with PUBSUB. NUMSUB answers a name and its number, NUMPAT a number alone.
func (a *Announcer) askCount(ctx context.Context, addr string, what ...string) (int, error) {
	req := resp.AppendCommandStrings(nil, append([]string{"PUBSUB"}, what...)...)
	reply, err := a.Nodes.DoNode(ctx, addr, req, true)
	if err != nil {
		return 0, err
	}
	if elems, ok := resp.Elements(reply); ok && len(elems) == 2 {
		reply = elems[1]
	}
	n, ok := resp.IntegerReply(reply)
	if !ok {
		return 0, errorOf(reply)
	}
	return int(n), nil
}

// publishAt publishes at one master, which tells how many have got the message there. It is sent once: a
// PUBLISH whose reply was lost may have been heard.
func (a *Announcer) publishAt(ctx context.Context, addr, channel, message string) (commands.Heard, error) {
	topics := a.concernedTopics(channel)
	own, listeners := countedAt(topics, addr), listenersOf(topics)
	req := resp.AppendCommandStrings(nil, "PUBLISH", channel, message)
	reply, err := a.Nodes.DoNode(ctx, addr, req, false)
	if err != nil {
		if errors.Is(err, cluster.ErrUnavailable) {
			return commands.Unsent, err
		}
		return commands.InDoubt, err
	}
	n, ok := resp.IntegerReply(reply)
	if !ok {
		return commands.Unsent, errorOf(reply)
	}
	// Who listened before, or listens now, may have got it: that may have been in between.
	own = min(own, countedAt(topics, addr))
	if int(n) > own || n > 0 && listeners+listenersOf(topics) > 0 {
		return commands.Told, nil
	}
	return commands.Unheard, nil
}

// listenersOf returns how many clients of this process listen to topics.
func listenersOf(topics []*pubsub.Topic) (n int) {
	for _, t := range topics {
		n += t.Listeners()
	}
	return n
}

// errorOf is the error for a reply that is no number.
func errorOf(reply []byte) error {
	v, _, err := resp.Parse(reply)
	if err != nil || v.Err() == "" {
		return errors.New("proxy: the upstream answered in a form that lockproxy does not expect")
	}
	return errors.New(v.Err())
}
