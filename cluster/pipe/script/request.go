package script

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"lockproxy/cluster/retry"
	"lockproxy/internal/resp"
)

// verbs are the commands that run scripts and functions. The number of keys is their third argument.
var verbs = map[string]bool{
	"EVAL": true, "EVALSHA": true, "EVAL_RO": true, "EVALSHA_RO": true, "FCALL": true, "FCALL_RO": true,
}

// isScript says that the command of that name runs a script or a function.
func isScript(name []byte) bool {
	return len(name) <= len("EVALSHA_RO") && verbs[string(bytes.ToUpper(name))]
}

// Is says that req, one whole command, runs a script or a function.
func Is(req []byte) bool {
	args := firstArgs(req, 1)
	return len(args) > 0 && isScript(args[0])
}

// OnlyReads says that req, a script, says by its command that it only reads.
func OnlyReads(req []byte) bool {
	args := firstArgs(req, 1)
	return len(args) > 0 && bytes.HasSuffix(bytes.ToUpper(args[0]), []byte("_RO"))
}

// Scripts and functions may raise errors of any text, also texts by which Redis says that a command was not
// run. But they have run by then, and would run twice if they were sent again. What only Redis would say is
// checked further: see redirect.go.

// From says that a script may have made the error reply to req, which e and rest describe; raised,
// that it certainly has. Redis redirects for the slot of the keys, which is that of the request.
func From(slot int, req []byte, e *retry.Error, rest []byte) (script, raised bool) {
	args := firstArgs(req, 3)
	if len(args) < 3 || !isScript(args[0]) {
		return false, false
	}
	keys, err := strconv.Atoi(string(args[2][:min(len(args[2]), 20)]))
	if e.OfKeys && (err != nil || keys < 1) { // Redis never refuses a script without keys in that way
		return true, true
	}
	if e.Verdict != retry.Redirect {
		return true, !slices.ContainsFunc(e.Phrases,
			func(phrase string) bool { return bytes.HasPrefix(rest, []byte(phrase)) })
	}
	n, _, ok := retry.ParseRedirect(rest, "[::]:1")
	return true, !ok || slot != n
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

// WithSource turns req, which runs a script by its SHA1, into the EVAL or EVAL_RO that does the same.
func WithSource(req, source []byte) []byte {
	args, _, err := resp.Split(req, nil)
	if err != nil || len(args) < 2 {
		return req
	}
	word := "EVAL"
	if len(args[0]) > len("EVALSHA") {
		word = "EVAL_RO"
	}
	args[0], args[1] = []byte(word), source
	return resp.AppendCommand(nil, args...)
}

// Idle is a script, or a function, of the same kind as that of req and with the same keys, that does
// nothing.
func Idle(req []byte) []byte {
	args, _, err := resp.Split(req, nil)
	if err != nil || len(args) < 3 {
		return resp.AppendCommandStrings(nil, "PING")
	}
	n, _ := resp.Integer(args[2])
	last := 3 + int(max(0, min(n, int64(len(args)-3))))
	body := "return" // of EVAL
	switch word := strings.ToUpper(string(args[0])); {
	case strings.HasPrefix(word, "EVALSHA"):
		body = strings.Repeat("0", 40) // which no script has
	case strings.HasPrefix(word, "FCALL"):
		body = ""
	}
	same := append([][]byte{args[0], []byte(body)}, args[2:last]...)
	return resp.AppendCommand(nil, same...)
}
