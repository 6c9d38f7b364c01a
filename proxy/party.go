package proxy

import (
	"lockproxy/cluster/pipe"
	"lockproxy/proxy/client"
)

// This file is for whom connections of one's own are counted: it implements pipe.Counted.

// Party implements pipe.Counted.
func (a *apart) Party() pipe.Party { return client.PartyOf(&a.s.Client) }
