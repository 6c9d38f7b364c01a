package proxy

import (
	"lockproxy/cluster"
	"lockproxy/proxy/client"
)

// This file is for whom connections of one's own are counted: it implements cluster.Counted.

// Party implements cluster.Counted.
func (a *apart) Party() cluster.Party { return client.PartyOf(&a.s.Client) }
