package large

import (
	"lockproxy/cluster/pipe/owned"
	"lockproxy/proxy/client"
)

// Owner is a client as the owner of connections for what is large. Nothing that causes pushes is sent over
// them.
type Owner struct{ Host client.Host }

// Push implements owned.SetOwner.
func (o Owner) Push([]byte) {}

// Stale implements owned.SetOwner.
func (o Owner) Stale() {}

// Party implements owned.Counted.
func (o Owner) Party() owned.Party { return client.PartyOf(o.Host.About()) }
