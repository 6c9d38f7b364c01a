package resp

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// Reader reads replies one by one, for conversations in which nobody else has to be served meanwhile.
type Reader struct {
	From io.Reader
	Most int // bytes of one reply; longer ones are an error

	buf []byte
}

// Next blocks until the next reply has come. raw are its bytes, and those that have come behind it. Both stay
// valid.
func (r *Reader) Next() (v Value, raw []byte, err error) {
	for {
		v, rest, err := Parse(r.buf)
		if err == nil {
			raw, r.buf = r.buf, rest
			return v, raw, nil
		}
		if !errors.Is(err, ErrIncomplete) {
			return v, nil, err
		}
		if len(r.buf) >= r.Most {
			return v, nil, fmt.Errorf("resp: a reply has more than %d bytes", r.Most)
		}
		r.buf = slices.Grow(r.buf, 4096)
		n, failed := r.From.Read(r.buf[len(r.buf):cap(r.buf)])
		if n == 0 && failed != nil {
			return v, nil, failed
		}
		r.buf = r.buf[:len(r.buf)+n]
	}
}
