package scripts

import "lockproxy/redlock"

// Guard runs a command while a hold goes on. The keys of the command follow the lock.
var Guard = loadScript("guard", 1)

// GuardCall is the call that runs a command if a hold goes on. In a cluster the keys of the command must lie
// in the slot of the lock, which its node checks. It runs in the database of the command, while locks are in
// 0.
func GuardCall(n *redlock.Names, g *redlock.Guard) Call {
	size := 288 + len(g.Name)
	for _, word := range g.Command {
		size += len(word) + 16
	}
	for _, key := range g.Keys {
		size += len(key) + 16
	}
	place := n.Place(g.Name)
	c := beginCall(make([]byte, 0, size), &Guard, 1+len(g.Keys))
	c.Slot = place.Slot
	c.Text(place.Key)
	for _, key := range g.Keys {
		c.Bytes(key)
	}
	c.OwnerIf(g.Token)
	c.Text(Optional(g.Fence))
	c.Number(int64(g.DB))
	for _, word := range g.Command {
		c.Bytes(word)
	}
	return c.whole()
}
