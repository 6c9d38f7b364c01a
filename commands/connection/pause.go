package connection

import (
	"math"
	"time"

	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// clientPause is CLIENT PAUSE milliseconds [WRITE|ALL]. The pause holds for all clients of this proxy, and
// for none of another. The nodes are not told: they would hold back the proxy's own requests too.
func clientPause(c *commands.Call) []byte {
	kind := commands.PauseAll
	switch {
	case len(c.Args) > 4:
		return commands.UnknownOrArity(c.Args)
	// without a mode: all
	case len(c.Args) < 4 || resp.IsWord(c.Args[3], "ALL"):
	case resp.IsWord(c.Args[3], "WRITE"):
		kind = commands.PauseWrites
	default:
		return resp.ErrorLine("ERR CLIENT PAUSE mode must be WRITE or ALL")
	}
	ms, ok := resp.Integer(c.Args[2])
	switch {
	case !ok:
		return resp.ErrorLine("ERR timeout is not an integer or out of range")
	case ms < 0:
		return resp.ErrorLine("ERR timeout is negative")
	}
	// The zero time, which is over, widens a pause that is on, but begins none.
	var until time.Time
	if now := time.Now(); ms > 0 && ms <= math.MaxInt64-now.UnixMilli() { // above, Redis wraps around
		until = now.Add(time.Duration(min(ms, int64(longestPause/time.Millisecond))) * time.Millisecond)
	}
	c.Clients().Pause(until, kind, resp.OK)
	return nil
}

// longestPause is longer than any process lives.
const longestPause = 100 * 365 * 24 * time.Hour

// clientUnpause is CLIENT UNPAUSE. The pause does not hold it back (commands.EndsPause).
func clientUnpause(c *commands.Call) { c.Clients().Unpause(resp.OK) }
