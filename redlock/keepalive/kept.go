package keepalive

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"lockproxy/redlock"
)

const (
	// doubtTime is how long a hold that Redis no longer has may still turn out to have been released: the
	// reply to an UNLOCK, or another proxy's message about it, may come later than the reply to a renewal
	// that ran after it. Then Redis is asked once more, if the lease still lasts.
	doubtTime = 250 * time.Millisecond
	// lastWord is how long the last check of a hold may go unanswered, when its renewals are used up or it
	// was granted late.
	lastWord = time.Second
)

// Kept is a hold that is being kept alive. Safe for concurrent use.
type Kept struct {
	k    *Renewer
	slot *slot
	of   Hold // as it was asked for; only the fence changes, until it has ended

	// The fields below are guarded by Renewer.mu. Times count from Renewer.born.
	// What has become of it. Only meetEvent changes it.
	state state
	hint  hint  // that Redis is still to be asked about
	tries uint8 // attempts to free it
	made  int32 // renewals
	// When actHold is to look at it, in the agenda of its slot.
	due     date[*Kept]
	lingers *lingering    // nil: its connection has not broken yet
	next    int64         // its fence from now on if its keeper still has it, which Redis is asked; 0: none
	until   time.Duration // it lasts at least until then
	latest  time.Duration // and at most until then, if no renewal is under way
	end     time.Duration // it is lost then if no answer comes; while it is freed: when to give up
	heeded  time.Duration // when a hint last made Redis be asked
}

// Release frees the hold in the background, if this keeper still has it: its connection has closed. It is
// tried for one lease. It never blocks and may be called again.
//
// After Release, Forget or Unlocked no more losses are found. One that was found just before may still be on
// its way to Lost.
func (h *Kept) Release() { h.k.changeHolds(func() { h.meetEvent(release) }) }

// Forget stops the renewals; the hold stays until its lease is over. It never blocks and may be called again.
func (h *Kept) Forget() { h.k.changeHolds(func() { h.meetEvent(letGo) }) }

// GiveUp counts the hold as lost, since one that is kept together with it is, and frees it as Release does.
// It calls Lost, unless the hold has ended already.
func (h *Kept) GiveUp() { h.k.changeHolds(func() { h.meetEvent(givenUp) }) }

// Ended says that the hold is not kept any more.
func (h *Kept) Ended() bool {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	return !h.state.kept()
}

// Keeper is what a request of the hold's own client names, so that it is not taken for another one's.
func (h *Kept) Keeper() string { return "=" + h.of.Keeper }

// meetEvent brings h into its state after an event. It says that the event means something to h. Renewer.mu
// is held, here and below.
func (h *Kept) meetEvent(e holdEvent) bool {
	from, to := h.state, rules[e][h.state]
	if to == 0 {
		return false
	}
	h.state = to
	if from.kept() && !to.kept() {
		h.partHold(h.ending(e))
	}
	switch to {
	case resting:
		h.waitUntil(h.renewal())
	case ready, readyAgain:
		if from != to {
			h.slot.ready = append(h.slot.ready, h)
		}
		h.waitUntil(h.end)
	case asked, askedAgain:
		h.waitUntil(h.end)
	case doubted:
		h.waitUntil(h.k.now() + doubtTime)
	case freeing, clearing:
		h.beginFreeing(e, from)
	case over:
		if h.slot.removeHold(h); !from.kept() {
			h.k.work.Done()
		}
		if e == freed && from == freeing {
			h.tellEnd(Freed)
		}
	}
	return true
}

// waitUntil makes h due at the given time. There is one such time: the last call counts.
func (h *Kept) waitUntil(at time.Duration) {
	h.slot.holds.putDate(&h.due, at)
	h.slot.tidySlot()
}

// renewal is when h that rests is due: at a third of its lease, or up to a tenth of that earlier; if its
// renewals are used up, at its end. A hint, or another fence, makes it due at once.
func (h *Kept) renewal() time.Duration {
	if h.next == h.of.Fence {
		h.next = 0
	}
	at := h.until
	if !h.exhausted() {
		at -= 2*h.of.Lease/3 + rand.N(h.of.Lease/30+1)
	}
	switch now := h.k.now(); {
	case h.next != 0:
		return min(at, now)
	case h.hint != noHint:
		return min(at, max(now, h.heeded+hintPause))
	}
	return at
}

// exhausted says that MAX renewals were made.
func (h *Kept) exhausted() bool { return h.of.Max > 0 && int(h.made) >= h.of.Max }

// extend notes that h lasts until then. Without renewals left it is checked once more behind that.
func (h *Kept) extend(until time.Duration) {
	if h.until, h.end = until, until; h.exhausted() {
		h.end += lastWord
	}
}

// actHold does what is due. One whose end has come is lost without another question.
func (h *Kept) actHold(now time.Duration) {
	end := h.end
	if h.state == doubted { // the answer has come
		end = h.until
	}
	switch {
	case now < end || !h.state.kept():
		h.meetEvent(due)
	case h.exhausted():
		h.meetEvent(spent)
	default:
		h.meetEvent(expired)
	}
}

// partHold takes h, which has ended, out of all that is kept, and has its end told.
func (h *Kept) partHold(by ending) {
	k := h.k
	k.endLinger(h)
	k.held.Add(-1)
	delete(k.holds, holdName{h.of.Name, h.of.Token})
	if k.keepers[h.of.Keeper] == h {
		delete(k.keepers, h.of.Keeper)
	}
	if by.how != "" {
		h.tellEnd(by.how)
	}
	if by.loss != "" {
		k.loseHold(h, by.loss)
	}
	if h.of.Gone != nil {
		k.told = append(k.told, h.of.Gone)
	}
}

// loseHold notes the loss of h, and has it told. mu is held.
func (k *Renewer) loseHold(h *Kept, why Loss) {
	if h.next != 0 && why == Expired { // Redis has not answered: this is what its client knows
		h.of.Fence = h.next
	}
	lost := Lost{why, h.of.Fence}
	k.addLoss(h.of.Name, h.of.Token, lost)
	k.lost[lost.Why]++
	k.told = append(k.told, func() {
		level := slog.LevelWarn
		if lost.Why == Max { // it was to end
			level = slog.LevelInfo
		}
		attrs := []any{"reason", string(lost.Why), "fence", lost.Fence, "token", redlock.Digest(h.of.Token)}
		k.tells.Write(k.o.Log, level, "lock lost", k.o.Names.Lock(attrs, h.of.Name)...)
		if h.of.Lost != nil {
			h.of.Lost(lost)
		}
	})
}

// tellEnd has an end told that is no loss. It is called once mu is released.
func (h *Kept) tellEnd(how End) {
	if h.of.Over != nil {
		h.k.told = append(h.k.told, func() { h.of.Over(how, h.of.Fence) })
	}
}

// askHold has h in a batch, and returns what that asks. If a hint is why, it only checks the hold: the lease
// is left alone until a renewal is due.
func (h *Kept) askHold(now time.Duration) holdQuestion {
	h.meetEvent(sent)
	q := holdQuestion{redlock.Renew{Name: h.of.Name, Token: h.of.Token, Lease: h.of.Lease,
		Fence:  h.of.Fence,
		Keeper: h.of.Keeper}, h, h.next, h.hint}
	if h.hint > unsaid {
		h.heeded = now
	}
	if h.exhausted() || h.hint != noHint && now < h.until-h.of.Lease*3/4 {
		q.Lease = 0
	}
	h.hint = noHint
	return q
}

// takeAnswer takes the answer to q, which was asked then: that h lasts for left, or that it does not (0), or
// that another proxy keeps it. late says that it has been asked once more meanwhile.
func (h *Kept) takeAnswer(q holdQuestion, began, left time.Duration, late bool) {
	e := lasts
	switch {
	case left < 0:
		e = elsewhere
	case left == 0:
		if h.hint = max(h.hint, q.hint); h.hint > unsaid {
			e = goneWhy
		} else {
			e = gone
		}
	case late:
		e = lastsLate
	}
	if left > 0 && rules[e][h.state] != 0 {
		h.noteRenewed(q, began, left)
	}
	h.meetEvent(e)
}

// noteRenewed notes that h lasted for at least that long when it was asked about. began is when the batch was
// sent: the lease counts from there for the client, and from the answer for latest.
func (h *Kept) noteRenewed(q holdQuestion, began, left time.Duration) {
	k := h.k
	if q.Lease > 0 {
		h.made++
		k.renewals++
	}
	if q.next != 0 {
		h.of.Fence = q.next
	}
	// The node may have looked at it a moment ago, so it may last that much longer.
	h.latest = max(h.latest, k.now()+left)
	h.extend(max(h.until, began+left))
	if k.o.Renewed != nil {
		k.o.Renewed(h.of.Name, h.of.Token, k.born.Add(h.until))
	}
}
