package pipe

import (
	"bytes"
	"errors"
	"strings"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/cluster/pipe/script"
	"lockproxy/cluster/retry"
	"lockproxy/internal/resp"
)

// This file reads what nodes say in errors, and makes errors of it.

var (
	asking   = []byte("*1\r\n$6\r\nASKING\r\n")
	ask      = []byte("-ASK ")
	tryAgain = []byte("-TRYAGAIN ")
	// interruption is the error by which a node that becomes a replica ends the commands that block there.
	// Then it closes their connections.
	interruption = []byte("-UNBLOCKED force unblock")
)

// Why a connection ends, or could not be had.
var (
	errSilent = errors.New("no reply within upstream-timeout")
	errCrawls = errors.New("a reply came too slowly, and others waited behind it")
	errLong   = errors.New("its reply is longer than any to this request")
	errIdle   = errors.New("nobody used it")
	errUnfit  = errors.New("the replica is not fit to be read from") // its reads go elsewhere
)

// Why a request is not sent, or not now.
var (
	errRedirected = errors.New("it was redirected again and again")
	errOvertaken  = errors.New("what was sent behind it has run already")
	errBehind     = errors.New("what its client has sent before it is not answered")
	errOwes       = errors.New("it does not answer")
	errShared     = errors.New("a request of more than 1 MiB is not sent over a connection " +
		"that clients share")
	errCutLarge = errors.New("the node closed the connection inside of it, " +
		"as it does above its client-query-buffer-limit")
)

// Interrupted says that an error reply ended a blocking command that had no effect, because its node is no
// longer a master.
func Interrupted(reply []byte) bool { return bytes.HasPrefix(reply, interruption) }

// isTryAgain says that reply is of a request whose keys are at two nodes. It may be nil.
func isTryAgain(reply []byte) bool { return bytes.HasPrefix(reply, tryAgain) }

// isErrorReply says that reply is an error; "!" is a long one of RESP3.
func isErrorReply(reply []byte) bool { return reply[0] == '-' || reply[0] == '!' }

// misled says that reply, an error of the node at addr, may mean that its name leads elsewhere by now.
func misled(addr string, reply []byte) bool {
	r, rest := retry.ErrorOf(reply)
	if r == nil || !cluster.Named(addr) {
		return false
	}
	switch r.Counts {
	case retry.ReadOnly, retry.MasterDown, retry.Loading:
		return true
	case retry.Moved:
		_, to, ok := retry.ParseRedirect(rest, addr)
		return ok && to == addr
	}
	return false
}

// complaint turns an error reply into an error.
func complaint(reply []byte) error {
	if retry.IsRedirect(reply) {
		return errRedirected
	}
	return errors.New(string(bytes.TrimSpace(reply)))
}

// notTaken is the error of a request whose budget is used up: err, or what reply complains of, is why. reply
// counts only without err.
func notTaken(outcome error, reply []byte, err error) error {
	if err == nil {
		err = complaint(reply)
	}
	return cluster.NotTaken(outcome, err, err == errRedirected || errors.Is(err, owned.ErrNoPlace))
}

// busyReply is the reply of a node that could not put a new connection into its mode because of a script; nil
// for other errors. Every request would have got that reply.
func busyReply(err error) []byte {
	var node cluster.NodeError
	if errors.As(err, &node) && strings.HasPrefix(node.Err.Error(), "BUSY ") {
		return []byte("-" + node.Err.Error() + "\r\n")
	}
	return nil
}

// notRun is a ModeError for a request that has not run because of it. It wraps ErrUnavailable too.
type notRun struct{ *cluster.ModeError }

func (e notRun) Unwrap() []error { return []error{e.ModeError, cluster.ErrUnavailable} }

// refusedMode is the error of a node that will not be put into mode m, if err is one. A replica is not asked
// twice either, but its master is.
func refusedMode(err error, m Mode) error {
	var refused *cluster.ModeError
	if !m.Replica && errors.As(err, &refused) {
		return notRun{refused}
	}
	return nil
}

// announced is how long the reply is that begins with chunk, if it is a string; otherwise 0.
func announced(chunk []byte) int {
	if chunk[0] != '$' {
		return 0
	}
	line, _, _ := bytes.Cut(chunk[1:], []byte("\r\n"))
	n, _ := resp.Integer(line)
	return int(n)
}

// trimLine is an error reply without the end of its line. It lies in b.
func trimLine(b []byte) []byte { return bytes.TrimRight(b, "\r\n") }

// isOurScript says that req, a script, is one of ours, such as that of a lock: they return no words of Redis.
// So an error like those is of Redis, and the script has not run. Of the requests of clients, only scripts
// that only read may be sent twice, and what they return is for the client.
func (c *call) isOurScript(req []byte) bool {
	return harmless(c) || c.resend && !script.OnlyReads(req)
}
