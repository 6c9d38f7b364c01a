package checkup

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockproxy/cluster"
	"lockproxy/cmd/lockproxy/settings"
	"lockproxy/cmd/lockproxy/tool/terminal"
	"lockproxy/internal/resp"
	"lockproxy/proxy/needs"
)

// part is what a node is for.
type part uint8

const (
	member    part = iota // of the upstream: a master or a replica
	watcher               // a Sentinel
	redlocked             // an independent master of RedLock
)

const (
	// rounds is how many round trips are measured.
	rounds = 5
	// longest is how many bytes of a reply are taken.
	longest = 4 << 20
	// patience is how many connect time-outs a whole visit may take. One is for connecting, the rest for
	// answers.
	patience = 3
)

// checkedNode is one server, and what it says when it is asked. The first part is set before visitNode, the
// second one by it; err is why the rest is missing. Nodes are visited side by side, and each belongs to one
// goroutine meanwhile.
type checkedNode struct {
	addr  string
	part  part
	named bool // in the settings only: the topology does not have it

	err         error // why it cannot be asked
	dialer      *cluster.Dialer
	trip        time.Duration
	clock       clock
	server      cluster.Server
	replica     bool
	info        resp.Value
	clusterInfo resp.Value
	quorum      resp.Value     // of a Sentinel: what it thinks of its group
	knows       []*checkedNode // nodes that this one calls down; of a Sentinel also the others
	// settings whose names have "append", nil if CONFIG GET is forbidden
	append    map[string]string
	user      string
	denied    []string     // what the rules of that user do not allow of locks
	unjudged  string       // why that is not known; "": it is
	wanted    []needs.Need // what the proxy needs there
	forbidden []string     // with wanted: the errors, "" where there is none
	certs     []*x509.Certificate
}

// visitNode asks the node all that is to be known. It blocks until then, or until the node is silent for too
// long.
func (n *checkedNode) visitNode(ctx context.Context, v *settings.Values) {
	ctx, cancel := context.WithTimeout(ctx, patience*v.Upstream.ConnectTimeout)
	defer cancel()
	conn, err := n.dialNode(ctx, v)
	if err != nil {
		n.err = err
		return
	}
	defer conn.Close()
	// Wakes every read and write of the connection when the time is over.
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	if secured, ok := conn.(*tls.Conn); ok {
		n.certs = secured.ConnectionState().PeerCertificates
	}
	c := newConversation(conn)
	n.measureTrips(c)
	n.identifyServer(c)
	switch {
	case c.err != nil:
	case n.part == watcher:
		n.askSentinel(c, v.Upstream.SentinelMaster)
	default:
		n.askForLocks(c, v)
		n.wanted = needsAt(v, n)
		n.forbidden = needs.Forbidden(conn, n.wanted) // the last: it subscribes
	}
	if n.err = c.err; n.err != nil && ctx.Err() != nil {
		n.err = context.Cause(ctx)
	}
}

// dialNode connects with the first login that the node accepts. Only a refused login has the others tried: a
// node that is down would be waited for once for each.
func (n *checkedNode) dialNode(ctx context.Context, v *settings.Values) (conn net.Conn, err error) {
	logins := map[part][]*cluster.Logins{
		member: {v.Upstream.Logins}, redlocked: {v.Masters.Logins},
		watcher: {v.Upstream.SentinelLogins, v.Upstream.Logins}, // it may have one of its own
	}
	for _, login := range logins[n.part] {
		n.dialer = dialerOf(v, login)
		if n.part == redlocked {
			n.dialer.Detour = nil // nobody announces it
		}
		conn, err = n.dialer.Dial(ctx, n.addr, cluster.Mode{Proto: 2}, nil)
		if err == nil || !cluster.RefusesLogin(err.Error()) {
			break
		}
	}
	return conn, err
}

// conversation is a connection on which questions are answered in turn. It is used by one goroutine at a
// time.
type conversation struct {
	conn    net.Conn
	replies resp.Reader
	err     error // it is over, and why
}

func newConversation(conn net.Conn) *conversation {
	return &conversation{conn: conn, replies: resp.Reader{From: conn, Most: longest}}
}

// askAll sends commands and returns their replies. It blocks until all have come. Error replies are values,
// not errors. If the conversation ends before, and once it is over, all replies are empty.
func (c *conversation) askAll(commands ...[]string) []resp.Value {
	var asked []byte
	for _, words := range commands {
		asked = resp.AppendCommandStrings(asked, words...)
	}
	if c.err == nil {
		// Aside, since a node may want its replies read before it reads on.
		go c.conn.Write(asked) // ends with conn
	}
	all := make([]resp.Value, len(commands))
	for i := range all {
		if c.err == nil {
			all[i], _, c.err = c.replies.Next()
		}
	}
	if c.err != nil {
		clear(all)
	}
	return all
}

// measureTrips finds out how long a round trip takes, and what the clock of the node shows.
func (n *checkedNode) measureTrips(c *conversation) {
	var trips []time.Duration
	for range rounds {
		sent := time.Now()
		all := c.askAll([]string{"TIME"})
		trip := time.Since(sent)
		trips = append(trips, trip)
		n.clock.heardTime(all[0], sent, trip)
	}
	slices.Sort(trips)
	// The median: one slow answer among five is no news.
	n.trip = trips[len(trips)/2]
}

// identifyServer asks what the server is.
func (n *checkedNode) identifyServer(c *conversation) {
	questions := [][]string{{"INFO"}}
	// The first of them asks for a part of INFO, and here all of it is wanted.
	for _, q := range cluster.ServerQuestions[1:] {
		var words []string
		for _, word := range q {
			words = append(words, word.(string))
		}
		questions = append(questions, words)
	}
	all := c.askAll(questions...)
	n.info, n.server = all[0], cluster.ServerOf(all...)
	// INFO may be forbidden, and HELLO is of 6.0 on.
	n.replica = n.is("role") == "slave" || cluster.Pairs(all[1])["role"] == "replica"
}

// askSentinel asks a Sentinel about its group. master is the name of the group, "" if the settings do not
// say. The replies are kept as they are, for tellQuorum.
func (n *checkedNode) askSentinel(c *conversation, master string) {
	// one group, most likely: Sentinels that watch several need sentinel-master
	if master == "" {
		if all := c.askAll([]string{"SENTINEL", "MASTERS"}); len(all[0].Elems) > 0 {
			master = cluster.Pairs(all[0].Elems[0])["name"]
		}
	}
	all := c.askAll([]string{"SENTINEL", "CKQUORUM", master}, []string{"SENTINEL", "REPLICAS", master},
		[]string{"SENTINEL", "SENTINELS", master})
	n.quorum = all[0]
	for _, v := range all[1].Elems {
		// s_down and o_down
		if r := cluster.Pairs(v); strings.Contains(r["flags"], "down") {
			n.knows = append(n.knows, &checkedNode{addr: net.JoinHostPort(r["ip"], r["port"])})
		}
	}
	for _, v := range all[2].Elems {
		peer := cluster.Pairs(v)
		addr := net.JoinHostPort(peer["ip"], peer["port"])
		n.knows = append(n.knows, &checkedNode{addr: addr, part: watcher})
	}
}

// askForLocks asks for what locks need. What is forbidden stays unknown, and is told later as such.
func (n *checkedNode) askForLocks(c *conversation, v *settings.Values) {
	all := c.askAll([]string{"CONFIG", "GET", "*append*"}, []string{"ACL", "WHOAMI"},
		[]string{"CLUSTER", "INFO"}, []string{"CLUSTER", "NODES"})
	if !all[0].IsError() {
		n.append = cluster.Pairs(all[0])
	}
	// ACL WHOAMI knows it best, and servers before 6.0 do not have it.
	n.user = "default"
	if as := n.dialer.Login(); as.User != "" {
		n.user = as.User
	}
	if !all[1].IsError() {
		n.user = all[1].Text()
	}
	n.clusterInfo = all[2]
	for _, m := range cluster.Members(all[3], "") {
		// not fail?, which is the opinion of this node alone
		if addr := m.Addr(); addr != "" && m.Is("fail") {
			n.knows = append(n.knows, &checkedNode{addr: addr})
		}
	}
	if n.keepsLocks(v) {
		n.tryRights(c, v)
	}
}

// locksThere says that the upstream keeps locks: masters of RedLock have not all of them.
func locksThere(v *settings.Values) bool {
	return len(v.Redlock) == 0 || len(v.Proxy.Redlock.Prefixes) > 0
}

// keepsLocks says that there are locks at the node.
func (n *checkedNode) keepsLocks(v *settings.Values) bool {
	return n.part == redlocked || n.part == member && locksThere(v)
}

// is is a field of INFO.
func (n *checkedNode) is(field string) string { return cluster.Field(n.info, field) }

// tellFacts tells what is so at the node alone.
func (n *checkedNode) tellFacts(v *settings.Values, tell func(Fact)) {
	say := func(l Level, about, text, remedy string) { tell(Fact{l, about, n.addr, text, remedy}) }
	if n.err != nil {
		tell(unreached(v, n.addr, n.err))
		return
	}
	say(OK, "node", fmt.Sprintf("answers in %s: %s, %s", terminal.Brief(n.trip), n.role(), n.release()), "")
	if n.server.Version != "" && !n.server.AtLeast(6, 0) {
		say(Warn, "version", n.release()+" is older than what lockproxy is tested with",
			"upgrade to Redis 6.0 or later, or to Valkey")
	}
	if len(n.certs) > 0 {
		tell(Certificate(n.addr, n.certs[0], time.Now()))
	}
	if n.part == watcher {
		n.tellQuorum(say)
		return
	}
	n.tellState(say)
	n.tellNeeds(say)
	n.tellRights(v, say)
	if n.keepsLocks(v) {
		n.tellMemory(v, say)
		n.tellPersistence(v, say)
	}
}

// role is what the node is, in words.
func (n *checkedNode) role() string {
	switch {
	case n.part == watcher:
		return "Sentinel"
	case !n.replica:
		return "master"
	case n.info.IsError():
		return "replica"
	}
	return "replica of " + net.JoinHostPort(n.is("master_host"), n.is("master_port"))
}

// release is the product and its version, as the server tells them.
func (n *checkedNode) release() string {
	if n.server.Release == "" {
		return "a server that does not tell its version"
	}
	return n.server.Product + " " + n.server.Release
}

// tellQuorum tells whether the Sentinels could agree on a fail-over (SENTINEL CKQUORUM).
func (n *checkedNode) tellQuorum(say func(l Level, about, text, remedy string)) {
	// -NOQUORUM, with the reason
	if text := n.quorum.Err(); text != "" {
		say(Fail, "sentinel", "cannot fail over: "+text, "start the Sentinels that are down: SENTINEL "+
			"SENTINELS lists them")
		return
	}
	say(OK, "sentinel", "could fail over: "+strings.TrimPrefix(n.quorum.Text(), "OK "), "")
}

// tellState tells what keeps the server from serving now.
func (n *checkedNode) tellState(say func(l Level, about, text, remedy string)) {
	if n.is("loading") == "1" {
		say(Fail, "node", "loads its data, and answers nothing else meanwhile", "wait until it is done")
	}
	if state := cluster.Field(n.clusterInfo, "cluster_state"); state != "" && state != "ok" {
		say(Fail, "cluster", "calls the cluster "+state, "redis-cli --cluster check "+n.addr+" says more")
	}
	if n.is("master_link_status") == "down" {
		say(Fail, "replica", "has no link to its master", "look at the log of the replica: masterauth, the "+
			"network, or the size of the backlog")
	}
}

// needsAt are the commands that the proxy needs at a node. What they are depends on the server: a newer one
// has commands that an older one does without.
func needsAt(v *settings.Values, n *checkedNode) []needs.Need {
	if n.part == redlocked {
		all := needs.Of(needs.Site{Server: n.server, Locks: true, Channels: v.Proxy.Locks.Prefix})
		return slices.DeleteFunc(all, func(w needs.Need) bool {
			return !slices.Contains(atMasters, w.Right)
		})
	}
	kind := cluster.Single
	if n.server.Mode == "cluster" {
		kind = cluster.Cluster
	}
	return needs.Of(needs.Site{Kind: kind, Server: n.server, UsersOnly: v.Proxy.UsersOnly,
		Locks: locksThere(v)})
}

// atMasters are the rights that the proxy needs at the masters of RedLock. RedLock has no pass-through: what
// clients do is done at the upstream.
var atMasters = []string{"info", "client|kill", "client|list", "client|id", "script|load", "evalsha", "time",
	"publish", "subscribe"}

// tellNeeds tells which commands of the proxy the rules of its user forbid. A fact is as grave as what is not
// there without it.
func (n *checkedNode) tellNeeds(say func(l Level, about, text, remedy string)) {
	right := true
	for i, err := range n.forbidden {
		if err == "" {
			continue
		}
		right = false
		level, w := Warn, n.wanted[i]
		if w.Graver || n.part == redlocked && w.Right == "info" {
			level = Fail
		}
		say(level, "rights", w.Right+" is forbidden: "+w.Without, w.Remedy(err))
	}
	if right && len(n.forbidden) == len(n.wanted) {
		// only if all have been tried: a connection that broke in between proves nothing
		say(OK, "rights", "user "+strconv.Quote(n.user)+" may run all commands that the proxy needs, "+
			"scripts among them", "")
	}
}
