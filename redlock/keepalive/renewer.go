// Package keepalive renews the holds of clients that asked for it (KEEPALIVE), over and over, until the
// client lets go or the hold is lost.
//
//	Keep --> slot --> due --> queue of its master --> batch --> renew.lua --> next renewal
//	           ^                                                   \-> gone twice: lost, the client is told
//	           |
//	  RENEW, UNLOCK, messages of other proxies: due at once, or not kept any more
//
//	Break (its connection has gone) --> LINGER --> Release --> release.lua
//	Lost, Untold, Relied: what verbs ask about lost holds
//
// A Kept is one hold. What it can meet, and what becomes of it then, is one table (states.go); what is done
// then, and what is known of a hold, stands with it (kept.go). It is renewed at a third of its lease, in one
// batch with other holds of its slot, which has one batch under way at a time (slot.go), and its master at
// most 64 (queue.go). Without an answer within a sixth of the lease they are asked again; it counts even if
// it comes late. One timer is set for whatever is due first (agenda.go). What other proxies say about a hold
// is only a hint (hint.go). A hold whose connection has gone is freed, however long that takes (free.go), at
// once or when it has lingered (linger.go). A lost hold is remembered by its token for an hour (losses.go).
//
// A Renewer has all of that, and asks an Engine; it knows nothing of scripts.
package keepalive

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/internal/journal"
	"lockproxy/internal/subscription"
	"lockproxy/redlock"
)

// Loss is the reason why a hold that was kept alive is lost.
type Loss string

// The losses.
const (
	Expired Loss = "expired" // renewals failed until the lease was over
	Broken  Loss = "broken"  // LOCKCTL BREAK
	Max     Loss = "max"     // MAX renewals were made
	Gone    Loss = "gone"    // Redis does not have it any more, as after a fail-over
	// Together: a hold that is kept together with it was lost, so it was given up
	Together Loss = "together"
)

// End is how a hold ends that is not kept alive any more, and was not lost.
type End string

// The ends.
const (
	Freed     End = "freed"     // it was freed, since its connection has gone
	Elsewhere End = "elsewhere" // its client has let go of it through another proxy
	Taken     End = "taken"     // another proxy keeps it
)

// Hold describes a hold that is to be kept alive.
type Hold struct {
	Name, Token string
	Fence       int64
	Lease       time.Duration // what each renewal extends it to; 0: the default lease
	// Until is when it ends at the earliest: the time of its request plus the lease that was reported.
	Until  time.Time
	Keeper string // as Redis has it
	Terms
	// Lost is called at most once, on a goroutine of the Renewer or of the upstream, and must not block. It
	// may be nil.
	Lost func(Lost)
	// Over is called likewise when the hold has ended in another way, with the fence that it had last. It is
	// not called after Unlocked or Forget, nor if Keep replaces the hold: who calls these knows.
	Over func(how End, fence int64)
	// Gone is called likewise when the hold is not kept any more, however that came, behind Lost.
	Gone func()
}

// Terms are how long a hold is kept alive, as its client wants it.
type Terms struct {
	Max    int           // renewals at most; 0: as many as it takes
	Linger time.Duration // how long it is renewed once its connection broke; 0: no more
}

// holdName identifies a hold.
type holdName struct{ name, token string }

// Engine is what a Renewer needs of the engine of the locks. Safe for concurrent use.
type Engine interface {
	// Keep renews holds of one slot. For each it returns the ms that were left when it was asked, or a little
	// later; 0: the hold is gone; negative: this proxy keeps it no more.
	Keep(ctx context.Context, slot int, batch []redlock.Renew) ([]int64, error)
	// Detach frees a hold, if keeper still has it. It calls freed before it tells a waiter that this gave it
	// the lock.
	Detach(ctx context.Context, name, token, keeper string, freed func()) error
	// Master names the master of a slot. It is "" if nobody knows it, or if all masters keep the lock.
	Master(slot int) string
	// Listen subscribes to the channel of a keeper; slot is -1. It never blocks.
	Listen(slot int, channel string, notify func(subscription.Change)) (cancel func())
}

// Renewer keeps holds alive. It has all of their state, guarded by mu; the path of a hold is in the package
// comment. Safe for concurrent use.
//
// Slots stand in an agenda by when something is due in them, and one timer is set for the first. The batches
// under way to each master are bounded. Goroutines exist only for what is under way, and the timer only while
// there are holds.
type Renewer struct {
	*losses // those that are remembered

	engine Engine
	names  *redlock.Names
	o      Options
	born   time.Time
	held   atomic.Int64 // how many holds are kept

	closing

	mu     sync.Mutex
	timer  *time.Timer
	armed  time.Duration // when the timer fires; never: it is not set
	agenda agenda[*slot]
	slots  map[int]*slot
	queues map[string]*batchQueue // by master, while something is under way to it
	// Those that are kept alive, by name, and by keeper. A hold that is only being freed is in neither.
	holds     map[holdName]*Kept
	keepers   map[string]*Kept
	lingerers map[string]int // how many there are whose connections broke, by the hosts of their clients
	leaving   leaving
	unlisten  func()   // nil: nobody listens yet
	told      []func() // what to tell once mu is released
	tells     journal.Lines
	behind    journal.Again
	deaf      journal.Again
	renewals  uint64
	lost      map[Loss]uint64 // how many holds were
}

// closing is what Close ends and waits for.
type closing struct {
	ctx         context.Context // of the renewals; ends when Close begins
	cancel      context.CancelFunc
	freeing     context.Context // ends when Close has waited for what is being freed
	stopFreeing context.CancelFunc
	work        sync.WaitGroup // what Close waits for
}

// Options are those of a Renewer.
type Options struct {
	Lease time.Duration     // of holds that ask for none
	Most  int               // how many holds may be kept alive
	Names journal.NameStyle // how the log shows those of locks
	Log   *slog.Logger
	// Renewed, if it is not nil, is told until when a hold of token lasts. It must not block.
	Renewed func(name, token string, until time.Time)
}

// New returns a Renewer of holds at e.
func New(e Engine, names *redlock.Names, o Options) *Renewer {
	k := &Renewer{engine: e, names: names, o: o, born: time.Now(), losses: newLosses(names), armed: never,
		slots: make(map[int]*slot), queues: make(map[string]*batchQueue),
		holds: make(map[holdName]*Kept), keepers: make(map[string]*Kept),
		lost: make(map[Loss]uint64), lingerers: make(map[string]int),
	}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.freeing, k.stopFreeing = context.WithCancel(context.Background())
	return k
}

// Keep renews h at a third of its lease, over and over. If a hold of the same lock and token is kept already,
// h silently replaces it. It never blocks. After Close it does nothing.
func (k *Renewer) Keep(h Hold) *Kept {
	if h.Lease <= 0 {
		h.Lease = k.o.Lease
	}
	d := &Kept{k: k, of: h, state: over, heeded: -hintPause}
	d.due.owner = d
	k.changeHolds(func() {
		if k.ctx.Err() == nil {
			k.keepHold(d)
			if k.unlisten == nil {
				k.unlisten = func() {}
				k.told = append(k.told, k.listenForHints)
			}
		}
	})
	return d
}

// keepHold begins to keep h alive. mu is held. Of an earlier Kept of the same grant it takes over how long
// that lasts.
func (k *Renewer) keepHold(h *Kept) {
	now, name := k.now(), holdName{h.of.Name, h.of.Token}
	if h.extend(h.of.Until.Sub(k.born)); h.until <= now { // it may be over: Redis is asked at once
		h.until, h.end = now, now+lastWord
	}
	h.latest = max(h.until, now+h.of.Lease)
	if old := k.holds[name]; old != nil {
		if old.of.Fence == h.of.Fence && h.until < old.until {
			h.extend(old.until)
		}
		old.meetEvent(letGo)
	}
	k.held.Add(1)
	k.holds[name], k.keepers[h.of.Keeper] = h, h
	h.slot = k.slotOf(k.names.Place(h.of.Name).Slot)
	h.meetEvent(begun)
}

// Unlocked says that a hold of token was released whole. The hold that had this keeper is not kept any more.
// If there is none, Redis is asked: the one that is kept now may be a later one. A loss of the token's hold
// is forgotten.
func (k *Renewer) Unlocked(name, token, keeper string) {
	k.tellLoss(name, token, 0, true, func(*remembered) bool { return false })
	if k.held.Load() == 0 {
		return
	}
	k.changeHolds(func() {
		if h := k.keepers[keeper]; h != nil {
			h.meetEvent(letGo)
		} else if h := k.holds[holdName{name, token}]; h != nil {
			h.heedHint(saidReleased)
		}
	})
}

// Prolonged says that the hold of token lasts until then at least, by something else than its keeper. With a
// fence that is not 0 the token got the lock once more, by a request that did not ask for KEEPALIVE. If the
// hold that is kept alive has that fence, it is the one. With another fence it still is if a reader became
// the writer, or the other way round. Or the kept one was lost, and this is a new one: Redis is asked. Until
// it answers, the hold is taken to last as long as this grant.
func (k *Renewer) Prolonged(name, token string, until time.Time, fence int64) {
	if k.held.Load() == 0 {
		return
	}
	k.changeHolds(func() {
		h := k.holds[holdName{name, token}]
		if h == nil {
			return
		}
		if fence == h.of.Fence {
			h.next = 0
		} else if fence != 0 {
			h.next = fence
		}
		if t := until.Sub(k.born); t > h.until {
			h.extend(t)
		}
		h.meetEvent(prolonged)
	})
}

// KeeperOf is the keeper of the token's hold, if that is kept alive, whoever asked for that; otherwise "".
func (k *Renewer) KeeperOf(name, token string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.holds[holdName{name, token}]; h != nil {
		return h.of.Keeper
	}
	return ""
}

// Free is how many more holds may be kept alive; an error, if none.
func (k *Renewer) Free() (int, error) {
	kept := int(k.held.Load())
	if kept >= k.o.Most {
		return 0, redlock.ReplyError(fmt.Sprintf("ERR this proxy keeps %d holds alive already: "+
			"lock without KEEPALIVE, try again later, or raise lock-max-keepalive", kept))
	}
	return k.o.Most - kept, nil
}

// Stats is what a Renewer has done since it was made.
type Stats struct {
	Kept      int // now
	Lingering int // those of them whose connections broke
	Renewals  uint64
	Lost      map[Loss]uint64
}

// Stats returns the counters as they are now.
func (k *Renewer) Stats() Stats {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := Stats{Kept: len(k.holds), Renewals: k.renewals, Lost: maps.Clone(k.lost)}
	for _, n := range k.lingerers {
		all.Lingering += n
	}
	return all
}

// Close forgets all holds, then waits until those being freed are, or until ctx ends.
func (k *Renewer) Close(ctx context.Context) {
	k.changeHolds(func() {
		k.cancel()
		for _, h := range k.holds {
			h.meetEvent(letGo)
		}
		if k.unlisten != nil {
			k.told = append(k.told, k.unlisten)
			k.unlisten = nil
		}
	})
	defer context.AfterFunc(ctx, k.abandonFreeing)()
	k.work.Wait()
	k.stopFreeing()
}

// abandonFreeing gives up the holds that are still to be freed.
func (k *Renewer) abandonFreeing() {
	k.stopFreeing()
	k.changeHolds(func() {
		for _, s := range k.slots {
			for len(s.holds) > 0 {
				s.holds[0].owner.meetEvent(abandoned)
			}
		}
	})
}

// now is how long after born it is.
func (k *Renewer) now() time.Duration { return time.Since(k.born) }

// changeHolds runs f with mu held, sets the timer for what is due first then, and tells the losses and ends
// that f found. All changes go through it. What is told is called on this goroutine, without mu, so it may
// call the Renewer; f must not.
func (k *Renewer) changeHolds(f func()) {
	k.mu.Lock()
	f()
	if next := k.agenda.firstDue(); next != k.armed {
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
	told := k.told
	k.told = nil
	k.mu.Unlock()
	for _, tell := range told {
		tell()
	}
}

// tick does what is due, but only some of it, so as not to hold mu for long: then the timer fires at once. It
// runs on the goroutine of the timer.
func (k *Renewer) tick() {
	k.changeHolds(func() {
		k.armed = never
		now := k.now()
		for n := 0; n < 128 && k.agenda.firstDue() <= now; n++ {
			k.agenda[0].owner.actSlot(now)
		}
	})
}

// complain logs a trouble that may go on. mu is held.
func (k *Renewer) complain(err error) {
	if k.ctx.Err() == nil {
		k.behind.Write(k.o.Log, slog.LevelWarn, "locks that are kept alive could not be renewed or freed yet",
			"kept", endangered{k}, "freeing", len(k.leaving.holds), "err", err)
	}
}

// endangered is, in the log, how many holds are in slots that could not be renewed. mu is held.
type endangered struct{ k *Renewer }

// LogValue implements slog.LogValuer: only lines that are written need the count.
func (e endangered) LogValue() slog.Value {
	n := 0
	for _, h := range e.k.holds {
		if h.slot.fails > 0 {
			n++
		}
	}
	return slog.IntValue(n)
}
