package resp

import (
	"bytes"
	"errors"
)

// Errors of a Framer. Their connection cannot be used any further.
var (
	ErrReply  = errors.New("resp: malformed reply")
	ErrBounds = errors.New("resp: a reply that is longer, or nested deeper, than any to this question")
)

const (
	// lineLimit is the longest line that a Framer leaves with the caller until
	// it is whole; longer ones are consumed as they come.
	lineLimit = 64 << 10

	// lengthLimit is the longest line of a length or an integer: a sign, 19
	// digits, CRLF.
	lengthLimit = 22

	// maxLeft bounds the values that a reply may still announce. A nested header adds less than that to what
	// is left, so the sum fits into an int64 and is then refused.
	maxLeft = 1 << 62
)

// Values of Framer.skip besides the number of bytes of a bulk that are to come.
const (
	inLine   = -1 // inside of a long line
	inLineCR = -2 // the same, and the last byte was '\r'
)

// Framer finds where the replies of a node end, RESP2 and RESP3, without
// decoding them. It counts the values that are still to come instead of keeping
// a stack, so its memory is constant however deep a reply is nested.
//
// The zero Framer stands at the start of a reply, and knows no bounds: Bounds.Framer makes one that does. It
// allocates nothing and is not safe for concurrent use. Fields other than within are zero between two
// replies.
type Framer struct {
	left   int64 // values until the reply ends; 0: at its start
	skip   int64 // bytes of a bulk with its CRLF that are to come, or inLine, inLineCR
	seen   int   // bytes of the incomplete line which the caller kept that were looked at
	within *measure
}

// Next consumes from buf, which continues where the last call stopped. n bytes
// belong to the current reply, and done says that it ends with them. An
// attribute and the reply behind it are one reply; a push is a reply of its own.
//
// A reply that is not done has taken all of buf but an incomplete line of at
// most 64 KiB: keep buf[n:] and call again with it and more. Bytes of bulks and
// of longer lines are consumed as they come, so that replies can be streamed.
// The only errors are ErrReply and ErrBounds. What a length announces counts before it comes.
func (f *Framer) Next(buf []byte) (n int, done bool, err error) {
	// At the start one value is to come: the reply itself. Each header adds its elements, and each value
	// takes one away.
	left := max(f.left, 1)
	if f.skip != 0 {
		var ok bool
		if n, ok = f.resumeValue(buf); !ok {
			return f.refuseReply(ErrReply)
		}
		if f.skip != 0 {
			return f.noteLeft(left, n)
		}
		left--
	}
	for left > 0 {
		if n == len(buf) {
			return f.noteLeft(left, n)
		}
		v, next, ok := 0, 0, true
		switch kind := buf[n]; kind {
		case '+', '-', ',', '(':
			// the most frequent reply of all
			if n+5 <= len(buf) && string(buf[n:n+5]) == "+OK\r\n" {
				next = n + 5
				break
			}
			if next = f.findLineEnd(buf, n); f.skip != 0 {
				return f.noteLeft(left, len(buf))
			}
		case '$', '=', '!':
			if v, next, ok = readLength(buf, n+1); next == 0 {
				break
			}
			if v < 0 {
				// $-1 is the null of RESP2. No other negative length is one.
				ok = v == -1 && kind == '$'
				break
			}
			if !f.within.takes(next + v + 2) {
				return f.refuseReply(ErrBounds)
			}
			// All of it is there. Its last two bytes must be CRLF, or the next reply would begin in the
			// middle of something.
			if end := next + v + 2; end <= len(buf) {
				ok = buf[end-2] == '\r' && buf[end-1] == '\n'
				next = end
				break
			}
			// It goes on in later calls: all of buf is consumed, and the bytes need not be kept.
			f.skip = int64(v) + 2
			if _, ok = f.resumeValue(buf[next:]); ok {
				return f.noteLeft(left, len(buf))
			}
		case ':':
			_, next, ok = readLength(buf, n+1)
		case '*', '~', '>', '%', '|':
			v, next, ok = readLength(buf, n+1)
			if v < 0 {
				ok = ok && v == -1 && kind == '*'
				break
			}
			more := int64(v)
			// the header counts pairs
			if kind == '%' || kind == '|' {
				more *= 2
			}
			if kind == '|' && next > 0 {
				more++ // the reply behind it
			}
			// judged before anybody sees the header, and makes room for what it announces
			if next > 0 && !f.within.opens(left, more) {
				return f.refuseReply(ErrBounds)
			}
			if left += more; left > maxLeft {
				ok = false
			}
		case '_':
			next, ok = fixed(buf, n, "_\r\n")
		case '#':
			if next, ok = fixed(buf, n, "#t\r\n"); !ok {
				next, ok = fixed(buf, n, "#f\r\n")
			}
		default:
			ok = false
		}
		if !ok {
			return f.refuseReply(ErrReply)
		}
		if next == 0 {
			return f.noteLeft(left, n)
		}
		n = next
		left--
	}
	f.left = 0
	f.within.restart()
	return n, true, nil
}

// Reset makes f ready for the first byte of a reply.
func (f *Framer) Reset() {
	*f = Framer{within: f.within}
	f.within.restart()
}

// noteLeft notes how much of a reply is to come. It returns what Next does.
func (f *Framer) noteLeft(left int64, n int) (int, bool, error) {
	if !f.within.takes(n) {
		return f.refuseReply(ErrBounds)
	}
	f.within.took(n)
	f.left = left
	return n, false, nil
}

// refuseReply returns what Next does for a reply that cannot be used. The position in the stream is lost with
// it.
func (f *Framer) refuseReply(why error) (int, bool, error) {
	f.Reset()
	return 0, false, why
}

// resumeValue goes on inside of a bulk or a long line. f.skip is 0 when it ends
// within buf. Bulks that do not end with CRLF are not ok.
func (f *Framer) resumeValue(buf []byte) (n int, ok bool) {
	if f.skip < 0 {
		if len(buf) == 0 {
			return 0, true
		}
		if f.skip == inLineCR && buf[0] == '\n' {
			f.skip = 0
			return 1, true
		}
		if n = lineEnd(buf, 0); n > 0 {
			f.skip = 0
			return n, true
		}
		f.skipLongLine(buf)
		return len(buf), true
	}
	cr := f.skip - 2 // where it must stand
	n = int(min(f.skip, int64(len(buf))))
	f.skip -= int64(n)
	if f.skip <= 1 && cr >= 0 && n > 0 && buf[cr] != '\r' || f.skip == 0 && buf[n-1] != '\n' {
		return 0, false
	}
	return n, true
}

// findLineEnd finds where the line that starts at buf[n] ends. 0: it is incomplete,
// and consumed when f.skip says so.
func (f *Framer) findLineEnd(buf []byte, n int) (next int) {
	// The part that was looked at before is at the front of buf, so only a line that starts there has one.
	from := n + 1
	if n == 0 && f.seen > 0 {
		from, f.seen = f.seen, 0
	}
	if next = lineEnd(buf, from); next > 0 {
		return next
	}
	// The caller would have to keep it and be asked about it again and again.
	if len(buf)-n > lineLimit {
		f.skipLongLine(buf)
	} else {
		f.seen = len(buf) - n
	}
	return 0
}

// skipLongLine consumes buf, in which a long line does not end.
func (f *Framer) skipLongLine(buf []byte) {
	f.skip = inLine
	if buf[len(buf)-1] == '\r' {
		f.skip = inLineCR
	}
}

// lineEnd is where the first CRLF that ends behind buf[from] ends, 0: nowhere.
// Like hiredis it takes a CR or LF alone for text: it must not be in a line, but
// a module that writes one harms its own client only.
func lineEnd(buf []byte, from int) int {
	for from < len(buf) {
		lf := bytes.IndexByte(buf[from:], '\n')
		if lf < 0 {
			return 0
		}
		from += lf + 1
		if from > 1 && buf[from-2] == '\r' {
			return from
		}
	}
	return 0
}

// readLength reads the integer that stands at buf[i:] as a line. next is where the
// line ends, 0: it is incomplete. v is below -1 when the integer is no length of
// anything.
func readLength(buf []byte, i int) (v, next int, ok bool) {
	if v, next = number(buf, i); next > 0 {
		return v, next, true
	}
	if i+4 <= len(buf) && string(buf[i:i+4]) == "-1\r\n" {
		return -1, i + 4, true
	}
	lf := bytes.IndexByte(buf[i:min(len(buf), i+lengthLimit)], '\n')
	if lf < 0 {
		return 0, 0, len(buf) < i+lengthLimit
	}
	if lf == 0 || buf[i+lf-1] != '\r' {
		return 0, 0, false
	}
	n, ok := Integer(buf[i : i+lf-1])
	if !ok {
		return 0, 0, false
	}
	if n > 0 {
		n = -2 // number did not take it: it has too many digits
	}
	return int(max(n, -2)), i + lf + 1, true
}

// fixed says whether want stands at buf[n:] and where it ends, 0: it is
// incomplete.
func fixed(buf []byte, n int, want string) (next int, ok bool) {
	have := buf[n:min(len(buf), n+len(want))]
	if string(have) != want[:len(have)] {
		return 0, false
	}
	if len(have) < len(want) {
		return 0, true
	}
	return n + len(want), true
}
