// Package merge makes one reply of those that several nodes gave to the same command, or to the parts of one
// command. It stands below commands, whose rows of routing name what is to be made of the replies:
//
//	DBSIZE --> node 1: 3, node 2: 4 --> merge.Sum --> 7
//
//	{Name: "dbsize", Route: commands.AllNodes, Merge: merge.Sum}
//
// A Func is given the replies as they came, whole and in the order of the nodes or of the parts, and returns
// the answer:
//
//	First, One, Any, Concat   one of them, or the elements of all     merge.go
//	Sum, Min, Max, ...        numbers                                 numbers.go
//	Maps, Unite               what has names, joined name by name     maps.go
//	Texts                     what people read, one below the other   texts.go
//
// Of several replies with an error among them the answer is the first error, unless the comment of a Func
// says something else. Elements of arrays, maps and sets are copied as they are, so whatever a newer Redis
// puts into them comes through. A Func keeps nothing and changes no reply; it may run on any goroutine.
package merge

import (
	"bytes"

	"lockproxy/internal/resp"
)

// Func makes one reply of the whole replies of several nodes, in the order in
// which the parts were sent. proto is the client's protocol, 2 or 3. The result
// may alias a reply.
type Func func(proto int, replies [][]byte) []byte

// First is for replies that are all the same.
func First(_ int, replies [][]byte) []byte {
	if err := FirstError(replies); err != nil {
		return err
	}
	return replies[0]
}

// One is for what is done when one node has done it. NOTBUSY is what the nodes
// say that have nothing to do with it.
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

// Any puts together what has elements; of other replies it takes the first.
func Any(proto int, replies [][]byte) []byte {
	for _, reply := range replies {
		if _, _, ok := resp.Aggregate(reply); !ok {
			return First(proto, replies)
		}
	}
	return Concat(proto, replies)
}

// Concat makes one array of several, or one map, or one set.
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

// FirstError is the first error among the replies, or nil.
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
