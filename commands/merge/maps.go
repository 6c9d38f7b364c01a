package merge

import (
	"lockproxy/internal/resp"
)

// Unite adds the pairs of b to a. If both have a name, join combines its two values. The maps are flat, names
// and values in turn, as RESP2 has them; names are compared byte by byte. join changes its a, and must not
// change its b.
func Unite(a *resp.Value, b resp.Value, join func(name string, a *resp.Value, b resp.Value)) {
	for i := 0; i+1 < len(b.Elems); i += 2 {
		if j := resp.IndexOf(*a, b.Elems[i].Str); j >= 0 {
			join(string(b.Elems[i].Str), &a.Elems[j], b.Elems[i+1])
		} else {
			a.Elems = append(a.Elems[:len(a.Elems):len(a.Elems)], b.Elems[i], b.Elems[i+1])
		}
	}
}

// Maps makes a Func that joins maps name by name. A single reply stays as it is.
func Maps(join func(name string, a *resp.Value, b resp.Value)) Func {
	return values(func(a *resp.Value, b resp.Value) bool {
		if !resp.IsMap(*a) || !resp.IsMap(b) {
			return false
		}
		Unite(a, b, join)
		return true
	})
}
