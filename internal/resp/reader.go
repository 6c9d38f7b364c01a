package resp

import (
	"fmt"
	"io"
	"slices"
)

// Reader reads replies one by one, for conversations in which nobody else has to be served meanwhile.
type Reader struct {
	From io.Reader
	Most int // bytes of one reply; longer ones are an error

	frame  Framer
	framed int // bytes of buf that frame has seen
	buf    []byte
}

// Next blocks until the next reply has come. raw are its bytes, and those that have come behind it. Both stay
// valid. After an error the connection is of no use. raw aliases the buffer, which is never moved to the
// front, so later reads do not write into it.
func (r *Reader) Next() (v Value, raw []byte, err error) {
	for {
		n, done, err := r.frame.Next(r.buf[r.framed:])
		if err != nil {
			return v, nil, err
		}
		if r.framed += n; done {
			v, _, err = parseValue(r.buf[:r.framed], 0)
			raw, r.buf, r.framed = r.buf, r.buf[r.framed:], 0
			return v, raw, err
		}
		// Replies that came behind an earlier one count, too.
		if len(r.buf) >= r.Most {
			return v, nil, fmt.Errorf("resp: a reply has more than %d bytes", r.Most)
		}
		r.buf = slices.Grow(r.buf, 1024)
		n, failed := r.From.Read(r.buf[len(r.buf):cap(r.buf)])
		if n == 0 && failed != nil {
			return v, nil, failed
		}
		r.buf = r.buf[:len(r.buf)+n]
	}
}

// Ahead says that more has come than the replies that Next has returned.
func (r *Reader) Ahead() bool { return len(r.buf) > 0 }
