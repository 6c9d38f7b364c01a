package large

import (
	"lockproxy/cluster/pipe/owned"
	"lockproxy/proxy/client"
)

// ClientOwner is a client as the owner of connections for what is large. Nothing that causes pushes is sent
// over them.
type ClientOwner struct{ Host client.Host }

// Push implements owned.SetOwner.
func (o ClientOwner) Push([]byte) {}

// Stale implements owned.SetOwner.
func (o ClientOwner) Stale() {}

// Party implements owned.Counted.
func (o ClientOwner) Party() owned.Party { return client.PartyOf(o.Host.About()) }
