package resp

import (
	"bytes"
	"strconv"
	"strings"
)

// IsError says that reply is an error, or empty. The functions here look at one whole reply, which a Framer
// let through, and decode only what they must.
func IsError(reply []byte) bool {
	// none at all is what a caller has when asking failed
	return len(reply) == 0 || reply[0] == '-' || reply[0] == '!'
}

// IsNull says that reply is Null in one of its forms.
func IsNull(reply []byte) bool {
	return len(reply) > 2 && (reply[0] == '_' || string(reply[:3]) == "$-1" || string(reply[:3]) == "*-1")
}

// IntegerReply is the number of an integer reply.
func IntegerReply(reply []byte) (int64, bool) {
	if len(reply) < 4 || reply[0] != ':' {
		return 0, false
	}
	n, err := strconv.ParseInt(string(reply[1:len(reply)-2]), 10, 64)
	return n, err == nil
}

// BulkReply is the text of a bulk string.
func BulkReply(reply []byte) (text []byte, ok bool) {
	v, _, err := Parse(reply)
	return v.Str, err == nil && v.Kind == '$'
}

// Aggregate takes a reply with elements apart: how many there are, two for each pair of a map, and their
// bytes. Parse would decode every element, and whoever only adds some, or counts them, needs none. A null
// array is no elements, and ok; what has none by its kind is not ok.
func Aggregate(reply []byte) (n int, body []byte, ok bool) {
	header, body, ok := bytes.Cut(reply, []byte("\r\n"))
	if !ok || len(header) == 0 || strings.IndexByte("*~>%", header[0]) < 0 {
		return 0, nil, false
	}
	n, err := strconv.Atoi(string(header[1:]))
	if err != nil || n < 0 {
		return 0, nil, err == nil // a null array has no elements
	}
	if header[0] == '%' {
		n *= 2
	}
	return n, body, true
}

// Elements are the elements of a reply, as they are.
func Elements(reply []byte) (elems [][]byte, ok bool) {
	n, body, ok := Aggregate(reply)
	// Each element has a byte at least, so a header that promises more is none of a whole reply, and no
	// memory is made for it.
	if !ok || n > len(body) {
		return nil, false
	}
	elems = make([][]byte, n)
	for i := range elems {
		var f Framer
		size, done, err := f.Next(body)
		if err != nil || !done {
			return nil, false
		}
		// cut to its size, so that an append to an element cannot write into the next one
		elems[i], body = body[:size:size], body[size:]
	}
	return elems, true
}

// AppendPairs appends a map of pairs: names and values in turn, whose number is counted here, since it stands
// in front of them.
func AppendPairs(dst []byte, proto int, pairs []byte) []byte {
	n := 0
	for rest := pairs; len(rest) > 0; n++ {
		var f Framer
		size, done, err := f.Next(rest)
		if err != nil || !done {
			break // it was not appended by the functions of this package
		}
		rest = rest[size:]
	}
	return append(AppendMap(dst, proto, n/2), pairs...)
}

// AppendElements adds n elements, whose bytes are extra, to a reply that has
// elements; other replies stay as they are.
func AppendElements(reply []byte, n int, extra []byte) []byte {
	have, body, ok := Aggregate(reply)
	if !ok {
		return reply
	}
	// The count may have more digits than before.
	out := make([]byte, 0, len(reply)+len(extra)+4)
	out = AppendAggregate(out, reply[0], have+n)
	out = append(out, body...)
	return append(out, extra...)
}

// AppendAggregate appends the header of n elements, two for each pair of a map.
func AppendAggregate(dst []byte, kind byte, n int) []byte {
	if kind == '%' {
		n /= 2
	}
	return appendHeader(dst, kind, n)
}
