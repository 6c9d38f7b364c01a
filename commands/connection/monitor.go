package connection

import (
	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// monitor is MONITOR. Redis answers a second one with nothing. What it then shows is written by package
// monitorline.
func monitor(c *commands.Call) {
	if c.Client.Monitoring {
		c.Reply(nil)
		return
	}
	c.Connection().Monitor(resp.OK)
}
