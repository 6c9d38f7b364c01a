package commands

import (
	"strconv"

	"lockproxy/internal/resp"
)

// mergeMemoryStats makes one of the replies to MEMORY STATS: amounts are added up, of
// shares and ratios the highest stands for all.
func mergeMemoryStats(proto int, replies [][]byte) []byte {
	merged := mergeMaps(joinMemory)(proto, replies)
	v, _, err := resp.Parse(merged)
	if len(replies) == 1 || err != nil || !isMap(v) {
		return merged
	}
	keys, net := at(v, []byte("keys.count")), at(v, []byte("total.allocated"))
	start, mean := at(v, []byte("startup.allocated")), at(v, []byte("keys.bytes-per-key"))
	if min(keys, net, start, mean) >= 0 && v.Elems[keys].Int > 0 {
		v.Elems[mean].Int = max(0, v.Elems[net].Int-v.Elems[start].Int) / v.Elems[keys].Int
	}
	return resp.AppendValue(nil, v)
}

func joinMemory(_ string, a *resp.Value, b resp.Value) {
	switch {
	case a.Kind == ':' && b.Kind == ':':
		a.Int += b.Int
	case isMap(*a) && isMap(b): // of a database
		uniteMaps(a, b, joinMemory)
	default:
		x, _ := strconv.ParseFloat(a.Text(), 64)
		y, err := strconv.ParseFloat(b.Text(), 64)
		if err == nil && y > x {
			*a = b
		}
	}
}
