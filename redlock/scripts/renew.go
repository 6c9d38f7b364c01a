package scripts

import "lockproxy/redlock"

// Renew makes leases longer: of as many locks as there are, of one slot.
var Renew = loadScript("renew", 0)

// Asks says who asks renew.lua for holds, which describes the words.
type Asks string

const (
	// A client that says RENEW: its keeper becomes that of the hold. A keeper asks for holds that its proxy
	// keeps alive already.
	Client Asks = "client"
	Keeper Asks = "keeper"
)

// RenewCall is the call of renew.lua for the holds of batch, all of one slot. A client asks for one. If it
// names no fence, the hold is meant that its token has now. A lease of 0 leaves it, and only asks.
func RenewCall(n *redlock.Names, who Asks, batch ...redlock.Renew) Call {
	c := beginCall(make([]byte, 0, 160+200*len(batch)), &Renew, len(batch))
	for _, r := range batch {
		place := n.Place(r.Name)
		c.Slot = place.Slot
		c.Text(place.Key)
	}
	c.Text(string(who))
	c.fenceKey(n)
	for _, r := range batch {
		c.Owner(r.Token)
		c.Number(r.Lease.Milliseconds())
		switch {
		case r.Fence != 0:
			c.Number(r.Fence)
		case who == Client:
			id := n.NewRequest()
			c.Bytes(id[:])
		default:
			c.Text("")
		}
		c.Text(r.Keeper)
	}
	return c.whole()
}

// ReadRenewed reads the reply of renew.lua to a client. The third number is the clock, which one Redis needs
// not.
func ReadRenewed(reply []byte) (r redlock.Renewed, err error) {
	n, err := exactNumbers(reply, 3)
	if err != nil {
		return r, err
	}
	return redlock.Renewed{Left: ms(n[0]), Fence: n[1]}, nil
}

// ReadKept reads the reply of renew.lua about n holds. They are ms; 0: the hold has gone; -1: another
// proxy keeps it.
func ReadKept(reply []byte, n int) (left []int64, err error) {
	left, err = exactNumbers(reply, n+1) // behind them is the clock
	return left[:min(n, len(left))], err
}
