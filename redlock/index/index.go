// Package index has the record of each grant of this proxy, and knows which locks are held, so that nobody
// has to look through all keys for them.
//
//	LOCK --> Ask, then Granted or Refused: a note in the memory of this proxy (notes.go, shard.go)
//	            | a quarter of a second later
//	            v
//	         ZADD, in batches, to one of a few sorted sets at the upstream (write.go)
//
//	LOCKCTL LIST --> Names: what the sets have, and the notes that are not there yet (read.go)
//
// A name of the index is a lock that may be held: whoever shows it asks the lock itself. What the index lacks
// is not shown, so a grant is noted before its client is told of it. It may lack locks whose proxy was killed
// right behind the grant, and those of an upstream that lost the sets.
//
// A short lock is noted and forgotten, and costs Redis nothing. The note is all that the proxy remembers of a
// grant. Of it
//
//	LOCKCTL INFO reads which client holds the lock (who.go),
//	an UNLOCK whether the lock is plain, and its fence (plain.go),
//	a connection the tokens that it was granted (Tokens); it hears of ends of holds (redlock.HoldOwner),
//	the ledger how long the lock was held (Ended).
//
// The nouns: a note is the record of one lock in memory, a held is one hold in it. The notes lie in shards,
// each with a lock of its own, so that clients of different locks seldom wait for each other. A set is a
// sorted set in Redis; a member of it is a pack of names (pack.go), and its score is until when one of these
// locks may be held, in ms since 1970.
package index

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/internal/journal"
	"lockproxy/redlock"
)

const (
	// keys is how many sorted sets there are. Their names have no hash tag, so they lie in several slots, and
	// no lock has such a key. A proxy puts a name into a set of its own choice, so whoever reads looks at all
	// of them; and all proxies must have the same number.
	keys = 16
	// settle is how long a lock is held before its name is written.
	settle = 250 * time.Millisecond
	// staysFree is how long the name of a free lock stays in its set. It may be taken again soon. And the
	// removal of very many does not slow down who frees them.
	staysFree = 2 * time.Second
	// pulse is the time between two looks at what is to be written.
	pulse = settle / 2
	// patience bounds what is written to a set in one look. Who freed a hold may tell so for as long.
	patience = time.Second
)

// Upstream has the sorted sets. Safe for concurrent use. Its errors are those of the connection; what a
// server says against a command is in the reply.
type Upstream interface {
	// Do runs req, one whole command, on the master of slot and returns its RESP2 reply. resend: req may be
	// sent again when its reply was lost.
	Do(ctx context.Context, slot int, req []byte, resend bool) (reply []byte, err error)
}

// Options are those of an Index.
type Options struct {
	Prefix   string        // of all keys
	MaxLease time.Duration // the longest lease: the sets outlast it
	Used     func()        // called when a client asks for a lock; it must not block
	Log      *slog.Logger
}

// Index has the notes of one proxy, and the sets of all. Safe for concurrent use.
type Index struct {
	upstream Upstream
	o        Options
	id       string // of this proxy, in front of its members
	notes    notes
	warn     journal.Lines
	sets     [keys]sortedSet

	// From when the timer is set until the look is over. So there is one look at a time.
	armed atomic.Bool // the timer is set, or a look is under way
	// mu guards timer and closed. Close waits for looking, so nothing is written beside its own last attempt.
	mu      sync.Mutex
	timer   *time.Timer
	closed  bool
	looking sync.WaitGroup
	ctx     context.Context // of what is written beside clients
	cancel  context.CancelFunc
	// Looks alone use it, one after the other, and Close when they are over.
	looks  int       // so far
	packs  uint64    // so far
	resume time.Time // nothing is written before: the last attempt failed

	// Why the sets cannot be used: a command was refused, and no names have been added since.
	unable atomic.Pointer[string]
}

// sortedSet is one of the sorted sets. One goroutine at a time writes to it.
type sortedSet struct {
	key       string
	swept     time.Time // when what is over was last removed
	open      *pack     // the last one that was begun, whose names the next change writes anew; or nil
	add, gone []*pack   // those that are to be added, or to get another score, and to be removed
	unbounded bool      // it was added to, and PEXPIRE is to follow
}

// New returns an Index with its sets at u. u may be nil: then nothing is written, and Names says ErrUnable.
func New(u Upstream, o Options) *Index {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Used == nil {
		o.Used = func() {}
	}
	x := &Index{upstream: u, o: o, id: rand.Text()[:idBytes]}
	x.notes.startNotes()
	for i := range x.sets {
		x.sets[i].key = o.Prefix + "index:" + strconv.Itoa(i)
	}
	x.ctx, x.cancel = context.WithCancel(context.Background())
	return x
}

// idBytes is the length of what stands in front of a member of a set. So each proxy has its own members, and
// what one removes is none of another. It is part of the form of the data in Redis: all proxies must have the
// same.
const idBytes = 8

// Used says that a client has asked for a lock, whatever it was told.
func (x *Index) Used() { x.o.Used() }

// Tell has f told of holds that end by themselves: their leases are over, or others have the locks. It is
// called before the Index is used. f must not block, nor ask the Index.
func (x *Index) Tell(f func(name string, e Ended)) { x.notes.ended = f }

// Granted notes that a, which came then, was granted to a connection, before its client is told. by may be
// nil.
func (x *Index) Granted(a *redlock.Acquire, g *redlock.Grant, came time.Time, by redlock.HoldOwner) {
	// The lease counts from g.At, so it is over here a little before it is in Redis.
	at := g.At.Sub(x.notes.born)
	h := held{token: a.Token, client: a.Client, owner: by, waited: max(g.At.Sub(came), 0), noted: at,
		since: at, until: at + g.TTL, fence: g.Fence, mode: cmp.Or(a.Mode, redlock.Write)[0], granted: true,
		kept: a.Keep}
	if a.AtLeast > 0 {
		h.least = at + a.AtLeast
	}
	if a.Plain && len(a.ID) == len(h.id) { // it is longer if the client has named the request
		copy(h.id[:], a.ID)
		h.ends = h.until
	}
	x.noteHold(a.Name, &h, a.Mode != redlock.Write)
}

// Renewed notes that a hold of token lasts until then. by may be nil; keep says that it is kept alive.
func (x *Index) Renewed(name, token string, until time.Time, by *redlock.Client, keep bool) {
	x.noteHold(name, &held{token: token, client: by, noted: x.notes.now(), until: until.Sub(x.notes.born),
		granted: true, kept: keep}, true)
}

// noteHold notes a hold, and has it written later. shared is false for a writer, beside whom nobody can hold
// the lock.
func (x *Index) noteHold(name string, h *held, shared bool) {
	x.o.Used()
	if x.notes.noteGrant(name, h, shared) && x.upstream != nil && !x.armed.Load() {
		x.armTimer()
	}
}

// Granting is the fence of the grant that token has; 0: it is not known, or may be another one soon, since
// the token asks for the lock.
func (x *Index) Granting(name, token string) int64 {
	s, hash := x.notes.lockShard(name)
	defer s.mu.Unlock()
	if h := s.findNote(name, hash).holdOf(token); h != nil {
		return h.granting()
	}
	return 0
}

// Freed notes that an UNLOCK of the connection by has freed the hold of token, and says how long it was held.
// ok: it was granted here. A fence that is not 0 is that of the grant: Granting, when the UNLOCK was sent. by
// may be nil: the hold has gone in another way.
func (x *Index) Freed(name, token string, fence int64, by redlock.HoldOwner) (e Ended, ok bool) {
	return x.notes.freeHold(name, token, fence, by, true)
}

// NotHeld notes that the connection by was told that a token holds nothing, and says how the hold has ended
// that it had. Another grant than that of was, which is Granting when the request was sent, goes on. by may
// be nil.
func (x *Index) NotHeld(name, token string, was int64, by redlock.HoldOwner) (e Ended, ok bool) {
	return x.notes.freeHold(name, token, was, by, false)
}

// Undone notes that a grant is given back whose client was not told of it. The hold may go on by an earlier
// one: it is noted until its lease is over, but how it ends is not measured.
func (x *Index) Undone(name, token string, fence int64) {
	s, hash := x.notes.lockShard(name)
	defer s.mu.Unlock()
	if h := s.findNote(name, hash).holdOf(token); h != nil && h.fence == fence {
		h.mode = 0
	}
}

// Broken notes that the holds of a lock were taken away, but not that of but, which may be "". It says how
// they have ended. What was granted since the request was made goes on. asked is when the request was made.
func (x *Index) Broken(name, but string, asked time.Time) (all []Ended) {
	n := &x.notes
	s, hash := n.lockShard(name)
	defer s.mu.Unlock()
	k := s.findNote(name, hash)
	if k == nil {
		return nil
	}
	now := n.now()
	s.dropHolds(k, func(h *held) bool {
		if h.token == but || h.mode != 0 && h.since >= asked.Sub(n.born) {
			return false
		}
		if h.measured() {
			all = append(all, h.endingAt(now))
		}
		return true
	})
	s.forgetFree(k, now)
	return all
}

// Expire forgets the holds whose leases are over.
func (x *Index) Expire() {
	for i := range keys {
		x.notes.sweepSet(i, x.notes.now())
	}
}

// Unnoted is how many holds had no room in the notes so far, and Unmeasured how many grants. An operator who
// sees them rise has more locks than the notes have room for.
func (x *Index) Unnoted() uint64    { return x.notes.unnoted.Load() }
func (x *Index) Unmeasured() uint64 { return x.notes.unmeasured.Load() }

// armTimer sets the timer, unless it is set.
func (x *Index) armTimer() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed || !x.armed.CompareAndSwap(false, true) {
		return
	}
	x.timer = time.AfterFunc(pulse, x.lookAtNotes)
}

// lookAtNotes writes what is to be written, and sets the timer again while there are notes, or something is
// still to be written. It runs on the goroutine of the timer.
func (x *Index) lookAtNotes() {
	x.mu.Lock()
	if x.closed {
		x.mu.Unlock()
		return
	}
	x.looking.Add(1)
	x.mu.Unlock()
	if !time.Now().Before(x.resume) {
		x.writeDue(x.ctx, settle, staysFree)
	}
	more := slices.ContainsFunc(x.sets[:], func(to sortedSet) bool { return to.isDue() })
	x.armed.Store(false)
	x.looking.Done()
	if more || x.notes.anyNote() { // which is asked last: who noted something before saw the timer set
		x.armTimer()
	}
}

// Close writes what is held still, so that others can list it, and ends the Index. It blocks, at the latest
// until ctx ends.
func (x *Index) Close(ctx context.Context) {
	x.mu.Lock()
	again := x.closed
	x.closed = true
	if x.timer != nil {
		x.timer.Stop()
	}
	x.mu.Unlock()
	if again { // whoever was first writes
		return
	}
	defer context.AfterFunc(ctx, x.cancel)()
	x.looking.Wait()
	if x.upstream != nil && time.Now().After(x.resume) {
		// what is fresh, and what has only just become free, too
		x.writeDue(x.ctx, 0, 0)
	}
	x.cancel()
}
