package resp

// A map comes as such in RESP3 and as a flat array in RESP2. The functions here
// take both.

// IsMap says that v can be read as a map.
func IsMap(v Value) bool {
	return v.Kind == '%' || v.Kind == '*' && len(v.Elems)%2 == 0 && !v.Null()
}

// IndexOf is the place of a name's value among the elements of a map, -1 without.
func IndexOf(v Value, name []byte) int {
	for i := 0; i+1 < len(v.Elems); i += 2 {
		if string(v.Elems[i].Str) == string(name) {
			return i + 1
		}
	}
	return -1
}

// Field is the value of a name in a map. The zero Value, whose Kind is 0, means that there is none.
func Field(v Value, name string) Value {
	if i := IndexOf(v, []byte(name)); i >= 0 {
		return v.Elems[i]
	}
	return Value{}
}
