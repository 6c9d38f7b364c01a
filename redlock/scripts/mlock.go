package scripts

import "lockproxy/redlock"

// Mlock takes several locks of one node: as many as there are, and behind them the fence of each one's slot.
var Mlock = loadScript("mlock", 0)

// MlockCall is the call that takes the locks of all, which are at one node, and of one token and lease.
// granter is the replication id of the master that may grant, "" if any may. The slot of the call is that of
// one of them.
func MlockCall(n *redlock.Names, all []*redlock.Acquire, granter string) Call {
	c := beginCall(make([]byte, 0, 256+192*len(all)), &Mlock, 2*len(all))
	for _, a := range all {
		c.Text(n.Place(a.Name).Key)
	}
	for _, a := range all {
		c.Slot = n.Place(a.Name).Slot
		c.fenceKey(n)
	}
	c.Owner(all[0].Token)
	c.Number(all[0].Lease.Milliseconds())
	c.Text(all[0].Meta)
	c.Text(granter)
	for _, a := range all {
		c.Text(a.ID)
		c.Text(a.Keeper)
	}
	return c.whole()
}

// ReadMlock reads the reply of mlock.lua about n locks: their fences, or which of them others hold, counted
// from 1; 0: they are to be asked for one after the other. All that are not granted leave nothing behind.
func ReadMlock(reply []byte, n int) (fences []int64, held int, err error) {
	v, err := ReadValue(reply)
	if err == nil && v.Kind == ':' && v.Int >= 0 && v.Int <= int64(n) {
		return nil, int(v.Int), nil
	}
	fences, err = exactNumbers(reply, n)
	return fences, 0, err
}
