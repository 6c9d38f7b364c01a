package cluster

import (
	"bytes"
	"strconv"

	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

// Scripts and functions may raise errors of any text, also ones that begin like those of Redis which say that
// a command was not run. By then they have run, and to send them again would be to run them twice. What only
// Redis would say is looked into further: see doubt.go.

// scripts are the commands that run them. The number of keys is their third argument.
var scripts = map[string]bool{
	"EVAL": true, "EVALSHA": true, "EVAL_RO": true, "EVALSHA_RO": true, "FCALL": true, "FCALL_RO": true,
}

// fromScript says that a script may have made the error reply to req, which r and rest are of; raised, that
// it certainly has.
func fromScript(req []byte, r *retryError, rest []byte) (script, raised bool) {
	v, _, err := resp.Parse(req)
	if err != nil || len(v.Elems) < 3 || !scripts[string(bytes.ToUpper(v.Elems[0].Str))] {
		return false, false
	}
	keys, err := strconv.Atoi(string(v.Elems[2].Str))
	if r.ofKeys && (err != nil || keys < 1) { // Redis refuses nothing of the kind to a script without keys
		return true, true
	}
	if r.verdict != elsewhere {
		for _, phrase := range r.phrases {
			if bytes.HasPrefix(rest, []byte(phrase)) {
				return true, false
			}
		}
		return true, true
	}
	n, _, ok := parseRedirect(rest, "[::]:1")
	return true, !ok || len(v.Elems) < 4 || slot.Of(v.Elems[3].Str) != n
}
