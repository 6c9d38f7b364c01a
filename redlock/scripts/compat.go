package scripts

import "lockproxy/redlock"

// Compat is for locks in the form of other libraries: the lock and the fence of its slot, the lock alone, or
// many locks. What is to be done is its first argument, so that a node keeps one script.
var Compat = loadScript("compat", 2)

// CompatTake is the call that takes a lock for a. kept: only if its token holds the lock already.
func CompatTake(n *redlock.Names, a *redlock.Acquire, kept bool) Call {
	c := eval(nil, n, &Compat, false, a.Name)
	c.Text("take")
	c.fenceKey(n)
	c.Owner(a.Token)
	c.Number(a.Lease.Milliseconds())
	c.Text(a.ID)
	c.Text(a.Keeper)
	c.Flag(kept)
	c.Flag(a.Breaks())
	return c.whole()
}

// CompatRelease is the call that frees a hold of token, or whoever holds the lock if that is "": any hold, or
// that of a fence, of a request or of a keeper. It wakes those who wait by publish on a channel. The fence is
// not among the keys, so that a slot that moves stops no release.
func CompatRelease(
	n *redlock.Names, name, token string, fence int64, id, keeper, publish, channel string,
) Call {
	c := eval(nil, n, &Compat, true, name)
	c.Text("release")
	c.fenceKey(n)
	c.OwnerIf(token)
	for _, arg := range []string{Optional(fence), id, keeper, publish, channel} {
		c.Text(arg)
	}
	return c.whole()
}

// CompatLook is the call that says who holds a lock. It writes nothing.
func CompatLook(n *redlock.Names, name string) Call {
	c := eval(nil, n, &Compat, true, name)
	c.Text("look")
	return c.whole()
}

// CompatRenew is the call that renews holds of one slot. gets is the keeper that they get, or ""; then their
// Keeper is the one that they must have. batch must not be empty.
func CompatRenew(n *redlock.Names, batch []redlock.Renew, gets string) Call {
	c := beginCall(make([]byte, 0, 80+200*len(batch)), &Compat, len(batch))
	for _, r := range batch {
		c.Text(n.Place(r.Name).Key)
	}
	c.Text("renew")
	c.Slot = n.Place(batch[0].Name).Slot
	c.fenceKey(n)
	for _, r := range batch {
		c.Owner(r.Token)
		c.Number(r.Lease.Milliseconds())
		c.Text(Optional(r.Fence))
		c.Text(r.Keeper)
		c.Text(gets)
	}
	return c.whole()
}
