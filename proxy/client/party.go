package client

import (
	"strings"

	"lockproxy/cluster/pipe/owned"
	"lockproxy/commands"
)

// PartyOf is the party that c belongs to: all clients of its address and user.
func PartyOf(c *commands.Client) owned.Party {
	host := c.Addr
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		host = host[:i]
	}
	user := c.User
	if user == "" {
		user = "default"
	}
	return owned.Party{Host: host, User: user}
}
