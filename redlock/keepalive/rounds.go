package keepalive

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"lockproxy/internal/journal"
	"lockproxy/redlock"
)

// slotGroup has the holds of one slot. It has one request under way at a time. Guarded by Renewer.mu; times
// count from Renewer.born.
type slotGroup struct {
	slot   int
	due    timerHeap[*Kept]
	ready  []*Kept    // holds that are due, in this order; some may have ended meanwhile
	busy   bool       // a request is under way
	turn   *groupTurn // its turn in the queue of its master, or nil
	resume time.Duration
	fails  int // failed requests in a row
	// After a batch failed, its holds are asked one by one: a slot that moves refuses scripts on several
	// keys. alone counts those that are left to ask so; penalty doubles with each one that fails.
	alone, penalty int

	at    time.Duration // when the next step is due
	index int32         // in Renewer.schedule, or -1
}

func (s *slotGroup) key() time.Duration { return s.at }
func (s *slotGroup) place() *int32      { return &s.index }

// question is what a batch asks about one hold.
type question struct {
	h     *Kept
	fence int64
	next  int64         // Kept.next, which is the fence if the answer is that the keeper has the hold
	lease time.Duration // 0: only ask whether the hold lasts
	hint  hint          // the hint that made it be asked, if one did
}

// asking is a batch that was sent. Guarded by Renewer.mu.
type asking struct {
	began time.Duration
	batch []question
	over  bool // it was answered, or its patience is over
}

func New(e Engine, names *redlock.Names, o Options) *Renewer {
	k := &Renewer{engine: e, names: names, o: o, born: time.Now(), armed: never, lost: newLosses(names)}
	k.holds, k.keepers = make(map[holdName]*Kept), make(map[string]*Kept)
	k.groups, k.losses = make(map[int]*slotGroup), make(map[Loss]uint64)
	k.queues = make(map[string]*masterQueue)
	k.lingerers.byHost, k.leaving.bySlot = make(map[string]int), make(map[int][]*Kept)
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.detach = newDetacher(e)
	return k
}

func (k *Renewer) now() time.Duration { return time.Since(k.born) }

// change runs f with mu held, then reports the losses and ends that f found.
func (k *Renewer) change(f func()) {
	k.mu.Lock()
	f()
	k.arm()
	told := k.told
	k.told = nil
	k.mu.Unlock()
	for _, t := range told {
		k.report(t)
	}
}

// report tells whoever has to know. mu is not held.
func (k *Renewer) report(t report) {
	switch h := t.hold; {
	case t.loss != "":
		k.tell(t)
		if h.lost != nil {
			h.lost(Lost{t.loss, h.fence})
		}
	case h.over != nil:
		h.over(t.end, h.fence)
	}
}

// tell logs a loss. A hold whose renewals were to end is no surprise.
func (k *Renewer) tell(t report) {
	level := slog.LevelWarn
	if t.loss == Max {
		level = slog.LevelInfo
	}
	h := t.hold
	attrs := []any{"reason", string(t.loss), "fence", h.fence, "token", redlock.Digest(h.name.token)}
	k.tells.Write(k.o.Log, level, "lock lost", k.o.Names.Lock(attrs, h.name.name)...)
}

// tick does all that is due.
func (k *Renewer) tick() {
	for more := true; more; {
		k.change(func() { more = k.step() })
	}
}

// step does some of what is due, so as not to hold mu for long, and says whether there is more. mu is held
// here and below.
func (k *Renewer) step() (more bool) {
	now := k.now()
	for range 128 {
		if len(k.schedule) == 0 || k.schedule[0].at > now {
			k.ticking, k.armed = false, never
			return false
		}
		s := k.schedule[0]
		if len(s.due) > 0 && s.due[0].at <= now {
			k.due(s.due[0], now)
		}
		k.serve(s, now)
	}
	k.ticking = true
	return true
}

// arm sets the timer for what is due first.
func (k *Renewer) arm() {
	next := never
	if len(k.schedule) > 0 {
		next = k.schedule[0].at
	}
	if next == k.armed || k.ticking {
		return
	}
	k.armed = next
	switch {
	case next == never:
		k.timer.Stop()
	case k.timer == nil:
		k.timer = time.AfterFunc(next-k.now(), k.tick)
	default:
		k.timer.Reset(next - k.now())
	}
}

// due deals with a hold whose time has come.
func (k *Renewer) due(h *Kept, now time.Duration) {
	switch {
	case h.state == doubted && now >= h.until:
		k.lose(h, h.doubt)
	case h.state == freeing:
		h.group.due.remove(h)
		k.tidy(h.group)
		k.queue(h)
	case now < h.end():
		h.state = ready
		h.group.ready = append(h.group.ready, h)
		k.set(h, h.end())
	case h.exhausted():
		k.lose(h, Max)
	default: // its client may still rely on a lease that it was told before, so nobody else gets it sooner
		k.lose(h, Expired)
		k.release(h, h.latest)
	}
}

// groupOf returns the group of a slot, a new one if needed.
func (k *Renewer) groupOf(slot int) *slotGroup {
	s := k.groups[slot]
	if s == nil {
		s = &slotGroup{slot: slot, at: never, index: -1}
		k.groups[slot] = s
	}
	return s
}

// tidy puts s into its place in the schedule, or removes it if it is empty.
func (k *Renewer) tidy(s *slotGroup) {
	s.at = never
	if len(s.due) > 0 {
		s.at = s.due[0].at
	}
	if len(s.ready) > 0 && !s.busy && s.turn == nil {
		s.at = min(s.at, s.resume)
	}
	if s.at < never {
		k.schedule.put(s)
		return
	}
	k.schedule.remove(s)
	if !s.busy && s.turn == nil && k.groups[s.slot] == s {
		delete(k.groups, s.slot)
	}
}

// set makes h due at the given time.
func (k *Renewer) set(h *Kept, at time.Duration) {
	h.at = at
	h.group.due.put(h)
	k.tidy(h.group)
}

// rest makes h wait for its next renewal: at a third of its lease, or up to a tenth of that earlier. If its
// renewals are used up it waits for its end.
func (k *Renewer) rest(h *Kept) {
	h.state = resting
	if h.exhausted() {
		k.set(h, h.until)
		return
	}
	k.set(h, h.until-2*h.lease/3-rand.N(h.lease/30+1))
}

// prolong notes that h lasts until then.
func (k *Renewer) prolong(h *Kept, until time.Time) {
	if until.Sub(k.born) <= h.until {
		return
	}
	h.until, h.late = until.Sub(k.born), false
	switch h.state {
	case resting:
		k.rest(h)
	case ready, asked:
		k.set(h, h.end())
	}
}

// confirm has Redis asked at once whether h, which seems to have another fence by now, is still kept by its
// keeper.
func (k *Renewer) confirm(h *Kept) {
	if h.next == h.fence {
		h.next = 0
	}
	if h.next != 0 && h.state == resting {
		k.set(h, k.now())
	}
}

// end stops keeping h alive, and says whether it was kept.
func (k *Renewer) end(h *Kept) bool {
	if h.state == over || h.state == freeing {
		return false
	}
	h.state = over
	k.settled(h)
	k.held.Add(-1)
	delete(k.holds, h.name)
	if k.keepers[h.keeper] == h {
		delete(k.keepers, h.keeper)
	}
	h.group.due.remove(h)
	k.tidy(h.group)
	return true
}

// lose ends h and reports the loss.
func (k *Renewer) lose(h *Kept, loss Loss) {
	k.end(h)
	h.gone = true
	if h.next != 0 && loss == Expired { // Redis has not answered: this is what its client knows
		h.fence = h.next
	}
	k.lost.add(h.name.name, h.name.token, Lost{loss, h.fence})
	k.losses[loss]++
	k.told = append(k.told, report{hold: h, loss: loss})
}

// leave ends h, which somebody else has ended or taken over, and reports that.
func (k *Renewer) leave(h *Kept, how End) {
	if k.end(h) {
		k.told = append(k.told, report{hold: h, end: how})
	}
}

// batch returns the holds of s to ask about now: those that are ready, and those that soon will be.
func (k *Renewer) batch(s *slotGroup, now time.Duration) (batch []question) {
	if now < s.resume {
		return nil
	}
	most := mostKeys
	if s.alone > 0 {
		most = 1
	}
	take := func(h *Kept) {
		h.state = asked
		k.set(h, h.end())
		q := question{h: h, fence: h.fence, next: h.next, lease: h.lease}
		if h.exhausted() {
			q.lease = 0
		}
		k.heed(h, &q)
		batch = append(batch, q)
	}
	for len(s.ready) > 0 && len(batch) < most {
		h := s.ready[0]
		if s.ready = s.ready[1:]; len(s.ready) == 0 {
			s.ready = nil
		}
		if h.state == ready {
			take(h)
		}
	}
	if len(batch) == 0 {
		return nil
	}
	if s.alone > 0 {
		s.alone--
		return batch
	}
	for len(s.due) > 0 && len(batch) < most {
		h := s.due[0]
		soon := h.until - h.lease*3/4
		if h.lease <= 2*batch[0].h.lease { // from now on they are renewed together
			soon = h.until - h.lease*11/12
		}
		if h.state != resting || h.exhausted() || now < soon || now >= h.until {
			break
		}
		take(h)
	}
	return batch
}

// settle takes the answer to a: on time, or none within its patience, or later than that. What the master
// says late is as true as what it says on time, unless it is about an earlier grant.
func (k *Renewer) settle(e *masterQueue, s *slotGroup, a *asking, left []int64, err error) {
	late := a.over
	a.over = true
	switch {
	case err == nil:
		e.served = max(e.served, a.began)
		s.fails = 0
		if len(a.batch) > 1 {
			s.penalty = 0
		}
	case !late:
		k.failed(s, len(a.batch), err, e.served > a.began)
	}
	for i, q := range a.batch {
		h := q.h
		switch {
		case h.state == over || h.state == freeing || h.state == doubted:
		case err != nil:
			if h.state == asked && !late {
				h.state, h.hint = ready, max(h.hint, q.hint)
				s.ready = append(s.ready, h)
			}
		case late && (q.fence != h.fence || q.next != h.next): // it is another grant by now
		case left[i] > 0:
			k.renewed(h, q, a.began, time.Duration(left[i])*time.Millisecond, late)
		case left[i] == 0 && h.doubt == "" && max(h.hint, q.hint) <= missed:
			h.state, h.doubt, h.hint = doubted, Gone, max(h.hint, q.hint)
			if h.exhausted() {
				h.doubt = Max
			}
			k.set(h, k.now()+doubtTime)
		case left[i] == 0:
			k.over(h, max(h.hint, q.hint), h.doubt)
		default:
			k.leave(h, Taken)
		}
	}
}

// renewed notes the answer that h lasted for at least that long when it was asked about.
func (k *Renewer) renewed(h *Kept, q question, began, lasts time.Duration, late bool) {
	if q.lease > 0 {
		h.made++
		k.renewals++
	}
	h.until, h.late = max(h.until, began+lasts), false
	h.latest, h.doubt = max(h.latest, k.now()+lasts), ""
	if q.next != 0 {
		h.fence = q.next
	}
	if k.o.Renewed != nil {
		k.o.Renewed(h.name.name, h.name.token, k.born.Add(h.until))
	}
	if late && h.state == asked { // once more, and that answer is still to come
		k.set(h, h.end())
		return
	}
	k.rest(h)
	if h.hint != noHint { // it came after the question was sent
		k.hinted(h, h.hint)
	}
	k.confirm(h)
}

// failed makes s pause after a failed request for n holds; each further failure makes the pause longer.
// others says that the master answered others meanwhile, so that it is not just slow.
func (k *Renewer) failed(s *slotGroup, n int, err error, others bool) {
	var said redlock.ReplyError
	if n > 1 && (others || errors.As(err, &said)) {
		s.penalty = min(max(2*s.penalty, mostKeys), 1<<20)
		s.alone = s.penalty
	}
	pause := min(20*time.Millisecond<<min(s.fails, 10), time.Second)
	s.fails++
	s.resume = k.now() + pause/2 + rand.N(pause/2)
	k.complain(&k.unrenewed, "locks that are kept alive could not be renewed yet", err)
}

func (k *Renewer) complain(again *journal.Again, message string, err error) {
	if !k.closed {
		again.Write(k.o.Log, slog.LevelWarn, message,
			"kept", endangered{k}, "freeing", k.leaving.n, "err", err)
	}
}

// endangered is, in the log, how many holds are in groups that could not be renewed. mu is held.
type endangered struct{ k *Renewer }

// LogValue implements slog.LogValuer: only lines that are written need the count.
func (e endangered) LogValue() slog.Value {
	n := 0
	for _, h := range e.k.holds {
		if h.group.fails > 0 {
			n++
		}
	}
	return slog.IntValue(n)
}

// patience is how long the answer to batch may take before its holds are asked about again: a sixth of the
// shortest lease, so that there is time for that.
func patience(batch []question) time.Duration {
	limit := mostPatience
	for _, q := range batch {
		limit = min(limit, max(q.h.lease/6, leastPatience))
	}
	return limit
}

// ask sends batch and returns the ms that are left of each hold. mu is not held.
func (k *Renewer) ask(slot int, batch []question, limit time.Duration) ([]int64, error) {
	asks := make([]redlock.Renewal, len(batch))
	for i, q := range batch {
		asks[i] = redlock.Renewal{Name: q.h.name.name, Token: q.h.name.token, Lease: q.lease,
			Fence:  q.fence,
			Keeper: q.h.keeper}
	}
	ctx, cancel := context.WithTimeout(k.ctx, limit)
	defer cancel()
	return k.engine.Keep(ctx, slot, asks)
}
