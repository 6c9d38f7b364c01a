package scripts

import (
	"errors"
	"fmt"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/redlock"
)

// This file reads what the scripts reply on one Redis.

// ErrReply is the error for a reply that no script gives.
var ErrReply = errors.New("redlock: the script's reply makes no sense")

// ReadValue reads a reply that may be an error. An error reply becomes a redlock.ReplyError. v points into
// reply.
func ReadValue(reply []byte) (resp.Value, error) {
	v, _, err := resp.Parse(reply)
	switch {
	case err != nil:
		return v, fmt.Errorf("%w: %w", ErrReply, err)
	case v.Err() != "":
		return v, redlock.Said(v.Err())
	}
	return v, nil
}

// cutInteger takes ":123\r\n" from b. It takes no sign: a negative number is not ok. It allocates nothing.
func cutInteger(b []byte) (n int64, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != ':' {
		return 0, b, false
	}
	for i, c := range b[1:] {
		if c == '\r' {
			return n, b[min(i+3, len(b)):], i > 0
		}
		if c-'0' > 9 {
			break
		}
		n = n*10 + int64(c-'0')
	}
	return 0, b, false
}

// exactNumbers reads a reply that is an array of n numbers.
func exactNumbers(reply []byte, n int) ([]int64, error) {
	all, err := ReadNumbers(reply)
	if err == nil && len(all) != n {
		err = ErrReply
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// ReadNumbers reads a reply that is an array of numbers. Null, and what is no array, gives none.
func ReadNumbers(reply []byte) (all []int64, err error) {
	v, err := ReadValue(reply)
	if len(v.Elems) > 0 {
		all = make([]int64, 0, len(v.Elems))
	}
	for _, e := range v.Elems {
		if e.Kind != ':' {
			return nil, ErrReply
		}
		all = append(all, e.Int)
	}
	return all, err
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
