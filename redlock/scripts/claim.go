package scripts

import "lockproxy/redlock"

// Claim is Acquire for one of several independent masters; Settle gives its hold the fence that they agree on.
var (
	Claim  = load("claim", 2)
	Settle = load("settle", 2)
)

// Asked appends the first five arguments of claim.lua.
func (c *Call) Asked(a *redlock.Acquire) {
	c.Owner(a.Token)
	c.Number(a.Lease.Milliseconds())
	c.Text(string(a.Mode))
	c.Text(a.ID)
	c.Flag(a.Reentrant)
}
