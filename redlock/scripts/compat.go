package scripts

import "lockproxy/redlock"

// Compat is for locks in the form of other libraries: the lock and the fence of its slot, the lock alone, or
// many locks. What is to be done is its first argument, so that a node keeps one script.
var Compat = loadScript("compat", 2)

// CompatTake begins the call of compat.lua that takes a lock; six arguments follow. They are token, lease in
// ms, id, keeper, and the two flags that compat.lua describes.
func CompatTake(n *redlock.Names, name string) (at int, c Call) {
	at, c = eval(nil, n, &Compat, false, name, 8)
	c.Text("take")
	c.fenceKey(n, at)
	return at, c
}

// CompatRelease begins the call that frees a lock; six arguments follow. They are token, fence, id, keeper,
// PUBLISH or SPUBLISH, and the channel. The fence is not among the keys, so that a slot that moves stops no
// release.
func CompatRelease(n *redlock.Names, name string) (at int, c Call) {
	at, c = eval(nil, n, &Compat, true, name, 8)
	c.Text("release")
	c.fenceKey(n, at)
	return at, c
}

// CompatLook is the call that says who holds a lock. It writes nothing.
func CompatLook(n *redlock.Names, name string) (at int, c Call) {
	at, c = eval(nil, n, &Compat, true, name, 1)
	c.Text("look")
	return at, c
}

// CompatRenew is the call that renews holds of one slot. gets is the keeper that they get, or ""; then their
// Keeper is the one that they must have. batch must not be empty.
func CompatRenew(n *redlock.Names, batch []redlock.Renew, gets string) Call {
	c := beginCall(make([]byte, 0, 80+200*len(batch)), &Compat, len(batch), 2+5*len(batch))
	for _, r := range batch {
		c.Text(n.Place(r.Name).Key)
	}
	c.Text("renew")
	c.fenceKey(n, n.Place(batch[0].Name).Slot)
	for _, r := range batch {
		c.Owner(r.Token)
		c.Number(r.Lease.Milliseconds())
		c.Text(Optional(r.Fence))
		c.Text(r.Keeper)
		c.Text(gets)
	}
	return c
}
