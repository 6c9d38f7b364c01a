package tool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Exit codes of subcommands, those of sysexits.h where it has one.
const (
	ExitOK          = 0
	ExitNo          = 1  // the answer to what was asked is no
	ExitUsage       = 64 // EX_USAGE: the command line or a variable is wrong
	ExitData        = 65 // EX_DATAERR: what is named is of another kind
	ExitUnavailable = 69 // EX_UNAVAILABLE: no proxy answers there
	ExitSoftware    = 70 // EX_SOFTWARE: an answer that nobody expects, or this machine refuses something
	ExitTemporary   = 75 // EX_TEMPFAIL: not now; the same may work later
	ExitProtocol    = 76 // EX_PROTOCOL: what answers there is no lockproxy
	ExitDenied      = 77 // EX_NOPERM: a wrong password, or a user without the right
)

// Exit is an exit code and what it means.
type Exit struct {
	Code    int
	Meaning string
}

// Reaching are the exit codes of a subcommand that connects to a proxy: for its Exits.
var Reaching = []Exit{
	{ExitUnavailable, "no proxy answers at that address"},
	{ExitSoftware, "the proxy answers with an error that has no code of its own here"},
	{ExitTemporary, "not now: the proxy says so; the same may work later"},
	{ExitProtocol, "what answers there is no lockproxy"},
	{ExitDenied, "wrong password or certificate, or a user without the right"},
}

// Long is what help says of a subcommand: about it, and its exit codes. What comes first of a code counts.
// All
// have that of a wrong use.
func Long(about string, exits ...Exit) string {
	all := append(slices.Clone(exits), Exit{ExitUsage, "the command line or a variable is wrong"})
	slices.SortStableFunc(all, func(a, b Exit) int { return cmp.Compare(a.Code, b.Code) })
	// Stable before: of two meanings of a code the one that was given first is left.
	all = slices.CompactFunc(all, func(a, b Exit) bool { return a.Code == b.Code })
	var b strings.Builder
	b.WriteString(strings.TrimSpace(about+"\n\nExit codes:") + "\n")
	for _, e := range all {
		fmt.Fprintf(&b, "  %3d  %s\n", e.Code, e.Meaning)
	}
	return b.String()
}
