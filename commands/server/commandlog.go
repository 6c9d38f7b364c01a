package server

import (
	"math"

	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// commandlogGet is COMMANDLOG GET count type, of Valkey since 8.1: the logs of all masters as if they were
// one, the newest entry first. The proxy's own entries are in SLOWLOG.
func commandlogGet(c *commands.Call) {
	count, ok := int64(0), false
	if len(c.Args) == 4 {
		count, ok = resp.Integer(c.Args[2])
	}
	if !ok || count < -1 || c.Nodes().Masters() == 1 {
		c.Forward(commands.AnySlot) // the only node answers, or says what is wrong
		return
	}
	if count < 0 {
		count = math.MaxInt
	}
	m := slowMerge{log: c.Server.SlowLog(), table: c.Table, count: count}
	actions := c.Actions
	c.AskAll(c.Raw, commands.Asking{Resend: true, Always: true}, func(_ int, replies [][]byte) []byte {
		actions.Await(func(done func([]byte)) {
			go func() { // ends by itself
				if m.merge(replies); m.answer == nil {
					m.answer = appendEntries(m.merged)
				}
				done(nil)
			}()
		}, func([]byte) []byte { return m.answer }, nil)
		return nil
	})
}
