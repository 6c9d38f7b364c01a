package commands

import (
	"bytes"
	"strconv"

	"lockproxy/internal/resp"
)

// The functions below are Merges. Of several replies with an error among them
// the answer is the first error. Elements are copied as they are.

// mergeFirst is for replies that are all the same.
func mergeFirst(_ int, replies [][]byte) []byte {
	if err := firstError(replies); err != nil {
		return err
	}
	return replies[0]
}

// mergeOne is for what is done when one node has done it. NOTBUSY is what the nodes
// say that have nothing to do with it.
func mergeOne(_ int, replies [][]byte) []byte {
	best := firstError(replies)
	for _, reply := range replies {
		if !isError(reply) {
			return reply
		}
		if bytes.HasPrefix(best, []byte("-NOTBUSY")) {
			best = reply
		}
	}
	return best
}

// mergeAny puts together what has elements; of other replies it takes the first.
func mergeAny(proto int, replies [][]byte) []byte {
	for _, reply := range replies {
		if _, _, ok := aggregate(reply); !ok {
			return mergeFirst(proto, replies)
		}
	}
	return mergeConcat(proto, replies)
}

// mergeConcat makes one array of several, or one map, or one set.
func mergeConcat(_ int, replies [][]byte) []byte {
	if err := firstError(replies); err != nil {
		return err
	}
	count, size := 0, 0
	bodies := make([][]byte, len(replies))
	for i, reply := range replies {
		n, body, ok := aggregate(reply)
		if !ok {
			return errUnexpected
		}
		count, size, bodies[i] = count+n, size+len(body), body
	}
	out := make([]byte, 0, size+16)
	out = appendAggregate(out, replies[0][0], count)
	for _, body := range bodies {
		out = append(out, body...)
	}
	return out
}

// firstError is the first error among the replies, or nil.
func firstError(replies [][]byte) []byte {
	for _, reply := range replies {
		if isError(reply) {
			return reply
		}
	}
	if len(replies) == 0 {
		return errUnexpected
	}
	return nil
}

func isError(reply []byte) bool {
	return len(reply) == 0 || reply[0] == '-' || reply[0] == '!'
}

// isNull says that reply is Null in one of its forms.
func isNull(reply []byte) bool {
	return len(reply) > 2 && (reply[0] == '_' || string(reply[:3]) == "$-1" || string(reply[:3]) == "*-1")
}

func integerReply(reply []byte) (int64, bool) {
	if len(reply) < 4 || reply[0] != ':' {
		return 0, false
	}
	n, err := strconv.ParseInt(string(reply[1:len(reply)-2]), 10, 64)
	return n, err == nil
}

// bulkReply is the text of a bulk string.
func bulkReply(reply []byte) (text []byte, ok bool) {
	v, _, err := resp.Parse(reply)
	return v.Str, err == nil && v.Kind == '$'
}

// aggregate takes a reply with elements apart: how many there are, two for each
// pair of a map, and their bytes.
func aggregate(reply []byte) (n int, body []byte, ok bool) {
	var pairs bool
	switch {
	case len(reply) == 0:
		return 0, nil, false
	case reply[0] == '%':
		pairs = true
	case reply[0] != '*' && reply[0] != '~' && reply[0] != '>':
		return 0, nil, false
	}
	for i := 1; i+1 < len(reply); i++ {
		if reply[i] != '\r' {
			continue
		}
		n, err := strconv.Atoi(string(reply[1:i]))
		if err != nil || n < 0 {
			return 0, nil, err == nil // a null array has no elements
		}
		if pairs {
			n *= 2
		}
		return n, reply[i+2:], true
	}
	return 0, nil, false
}

// elements are the elements of a reply, as they are.
func elements(reply []byte) (elems [][]byte, ok bool) {
	n, body, ok := aggregate(reply)
	if !ok || n > len(body) {
		return nil, false
	}
	elems = make([][]byte, n)
	for i := range elems {
		var f resp.Framer
		size, done, err := f.Next(body)
		if err != nil || !done {
			return nil, false
		}
		elems[i], body = body[:size:size], body[size:]
	}
	return elems, true
}

// appendElements adds n elements, whose bytes are extra, to a reply that has
// elements; other replies stay as they are.
func appendElements(reply []byte, n int, extra []byte) []byte {
	have, body, ok := aggregate(reply)
	if !ok {
		return reply
	}
	out := make([]byte, 0, len(reply)+len(extra)+4)
	out = appendAggregate(out, reply[0], have+n)
	out = append(out, body...)
	return append(out, extra...)
}

// appendAggregate appends the header of n elements, two for each pair of a map.
func appendAggregate(dst []byte, kind byte, n int) []byte {
	if kind == '%' {
		n /= 2
	}
	dst = append(dst, kind)
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, '\r', '\n')
}
