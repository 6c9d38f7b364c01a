// Package needs knows which commands of the upstream the proxy runs itself, and what does not work where one
// is forbidden, by the rules of the proxy's user or by rename-command. The proxy logs it at its start, and
// `lockproxy check` says it.
//
//	Of(place) --> the commands --> Forbidden: asked for at a server, without effects --> Without, Remedy
package needs

import (
	"cmp"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
	"lockproxy/redlock/scripts"
)

// Need is a command of the upstream that the proxy itself runs.
type Need struct {
	Right   string // as the rules of an ACL name it
	Without string // what is not there where it is forbidden
	Graver  bool   // nobody can do without

	// The words are split at spaces; the word CHANNEL stands for a channel of the proxy's own. Nothing of it
	// may change data, or block.
	asked    string   // a harmless one of the kind
	more     []string // arguments behind it that may have spaces
	channels string   // with which the word CHANNEL in it begins
	// nil: it is needed everywhere.
	when func(p Site) bool
}

// Site is where the proxy runs them.
type Site struct {
	Kind      cluster.Kind
	Server    cluster.Server
	UsersOnly bool // clients are users of the upstream
	Locks     bool // it keeps locks
	// Channels is with what those begin that the proxy uses there; "": those over which proxies talk
	Channels string
}

// nobody is an id that no client of a server has. So CLIENT KILL and UNBLOCK with it meet no client, and show
// only whether they are allowed.
var nobody = strconv.Itoa(math.MaxInt64)

// all are all of them, but for COMMAND, without which the proxy does not start. Those that subscribe are
// last. Behind SUBSCRIBE a connection in RESP2 takes nothing but its like, so whatever else was asked behind
// it would be refused.
var all = []Need{
	{asked: "INFO server", Right: "info", Without: "the version is known from HELLO alone, replicas are " +
		"not read from, SCAN does not see that a server has restarted, and nobody knows whether it evicts " +
		"locks"},
	{asked: "CONFIG GET proto-max-bulk-len", Right: "config|get", Without: "a command that is larger than " +
		"the server takes ends in a closed connection instead of an error"},
	{asked: "CLIENT INFO", Right: "client|info", Without: runsLate},
	{asked: "CLIENT KILL ID " + nobody, Right: "client|kill", Without: runsLate},
	{asked: "CLIENT LIST ID " + nobody, Right: "client|list", when: newLists,
		Without: "a connection that a firewall has forgotten is found late, by its time-out"},
	{asked: "CLIENT ID", Right: "client|id",
		Without: "CLIENT UNBLOCK and CLIENT TRACKING with REDIRECT do not work"},
	{asked: "CLIENT UNBLOCK " + nobody, Right: "client|unblock", Without: "CLIENT UNBLOCK does not work"},
	{asked: "WAIT 0 1", Right: "wait", Without: "LOCK with SYNC, lock-sync and WAIT do not work"},
	{asked: "SCRIPT EXISTS x", Right: "script|exists",
		Without: "EXEC fails if the server has lost a script of it"},
	{asked: "SCRIPT LOAD", more: []string{scripts.Acquire.Source}, Right: "script|load",
		Without: "a script that the server has lost goes with each request (EVAL), but not with EXEC"},
	{asked: "EVAL", more: []string{"return 1", "0"}, Right: "eval",
		Without: "WAIT behind a write fails since Redis 7.2, and so do lost scripts where SCRIPT LOAD is " +
			"forbidden"},
	{asked: "EVALSHA " + strings.Repeat("0", 40) + " 0", Right: "evalsha", Graver: true, when: locksHere,
		Without: "there are no locks: each verb of theirs is a script"},
	{asked: "TIME", Right: "time", Graver: true, when: locksHere,
		Without: "there are no locks: their leases end by the clock of the server"},
	{asked: "PUBLISH CHANNEL x", Right: "publish", Without: "PUBLISH does not work, proxies do " +
		"not tell each other who holds a lock, nor that their settings differ, and " + untold},
	{asked: "PUBSUB NUMPAT", Right: "pubsub", when: clustered,
		Without: "LOCK with NOTIFY does not see that nobody was told of a grant"},
	{asked: "SPUBLISH CHANNEL x", Right: "spublish", when: sharded, Without: untold},
	{asked: "COMMAND GETKEYS GET x", Right: "command|getkeys",
		Without: "commands whose keys only the server can find are refused"},
	{asked: "CLUSTER SLOTS", Right: "cluster|slots", when: clustered,
		Without: "CLUSTER SHARDS is asked instead"},
	{asked: "CLUSTER INFO", Right: "cluster|info", when: clustered,
		Without: "a node that is cut off from the others is not told from them"},
	{asked: "CLUSTER NODES", Right: "cluster|nodes", when: clustered,
		Without: "SCAN may miss keys of slots that move, which wait at a new master until it is seen, and " +
			"a fail-over in the first seconds of a cluster is seen late"},
	{asked: "CLUSTER GETKEYSINSLOT 0 0", Right: "cluster|getkeysinslot", when: clustered,
		Without: "SCAN fails when slots have moved under it"},
	{asked: "ACL LIST", Right: "acl|list", Graver: true, when: usersOnly,
		Without: "it is not seen that a user is deleted or has another password"},
	{asked: "ACL GETUSER default", Right: "acl|getuser", Graver: true, when: usersOfOld, Without: unjudged},
	{asked: "ACL DRYRUN default PING", Right: "acl|dryrun", Graver: true, when: usersOfNew,
		Without: unjudged},
	{asked: "SUBSCRIBE CHANNEL", Right: "subscribe",
		Without: "SUBSCRIBE does not work, and KEEPALIVE learns late that another proxy has broken a lock"},
	{asked: "SSUBSCRIBE CHANNEL", Right: "ssubscribe", when: sharded, Without: untold},
}

const (
	runsLate = "a request that was lost with its connection may run after it was sent again"
	untold   = "who waits for a lock is not told that another proxy has freed it"
	unjudged = "users may do nothing that the proxy answers itself"
)

func newLists(p Site) bool   { return p.Server.AtLeast(6, 2) }
func usersOfNew(p Site) bool { return p.UsersOnly && p.Server.AtLeast(7, 0) }
func usersOfOld(p Site) bool { return p.UsersOnly && !p.Server.AtLeast(7, 0) }
func clustered(p Site) bool  { return p.Kind == cluster.Cluster }
func sharded(p Site) bool    { return p.Server.ShardChannels }
func usersOnly(p Site) bool  { return p.UsersOnly }
func locksHere(p Site) bool  { return p.Locks }

// Of are those that the proxy needs at a place. They are copies, in the order in which they may be asked over
// one connection.
func Of(p Site) []Need {
	var wanted []Need
	for _, n := range all {
		if n.when == nil || n.when(p) {
			n.channels = cmp.Or(p.Channels, "lockproxy:")
			wanted = append(wanted, n)
		}
	}
	return wanted
}

// Remedy is what helps where a server refuses n with the text err. The text is that of the server, without
// the minus sign.
func (n *Need) Remedy(err string) string {
	switch {
	case strings.HasPrefix(err, "NOPERM") && strings.Contains(err, " channel"):
		return "allow the channels to the upstream's user: &" + n.channels + "*"
	case strings.HasPrefix(err, "NOPERM"):
		return "allow it to the upstream's user: +" + n.Right
	}
	return "have the server know the command: rename-command took it away, or it is too old"
}

// longest is how many bytes one of the replies may have. CONFIG GET and INFO are short, but the answer of
// CLUSTER NODES grows with the cluster.
const longest = 4 << 20

// Forbidden are the errors by which the server at the other end of conn refuses what is wanted, "" where it
// does not. If conn fails they are fewer. It blocks until then, or until all have come, and leaves conn
// subscribed. An error of another kind does not count: the server knows the command and allows it, and the
// arguments of some are meant to fail.
func Forbidden(conn net.Conn, wanted []Need) (errs []string) {
	var asked []byte
	for _, n := range wanted {
		words := append(strings.Fields(n.asked), n.more...)
		if i := slices.Index(words, "CHANNEL"); i > 0 {
			words[i] = n.channels + "check"
		}
		asked = resp.AppendCommandStrings(asked, words...)
	}
	// All of it may be more than both ends take before one of them reads; so it is written beside.
	go conn.Write(asked) // ends with conn
	replies := resp.Reader{From: conn, Most: longest}
	for range wanted {
		v, raw, err := replies.Next()
		if err != nil {
			return errs
		}
		text := ""
		if v.IsError() && resp.Forbidden(raw) {
			text = string(v.Str)
		}
		errs = append(errs, text)
	}
	return errs
}
