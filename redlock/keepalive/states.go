package keepalive

// state is what happens with a hold.
type state uint8

// The states. In the first six a hold is kept alive, in the last three of them in doubt.
const (
	resting    state = iota + 1 // waits for its next renewal
	ready                       // waits for a batch
	asked                       // is in a batch under way
	doubted                     // Redis said that it is gone: waits to be asked about once more
	readyAgain                  // waits for a batch that asks once more
	askedAgain                  // is in one
	freeing                     // was let go, and is to be freed
	clearing                    // is lost; what may be left of it is to be freed
	over                        // nothing happens any more
)

// kept says that a hold is kept alive.
func (s state) kept() bool { return s <= askedAgain }

// holdEvent is what a hold meets.
type holdEvent uint8

// The events.
const (
	begun     holdEvent = iota // Keep
	due                        // its time has come
	expired                    // likewise, and its lease is over
	spent                      // likewise, and so are its renewals (MAX)
	sent                       // a batch asks about it
	lasts                      // the answer: Redis has it
	lastsLate                  // the same, but it has been asked once more meanwhile
	gone                       // Redis does not have it
	goneWhy                    // the same, and a hint has told why
	elsewhere                  // another proxy keeps it
	silent                     // no answer yet
	missed                     // a hint that says nothing but that Redis should be asked
	told                       // a hint that says why it is gone, if it is
	prolonged                  // it lasts longer: RENEW, or another LOCK
	letGo                      // Forget, UNLOCK, Close, or Keep by another
	release                    // Release
	givenUp                    // GiveUp
	freed                      // Redis has it no more
	unfreed                    // it could not be freed yet
	abandoned                  // it is not to be freed any more
	events
)

// states says in which state a hold is after an event, by the state before. In a state that is not in there
// the event changes nothing. over + 1 because the first state is 1: 0 means no change.
type states [over + 1]state

// rules is the life of a hold; Kept.meetEvent does what a new state needs.
//
//	resting -due-> ready -sent-> asked -lasts-> resting
//	                 ^--silent---' '-gone-> doubted
//
//	doubted -due-> readyAgain -sent-> askedAgain -lasts-> resting
//	                    ^--silent---------' '-gone-> over: lost
//
// So Redis is believed when it has said twice, with a moment between, that a hold is gone: a slot that moves
// may be without its keys that long. Once is enough if the lease ends meanwhile, or if a hint tells why.
// Hints alone are never believed: anyone may publish them.
var rules = [events]states{
	begun:     {over: resting},
	due:       {resting: ready, doubted: readyAgain, freeing: freeing, clearing: clearing},
	expired:   whileKept(clearing).but(doubted, over),
	spent:     whileKept(over),
	sent:      {resting: asked, ready: asked, readyAgain: askedAgain},
	lasts:     whileKept(resting).but(doubted, 0), // an answer in doubt is one to an earlier question
	lastsLate: whileKept(resting).but(doubted, 0).but(asked, asked).but(askedAgain, asked),
	gone:      whileKept(doubted).but(doubted, 0).but(readyAgain, over).but(askedAgain, over),
	goneWhy:   whileKept(over).but(doubted, 0),
	elsewhere: whileKept(over).but(doubted, 0),
	silent:    {asked: ready, askedAgain: readyAgain},
	missed:    {resting: resting},
	told:      {resting: resting, doubted: over, readyAgain: over, askedAgain: over},
	prolonged: {resting: resting, ready: ready, asked: asked, readyAgain: readyAgain, askedAgain: askedAgain},
	letGo:     whileKept(over),
	release:   whileKept(freeing),
	givenUp:   whileKept(clearing),
	freed:     {freeing: over, clearing: over},
	unfreed:   {freeing: freeing, clearing: clearing},
	abandoned: {freeing: over, clearing: over},
}

// whileKept leads from all states in which a hold is kept alive to the same one.
func whileKept(to state) (s states) {
	for from := resting; from.kept(); from++ {
		s[from] = to
	}
	return s
}

// but is s with another state behind from.
func (s states) but(from, to state) states {
	s[from] = to
	return s
}

// An ending is how a hold ends: with a loss, in another way, or else without a word.
type ending struct {
	loss Loss
	how  End
}

// The endings after an event, and after one of the two that are about a hint. What was released is no loss,
// nor is what another proxy keeps, which hears of its end.
var (
	endings = [events]ending{expired: {loss: Expired}, spent: {loss: Max}, gone: {loss: Gone},
		elsewhere: {how: Taken}, givenUp: {loss: Together}}
	hinted = [...]ending{saidTaken: {how: Taken}, saidReleased: {how: Elsewhere}, saidBroken: {loss: Broken}}
)

// ending is how h has ended by an event.
func (h *Kept) ending(e holdEvent) ending {
	switch {
	case e == told || e == goneWhy:
		return hinted[h.hint]
	case e == gone && h.exhausted():
		e = spent
	case e == expired && h.state == over: // it was in doubt
		e = gone
	}
	return endings[e]
}
