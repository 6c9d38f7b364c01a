package lock

import (
	"context"
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

// lockctlStats is
//
//	LOCKCTL STATS [ALL]
//
// Reply: a map of what this proxy has done with locks since it started, and what it does now (holds that it
// keeps alive, waiters). With RedLock it also has the health of the masters. With ALL, a map of the sums of
// all proxies. Counters have the names of locks.Counters. All of them count from the start of the process,
// and CONFIG RESETSTAT leaves them alone.
func lockctlStats(c *commands.Call, l *Lockers, a *arguments) error {
	if a.total {
		statsOfAll(c, l)
	} else {
		c.Reply(l.ownStats(c))
	}
	return nil
}

// statsOfAll answers STATS ALL. It has no busiest locks: the sum of the first ten of each proxy need not
// be the first ten of all. silent are the proxies that have not answered in time, by id: the sums are too low
// by what they have. differing are those whose settings for locks are others.
func statsOfAll(c *commands.Call, l *Lockers) {
	proto := c.Client.Proto
	c.Task(commands.Returning(func(ctx context.Context) []byte {
		s := totals.Ask(ctx, l.Peers, l.Stats())
		differ := l.Peers.Differing()
		b := resp.AppendNumber(nil, "proxies", s.Proxies)
		b = redcon.AppendArray(redcon.AppendBulkString(b, "silent"), len(s.Silent))
		for _, id := range s.Silent {
			b = redcon.AppendBulkString(b, id)
		}
		b = resp.AppendMap(redcon.AppendBulkString(b, "differing"), proto, len(differ))
		for _, d := range differ {
			b = resp.AppendBulks(b, d.Proxy, strings.Join(d.Settings, ", "))
		}
		return resp.AppendPairs(nil, proto, appendCounters(b, proto, s.Stats))
	}), nil)
}

// ownStats is the answer to STATS without ALL. busiest is empty without lock-stats-names.
func (l *Lockers) ownStats(c *commands.Call) []byte {
	proto := c.Client.Proto
	b := resp.AppendBulks(nil, "proxy", l.Plain.ID(), "version", c.Server.Facts().Version)
	b = appendCounters(b, proto, l.Stats())
	all := l.Busiest.Top(busiestShown)
	b = redcon.AppendArray(redcon.AppendBulkString(b, "busiest"), len(all))
	for _, one := range all {
		b = resp.AppendMap(b, proto, 4)
		b = resp.AppendBulks(b, "name", one.Name)
		b = resp.AppendNumber(b, "grants", int64(one.Grants))
		b = resp.AppendNumber(b, "refusals", int64(one.Refusals))
		b = resp.AppendNumber(b, "waits", int64(one.Waits))
	}
	if l.Quorum != nil {
		b = appendMasters(redcon.AppendBulkString(b, "nodes"), proto, l.Masters())
	}
	return resp.AppendPairs(nil, proto, b)
}

// appendCounters appends counters as pairs of a map. Those with a point in their name stand in a map each.
// The rows of a group stand behind each other in locks.Counters.
func appendCounters(b []byte, proto int, s locks.Stats) []byte {
	in := ""
	for c, row := range locks.Counters {
		group, name, inside := strings.Cut(row.Name, ".")
		if !inside {
			b = resp.AppendNumber(b, row.Name, int64(s[c]))
			continue
		}
		if group != in {
			size := 0
			for _, other := range locks.Counters {
				if strings.HasPrefix(other.Name, group+".") {
					size++
				}
			}
			b = resp.AppendMap(redcon.AppendBulkString(b, group), proto, size)
			in = group
		}
		b = resp.AppendNumber(b, name, int64(s[c]))
	}
	return b
}

// appendMasters appends the health of the masters of RedLock as an array of maps. until_ms is what is left
// until Until of its Health, 0 without one.
func appendMasters(b []byte, proto int, all []master.Health) []byte {
	b = redcon.AppendArray(b, len(all))
	for _, m := range all {
		b = resp.AppendMap(b, proto, 6)
		b = resp.AppendBulks(b, "addr", m.Addr)
		b = resp.AppendNumber(b, "up", resp.Truth(m.Up))
		b = resp.AppendNumber(b, "votes", resp.Truth(m.Votes))
		b = resp.AppendBulks(b, "why", m.Why)
		b = resp.AppendNumber(b, "until_ms", max(time.Until(m.Until).Milliseconds(), 0))
		b = resp.AppendNumber(b, "clock_offset_ms", m.ClockOffset.Milliseconds())
	}
	return b
}
