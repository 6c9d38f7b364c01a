package cluster

import (
	"bytes"
	"strconv"

	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

// Scripts and functions may raise errors of any text, also ones that begin like those of Redis which
// say that a command was not run. By then they have run, and to send them again would be to run them twice. What
// only Redis would say is looked into further: see doubt.go.

// phrases are how Redis, and no script by chance, goes on behind these words.
var phrases = map[string][]string{
	"TRYAGAIN":    {"Multiple keys request during rehashing"},
	"CLUSTERDOWN": {"The cluster is down", "Hash slot not served"},
	"LOADING":     {"Redis is loading", "Valkey is loading"},
	"MASTERDOWN":  {"Link with MASTER is down"},
	"READONLY":    {"You can't write against a read only"},
	"NOSCRIPT":    {"No matching script"},
}

// scripts are the commands that run them. The number of keys is their third argument.
var scripts = map[string]bool{
	"EVAL": true, "EVALSHA": true, "EVAL_RO": true, "EVALSHA_RO": true, "FCALL": true, "FCALL_RO": true,
}

// fromScript says that a script may have made the error reply to req which begins with word; raised, that
// it certainly has.
func fromScript(req []byte, word string, rest []byte) (script, raised bool) {
	v, _, err := resp.Parse(req)
	if err != nil || len(v.Elems) < 3 || !scripts[string(bytes.ToUpper(v.Elems[0].Str))] {
		return false, false
	}
	keys, err := strconv.Atoi(string(v.Elems[2].Str))
	if doubtful[word] && (err != nil || keys < 1) { // Redis refuses nothing of the kind to a script without keys
		return true, true
	}
	if word != "MOVED" && word != "ASK" {
		for _, phrase := range phrases[word] {
			if bytes.HasPrefix(rest, []byte(phrase)) {
				return true, false
			}
		}
		return true, true
	}
	n, _, ok := parseRedirect(rest, "[::]:1")
	return true, !ok || len(v.Elems) < 4 || slot.Of(v.Elems[3].Str) != n
}
