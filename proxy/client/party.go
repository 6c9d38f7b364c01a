package client

import (
	"lockproxy/cluster/pipe/owned"
	"lockproxy/commands"
)

// PartyOf is the party that c belongs to: all clients of its address and user.
func PartyOf(c *commands.Client) owned.Party {
	return owned.Party{Host: c.Host(), User: c.UserName()}
}
