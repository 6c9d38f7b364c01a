package commands

import (
	"lockproxy/internal/resp"
)

// A map comes as such in RESP3 and as a flat array in RESP2. The functions here
// take both.

// isMap says that v can be read as a map.
func isMap(v resp.Value) bool {
	return v.Kind == '%' || v.Kind == '*' && len(v.Elems)%2 == 0 && !v.Null()
}

// at is the place of a name's value among the elements of a map, -1 without.
func at(v resp.Value, name []byte) int {
	for i := 0; i+1 < len(v.Elems); i += 2 {
		if string(v.Elems[i].Str) == string(name) {
			return i + 1
		}
	}
	return -1
}

// uniteMaps adds to a what b has. join makes one value of the two of a name.
func uniteMaps(a *resp.Value, b resp.Value, join func(name string, a *resp.Value, b resp.Value)) {
	for i := 0; i+1 < len(b.Elems); i += 2 {
		if j := at(*a, b.Elems[i].Str); j >= 0 {
			join(string(b.Elems[i].Str), &a.Elems[j], b.Elems[i+1])
		} else {
			a.Elems = append(a.Elems[:len(a.Elems):len(a.Elems)], b.Elems[i], b.Elems[i+1])
		}
	}
}

// mergeMaps makes a Merge of what joins the values of one name. A single reply stays
// as it is.
func mergeMaps(join func(name string, a *resp.Value, b resp.Value)) Merge {
	return func(_ int, replies [][]byte) []byte {
		if err := firstError(replies); err != nil {
			return err
		}
		if len(replies) == 1 {
			return replies[0]
		}
		var united resp.Value
		for i, reply := range replies {
			v, _, err := resp.Parse(reply)
			if err != nil || !isMap(v) {
				return errUnexpected
			}
			if i == 0 {
				united = v
			} else {
				uniteMaps(&united, v, join)
			}
		}
		return resp.AppendValue(nil, united)
	}
}
