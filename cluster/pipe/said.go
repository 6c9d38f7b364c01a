package pipe

import (
	"bytes"
	"errors"
	"net"
	"strconv"
	"strings"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/cluster/retry"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
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

// isRedirect says that an error reply names another node.
func isRedirect(reply []byte) bool {
	return bytes.HasPrefix(reply, []byte("-MOVED ")) || bytes.HasPrefix(reply, ask)
}

// parseRedirect reads "3999 127.0.0.1:6381". An empty host means the host that answered (Redis Cluster
// specification, MOVED redirection), and "?" one without a name at a node that prefers names.
func parseRedirect(b []byte, from string) (n int, addr string, ok bool) {
	number, rest, _ := bytes.Cut(bytes.TrimRight(b, "\r\n"), []byte(" "))
	n, err := strconv.Atoi(string(number))
	if err != nil || n < 0 || n >= slot.Count {
		return 0, "", false
	}
	// An IPv6 address comes without brackets: the port is behind the last colon.
	colon := bytes.LastIndexByte(rest, ':')
	if colon < 0 {
		return 0, "", false
	}
	host, port := string(rest[:colon]), string(rest[colon+1:])
	if p, err := strconv.ParseUint(port, 10, 16); err != nil || p == 0 {
		return 0, "", false
	}
	if strings.ContainsAny(host, "[]") {
		return 0, "", false
	}
	if host == "" {
		if host, _, err = net.SplitHostPort(from); err != nil {
			return 0, "", false
		}
	}
	return n, net.JoinHostPort(host, port), true
}

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
		_, to, ok := parseRedirect(rest, addr)
		return ok && to == addr
	}
	return false
}

// plainError is a reply of which clients do not follow the redirect.
func plainError(reply []byte) []byte {
	if isRedirect(reply) {
		return append([]byte("-ERR "), reply[1:]...)
	}
	return reply
}

// complaint turns an error reply into an error.
func complaint(reply []byte) error {
	if isRedirect(reply) {
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

// Scripts and functions may raise errors of any text, also texts by which Redis says that a command was not
// run. But they have run by then, and would run twice if they were sent again. What only Redis would say is
// checked further: see redirect.go.

// scripts are the commands that run scripts and functions. The number of keys is their third argument.
var scripts = map[string]bool{
	"EVAL": true, "EVALSHA": true, "EVAL_RO": true, "EVALSHA_RO": true, "FCALL": true, "FCALL_RO": true,
}

// isScript says that the command with these arguments runs a script or a function.
func isScript(args [][]byte) bool {
	return len(args) > 0 && len(args[0]) <= len("EVALSHA_RO") && scripts[string(bytes.ToUpper(args[0]))]
}

// fromScript says that a script may have made the error reply to req, which r and rest describe; raised,
// that it certainly has. Redis redirects for the slot of the keys, which is that of c.
func fromScript(c *call, req []byte, r *retry.Error, rest []byte) (script, raised bool) {
	args := firstArgs(req, 3)
	if len(args) < 3 || !isScript(args) {
		return false, false
	}
	keys, err := strconv.Atoi(string(args[2][:min(len(args[2]), 20)]))
	if r.OfKeys && (err != nil || keys < 1) { // Redis never refuses a script without keys in that way
		return true, true
	}
	if r.Verdict != retry.Redirect {
		for _, phrase := range r.Phrases {
			if bytes.HasPrefix(rest, []byte(phrase)) {
				return true, false
			}
		}
		return true, true
	}
	n, _, ok := parseRedirect(rest, "[::]:1")
	return true, !ok || int(c.slot) != n
}

// isOurScript says that req, a script, is one of ours, such as that of a lock: they return no words of Redis.
// So an error like those is of Redis, and the script has not run. Of the requests of clients, only scripts
// that only read may be sent twice, and what they return is for the client.
func (c *call) isOurScript(req []byte) bool {
	args := firstArgs(req, 1)
	return harmless(c) || c.resend && len(args) > 0 && !bytes.HasSuffix(bytes.ToUpper(args[0]), []byte("_RO"))
}

// firstArgs are the first n arguments of req, one whole command, or all if it has fewer. There may be a
// million.
func firstArgs(req []byte, n int) (args [][]byte) {
	_, rest, _ := bytes.Cut(req, []byte("\n"))
	for len(rest) > 0 && len(args) < n {
		v, next, err := resp.Parse(rest)
		if err != nil {
			break
		}
		args, rest = append(args, v.Str), next
	}
	return args
}
