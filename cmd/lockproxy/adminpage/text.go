package adminpage

import "lockproxy/cmd/lockproxy/tool/terminal"

// How many runes are shown. Longer ones would fill the page, and each viewer is sent them again with each
// change.
const (
	mostName   = 256 // of the name of a lock
	mostText   = 128 // of a name, an address, a user, META
	mostReason = 1000
)

// printable is text as it may be shown: what cannot be printed, or turns the direction of what follows, is
// written as its number, and what is long is cut.
func printable(text string, most int) string { return terminal.Cut(terminal.Safe(text), most) }
