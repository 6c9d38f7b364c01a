package large

import (
	"lockproxy/cluster/pipe"
	"lockproxy/proxy/client"
)

// Owner is a client as the owner of connections for what is large. Nothing that causes pushes is sent over
// them.
type Owner struct{ Host client.Host }

// Push implements pipe.PrivateOwner.
func (o Owner) Push([]byte) {}

// Stale implements pipe.PrivateOwner.
func (o Owner) Stale() {}

// Party implements pipe.Counted.
func (o Owner) Party() pipe.Party { return client.PartyOf(o.Host.About()) }
