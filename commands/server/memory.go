package server

import (
	"strconv"

	"lockproxy/commands/merge"
	"lockproxy/internal/resp"
)

// mergeMemoryStats merges the replies to MEMORY STATS: amounts are added up; of shares and ratios the
// highest stands for all.
func mergeMemoryStats(proto int, replies [][]byte) []byte {
	merged := merge.Maps(joinMemory)(proto, replies)
	v, _, err := resp.Parse(merged)
	if len(replies) == 1 || err != nil || !resp.IsMap(v) {
		return merged
	}
	keys, net := resp.IndexOf(v, []byte("keys.count")), resp.IndexOf(v, []byte("total.allocated"))
	start, mean := resp.IndexOf(v, []byte("startup.allocated")), resp.IndexOf(v, []byte("keys.bytes-per-key"))
	if min(keys, net, start, mean) >= 0 && v.Elems[keys].Int > 0 {
		v.Elems[mean].Int = max(0, v.Elems[net].Int-v.Elems[start].Int) / v.Elems[keys].Int
	}
	return resp.AppendValue(nil, v)
}

func joinMemory(_ string, a *resp.Value, b resp.Value) {
	switch {
	case a.Kind == ':' && b.Kind == ':':
		a.Int += b.Int
	case resp.IsMap(*a) && resp.IsMap(b): // of a database
		merge.Unite(a, b, joinMemory)
	default:
		x, _ := strconv.ParseFloat(a.Text(), 64)
		y, err := strconv.ParseFloat(b.Text(), 64)
		if err == nil && y > x {
			*a = b
		}
	}
}
