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

// giveBack returns the connection, which is in its original state.
func (l *ownedConn) giveBack() {
	l.returned = true
	if l.questions == 0 {
		l.Release()
	}
}

// unblock makes the node end the command that blocks on the connection. ended is told, at once or later,
// whether it did.
func (l *ownedConn) unblock(pool *pipe.Pool, withError bool, ended func(bool)) {
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
	pool.Send(&pipe.Request{
		Target: pipe.ToNode(l.Addr()), Mode: pipe.Mode{Proto: 2}, Bytes: req,
		To: &unblocking{l, ended}, Resend: true,
	})
}

// unblocking takes the reply to a CLIENT UNBLOCK.
type unblocking struct {
	l     *ownedConn
	ended func(bool)
}

// Receive implements pipe.Receiver.
func (u *unblocking) Receive(_ uint32, chunk []byte, last bool) {
	if last {
		u.answered(string(chunk) == ":1\r\n")
	}
}

// Fail implements pipe.Receiver.
func (u *unblocking) Fail(uint32, error) { u.answered(false) }

// Discard implements pipe.Receiver.
func (u *unblocking) Discard(uint32) bool { return true }

// Detour implements pipe.Receiver.
func (u *unblocking) Detour(uint32) {}

func (u *unblocking) answered(ended bool) {
	if u.l.questions--; u.l.returned && u.l.questions == 0 {
		u.l.Release()
	}
	u.ended(ended)
}
