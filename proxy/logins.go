package proxy

import "sync"

const (
	// maxLogins is how many clients may be logging in at the upstream at a time, each over a connection
	// of its own, and maxLoginsOfOrigin how many of one address.
	maxLogins         = 8
	maxLoginsOfOrigin = 4
	// maxLoginsWaiting is how many may wait for that.
	maxLoginsWaiting = 10_000
)

var errLoginsFull = []byte("-TRYAGAIN too many clients are logging in at the upstream: try again in a moment\r\n")

// logins lets few clients log in at the upstream at a time. Addresses take turns, so that a flood of one keeps
// nobody else waiting. Safe for concurrent use; the zero value works.
type logins struct {
	mu      sync.Mutex
	running int
	waiting int
	origins map[string]*loginOrigin // that have something to do
	turns   []*loginOrigin          // that may start a login, in their order
}

// loginOrigin is one address.
type loginOrigin struct {
	name    string
	running int
	waiting []func()
	queued  bool // it stands in turns
}

// enter has start called when it is the turn of a client from there, maybe at once. start must not block, and leave
// is to be called after it. false: too many wait.
func (l *logins) enter(origin string, start func()) bool {
	l.mu.Lock()
	if l.waiting >= maxLoginsWaiting {
		l.mu.Unlock()
		return false
	}
	o := l.origins[origin]
	if o == nil {
		o = &loginOrigin{name: origin}
		if l.origins == nil {
			l.origins = make(map[string]*loginOrigin)
		}
		l.origins[origin] = o
	}
	o.waiting = append(o.waiting, start)
	l.waiting++
	l.offer(o)
	l.startNext()
	return true
}

// leave ends the login of a client from there.
func (l *logins) leave(origin string) {
	l.mu.Lock()
	o := l.origins[origin]
	l.running--
	o.running--
	if o.running == 0 && len(o.waiting) == 0 {
		delete(l.origins, origin)
	}
	l.offer(o)
	l.startNext()
}

// offer has o take part in the turns if it may.
func (l *logins) offer(o *loginOrigin) {
	if !o.queued && len(o.waiting) > 0 && o.running < maxLoginsOfOrigin {
		o.queued = true
		l.turns = append(l.turns, o)
	}
}

// startNext starts what may start, and unlocks.
func (l *logins) startNext() {
	var starts []func()
	for l.running < maxLogins && len(l.turns) > 0 {
		o := l.turns[0]
		l.turns = l.turns[1:]
		o.queued = false
		starts = append(starts, o.waiting[0])
		o.waiting[0] = nil
		o.waiting = o.waiting[1:]
		l.waiting--
		l.running++
		o.running++
		l.offer(o)
	}
	l.mu.Unlock()
	for _, start := range starts {
		start()
	}
}
