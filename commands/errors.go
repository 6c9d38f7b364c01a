package commands

import (
	"errors"
	"strings"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
)

// ErrDraining is why the context of a task ends when the proxy shuts down.
var ErrDraining = errors.New("TRYAGAIN lockproxy is shutting down: ask another one, or later")

// ErrEnded is why a wait for a lock ends beside which its connection went on.
var ErrEnded = errors.New("UNBLOCKED the connection that asked for the lock has ended, or begun anew: " +
	"nothing is held")

// ErrorReply is the one place where errors become reply lines. An error whose text begins with a word in
// capitals has its own error word, and so has a cluster.Untaken; all others become -ERR. Addresses of nodes
// are left out.
func ErrorReply(err error) []byte {
	var protocol resp.ProtocolError
	text := cluster.PublicText(err)
	var untaken *cluster.Untaken
	switch {
	case errors.As(err, &protocol) || startsWithWord(text):
		return resp.ErrorLine("%s", text)
	case errors.As(err, &untaken):
		return resp.ErrorLine("%s %s", untaken.Word(), text)
	}
	return resp.ErrorLine("ERR %s", text)
}

// startsWithWord says that text begins with an error word, such as CROSSSLOT.
func startsWithWord(text string) bool {
	word, _, ok := strings.Cut(text, " ")
	return ok && len(word) > 1 && strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}
