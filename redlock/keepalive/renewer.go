// Package keepalive renews holds for clients that asked for that, over and over, until they let go or a hold
// is lost.
//
//	Keep --> group of its slot --> due --> batch --> keep.lua --> its next renewal
//	                                ^                       \-> lost: the client is told
//	                                |
//	  RENEW, UNLOCK, messages of other proxies: due at once, or not kept any more
//
//	Release (its connection has gone) --> detach.lua, some at a time
//
// A Kept is one hold, and goes through few states (keepState). It is renewed at a third of its lease,
// together with others of its slot (rounds.go), of which one batch is under way at a time; of all slots of a
// master there are at most 64 (queue.go). One timer is set for whatever is due first (heap.go). What other
// proxies say of a hold is a hint, and not believed: Redis is asked (hint.go). A hold whose connection has
// gone is freed, however long that takes (free.go).
//
// A Renewer asks an Engine for all that, and knows nothing of scripts.
package keepalive

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/internal/subscription"
	"lockproxy/redlock"
)

// Loss is why a hold that was kept alive is lost.
type Loss string

// The losses.
const (
	Expired Loss = "expired" // renewals failed until the lease was over
	Broken  Loss = "broken"  // LOCKCTL BREAK
	Max     Loss = "max"     // as many renewals as were asked for are used up
	Gone    Loss = "gone"    // Redis has it no more, as after a fail-over
)

// Hold is one hold that is to be kept alive.
type Hold struct {
	Name, Token string
	Fence       int64
	Lease       time.Duration // what each renewal makes of it; 0: the default lease
	// It lasts at least until then: when its request was made plus the lease that was reported.
	Until  time.Time
	Keeper string // as in Redis
	Max    int    // renewals at most; 0: as many as it takes
	// Lost is called at most once, on a goroutine of the Renewer or the upstream; it must not block; nil:
	// nobody is told.
	Lost func(Loss)
}

// Kept is a hold that is being kept alive. Safe for concurrent use.
type Kept struct {
	k     *Renewer
	group *slotGroup
	name  holdName
	// keeper, fence, lease, most and lost do not change.
	keeper string
	fence  int64
	lease  time.Duration
	most   int32
	lost   func(Loss)

	// What follows is guarded by Renewer.mu. Times count from Renewer.born.
	made   int32         // renewals
	at     time.Duration // when something is to be done
	until  time.Duration // it lasts at least until then; of one that is being freed: when to give up
	index  int32         // in group.due, or -1
	state  keepState
	tries  uint8         // to free it
	gone   bool          // its loss was found
	late   bool          // its grant took longer than its lease: it may be over, and Redis is asked at once
	doubt  Loss          // of a hold in doubt
	hint   hint          // that Redis is still to be asked about
	heeded time.Duration // when it was asked because of one last
}

// holdName is which hold it is.
type holdName struct{ name, token string }

// keepState is what happens with a hold, and what Kept.at means.
type keepState uint8

const (
	over    keepState = iota // nothing any more
	resting                  // the next renewal
	ready                    // its lease is over; until then it waits for a batch
	asked                    // its lease is over; a batch with it is under way
	doubted                  // the loss is reported
	freeing                  // the next attempt, if one has failed
)

const (
	// mostKeys is how many holds a batch has at most.
	mostKeys = 64
	// doubtTime is for how long a hold that Redis has no more may turn out to have been
	// released: the reply to an UNLOCK may come later than the one to a renewal that
	// ran after it, and the message of another proxy too.
	doubtTime = 250 * time.Millisecond
	// mostPatience bounds one request.
	mostPatience = 5 * time.Second
	// lastWord is for how long a hold with all renewals used up, or one that was granted late, may
	// go unanswered.
	lastWord = time.Second
)

// Engine is what a Renewer asks of the engine of the locks. Safe for concurrent use.
type Engine interface {
	// Keep renews holds of one slot. It returns what remains of each in ms; 0: it is gone; below: another
	// keeper has it.
	Keep(ctx context.Context, slot int, batch []redlock.Renewal) ([]int64, error)
	// Detach frees a hold, if keeper still has it.
	Detach(ctx context.Context, name, token, keeper string) error
	// Master names the master of a slot; "": nobody knows it, or all masters have it.
	Master(slot int) string
	// Listen subscribes to the channel of a keeper; slot is -1.
	Listen(ctx context.Context, slot int, channel string,
		notify func(subscription.Event)) (cancel func(), err error)
}

// Renewer keeps holds alive. All state of them is here, and guarded by mu. Safe for concurrent use.
//
// Whatever happens to a hold happens in one place:
//
//	Keep --> group of its slot --> due --> a batch of the slot: keep.lua --> its next renewal
//	                                                                   \--> lost, or taken
//	Release --> detach.lua, some at a time
//
// Groups stand in a line by what is due first on them, and one timer is set for the first of them; to each
// master only so many batches are under way; there is no goroutine but for what is under way, and no timer
// without holds.
type Renewer struct {
	engine Engine
	names  *redlock.Names
	o      Options
	born   time.Time
	held   atomic.Int64 // how many holds are kept

	ctx     context.Context // of the renewals; ends with close
	cancel  context.CancelFunc
	freeing context.Context // of what is freed; ends when close has waited for it
	abandon context.CancelFunc
	work    sync.WaitGroup // that close waits for

	mu         sync.Mutex
	closed     bool
	timer      *time.Timer
	armed      time.Duration // what the timer is set for; never: it is not
	ticking    bool          // what is due is being done: the timer is set after that
	holds      map[holdName]*Kept
	keepers    map[string]*Kept
	groups     map[int]*slotGroup
	queues     map[string]*masterQueue // by master; of those to which something is under way
	agenda     timerHeap[*slotGroup]
	listening  bool
	unlisten   func()
	told       []report // losses that are to be reported when mu is not held
	free       []*Kept  // to be freed
	freers     int      // goroutines that do
	complained time.Duration
	renewals   uint64
	losses     map[Loss]uint64
}

// Options are those of a Renewer.
type Options struct {
	Lease time.Duration // of a hold for which none is asked
	Most  int           // holds that are kept alive
	Log   *slog.Logger
}

// report is a loss that somebody is to be told.
type report struct {
	lost func(Loss)
	loss Loss
}

// Keep has h renewed at a third of its lease, over and over. What is kept already of the
// same lock and token is replaced, silently. It never blocks. After Close it does nothing.
func (k *Renewer) Keep(h Hold) *Kept {
	if h.Lease <= 0 {
		h.Lease = k.o.Lease
	}
	d := &Kept{
		k: k, name: holdName{h.Name, h.Token}, keeper: h.Keeper, fence: h.Fence, lease: h.Lease,
		most: int32(min(max(h.Max, 0), 1<<31-1)), lost: h.Lost, until: h.Until.Sub(k.born), index: -1,
		heeded: -hintPause,
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
	if old := k.holds[d.name]; old != nil {
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

// Release frees the hold, in the background, if this keeper still has it: its
// connection has closed. It never blocks and may be called again. It is tried for one lease.
//
// After Release, Forget or Unlocked no loss is found any more. One that was found
// just before may still be on its way to Lost.
func (h *Kept) Release() {
	k := h.k
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.end(h) {
		k.release(h)
		k.arm()
	}
}

// Forget has the hold stay until its lease is over, without renewals. It never blocks
// and may be called again.
func (h *Kept) Forget() {
	k := h.k
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.end(h) {
		k.arm()
	}
}

// Ended says that the hold is not kept any more.
func (h *Kept) Ended() bool {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	return h.state == over || h.state == freeing
}

// Fence is that of the hold.
func (h *Kept) Fence() int64 { return h.fence }

// Lost says that the loss of the hold was found: it is being freed, if it is there at all.
func (h *Kept) Lost() bool {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	return h.gone
}

// Unlocked says that a hold of token was released whole. The one of keeper is not kept any more. Without a
// keeper it need not be the one that is kept now, which may be a later one: Redis is asked.
func (k *Renewer) Unlocked(name, token, keeper string) {
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

// Prolonged says that something else than its keeper made the hold of token last until then.
func (k *Renewer) Prolonged(name, token string, until time.Time) {
	if k.held.Load() == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.holds[holdName{name, token}]
	if h == nil || until.Sub(k.born) <= h.until {
		return
	}
	h.until, h.late = until.Sub(k.born), false
	switch h.state {
	case resting:
		k.rest(h)
	case ready, asked:
		k.set(h, h.end())
	}
	k.arm()
}

// Full is nil, or says why no more holds may be kept alive.
func (k *Renewer) Full() error {
	if n := k.held.Load(); n >= int64(k.o.Most) {
		return redlock.ReplyError(fmt.Sprintf("ERR this proxy keeps %d holds alive already: "+
			"lock without KEEPALIVE, try again later, or raise lock-max-keepalive", n))
	}
	return nil
}

// Free is how many more holds may be kept alive.
func (k *Renewer) Free() int { return int(max(int64(k.o.Most)-k.held.Load(), 0)) }

// Keeper is what a request of whoever has the hold kept alive names, so that it does not count
// as one of somebody else.
func (h *Kept) Keeper() string { return "=" + h.keeper }

// exhausted says that as many renewals as were asked for are used up.
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
	Kept     int // holds, now
	Renewals uint64
	Lost     map[Loss]uint64
}

// Stats returns the counters as they are now.
func (k *Renewer) Stats() Stats {
	lost := map[Loss]uint64{Expired: 0, Broken: 0, Max: 0, Gone: 0}
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.Copy(lost, k.losses)
	return Stats{Kept: int(k.held.Load()), Renewals: k.renewals, Lost: lost}
}
