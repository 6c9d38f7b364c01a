package resp

import (
	"fmt"
	"net"
	"syscall"
)

// Bounds are the most that one reply may have. A node may announce what it likes, and libraries make room for
// it, or call themselves once for each level.
type Bounds struct {
	Bytes  int // in all
	Values int // in all arrays, maps and sets together
	Depth  int // of arrays, maps and sets in each other
}

// Answer is what a node may answer to a question of the proxy's own. The longest of honest nodes are COMMAND,
// of half a megabyte, and CLUSTER SLOTS, of some thousand ranges. The bounds leave room for many times that.
var Answer = Bounds{Bytes: 16 << 20, Values: 1 << 19, Depth: 32}

// Framer is a Framer that refuses what is out of b.
func (b Bounds) Framer() Framer {
	return Framer{within: &measure{Bounds: b, ends: make([]int64, 0, b.Depth)}}
}

// measure is what a Framer has seen of a reply. nil: nobody counts.
type measure struct {
	Bounds
	bytes, values int
	// ends has for each array that is open how many values are left when it ends
	ends []int64
}

// takes says that n bytes more are within bounds. It compares with what is left, since n is what a node has
// announced: a sum could overflow.
func (m *measure) takes(n int) bool { return m == nil || n <= m.Bytes-m.bytes }

// took notes that n bytes of the reply were consumed.
func (m *measure) took(n int) {
	if m != nil {
		m.bytes += n
	}
}

// opens says that an array of n values is within bounds. It is the next of left values.
func (m *measure) opens(left, n int64) bool {
	if m == nil {
		return true
	}
	// Arrays that ended before this value begins are not open any more.
	for len(m.ends) > 0 && m.ends[len(m.ends)-1] >= left {
		m.ends = m.ends[:len(m.ends)-1]
	}
	if len(m.ends) == m.Depth || n > int64(m.Values-m.values) {
		return false
	}
	m.ends = append(m.ends, left-1)
	m.values += int(n)
	return true
}

// restart is for the next reply.
func (m *measure) restart() {
	if m != nil {
		m.bytes, m.values, m.ends = 0, 0, m.ends[:0]
	}
}

// Conn is conn, from which only replies within b can be read: for a library that reads them, which then sees
// no length before it has been judged. After anything else reading fails for good.
func (b Bounds) Conn(conn net.Conn) net.Conn {
	c := &boundedConn{Conn: conn, frame: b.Framer()}
	// go-redis looks at the socket whether the server has closed it (connCheck), and does so only if it is a
	// syscall.Conn.
	if raw, ok := conn.(syscall.Conn); ok {
		return &boundedSocket{c, raw}
	}
	return c
}

// boundedConn is a net.Conn whose input is framed before anybody else sees it.
type boundedConn struct {
	net.Conn
	frame Framer
	kept  []byte // an incomplete line
	err   error
}

// refused is why nothing more is read, and how what came begins. It does not unwrap: go-redis would show the
// reason alone.
type refused struct {
	why   error
	begin string
}

// Error implements error.
func (r refused) Error() string { return r.why.Error() + ": " + r.begin }

// Is is for errors.Is.
func (r refused) Is(target error) bool { return target == r.why }

// boundedSocket is one by which a library can look whether it was closed.
type boundedSocket struct {
	*boundedConn
	raw syscall.Conn
}

// SyscallConn implements syscall.Conn.
func (s *boundedSocket) SyscallConn() (syscall.RawConn, error) { return s.raw.SyscallConn() }

// Read implements net.Conn.
func (c *boundedConn) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.Conn.Read(p)
	// What came together with it is withheld as well: nothing that is out of bounds reaches the caller.
	if c.err = c.judgeInput(p[:n]); c.err != nil {
		return 0, c.err
	}
	return n, err
}

// judgeInput looks at the bytes that have come.
func (c *boundedConn) judgeInput(p []byte) error {
	// The framer wants to see the whole of a line that has not ended, with what came before.
	if len(c.kept) > 0 {
		c.kept = append(c.kept, p...)
		p = c.kept
	}
	for len(p) > 0 {
		n, done, err := c.frame.Next(p)
		if err != nil {
			return refused{err, fmt.Sprintf("%.40q", p)}
		}
		if p = p[n:]; !done {
			break
		}
	}
	c.kept = append(c.kept[:0], p...)
	return nil
}
