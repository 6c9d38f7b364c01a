package pipe

import (
	"bytes"
	"strconv"

	"lockproxy/cluster/retry"
	"lockproxy/internal/resp"
)

// Scripts and functions may raise errors of any text, also texts by which Redis says that a command was not
// run. But they have run by then, and would run twice if they were sent again. What only Redis would say is
// checked further: see doubt.go.

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

// mayRepeat says that req, which may be sent twice, should be sent again. Of the requests of clients, only
// scripts that only read may be sent twice, but what they return is for the client. The others are scripts
// of locks, which return no such words.
func mayRepeat(req []byte) bool {
	args := firstArgs(req, 1)
	return len(args) > 0 && !bytes.HasSuffix(bytes.ToUpper(args[0]), []byte("_RO"))
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
