package lock

import (
	"errors"
	"fmt"

	"lockproxy/commands"
)

// maxPattern bounds the length of MATCH, in bytes. Each event is compared with the pattern of each client
// that watches.
const maxPattern = 1024

// errNoEvents is for LOCKCTL WATCH where nobody tells of events.
var errNoEvents = errors.New("ERR LOCKCTL WATCH needs the setting lock-events yes, at all proxies: only " +
	"then do they tell what happens to locks")

// lockctlWatch is
//
//	LOCKCTL WATCH [MATCH glob]
//
// Reply: OK, and then, until RESET or QUIT, a push for each event of a lock whose name matches, of any proxy.
// It answers when the upstream has confirmed the subscription, so that no later event is missed.
func lockctlWatch(c *commands.Call, l *Lockers, a *arguments) error {
	match := a.listing.Match
	switch {
	case len(match) > maxPattern:
		return c.Command.Usage(fmt.Errorf("the pattern of MATCH has %d bytes at most, this one has %d",
			maxPattern, len(match)))
	case !l.Events:
		return errNoEvents
	}
	c.Connection().WatchLocks([]byte(match))
	return nil
}
