package login

import "sync"

const (
	// maxRunning is how many clients may be logging in at the upstream at a time, each over a connection of
	// its own. MaxOfOrigin is how many of these may be of one origin.
	maxRunning  = 8
	MaxOfOrigin = 4
	// maxWaiting is how many may wait to log in.
	maxWaiting = 10_000
)

// ErrFull is for a client that comes while too many wait.
var ErrFull = []byte("-TRYAGAIN too many clients are logging in at the upstream: try again in a moment\r\n")

// Queue lets a few clients at a time log in at the upstream. Origins take turns, so that a flood from one
// delays nobody else. Safe for concurrent use; the zero value is ready.
type Queue struct {
	mu      sync.Mutex
	running int
	waiting int
	origins map[string]*origin // those with logins that wait or run
	// An origin is in turns once at most, however many of its clients wait; behind each login it goes to the
	// end.
	turns []*origin // those that may start a login, in order
}

// origin has the logins of one origin.
type origin struct {
	running int
	waiting []func()
	queued  bool // it is in turns
}

// Enter calls start when it is the turn of a client of that origin, maybe at once. start must not block, and
// Leave must be called after it. The result is false if too many wait.
func (l *Queue) Enter(from string, start func()) bool {
	l.mu.Lock()
	if l.waiting >= maxWaiting {
		l.mu.Unlock()
		return false
	}
	o := l.origins[from]
	if o == nil {
		o = new(origin)
		if l.origins == nil {
			l.origins = make(map[string]*origin)
		}
		l.origins[from] = o
	}
	o.waiting = append(o.waiting, start)
	l.waiting++
	l.offerTurn(o)
	l.startNext()
	return true
}

// Leave ends the login of a client of that origin.
func (l *Queue) Leave(from string) {
	l.mu.Lock()
	o := l.origins[from]
	l.running--
	o.running--
	if o.running == 0 && len(o.waiting) == 0 {
		delete(l.origins, from)
	}
	l.offerTurn(o)
	l.startNext()
}

// offerTurn gives o a turn if it may have one.
func (l *Queue) offerTurn(o *origin) {
	if !o.queued && len(o.waiting) > 0 && o.running < MaxOfOrigin {
		o.queued = true
		l.turns = append(l.turns, o)
	}
}

// startNext starts the logins that may start, and unlocks. mu is held when it is called. The logins start
// without it, since one that fails at once calls Leave.
func (l *Queue) startNext() {
	var starts []func()
	for l.running < maxRunning && len(l.turns) > 0 {
		o := l.turns[0]
		l.turns = l.turns[1:]
		o.queued = false
		starts = append(starts, o.waiting[0])
		o.waiting[0] = nil
		o.waiting = o.waiting[1:]
		l.waiting--
		l.running++
		o.running++
		l.offerTurn(o)
	}
	l.mu.Unlock()
	for _, start := range starts {
		start()
	}
}
