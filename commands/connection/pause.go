package connection

import (
	"math"
	"time"

	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// clientPause is CLIENT PAUSE milliseconds [WRITE|ALL]. The pause holds for all clients of this proxy, and
// for none of another. The nodes are not told: they would hold back the proxy's own requests too.
func clientPause(c *commands.Call) {
	kind := commands.PauseAll
	switch {
	case len(c.Args) > 4:
		c.Reply(commands.UnknownOrArity(c.Args))
		return
	// without a mode: all
	case len(c.Args) < 4 || resp.IsWord(c.Args[3], "ALL"):
	case resp.IsWord(c.Args[3], "WRITE"):
		kind = commands.PauseWrites
	default:
		c.Reply(resp.ErrorLine("ERR CLIENT PAUSE mode must be WRITE or ALL"))
		return
	}
	ms, ok := resp.Integer(c.Args[2])
	switch {
	case !ok:
		c.Reply(resp.ErrorLine("ERR timeout is not an integer or out of range"))
		return
	case ms < 0:
		c.Reply(resp.ErrorLine("ERR timeout is negative"))
		return
	}
	// The zero time, which is over, widens a pause that is on, but begins none.
	var until time.Time
	if now := time.Now(); ms > 0 && ms <= math.MaxInt64-now.UnixMilli() { // above, Redis wraps around
		until = now.Add(time.Duration(min(ms, int64(longestPause/time.Millisecond))) * time.Millisecond)
	}
	c.Clients().Pause(until, kind, resp.OK)
}

// longestPause is longer than any process lives.
const longestPause = 100 * 365 * 24 * time.Hour

// clientUnpause is CLIENT UNPAUSE. The pause does not hold it back (commands.EndsPause).
func clientUnpause(c *commands.Call) { c.Clients().Unpause(resp.OK) }
