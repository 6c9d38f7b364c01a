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
	state  state
	hint   hint  // that Redis is still to be asked about
	tries  uint8 // attempts to free it
	made   int32 // renewals
	due    date[*Kept]
	next   int64         // its fence from now on if its keeper still has it, which Redis is asked; 0: none
	until  time.Duration // it lasts at least until then
	latest time.Duration // and at most until then, if no renewal is under way
	end    time.Duration // it is lost then if no answer comes; while it is freed: when to give up
	heeded time.Duration // when a hint last made Redis be asked
}

// Release frees the hold in the background, if this keeper still has it: its connection has closed. It is
// tried for one lease. It never blocks and may be called again.
//
// After Release, Forget or Unlocked no more losses are found. One that was found just before may still be on
// its way to Lost.
func (h *Kept) Release() { h.k.change(func() { h.meet(release) }) }

// Forget stops the renewals; the hold stays until its lease is over. It never blocks and may be called again.
func (h *Kept) Forget() { h.k.change(func() { h.meet(letGo) }) }

// GiveUp counts the hold as lost, since one that is kept together with it is, and frees it as Release does.
// It calls Lost, unless the hold has ended already.
func (h *Kept) GiveUp() { h.k.change(func() { h.meet(givenUp) }) }

// Ended says that the hold is not kept any more.
func (h *Kept) Ended() bool {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	return !h.state.kept()
}

// Keeper is what a request of the hold's own client names, so that it is not taken for another one's.
func (h *Kept) Keeper() string { return "=" + h.of.Keeper }

// meet brings h into its state after an event. It says that the event means something to h. Renewer.mu is
// held, here and below.
func (h *Kept) meet(e holdEvent) bool {
	from, to := h.state, rules[e][h.state]
	if to == 0 {
		return false
	}
	h.state = to
	if from.kept() && !to.kept() {
		h.part(h.ending(e))
	}
	switch to {
	case resting:
		h.wait(h.renewal())
	case ready, readyAgain:
		if from != to {
			h.slot.ready = append(h.slot.ready, h)
		}
		h.wait(h.end)
	case asked, askedAgain:
		h.wait(h.end)
	case doubted:
		h.wait(h.k.now() + doubtTime)
	case freeing, clearing:
		h.leave(e, from)
	case over:
		if h.slot.remove(h); !from.kept() {
			h.k.work.Done()
		}
		if e == freed && from == freeing {
			h.tell(Freed)
		}
	}
	return true
}

// wait makes h due at the given time.
func (h *Kept) wait(at time.Duration) {
	h.slot.holds.put(&h.due, at)
	h.slot.tidy()
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

// extend notes that h lasts until then.
func (h *Kept) extend(until time.Duration) {
	if h.until, h.end = until, until; h.exhausted() {
		h.end += lastWord
	}
}

// act does what is due.
func (h *Kept) act(now time.Duration) {
	end := h.end
	if h.state == doubted { // the answer has come
		end = h.until
	}
	switch {
	case now < end || !h.state.kept():
		h.meet(due)
	case h.exhausted():
		h.meet(spent)
	default:
		h.meet(expired)
	}
}

// part takes h, which has ended, out of all that is kept, and has its end told.
func (h *Kept) part(by ending) {
	k := h.k
	k.lingerers.remove(h)
	k.held.Add(-1)
	delete(k.holds, holdName{h.of.Name, h.of.Token})
	if k.keepers[h.of.Keeper] == h {
		delete(k.keepers, h.of.Keeper)
	}
	if by.how != "" {
		h.tell(by.how)
	}
	if by.loss != "" {
		k.lose(h, by.loss)
	}
	if h.of.Gone != nil {
		k.told = append(k.told, h.of.Gone)
	}
}

// lose notes the loss of h, and has it told. mu is held.
func (k *Renewer) lose(h *Kept, why Loss) {
	if h.next != 0 && why == Expired { // Redis has not answered: this is what its client knows
		h.of.Fence = h.next
	}
	lost := Lost{why, h.of.Fence}
	k.add(h.of.Name, h.of.Token, lost)
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

// tell has an end told that is no loss.
func (h *Kept) tell(how End) {
	if h.of.Over != nil {
		h.k.told = append(h.k.told, func() { h.of.Over(how, h.of.Fence) })
	}
}

// ask has h in a batch, and returns what that asks. If a hint is why, it only checks the hold: the lease is
// left alone until a renewal is due.
func (h *Kept) ask(now time.Duration) holdQuestion {
	h.meet(sent)
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

// answered takes the answer to q, which was asked then: that h lasts for left, or that it does not (0), or
// that another keeper has it. late says that it has been asked once more meanwhile.
func (h *Kept) answered(q holdQuestion, began, left time.Duration, late bool) {
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
		h.renewed(q, began, left)
	}
	h.meet(e)
}

// renewed notes that h lasted for at least that long when it was asked about.
func (h *Kept) renewed(q holdQuestion, began, left time.Duration) {
	k := h.k
	if q.Lease > 0 {
		h.made++
		k.renewals++
	}
	if q.next != 0 {
		h.of.Fence = q.next
	}
	h.latest = max(h.latest, k.now()+left)
	h.extend(max(h.until, began+left))
	if k.o.Renewed != nil {
		k.o.Renewed(h.of.Name, h.of.Token, k.born.Add(h.until))
	}
}
