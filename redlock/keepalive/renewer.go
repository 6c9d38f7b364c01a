// Package keepalive renews the holds of clients that asked for it (KEEPALIVE), over and over, until the
// client lets go or the hold is lost.
//
//	Keep --> group of its slot --> due --> batch --> keep.lua --> next renewal
//	                                ^                       \-> gone twice: lost, the client is told
//	                                |
//	  RENEW, UNLOCK, messages of other proxies: due at once, or not kept any more
//
//	Break (its connection has gone) --> LINGER --> Release --> detach.lua, some at a time
//	Lost, Untold, Relied: what verbs ask about lost holds
//
// A Kept is one hold, in one of a few states (keepState). It is renewed at a third of its lease, in one batch
// with other holds of its slot; a slot has one batch under way at a time (rounds.go), a master at most 64
// (queue.go). Without an answer within a sixth of the lease they are asked again; it counts even if it comes
// late. One timer is set for whatever is due first (heap.go). What other proxies say about a hold is
// only a hint: Redis is asked (hint.go). A hold that Redis says is gone is lost if it says so once more, a
// moment later: a slot that moves may be without its keys that long. A hold whose connection has gone is
// freed, however long that takes (free.go), at once or when it has lingered (linger.go). A lost hold is
// remembered by its token for an hour (losses.go).
//
// A Renewer asks an Engine for all of that and knows nothing of scripts.
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
	Taken     End = "taken"     // another keeper has it
)

// Hold describes a hold that is to be kept alive.
type Hold struct {
	Name, Token string
	Fence       int64
	Lease       time.Duration // what each renewal extends it to; 0: the default lease
	// Until is when it ends at the earliest: the time of its request plus the lease that was reported.
	Until  time.Time
	Keeper string        // as Redis has it
	Max    int           // renewals at most; 0: as many as it takes
	Linger time.Duration // how long it is renewed once its connection broke; 0: no more
	// Lost is called at most once, on a goroutine of the Renewer or of the upstream, and must not block. It
	// may be nil.
	Lost func(Lost)
	// Over is called likewise when the hold has ended in another way, with the fence that it had last. It is
	// not called after Unlocked or Forget, nor if Keep replaces the hold: who calls these knows.
	Over func(how End, fence int64)
}

// Kept is a hold that is being kept alive. Safe for concurrent use.
type Kept struct {
	k     *Renewer
	group *slotGroup
	name  holdName
	// keeper, lease, most, linger, lost and over do not change.
	keeper string
	lease  time.Duration
	most   int32
	linger time.Duration
	lost   func(Lost)
	over   func(End, int64)

	// The fields below are guarded by Renewer.mu. Times count from Renewer.born.
	fence  int64         // does not change any more once it has ended
	next   int64         // its fence from now on if its keeper still has it, which Redis is asked; 0: none
	made   int32         // renewals
	at     time.Duration // when the next step is due
	until  time.Duration // it lasts at least until then; while it is freed: when to give up
	latest time.Duration // and at most until then, if no renewal is under way
	index  int32         // in group.due, or -1
	state  keepState
	tries  uint8         // attempts to free it
	gone   bool          // it is lost: what may be left of it is being freed
	late   bool          // its grant took longer than its lease, so it may be over: Redis is asked at once
	doubt  Loss          // Redis said that it is gone: the loss to report if it says so once more; "": none
	hint   hint          // that Redis is still to be asked about
	heeded time.Duration // when a hint last made Redis be asked
	after  *lingering    // its connection broke; nil: it did not
}

// holdName identifies a hold.
type holdName struct{ name, token string }

// keepState is what happens with a hold, and hence what Kept.at means.
type keepState uint8

const (
	over    keepState = iota // not kept any more
	resting                  // waits; at is the next renewal
	ready                    // waits for a batch; at is the end of its lease
	asked                    // is in a batch under way; at is the end of its lease
	doubted                  // Redis said that it is gone; at is when to ask once more, or to report it
	freeing                  // is being freed; at is the next attempt, if that is to wait
)

const (
	// mostKeys is the most holds that a batch has.
	mostKeys = 64
	// doubtTime is how long a hold that Redis no longer has may still turn out to have been released: the
	// reply to an UNLOCK, or another proxy's message about it, may come later than the reply to a renewal
	// that ran after it. Then Redis is asked once more, if the lease still lasts.
	doubtTime = 250 * time.Millisecond
	// leastPatience and mostPatience bound how long an answer may take before the question is asked again.
	leastPatience, mostPatience = 100 * time.Millisecond, 5 * time.Second
	// hearing is how many times its patience a request may take until its answer is of no use any more: a
	// lease has six of them, unless it is a long one.
	hearing = 8
	// lastWord is how long the last check of a hold may go unanswered, when its renewals are used up or it
	// was granted late.
	lastWord = time.Second
)

// Engine is what a Renewer needs of the engine of the locks. Safe for concurrent use.
type Engine interface {
	// Keep renews holds of one slot. For each it returns the ms that were left when it was asked, or a little
	// later; 0: the hold is gone; negative: it has another keeper.
	Keep(ctx context.Context, slot int, batch []redlock.Renewal) ([]int64, error)
	// Detach frees a hold, if keeper still has it.
	Detach(ctx context.Context, name, token, keeper string) error
	// Master names the master of a slot. It is "" if nobody knows it, or if all masters keep the lock.
	Master(slot int) string
	// Listen subscribes to the channel of a keeper; slot is -1.
	Listen(ctx context.Context, slot int, channel string,
		notify func(subscription.Event)) (cancel func(), err error)
}

// Batcher is an Engine that can free many holds at once.
type Batcher interface {
	// DetachAll frees those holds of one slot that nobody else has to do with, if their keepers still have
	// them. For each it returns 1, or 0 if it is left to Detach.
	DetachAll(ctx context.Context, slot int, batch []redlock.Renewal) ([]int64, error)
}

// Renewer keeps holds alive. It has all of their state, guarded by mu; the path of a hold is in the package
// comment. Safe for concurrent use.
//
// Groups stand in a heap, ordered by when something is due in them, and one timer is set for the first. The
// batches under way to each master are bounded. Goroutines exist only for what is under way, and the timer
// only while there are holds.
type Renewer struct {
	engine Engine
	names  *redlock.Names
	o      Options
	born   time.Time
	held   atomic.Int64 // how many holds are kept
	lost   *losses

	ctx    context.Context // of the renewals; ends with Close
	cancel context.CancelFunc
	detach detacher
	work   sync.WaitGroup // what Close waits for

	mu                 sync.Mutex
	closed             bool
	timer              *time.Timer
	armed              time.Duration // when the timer fires; never: it is not set
	ticking            bool          // tick is running and sets the timer at its end
	holds              map[holdName]*Kept
	keepers            map[string]*Kept
	lingerers          lingerers // those whose connections broke
	groups             map[int]*slotGroup
	queues             map[string]*masterQueue // by master, while something is under way to it
	schedule           timerHeap[*slotGroup]
	listening          bool
	unlisten           func()
	tells              journal.Lines
	told               []report // what to report once mu is released
	leaving            leaving
	unrenewed, unfreed journal.Again
	renewals           uint64
	losses             map[Loss]uint64
}

// Options are those of a Renewer.
type Options struct {
	Lease time.Duration // of holds that ask for none
	Most  int           // how many holds may be kept alive
	Names journal.Names // how the log shows those of locks
	Log   *slog.Logger
	// Renewed, if it is not nil, is told until when a hold of token lasts. It must not block.
	Renewed func(name, token string, until time.Time)
}

// report is the loss of a hold, or its end if loss is "".
type report struct {
	hold *Kept
	loss Loss
	end  End
}

// Keep renews h at a third of its lease, over and over. If a hold of the same lock and token is kept already,
// h silently replaces it. It never blocks. After Close it does nothing.
func (k *Renewer) Keep(h Hold) *Kept {
	if h.Lease <= 0 {
		h.Lease = k.o.Lease
	}
	d := &Kept{
		k: k, name: holdName{h.Name, h.Token}, keeper: h.Keeper, fence: h.Fence, lease: h.Lease,
		most: int32(min(max(h.Max, 0), 1<<31-1)), linger: h.Linger, lost: h.Lost, over: h.Over,
		until: h.Until.Sub(k.born), index: -1, heeded: -hintPause,
	}
	slot := k.names.Place(h.Name).Slot
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return d
	}
	if now := k.now(); d.until <= now {
		d.until, d.late = now, true
	}
	d.latest = max(d.until, k.now()+d.lease)
	if old := k.holds[d.name]; old != nil {
		if old.fence == d.fence && d.until < old.until {
			d.until, d.late = old.until, old.late
		}
		k.end(old)
	}
	k.held.Add(1)
	k.holds[d.name] = d
	k.keepers[d.keeper] = d
	d.group = k.groupOf(slot)
	k.rest(d)
	k.arm()
	if !k.listening {
		k.listening = true
		k.work.Go(k.listen) // ends when the subscription is confirmed, or with k.ctx
	}
	return d
}

// Release frees the hold in the background, if this keeper still has it: its connection has closed. It is
// tried for one lease. It never blocks and may be called again.
//
// After Release, Forget or Unlocked no more losses are found. One that was found just before may still be on
// its way to Lost.
func (h *Kept) Release() {
	k := h.k
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.end(h) {
		k.release(h, 0)
		k.arm()
	}
}

// Forget stops the renewals; the hold stays until its lease is over. It never blocks and may be called again.
func (h *Kept) Forget() {
	k := h.k
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.end(h) {
		k.arm()
	}
}

// GiveUp counts the hold as lost, since one that is kept together with it is, and frees it as Release does.
// It calls Lost, unless the hold has ended already.
func (h *Kept) GiveUp() {
	h.k.change(func() {
		if h.state != over && h.state != freeing {
			h.k.lose(h, Together)
			h.k.release(h, 0)
		}
	})
}

// Ended says that the hold is not kept any more.
func (h *Kept) Ended() bool {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	return h.state == over || h.state == freeing
}

// Unlocked says that a hold of token was released whole. If keeper is named, that hold is not kept any more.
// Otherwise Redis is asked: the hold that is kept now may be a later one. A loss of the token's hold is
// forgotten.
func (k *Renewer) Unlocked(name, token, keeper string) {
	k.lost.with(name, token, func(*remembered) (forget bool) { return true })
	if k.held.Load() == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.keepers[keeper]; h != nil {
		k.end(h)
	} else if h := k.holds[holdName{name, token}]; h != nil && keeper == "" {
		k.hinted(h, released)
	}
	k.arm()
}

// Regranted says that the token got the lock once more, with that fence, until then at least, by a request
// that did not ask for KEEPALIVE. If the token's hold is kept alive and has that fence, it is the one. With
// another fence it still is if a reader became the writer, or the other way round. Or the kept one was lost,
// and this is a new one: Redis is asked. Until it answers, the hold is taken to last as long as this grant.
func (k *Renewer) Regranted(name, token string, until time.Time, fence int64) {
	k.about(name, token, func(h *Kept) {
		k.prolong(h, until)
		h.next = fence
		k.confirm(h)
	})
}

// Prolonged says that the hold of token lasts until then, by something else than its keeper.
func (k *Renewer) Prolonged(name, token string, until time.Time) {
	k.about(name, token, func(h *Kept) { k.prolong(h, until) })
}

// about runs f with the token's hold, if that is kept alive. mu is held meanwhile.
func (k *Renewer) about(name, token string, f func(*Kept)) {
	if k.held.Load() == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.holds[holdName{name, token}]; h != nil {
		f(h)
		k.arm()
	}
}

// KeeperOf is the keeper of the token's hold, if that is kept alive, whoever asked for that; otherwise "".
func (k *Renewer) KeeperOf(name, token string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.holds[holdName{name, token}]; h != nil {
		return h.keeper
	}
	return ""
}

// Keeps says that a hold of token is kept alive.
func (k *Renewer) Keeps(name, token string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.holds[holdName{name, token}] != nil
}

// Full returns an error if no more holds may be kept alive.
func (k *Renewer) Full() error {
	if n := k.held.Load(); n >= int64(k.o.Most) {
		return redlock.ReplyError(fmt.Sprintf("ERR this proxy keeps %d holds alive already: "+
			"lock without KEEPALIVE, try again later, or raise lock-max-keepalive", n))
	}
	return nil
}

// Free is how many more holds may be kept alive.
func (k *Renewer) Free() int { return int(max(int64(k.o.Most)-k.held.Load(), 0)) }

// Keeper is what a request of the hold's own client names, so that it is not taken for another one's.
func (h *Kept) Keeper() string { return "=" + h.keeper }

// exhausted says that MAX renewals were made.
func (h *Kept) exhausted() bool { return h.most > 0 && h.made >= h.most }

// end is when the hold is lost if no reply comes.
func (h *Kept) end() time.Duration {
	if h.exhausted() || h.late {
		return h.until + lastWord
	}
	return h.until
}

func (h *Kept) key() time.Duration { return h.at }
func (h *Kept) place() *int32      { return &h.index }

// Stats is what a Renewer has done since it was made.
type Stats struct {
	Kept      int // holds, now
	Lingering int // those of them whose connections broke
	Renewals  uint64
	Lost      map[Loss]uint64
}

// Stats returns the counters as they are now.
func (k *Renewer) Stats() Stats {
	lost := map[Loss]uint64{Expired: 0, Broken: 0, Max: 0, Gone: 0, Together: 0}
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.Copy(lost, k.losses)
	return Stats{Kept: int(k.held.Load()), Lingering: int(k.lingerers.n.Load()), Renewals: k.renewals,
		Lost: lost}
}
