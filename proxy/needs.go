package proxy

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
	"lockproxy/redlock/scripts"
)

// need is a command of the upstream that the proxy itself runs.
type need struct {
	asked   string   // a harmless one of the kind
	more    []string // arguments behind it that may have spaces
	right   string   // as the rules of an ACL name it
	without string   // what is not there where it is forbidden
	graver  bool     // nobody can do without
	when    func(s *Server) bool
}

// nobody is an id that no client of a server has.
var nobody = strconv.Itoa(math.MaxInt64)

// needs are all of them, but for COMMAND, without which the proxy does not start. Those that subscribe are
// last.
var needs = []need{
	{asked: "INFO server", right: "info", without: "the version is known from HELLO alone, replicas are " +
		"not read from, SCAN does not see that a server has restarted, and nobody knows whether it evicts " +
		"locks"},
	{asked: "CONFIG GET proto-max-bulk-len", right: "config|get", without: "a command that is larger than " +
		"the server takes ends in a closed connection instead of an error"},
	{asked: "CLIENT INFO", right: "client|info", without: runsLate},
	{asked: "CLIENT KILL ID " + nobody, right: "client|kill", without: runsLate},
	{asked: "CLIENT ID", right: "client|id",
		without: "CLIENT UNBLOCK and CLIENT TRACKING with REDIRECT do not work"},
	{asked: "CLIENT UNBLOCK " + nobody, right: "client|unblock", without: "CLIENT UNBLOCK does not work"},
	{asked: "WAIT 0 1", right: "wait", without: "LOCK with SYNC, lock-sync and WAIT do not work"},
	{asked: "SCRIPT EXISTS x", right: "script|exists",
		without: "EXEC fails if the server has lost a script of it"},
	{asked: "SCRIPT LOAD", more: []string{scripts.Acquire.Source}, right: "script|load",
		without: "a script that the server has lost goes with each request (EVAL), but not with EXEC"},
	{asked: "EVAL", more: []string{"return 1", "0"}, right: "eval",
		without: "WAIT behind a write fails since Redis 7.2, and so do lost scripts where SCRIPT LOAD is " +
			"forbidden"},
	{asked: "EVALSHA " + strings.Repeat("0", 40) + " 0", right: "evalsha", graver: true, when: locksHere,
		without: "there are no locks: each verb of theirs is a script"},
	{asked: "TIME", right: "time", graver: true, when: locksHere,
		without: "there are no locks: their leases end by the clock of the server"},
	{asked: "PUBLISH lockproxy x", right: "publish", without: "PUBLISH does not work, and " + untold},
	{asked: "PUBSUB NUMPAT", right: "pubsub", when: clustered,
		without: "LOCK with NOTIFY does not see that nobody was told of a grant"},
	{asked: "SPUBLISH lockproxy x", right: "spublish", when: sharded, without: untold},
	{asked: "COMMAND GETKEYS GET x", right: "command|getkeys",
		without: "commands whose keys only the server can find are refused"},
	{asked: "CLUSTER SLOTS", right: "cluster|slots", when: clustered,
		without: "CLUSTER SHARDS is asked instead"},
	{asked: "CLUSTER INFO", right: "cluster|info", when: clustered,
		without: "a node that is cut off from the others is not told from them"},
	{asked: "CLUSTER NODES", right: "cluster|nodes", when: clustered,
		without: "SCAN may miss keys of slots that move, which wait at a new master until it is seen"},
	{asked: "CLUSTER GETKEYSINSLOT 0 0", right: "cluster|getkeysinslot", when: clustered,
		without: "SCAN fails when slots have moved under it"},
	{asked: "ACL LIST", right: "acl|list", graver: true, when: usersOnly,
		without: "it is not seen that a user is deleted or has another password"},
	{asked: "ACL GETUSER default", right: "acl|getuser", graver: true, when: usersOfOld, without: unjudged},
	{asked: "ACL DRYRUN default PING", right: "acl|dryrun", graver: true, when: usersOfNew,
		without: unjudged},
	{asked: "SUBSCRIBE lockproxy", right: "subscribe",
		without: "SUBSCRIBE does not work, and KEEPALIVE learns late that another proxy has broken a lock"},
	{asked: "SSUBSCRIBE lockproxy", right: "ssubscribe", when: sharded, without: untold},
}

const (
	runsLate = "a request that was lost with its connection may run after it was sent again"
	untold   = "who waits for a lock is not told that another proxy has freed it"
	unjudged = "users may do nothing that the proxy answers itself"
)

func usersOfNew(s *Server) bool { return usersOnly(s) && s.upstream.Topology().Server.AtLeast(7, 0) }
func usersOfOld(s *Server) bool { return usersOnly(s) && !s.upstream.Topology().Server.AtLeast(7, 0) }
func clustered(s *Server) bool  { return s.upstream.Topology().Kind == cluster.Cluster }
func sharded(s *Server) bool    { return s.topics.Sharded() }
func usersOnly(s *Server) bool  { return s.o.UsersOnly }

// locksHere says that the upstream keeps locks.
func locksHere(s *Server) bool { return s.locks.engines.Quorum == nil || len(s.o.Redlock.Prefixes) > 0 }

// needsTimeout is how long a start waits for what the masters forbid.
const needsTimeout = time.Second

// tellNeeds logs, once for each, which commands that the proxy needs are forbidden at a master, be it by its
// ACL or by rename-command. A master that cannot be asked now is not waited for.
func tellNeeds(ctx context.Context, s *Server) {
	ctx, cancel := context.WithTimeout(ctx, needsTimeout)
	defer cancel()
	wanted := slices.DeleteFunc(slices.Clone(needs), func(n need) bool { return n.when != nil && !n.when(s) })
	masters := s.upstream.Topology().Masters
	all := make([][]string, len(masters)) // by master and need: the error, if it is forbidden
	var asking sync.WaitGroup
	for i, m := range masters {
		asking.Go(func() { all[i] = forbidden(ctx, s.upstream, m.Addr, wanted) }) // ends with ctx
	}
	asking.Wait()
	for k, n := range wanted {
		for i, m := range masters {
			if k < len(all[i]) && all[i][k] != "" {
				n.tell(s.o.Log, m.Addr, all[i][k])
				break
			}
		}
	}
}

// forbidden are the errors by which the node at addr refuses what is wanted, "" where it does not.
func forbidden(ctx context.Context, upstream Upstream, addr string, wanted []need) (errs []string) {
	conn, err := upstream.Dial(ctx, addr, cluster.Mode{Proto: 2}, nil)
	if err != nil {
		return nil
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	var asked []byte
	for _, n := range wanted {
		asked = resp.AppendCommandStrings(asked, append(strings.Fields(n.asked), n.more...)...)
	}
	go conn.Write(asked) // ends with conn
	var buf []byte
	for range wanted {
		v, rest, err := resp.Parse(buf)
		for errors.Is(err, resp.ErrIncomplete) {
			buf = slices.Grow(buf, 4096)
			n, failed := conn.Read(buf[len(buf):cap(buf)])
			if n == 0 && failed != nil {
				return errs
			}
			buf = buf[:len(buf)+n]
			v, rest, err = resp.Parse(buf)
		}
		if err != nil {
			return errs
		}
		text := ""
		if v.IsError() && resp.Forbidden(buf) {
			text = string(v.Str)
		}
		errs, buf = append(errs, text), rest
	}
	return errs
}

// tell logs that the node at addr forbids n, in its words.
func (n *need) tell(log *slog.Logger, addr, err string) {
	remedy := "have the server know the command: rename-command took it away, or it is too old"
	if strings.HasPrefix(err, "NOPERM") {
		remedy = "allow it to the upstream's user: +" + n.right
	}
	level := slog.LevelWarn
	if n.graver {
		level = slog.LevelError
	}
	log.Log(context.Background(), level, "the upstream forbids a command that lockproxy needs",
		"command", n.right, "without", n.without, "remedy", remedy, "node", addr, "err", err)
}
