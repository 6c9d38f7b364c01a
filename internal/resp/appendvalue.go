package resp

import "strconv"

// AppendValue appends a decoded reply in the form in which it came. Verbatim texts get the format txt. What v
// was decoded from and what is appended are the same bytes, but for attributes, which Parse has left out, and
// that format.
func AppendValue(dst []byte, v Value) []byte {
	switch v.Kind {
	case '+', '-', ',', '(':
		dst = append(append(dst, v.Kind), v.Str...)
		return append(dst, '\r', '\n')
	case ':':
		dst = strconv.AppendInt(append(dst, ':'), v.Int, 10)
		return append(dst, '\r', '\n')
	case '_':
		return append(dst, "_\r\n"...)
	case '#':
		if v.Int != 0 {
			return append(dst, "#t\r\n"...)
		}
		return append(dst, "#f\r\n"...)
	case '=':
		return AppendVerbatim(dst, 3, string(v.Str))
	case '$', '!':
		if v.Null() {
			return append(dst, "$-1\r\n"...)
		}
		dst = appendHeader(dst, v.Kind, len(v.Str))
		dst = append(dst, v.Str...)
		return append(dst, '\r', '\n')
	}
	// What is left has elements: arrays, sets, pushes and maps.
	n := len(v.Elems)
	if v.Null() {
		n = -1
	}
	dst = AppendAggregate(dst, v.Kind, n)
	for _, elem := range v.Elems {
		dst = AppendValue(dst, elem)
	}
	return dst
}
