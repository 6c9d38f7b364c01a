package resp

import (
	"bytes"
	"math"
)

// headerLimit bounds the line of a multibulk or bulk length, as in Redis
// (PROTO_INLINE_MAX_SIZE).
const headerLimit = 64 << 10

// InputGuard frames the byte stream of one client. It lets through only what Redis itself accepts and
// redcon.ReadNextCommand reads in the same way: lengths are checked digit by digit before any other code
// sees them. In an incomplete command it notes where it stopped, so no byte is looked at twice, however
// slowly a command drips in.
//
// The zero InputGuard is ready for the first command. A InputGuard allocates nothing and is not safe for
// concurrent use. pos, left, end and seen are zero at the start of a command. All of them count from buf[0],
// which may move in memory, and with Pass moves on in the stream.
type InputGuard struct {
	pos     int // buf[:pos] is checked
	left    int // arguments from pos on; 0: the command's first line is incomplete
	end     int // where the argument at pos ends; 0: its length is not known yet
	seen    int // buf[:seen] does not hold the end of the line at pos
	missing int // see Missing
	passed  int // bytes of the command before buf, which Pass has let through
}

// Next looks at buf, which starts at a command's first byte.
//
//   - n > 0: buf[:n] is one whole, strictly checked command, for Split.
//   - n == 0 and no error: the command is incomplete. Call again with the same
//     bytes, wherever they are by then, and at least Missing more.
//   - A ProtocolError: the client broke the protocol or a limit. It gets the
//     error as its last reply.
//
// After a whole command and after an error the InputGuard is ready for a new stream.
// lim must stay the same while a command is incomplete.
func (g *InputGuard) Next(buf []byte, lim *Limits) (n int, err error) {
	n, _, err = g.NextArgs(buf, lim, nil)
	return n, err
}

// NextArgs is Next, and returns what Split would, in the memory of dst, if that has room for the arguments
// and nothing about the command is out of the ordinary. Otherwise args is nil. It saves a second walk through
// the command, which nearly all commands would need.
func (g *InputGuard) NextArgs(buf []byte, lim *Limits, dst [][]byte) (n int, args [][]byte, err error) {
	// Only a new command is tried so: one that was incomplete once is known to be slow, and its checked part
	// would be checked again.
	if g.missing == 0 {
		if n, args = whole(buf, lim, dst); n > 0 {
			return n, args, nil
		}
	}
	n, err = g.frameCommand(buf, lim)
	return n, nil, err
}

// frameCommand is the long way.
func (g *InputGuard) frameCommand(buf []byte, lim *Limits) (n int, err error) {
	if g.left == 0 && len(buf) > 0 && buf[0] != '*' {
		return g.frameInline(buf, lim)
	}
	return g.frameMultibulk(buf, lim)
}

// frameMultibulk continues with the command at buf[0:], which begins with '*' if it is not empty.
func (g *InputGuard) frameMultibulk(buf []byte, lim *Limits) (n int, err error) {
	pos, left, end := g.pos, g.left, g.end
	if left == 0 {
		if left, pos, err = g.readCount(buf, lim); err != nil {
			return g.refuseInput(err)
		}
		if pos == 0 {
			return g.noteStop(InputGuard{seen: g.seen, missing: 1})
		}
	}
	for ; left > 0; left-- {
		if end == 0 {
			var size, start int
			if size, start, err = g.readSize(buf, pos, lim); err != nil {
				return g.refuseInput(err)
			}
			if start == 0 {
				return g.noteStop(InputGuard{pos: pos, left: left, seen: g.seen, missing: 1})
			}
			// The CRLF behind it belongs to it.
			end = start + size + 2
		}
		if end > len(buf) {
			return g.noteStop(InputGuard{pos: pos, left: left, end: end, missing: end - len(buf)})
		}
		if buf[end-2] != '\r' || buf[end-1] != '\n' {
			return g.refuseInput(errCRLF)
		}
		pos, end = end, 0
	}
	*g = InputGuard{}
	return pos, nil
}

// Pass is Next for a command that is passed on as it comes: whoever calls it goes on with buf[n:]. Those n
// bytes are checked, and last says that the command ends with them. An error may come behind a part that was
// passed on.
func (g *InputGuard) Pass(buf []byte, lim *Limits) (n int, last bool, err error) {
	if n, err = g.frameCommand(buf, lim); n > 0 || err != nil {
		return n, n > 0, err
	}
	// In the middle of an argument all that has come is passed on, but for its CRLF.
	if n = g.pos; g.end > 0 {
		n = min(len(buf), g.end-2) // the CRLF is checked as a whole
		g.end -= n
	}
	// From now on the same places are counted from buf[n].
	g.pos, g.seen = max(g.pos-n, 0), max(g.seen-n, 0)
	g.passed += n
	return n, false, nil
}

// Begun returns the first n arguments of the incomplete command in buf, the one given to Next, and how many
// it will have. args is nil unless they are there, and nothing about them is out of the ordinary.
func (g *InputGuard) Begun(buf []byte, n int) (args [][]byte, all int) {
	// number refuses what is written in an unusual way, such as +3; then nothing is known here.
	all, at := number(buf, 1)
	if at == 0 || all-g.left < n {
		return nil, all
	}
	for range n {
		size, start := number(buf, at+1)
		if start == 0 {
			return nil, all
		}
		args = append(args, buf[start:start+size])
		at = start + size + 2
	}
	return args, all
}

// Missing is the least number of bytes that must be added to an incomplete
// command before Next is called again: at least 1, and all that is missing of
// an argument whose length is known.
func (g *InputGuard) Missing() int { return max(g.missing, 1) }

// Likely is how many bytes are missing of the incomplete command in buf, the one given to Next, if its other
// arguments are as long as those that are there; 0 if nothing is known.
func (g *InputGuard) Likely(buf []byte) int {
	if g.left == 0 {
		return 0
	}
	n, _ := number(buf, 1)
	if n <= g.left {
		return 0
	}
	return max(g.pos/(n-g.left)*g.left-(len(buf)-g.pos), 0)
}

// noteStop notes where an incomplete command stopped.
func (g *InputGuard) noteStop(at InputGuard) (int, error) {
	at.passed = g.passed
	*g = at
	return 0, nil
}

// refuseInput returns what Next does when the client has broken the protocol. It is its last command, so the
// state is of no use.
func (g *InputGuard) refuseInput(err error) (int, error) {
	*g = InputGuard{}
	return 0, err
}

// readCount reads the first line of a multibulk command in the way and the order in
// which Redis's processMultibulkBuffer does. next is where the line ends, 0:
// incomplete. n is 0 for a command without arguments, which Redis ignores.
func (g *InputGuard) readCount(buf []byte, lim *Limits) (n, next int, err error) {
	line, next, err := g.header(buf, 0, errCountLine)
	if next == 0 {
		return 0, 0, err
	}
	v, ok := Integer(line[1:])
	switch {
	case !ok || v > math.MaxInt32:
		return 0, 0, errCount
	// Redis has words of its own for a client that has not given its password.
	case v > int64(lim.Args) && lim.later > 0:
		return 0, 0, errCountNoAuth
	case v > int64(lim.Args):
		return 0, 0, errCount
	case buf[next-1] != '\n':
		return 0, 0, errCRLF
	}
	return int(max(v, 0)), next, nil
}

// readSize reads the line that starts the argument at buf[pos:], as readCount does.
func (g *InputGuard) readSize(buf []byte, pos int, lim *Limits) (n, next int, err error) {
	line, next, err := g.header(buf, pos, errSizeLine)
	if next == 0 {
		return 0, 0, err
	}
	if buf[pos] != '$' {
		return 0, 0, errNoDollar(buf[pos])
	}
	v, ok := Integer(line[1:])
	switch {
	case !ok || v < 0:
		return 0, 0, errSize
	case v > int64(lim.Bulk) && v <= int64(lim.later):
		return 0, 0, errSizeNoAuth
	case v > int64(lim.Bulk):
		return 0, 0, errSize
	case buf[next-1] != '\n':
		return 0, 0, errCRLF
	// Told as soon as the length is known, so nothing is read in vain.
	case v > int64(lim.Command-g.passed-next-2):
		return 0, 0, errCommandSize
	}
	return int(v), next, nil
}

// header finds the line that starts at buf[pos]. line is without its line end,
// next is behind it, or 0 when the line is incomplete. Like Redis it looks for
// '\r' alone: the caller checks that buf[next-1] is '\n'.
func (g *InputGuard) header(buf []byte, pos int, tooBig ProtocolError) (line []byte, next int, err error) {
	to := min(len(buf), pos+headerLimit+1)
	// What was looked at before has no '\r'.
	from := min(max(pos, g.seen), to)
	cr := bytes.IndexByte(buf[from:to], '\r')
	if cr < 0 {
		if len(buf)-pos > headerLimit {
			return nil, 0, tooBig
		}
		g.seen = to
		return nil, 0, nil
	}
	cr += from
	if cr+1 == len(buf) {
		// The byte behind '\r' is missing: look at the '\r' again when it has come.
		g.seen = cr
		return nil, 0, nil
	}
	return buf[pos:cr], cr + 2, nil
}

// frameInline frames a command that does not start with '*': one line of words.
func (g *InputGuard) frameInline(buf []byte, lim *Limits) (n int, err error) {
	to := min(len(buf), lim.Inline+1)
	from := min(g.seen, to)
	lf := bytes.IndexByte(buf[from:to], '\n')
	if lf < 0 {
		if len(buf) > lim.Inline {
			return g.refuseInput(errInlineSize)
		}
		return g.noteStop(InputGuard{seen: to, missing: 1})
	}
	lf += from
	if err := checkWords(line(buf[:lf+1])); err != nil {
		return g.refuseInput(err)
	}
	*g = InputGuard{}
	return lf + 1, nil
}
