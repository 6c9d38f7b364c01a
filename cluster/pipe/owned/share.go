package owned

// This file decides how many of the places one client may have. A program that opens a
// hundred connections and blocks on each of them is one client, so clients are told apart by address and
// user.

// Party is the client that connections are counted for. The zero value is the proxy itself, which is not
// counted.
type Party struct {
	Host string // where it connects from
	User string // as whom it has authenticated
}

// Counted is an Owner or a SetOwner whose connections are counted for a client.
type Counted interface{ Party() Party }

const (
	// leastShare is how many places a party has in any case.
	leastShare = 4
	// shareOfFree is how many places a party may have for each place that is free. So one party alone gets
	// three quarters of all, two get three sevenths each, and some are always left for the next one.
	shareOfFree = 3
)

// shares are the places that parties have on one loop.
type shares struct {
	has map[Party]int
	all int
}

// partyOf is the party that owner belongs to.
func partyOf(owner any) Party {
	if o, ok := owner.(Counted); ok {
		return o.Party()
	}
	return Party{}
}

// within says that the party may have one more of all places (most).
func (s *shares) within(party Party, most int) bool {
	return party == Party{} || s.has[party] < max(leastShare, shareOfFree*(most-s.all))
}

// takePlace counts a connection for whoever owns it from now on. c.party must not change until givePlace.
func (s *shares) takePlace(c *Conn) {
	c.counted = true
	s.all++
	if c.party != (Party{}) {
		s.has[c.party]++
	}
}

// givePlace undoes takePlace. It may be called again, and for what has no place.
func (s *shares) givePlace(c *Conn) {
	if !c.counted {
		return
	}
	c.counted = false
	s.all--
	if c.party == (Party{}) {
		return
	}
	if s.has[c.party]--; s.has[c.party] == 0 {
		delete(s.has, c.party)
	}
}
