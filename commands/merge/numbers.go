package merge

import "lockproxy/internal/resp"

// The Funcs of this file work on integers and booleans, and element by element on arrays of them. A single
// reply stays as it is.
var (
	Sum = elementwise(func(a, b int64) int64 { return a + b })
	Min = elementwise(func(a, b int64) int64 { return min(a, b) })
	Max = elementwise(func(a, b int64) int64 { return max(a, b) })
	And = elementwise(func(a, b int64) int64 { return resp.Truth(a != 0 && b != 0) })
	Or  = elementwise(func(a, b int64) int64 { return resp.Truth(a != 0 || b != 0) })
)

// elementwise makes a Func of a function on two numbers. The order of the replies does not matter to any f
// above.
func elementwise(f func(a, b int64) int64) Func {
	return values(func(acc *resp.Value, v resp.Value) bool { return combineInto(acc, v, f) })
}

// combineInto combines the numbers of v into those of acc. It reports false for values that are no numbers,
// or of different shapes.
func combineInto(acc *resp.Value, v resp.Value, f func(a, b int64) int64) bool {
	switch {
	case acc.Kind != v.Kind || len(acc.Elems) != len(v.Elems) || acc.Null() != v.Null():
		return false
	case acc.Kind == ':' || acc.Kind == '#':
		acc.Int = f(acc.Int, v.Int)
		return true
	case acc.Kind != '*' || acc.Null():
		return false
	}
	for i := range acc.Elems {
		if !combineInto(&acc.Elems[i], v.Elems[i], f) {
			return false
		}
	}
	return true
}
