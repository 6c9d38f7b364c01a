package commands

// ScanFan is the part of Actions for SCAN over several nodes. SendAll answers, as Send does; the others do not.
type ScanFan interface {
	// MasterAddr is where the i-th master is reached.
	MasterAddr(i int) string
	// Layout says which slots which master has: it is another text whenever that changes.
	Layout() string
	// Noted is what was noted of the node of that name, "" if nothing was.
	Noted(name string) string
	// Note keeps a short text for Noted. It may be forgotten at any time.
	Note(name, text string)
	// SendAll sends all of reqs, which only read, in that order to the node at addr and to no other, master or not. then
	// is given their replies in that order, and answers or goes on as then of Send may.
	SendAll(addr string, reqs [][]byte, then Merge)
}
