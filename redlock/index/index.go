// Package index knows which locks are held, so that nobody has to look through all keys for them.
//
//	LOCK --> Hold: a note in the memory of this proxy (notes.go)
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
// A short lock is noted and forgotten, and costs Redis nothing. Notes also say which client holds it.
package index

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/internal/journal"
	"lockproxy/internal/slot"
	"lockproxy/redlock"
)

const (
	// keys is how many sorted sets there are. Their names have no hash tag, so they lie in several slots, and
	// no lock has such a key.
	keys = 16
	// settle is how long a lock is held before its name is written.
	settle = 250 * time.Millisecond
	// staysFree is how long the name of a free lock stays in its set. It may be taken again soon. And the
	// removal of very many does not slow down who frees them.
	staysFree = 2 * time.Second
	// pulse is the time between two looks at what is to be written.
	pulse = settle / 2
	// patience bounds one request.
	patience = time.Second
)

// Upstream has the sorted sets. Safe for concurrent use.
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

// Index has the notes of one proxy, and the sets of all. A nil one notes nothing and knows nothing. Safe for
// concurrent use.
type Index struct {
	upstream Upstream
	o        Options
	names    redlock.Names // how keys are named
	id       string        // of this proxy, in front of its members
	notes    notes
	warn     journal.Lines
	sets     [keys]set

	armed   atomic.Bool // the timer is set, or a look is under way
	mu      sync.Mutex
	timer   *time.Timer
	closed  bool
	looking sync.WaitGroup
	ctx     context.Context // of what is written beside clients
	cancel  context.CancelFunc
	resume  time.Time              // nothing is written before: the last attempt failed
	unable  atomic.Pointer[string] // why the sets cannot be used
}

// set is one of the sorted sets.
type set struct {
	key   string
	slot  int
	swept time.Time // when what is over was last removed
}

// New returns an Index with its sets at u.
func New(u Upstream, o Options) *Index {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Used == nil {
		o.Used = func() {}
	}
	x := &Index{upstream: u, o: o, id: rand.Text()[:idBytes]}
	x.names.Prefix = o.Prefix
	x.notes.start()
	for i := range x.sets {
		key := o.Prefix + "index:" + strconv.Itoa(i)
		x.sets[i] = set{key: key, slot: slot.Of([]byte(key))}
	}
	x.ctx, x.cancel = context.WithCancel(context.Background())
	return x
}

// idBytes is the length of what stands in front of the name of a lock in a member of a set, but for a colon.
// So each proxy has its own members, and what one removes is none of another.
const idBytes = 8

// Used says that a client has asked for a lock, whatever it was told.
func (x *Index) Used() {
	if x != nil {
		x.o.Used()
	}
}

// Hold notes a hold, or what has changed about it: its end, the client that was granted it.
func (x *Index) Hold(h Hold) {
	if x == nil {
		return
	}
	x.o.Used()
	if !x.notes.add(h) {
		return
	}
	if !x.armed.Load() {
		x.arm()
	}
}

// Renewed notes that a hold of token lasts until then.
func (x *Index) Renewed(name, token string, until time.Time) {
	x.Hold(Hold{Name: name, Token: token, Until: until, Shared: true})
}

// Freed notes that token holds the lock no more.
func (x *Index) Freed(name, token string) {
	if x != nil {
		x.notes.remove(name, token)
	}
}

// Unnoted is how many holds had no room in the notes so far.
func (x *Index) Unnoted() uint64 {
	if x == nil {
		return 0
	}
	return x.notes.unnoted.Load()
}

// arm sets the timer, unless it is set.
func (x *Index) arm() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed || !x.armed.CompareAndSwap(false, true) {
		return
	}
	x.timer = time.AfterFunc(pulse, x.look)
}

// look writes what is to be written, and sets the timer again while there are notes.
func (x *Index) look() {
	x.mu.Lock()
	if x.closed {
		x.mu.Unlock()
		return
	}
	x.looking.Add(1)
	x.mu.Unlock()
	if !time.Now().Before(x.resume) {
		x.write(x.ctx, settle, staysFree)
	}
	x.armed.Store(false)
	x.looking.Done()
	if x.notes.any() {
		x.arm()
	}
}

// Close writes what is held still, so that others can list it, and ends the Index. It blocks, at the latest
// until ctx ends.
func (x *Index) Close(ctx context.Context) {
	if x == nil {
		return
	}
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
	stop := context.AfterFunc(ctx, x.cancel)
	defer stop()
	x.looking.Wait()
	if time.Now().After(x.resume) {
		x.write(x.ctx, 0, 0)
	}
	x.cancel()
}
