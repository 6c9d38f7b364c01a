package scripts

import "lockproxy/redlock"

// Claim is Acquire for one of several independent masters; Settle gives its hold the fence that they agree
// on.
var (
	Claim  = loadScript("claim", 2)
	Settle = loadScript("settle", 2)
)

// ClaimCall is the call of claim.lua for a, which is to have that fence, or only to keep what it has if that
// is 0. So many readers may share the lock. Here the lease is what was asked for: claim.lua itself adds the
// millisecond that acquire.lua gets.
func ClaimCall(n *redlock.Names, a *redlock.Acquire, fence int64, readers int) Call {
	c := eval(nil, n, &Claim, false, a.Name)
	c.Owner(a.Token)
	c.Number(a.Lease.Milliseconds())
	c.Text(string(a.Mode))
	c.Text(a.ID)
	c.Flag(a.Reentrant)
	c.Text(Optional(fence))
	c.Number(int64(readers))
	c.Text(a.Keeper)
	c.appendSaid(a)
	if a.Break {
		c.Flag(true)
	}
	return c.whole()
}

// SettleCall is the call of settle.lua that gives the hold of the request id this fence and count. agreed: a
// majority has them already, so the node must not refuse. Of a hold that another request has touched since it
// changes nothing.
func SettleCall(n *redlock.Names, name, token, id string, fence, count int64, agreed bool) Call {
	c := eval(nil, n, &Settle, false, name)
	c.Owner(token)
	c.Text(id)
	c.Number(fence)
	c.Number(count)
	if agreed {
		c.Text("agreed")
	}
	return c.whole()
}
