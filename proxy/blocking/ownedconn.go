package blocking

import (
	"strconv"

	"lockproxy/cluster/pipe"
	"lockproxy/internal/resp"
)

// ownedConn is a connection for one command that blocks. While the outcome of a CLIENT UNBLOCK is unknown
// nobody else gets the connection, since it might end another one's wait.
type ownedConn struct {
	*pipe.Pipe
	questions int  // CLIENT UNBLOCKs on their way
	returned  bool // not needed any more
}

// giveBack returns the connection, which is in its original state. The last answer to a CLIENT UNBLOCK gives
// it back if one is on its way.
func (l *ownedConn) giveBack() {
	l.returned = true
	if l.questions == 0 {
		l.Release()
	}
}

// askUnblock makes the node end the command that blocks on the connection. ended is told, at once or later,
// whether it did. It goes over a shared connection, since this one is busy. Resend is safe: nobody else has
// the connection meanwhile.
func (l *ownedConn) askUnblock(pool *pipe.Pool, withError bool, ended func(bool)) {
	if l.ClientID() == 0 {
		ended(false)
		return
	}
	reason := "TIMEOUT"
	if withError {
		reason = "ERROR"
	}
	l.questions++
	req := resp.AppendCommandStrings(nil, "CLIENT", "UNBLOCK", strconv.FormatInt(l.ClientID(), 10), reason)
	pipe.Ask(pool, pipe.ToNode(l.Addr()), pipe.Mode{Proto: 2}, req, func(reply []byte, _ error) {
		if l.questions--; l.returned && l.questions == 0 {
			l.Release()
		}
		ended(string(reply) == ":1\r\n")
	})
}
