package lock

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/cluster/master"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/redlock/locks"
	"lockproxy/redlock/totals"
)

// busiestShown is how many locks LOCKCTL STATS shows one by one.
const busiestShown = 10

// statsVerb is
//
//	LOCKCTL STATS [ALL]
//
// Reply: a map of what this proxy has done with locks since it started, and what it does now (holds that it
// keeps alive, waiters). With RedLock it also has the health of the masters. With ALL, a map of the sums of
// all proxies.
func statsVerb(l *Lockers, busy *Busiest) *commands.Command {
	verb := &commands.Command{
		Name: "lockctl|stats", Arity: -2, Flags: commands.ReadOnly,
		Needs: commands.FixedRights(commands.NewRight("INFO"), commands.NewRight("KEYS", "*")),
		Docs: &commands.Docs{
			Summary:    "Says what this proxy has done with locks, or all of them.",
			Complexity: "O(N), N being lock-stats-names; with ALL the number of proxies",
			Arguments:  []commands.Argument{{Name: "all", Type: "pure-token", Token: "ALL", Optional: true}},
		},
	}
	verb.Run = func(c *commands.Call) {
		switch all, err := statsArgs(c.Args[2:]); {
		case err != nil:
			c.Reply(commands.ErrorReply(verb.Usage(err)))
		case all:
			lockctlStatsAll(c, l)
		default:
			lockctlStats(c, l, busy)
		}
	}
	return verb
}

// statsArgs reads the option of STATS.
func statsArgs(args [][]byte) (all bool, err error) {
	switch {
	case len(args) == 0:
		return false, nil
	case !resp.IsWord(args[0], "ALL"):
		return false, fmt.Errorf("%q is no option of LOCKCTL STATS", resp.Clip(args[0]))
	case len(args) > 1:
		return false, fmt.Errorf("%q is one argument too many", resp.Clip(args[1]))
	}
	return true, nil
}

// lockctlStatsAll answers STATS ALL. It has no busiest locks: the sum of the first ten of each proxy need not
// be the first ten of all.
func lockctlStatsAll(c *commands.Call, l *Lockers) {
	proto := c.Client.Proto
	c.Task(commands.Returning(func(ctx context.Context) []byte {
		s := totals.Ask(ctx, l.Peers, l.Stats())
		differ := l.Peers.Differing()
		b := resp.AppendMap(nil, proto, 3+counterPairs)
		b = appendCount(b, "proxies", int64(s.Proxies))
		b = redcon.AppendArray(redcon.AppendBulkString(b, "silent"), len(s.Silent))
		for _, id := range s.Silent {
			b = redcon.AppendBulkString(b, id)
		}
		b = resp.AppendMap(redcon.AppendBulkString(b, "differing"), proto, len(differ))
		for _, d := range differ {
			b = appendPair(b, d.Proxy, strings.Join(d.Settings, ", "))
		}
		return appendCounters(b, proto, s.Stats)
	}), nil)
}

func lockctlStats(c *commands.Call, l *Lockers, busy *Busiest) {
	proto, size := c.Client.Proto, 3+counterPairs
	if l.Quorum != nil {
		size++
	}
	b := resp.AppendMap(nil, proto, size)
	b = appendPair(b, "proxy", l.Plain.ID())
	b = appendPair(b, "version", c.Server.Facts().Version)
	b = appendCounters(b, proto, l.Stats())
	all := busy.Top(busiestShown)
	b = redcon.AppendArray(redcon.AppendBulkString(b, "busiest"), len(all))
	for _, one := range all {
		b = resp.AppendMap(b, proto, 4)
		b = appendPair(b, "name", one.Name)
		b = appendCount(b, "grants", int64(one.Grants))
		b = appendCount(b, "refusals", int64(one.Refusals))
		b = appendCount(b, "waits", int64(one.Waits))
	}
	if l.Quorum != nil {
		b = appendMasters(redcon.AppendBulkString(b, "nodes"), proto, l.Masters())
	}
	c.Reply(b)
}

const counterPairs = 20

// appendCounters appends counters as pairs of a map.
func appendCounters(b []byte, proto int, s locks.Stats) []byte {
	b = appendCount(b, "holds", int64(s.Kept))
	b = appendCount(b, "lingering", int64(s.Lingering))
	b = appendCount(b, "waiters", int64(s.Waiting))
	b = appendByMode(b, proto, "granted", s.Granted)
	b = appendByMode(b, proto, "refused", s.Refused)
	b = appendByMode(b, proto, "failed", s.Failed)
	b = appendCount(b, "released", int64(s.Released))
	b = appendCount(b, "not_held", int64(s.NotHeld))
	b = appendCount(b, "renewed", int64(s.Renewed))
	b = appendCount(b, "not_renewed", int64(s.NotRenewed))
	b = appendCount(b, "guarded", int64(s.Guarded))
	b = appendCount(b, "not_guarded", int64(s.NotGuarded))
	b = appendCount(b, "sets_granted", int64(s.Sets))
	b = appendCount(b, "sets_refused", int64(s.NoSets))
	b = appendCount(b, "sets_failed", int64(s.FailedSets))
	b = appendCount(b, "waits", int64(s.Waits))
	b = appendCount(b, "timed_out", int64(s.TimedOut))
	b = appendCount(b, "no_replicas", int64(s.Unsynced))
	b = appendCount(b, "renewals", int64(s.Renewals))
	b = resp.AppendMap(redcon.AppendBulkString(b, "lost"), proto, len(s.Lost))
	for _, why := range slices.Sorted(maps.Keys(s.Lost)) {
		b = appendCount(b, string(why), int64(s.Lost[why]))
	}
	return b
}

// appendMasters appends the health of the masters of RedLock as an array of maps.
func appendMasters(b []byte, proto int, all []master.Health) []byte {
	b = redcon.AppendArray(b, len(all))
	for _, m := range all {
		until := int64(0)
		if !m.Until.IsZero() {
			until = max(time.Until(m.Until).Milliseconds(), 0)
		}
		b = resp.AppendMap(b, proto, 6)
		b = appendPair(b, "addr", m.Addr)
		b = appendCount(b, "up", oneIf(m.Up))
		b = appendCount(b, "votes", oneIf(m.Votes))
		b = appendPair(b, "why", m.Why)
		b = appendCount(b, "until_ms", until)
		b = appendCount(b, "clock_offset_ms", m.ClockOffset.Milliseconds())
	}
	return b
}

func oneIf(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func appendByMode(b []byte, proto int, name string, n locks.ByMode) []byte {
	b = resp.AppendMap(redcon.AppendBulkString(b, name), proto, 3)
	b = appendCount(b, "write", int64(n.Write))
	b = appendCount(b, "read", int64(n.Read))
	return appendCount(b, "permit", int64(n.Permit))
}
