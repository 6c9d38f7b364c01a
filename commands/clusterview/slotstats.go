package clusterview

import (
	"cmp"
	"slices"

	"github.com/tidwall/redcon"

	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

// clusterSlotStats is CLUSTER SLOT-STATS, of Valkey since 8.0 and Redis since 8.2: each master tells of its
// own slots, and together they are in the order that the client asks for.
//
//	CLUSTER SLOT-STATS SLOTSRANGE first last | ORDERBY metric [LIMIT n] [ASC | DESC]
func clusterSlotStats(c *commands.Call) {
	switch up := c.Server.Upstream(); {
	case !up.IsValkey(8, 0) && !up.AtLeast(8, 2):
		commands.NoSubcommand(c)
		return
	case !c.Server.ClusterMode():
		c.Reply(commands.ErrNoCluster)
		return
	case !c.Server.Clustered():
		c.Reply(commands.Refusal(c.Command.Name, " in front of one Redis, which does not count by slot"))
		return
	}
	order := orderOf(c.Args[2:])
	c.AskAll(c.Raw, commands.Asking{Resend: true, Always: true}, func(_ int, replies [][]byte) []byte {
		if i := slices.IndexFunc(replies, resp.IsError); i >= 0 {
			return replies[i]
		}
		return order.merge(replies)
	})
}

// statsOrder is how the client wants the slots. Whether its words are right the nodes decide.
type statsOrder struct {
	metric    string // "": by slot
	ascending bool
	limit     int64
}

func orderOf(args [][]byte) statsOrder {
	o := statsOrder{limit: slot.Count}
	if len(args) < 2 || !resp.IsWord(args[0], "ORDERBY") {
		return o
	}
	o.metric = string(args[1])
	for i := 2; i < len(args); i++ {
		switch {
		case resp.IsWord(args[i], "ASC"):
			o.ascending = true
		case resp.IsWord(args[i], "DESC"):
			o.ascending = false
		case resp.IsWord(args[i], "LIMIT") && i+1 < len(args):
			i++
			if n, ok := resp.Integer(args[i]); ok {
				o.limit = n
			}
		}
	}
	return o
}

// slotStats is what a node tells of one slot.
type slotStats struct {
	slot, by int64
	raw      []byte
}

// merge makes one reply of those of all masters. A slot that is being handed over may be in two of them.
func (o statsOrder) merge(replies [][]byte) []byte {
	var all []slotStats
	seen := make(map[int64]bool)
	for _, reply := range replies {
		elems, ok := resp.Elements(reply)
		if !ok {
			return resp.ErrUnexpected
		}
		for _, raw := range elems {
			v, _, err := resp.Parse(raw)
			if err != nil || len(v.Elems) != 2 {
				return resp.ErrUnexpected
			}
			s := slotStats{slot: v.Elems[0].Int, raw: raw}
			for i := 0; i+1 < len(v.Elems[1].Elems); i += 2 {
				if v.Elems[1].Elems[i].Text() == o.metric {
					s.by = v.Elems[1].Elems[i+1].Int
				}
			}
			if !seen[s.slot] {
				seen[s.slot] = true
				all = append(all, s)
			}
		}
	}
	slices.SortFunc(all, func(a, b slotStats) int {
		by := cmp.Compare(b.by, a.by)
		if o.ascending {
			by = -by
		}
		return cmp.Or(by, cmp.Compare(a.slot, b.slot))
	})
	all = all[:min(int64(len(all)), o.limit)]
	out := redcon.AppendArray(nil, len(all))
	for _, s := range all {
		out = append(out, s.raw...)
	}
	return out
}
