// Package merge makes one reply of those that several nodes gave to the same command, or to the parts of one
// command. It stands below commands, whose rules of routing name the merge:
//
//	DBSIZE --> node 1: 3, node 2: 4 --> merge.Sum --> 7
//
//	{Name: "dbsize", Route: commands.AllNodes, Merge: merge.Sum}
//
// A Func gets the replies whole, in the order of the nodes or of the parts, and returns the answer:
//
//	First, One, Any, Concat   one of them, or the elements of all     merge.go
//	Sum, Min, Max, ...        numbers                                 numbers.go
//	Maps, Unite               maps, joined name by name               maps.go
//
// If there is an error among several replies, the first error is the answer, unless the comment of a Func
// says otherwise. Elements of arrays, maps and sets are copied as they are, so whatever a newer Redis puts
// into them comes through. A Func keeps nothing and changes no reply; it may run on any goroutine.
package merge

import (
	"bytes"

	"lockproxy/internal/resp"
)

// Func makes one reply of the whole replies of several nodes, in the order in which the parts were sent.
// proto is the client's protocol, 2 or 3. The result may alias a reply.
type Func func(proto int, replies [][]byte) []byte

// First is for replies that are all the same. As long as no node fails, any of them would do; an error of one
// must not be hidden.
func First(_ int, replies [][]byte) []byte {
	if err := FirstError(replies); err != nil {
		return err
	}
	return replies[0]
}

// One is for what is done as soon as one node has done it. Nodes that had nothing to do answer NOTBUSY. If
// none has, an error that says more than NOTBUSY is the answer.
func One(_ int, replies [][]byte) []byte {
	best := FirstError(replies)
	for _, reply := range replies {
		if !resp.IsError(reply) {
			return reply
		}
		if bytes.HasPrefix(best, []byte("-NOTBUSY")) {
			best = reply
		}
	}
	return best
}

// Any joins arrays, maps and sets; of other replies it takes the first. It is for commands of which nothing
// is known but that they go to several nodes.
func Any(proto int, replies [][]byte) []byte {
	for _, reply := range replies {
		if _, _, ok := resp.Aggregate(reply); !ok {
			return First(proto, replies)
		}
	}
	return Concat(proto, replies)
}

// Concat joins several arrays, maps or sets into one. The kind is that of the first reply. Elements that
// several nodes have are not made one.
func Concat(_ int, replies [][]byte) []byte {
	if err := FirstError(replies); err != nil {
		return err
	}
	count, size := 0, 0
	bodies := make([][]byte, len(replies))
	for i, reply := range replies {
		n, body, ok := resp.Aggregate(reply)
		if !ok {
			return resp.ErrUnexpected
		}
		count, size, bodies[i] = count+n, size+len(body), body
	}
	out := make([]byte, 0, size+16)
	out = resp.AppendAggregate(out, replies[0][0], count)
	for _, body := range bodies {
		out = append(out, body...)
	}
	return out
}

// values makes a Func that decodes the replies, and has join put each behind the first into that. It reports
// false for what cannot be joined. A single reply stays as it is.
func values(join func(joined *resp.Value, next resp.Value) bool) Func {
	return func(_ int, replies [][]byte) []byte {
		if err := FirstError(replies); err != nil {
			return err
		}
		if len(replies) == 1 {
			return replies[0]
		}
		joined, _, err := resp.Parse(replies[0])
		for _, reply := range replies[1:] {
			next, _, failed := resp.Parse(reply)
			if err != nil || failed != nil || !join(&joined, next) {
				return resp.ErrUnexpected
			}
		}
		return resp.AppendValue(nil, joined)
	}
}

// FirstError returns the first error among the replies, or nil. Without any reply it is an error, too.
func FirstError(replies [][]byte) []byte {
	for _, reply := range replies {
		if resp.IsError(reply) {
			return reply
		}
	}
	if len(replies) == 0 {
		return resp.ErrUnexpected
	}
	return nil
}
