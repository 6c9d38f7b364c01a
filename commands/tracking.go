package commands

import (
	"slices"
	"strconv"

	"lockproxy/internal/resp"
)

// Tracking is what CLIENT TRACKING has set for a client. The zero value: nothing is tracked.
type Tracking struct {
	On       bool
	BCast    bool
	OptIn    bool
	OptOut   bool
	NoLoop   bool
	Caching  bool     // CLIENT CACHING was given for the command that comes next
	Broken   bool     // an invalidation was not delivered, because the client of Redirect is gone
	Redirect int64    // id of the client that is told instead; 0: none
	Prefixes []string // of BCast, sorted; "" is one
	Size     int      // memory of Prefixes, in bytes
}

// Tracker is what CLIENT TRACKING may ask of the session.
type Tracker interface {
	// Track has the upstream track what the client reads, or what is written, as next says. It answers with
	// OK, or with an error, and then nothing has changed. prefixes are those of next that are new.
	Track(next Tracking, prefixes []string)
	// Untrack ends it. It does not answer.
	Untrack()
}

// Redir is the number that CLIENT GETREDIR gives: 0 without redirection, -1 without tracking.
func (t *Tracking) Redir() int64 {
	if !t.On {
		return -1
	}
	return t.Redirect
}

// Requests are the commands that put a connection to a node into this state. prefixes are those that are new
// to the connection. tracker is the id, at the node, of the connection that gets the invalidations. There are
// two if "" comes with others: Redis would refuse them in one command.
func (t *Tracking) Requests(prefixes []string, tracker int64) [][]byte {
	words := []string{"CLIENT", "TRACKING", "ON"}
	for _, option := range []struct {
		set  bool
		name string
	}{{t.BCast, "BCAST"}, {t.OptIn, "OPTIN"}, {t.OptOut, "OPTOUT"}, {t.NoLoop, "NOLOOP"}} {
		if option.set {
			words = append(words, option.name)
		}
	}
	if t.Redirect != 0 {
		words = append(words, "REDIRECT", strconv.FormatInt(tracker, 10))
	}
	all := words
	for _, prefix := range prefixes {
		if prefix != "" {
			all = append(all, "PREFIX", prefix)
		}
	}
	reqs := [][]byte{resp.AppendCommandStrings(nil, all...)}
	if len(all) > len(words) && slices.Contains(prefixes, "") {
		reqs = append(reqs, resp.AppendCommandStrings(nil, words...)) // "" overlaps with all others
	}
	return reqs
}
