package trace

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// mutant is what is wrong with a fake.
type mutant string

const (
	sound            mutant = ""
	ownerless        mutant = "a release without the owner test"
	standingFence    mutant = "a fence that stands still"
	overwrittenLease mutant = "a reader that overwrites the others' leases"
	wrongWaiter      mutant = "a queue that wakes the wrong one"
	lostWakeup       mutant = "a lost wake-up"
	uncounted        mutant = "a re-entry that is not counted"
	shortLease       mutant = "a lease that ends early"
	fenceIgnored     mutant = "an UNLOCK FENCE that ignores the fence"
	shorteningRenew  mutant = "a RENEW that makes the lease shorter"
	noExpiry         mutant = "a lease that never ends"
	falseNull        mutant = "Null for a lock that is free"
	hastyWait        mutant = "a WAIT that gives up early"
	lateWait         mutant = "a WAIT that gives up late"
	sharedWriter     mutant = "a reader beside the writer"
	forgottenKeeper  mutant = "a kept hold that is lost without a word"
	greedyKeeper     mutant = "a close frees a hold that another connection has asked for since"
	immortalKeeper   mutant = "a kept hold that outlives its connection"
	undoneRetry      mutant = "a lost request that is taken back together with its repetition"
	lateRelease      mutant = "a late copy of an UNLOCK that frees a later hold"
	lateDowngrade    mutant = "a late copy of a downgrade that is run again"
	countedTwice     mutant = "a re-entry that is sent again and counts twice"
	longTTL          mutant = "a ttl that is told from the grant, and counts from the request"
	heedlessGuard    mutant = "a GUARD that does not look"
	fencelessGuard   mutant = "a GUARD FENCE that takes any holder for the one"
	partedGuard      mutant = "a GUARD that looks first and runs later"
	falseNotHeld     mutant = "NOTHELD for a token that holds the lock"
	takenBack        mutant = "a grant that is taken back though its message was heard"
	nullRelease      mutant = "an UNLOCK that says Null of what it has freed"
	hiddenHolder     mutant = "an INFO that hides one of the holders"
	formerHolder     mutant = "an INFO that still tells of who has unlocked"
	secondMessage    mutant = "a second message"
	hastyKill        mutant = "a kept hold that is freed when the proxy closes its connection"
	noRest           mutant = "an UNLOCK that does not mind ATLEAST"
	shortRest        mutant = "a rest that counts from when the client asked, and not all of the time"
	endlessRest      mutant = "a rest that goes on for a second more"
	restOfItsOwner   mutant = "a rest that lets its former owner in"
	shortenedRest    mutant = "an ATLEAST that makes an earlier one shorter"
	sharedRest       mutant = "permits that rest as one"
	restlessKeeper   mutant = "a kept hold that does not rest when its connection closes"
	onePermitMore    mutant = "one permit more than there are"
	onePermitLess    mutant = "one permit less than there are"
	stolenPermit     mutant = "a SEMLOCK that gives away the permit of another"
	lostPermit       mutant = "a permit that is not free after its UNLOCK"
	wrongPermit      mutant = "a queue for permits that wakes the wrong one"
	permitFence      mutant = "permits that share a fence"
	lockOfPermits    mutant = "a LOCK of a semaphore in use"
	nullOfPermits    mutant = "Null for a LOCK of a semaphore in use"
	heedlessForm     mutant = "a SEMLOCK that says LOCKTYPE of what is free"
	heedlessPermits  mutant = "a semaphore that takes any number of permits for its own"
	noLinger         mutant = "a LINGER that nobody minds"
	shortLinger      mutant = "a LINGER of half the time"
	endlessLinger    mutant = "a LINGER without an end"
	quitLingers      mutant = "a LINGER after QUIT and RESET"
	lingerAgain      mutant = "a LINGER whose end frees what another connection has taken over"
	lingeringLease   mutant = "a LINGER that renews nothing"
	softBreak        mutant = "a BREAK that leaves another hold"
	lateBreak        mutant = "a BREAK that ends a later hold too"
	idleBreak        mutant = "a LOCKCTL BREAK that ends nothing"
	blindBreak       mutant = "a LOCKCTL BREAK that takes a held lock for free"
	setOfSome        mutant = "an MLOCK that is granted although others hold one of its locks"
	setLeft          mutant = "an MLOCK in vain that keeps what it has taken"
	setSharesFence   mutant = "an MLOCK whose locks have the fences of each other"
	setHalfFreed     mutant = "an MUNLOCK that frees all but one"
	setHalfRenewed   mutant = "an MRENEW that renews all but one"
)

// fake is a lock service in memory, which does what the verbs promise unless
// it is a mutant. Many goroutines may use it.
type fake struct {
	mutant mutant
	seed   uint64
	random *rand.Rand

	mu    sync.Mutex
	fence int64
	conns uint64
	rests int
	cut   map[<-chan struct{}]bool // the connections that the proxy has closed, by what they close
	quit  map[<-chan struct{}]bool // those that have said QUIT or RESET
	locks map[string]*fakeLock

	counters map[string]int64
	last     map[string]Holder // who has unlocked last, by key
}

type fakeLock struct {
	holds   map[string]*fakeHold
	queue   []*fakeWaiter
	wakes   int
	timer   *time.Timer
	permits int64 // how many there are; 0: it is no semaphore
}

type fakeHold struct {
	mode       Verb
	fence      int64
	count      int64
	expires    time.Time
	ids        []int           // of the requests that it was granted to
	kept       bool            // by a connection,
	keeper     <-chan struct{} // which closes this when it ends
	askedSince bool            // another one has asked for it since
	linger     time.Duration
	lingers    time.Time // until when it goes on without its keeper
	least      time.Time // until then it keeps others out, also once it is released
}

type fakeWaiter struct {
	token string
	mode  Verb
	lease time.Duration
	id    int
	given chan []int64
	keep  bool
	over  <-chan struct{} // what its connection closes
	asked time.Time

	linger, atLeast time.Duration
	permits         int64
	breaks          bool
}

func newFake(m mutant, seed uint64) *fake {
	return &fake{mutant: m, seed: seed, random: rand.New(rand.NewPCG(seed, 1<<40)),
		locks: map[string]*fakeLock{}, cut: map[<-chan struct{}]bool{}, quit: map[<-chan struct{}]bool{},
		counters: map[string]int64{}, last: map[string]Holder{}}
}

func (f *fake) lock(key string) *fakeLock {
	l := f.locks[key]
	if l == nil {
		l = &fakeLock{holds: map[string]*fakeHold{}}
		f.locks[key] = l
	}
	if f.mutant != noExpiry {
		for token, h := range l.holds {
			if h.kept && f.mutant != forgottenKeeper && time.Until(h.expires) < 50*time.Millisecond &&
				(f.mutant != lingeringLease || h.lingers.IsZero()) {
				h.expires = time.Now().Add(50 * time.Millisecond)
			}
			if !h.expires.After(time.Now()) {
				delete(l.holds, token)
			}
		}
	}
	return l
}

// free says whether token may have the lock, as far as others hold it.
func (f *fake) free(l *fakeLock, token string, mode Verb) bool {
	if mode == Permit {
		most := l.permits
		switch f.mutant {
		case onePermitMore:
			most++
		case onePermitLess:
			most--
		case stolenPermit:
			if int64(len(l.holds)) >= most && f.random.IntN(5) == 0 {
				for other := range l.holds {
					delete(l.holds, other)
					break
				}
			}
		}
		return int64(len(l.holds)) < most
	}
	for other, h := range l.holds {
		if f.mutant == restOfItsOwner && strings.HasPrefix(other, "rest of "+token) ||
			f.mutant == lockOfPermits && h.mode == Permit {
			continue
		}
		if other != token && (mode == Write || h.mode == Write && f.mutant != sharedWriter) {
			return false
		}
	}
	return true
}

// grant gives the lock to the token of w, which does not hold it.
func (f *fake) grant(key string, l *fakeLock, w *fakeWaiter) []int64 {
	if f.mutant != standingFence && (f.mutant != permitFence || w.mode != Permit) || f.fence%3 != 0 {
		f.fence++
	}
	lasts := w.lease
	if f.mutant == shortLease {
		lasts = w.lease * 3 / 4
	}
	h := &fakeHold{mode: w.mode, fence: f.fence, count: 1, expires: time.Now().Add(lasts), ids: []int{w.id}}
	if f.mutant == longTTL {
		h.expires = w.asked.Add(lasts)
	}
	l.holds[w.token] = h
	f.outlast(h, w)
	f.keep(key, w.token, h, w.keep, w.linger, w.over)
	if f.mutant == overwrittenLease && w.mode == Read {
		for _, h := range l.holds {
			h.expires = time.Now().Add(lasts)
		}
	}
	return []int64{f.fence, w.lease.Milliseconds(), 1}
}

// breaks ends all holds, for w, which goes before the queue.
func (f *fake) breaks(key string, w *fakeWaiter) {
	l := f.lock(key)
	if l.permits > 0 {
		return
	}
	for token := range l.holds {
		if token == w.token || f.mutant == softBreak && len(l.holds) == 1 && w.mode == Read {
			continue
		}
		delete(l.holds, token)
	}
	if f.mutant == lateBreak {
		time.AfterFunc(100*time.Millisecond, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			clear(f.lock(key).holds)
			f.pass(key)
		})
	}
}

// pass gives the lock to whoever waits first, if it is free, and comes back when the
// next lease ends.
func (f *fake) pass(key string) {
	l := f.lock(key)
	for len(l.queue) > 0 {
		next := 0
		if f.mutant == wrongWaiter || f.mutant == wrongPermit && l.permits > 0 {
			next = len(l.queue) - 1
		}
		w := l.queue[next]
		if !f.free(l, w.token, w.mode) {
			break
		}
		if l.wakes++; f.mutant == lostWakeup && l.wakes%5 == 0 {
			return
		}
		l.queue = slices.Delete(l.queue, next, next+1)
		w.given <- f.grant(key, l, w)
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	var first time.Time
	for _, h := range l.holds {
		if h.expires.After(time.Now()) && (first.IsZero() || h.expires.Before(first)) {
			first = h.expires
		}
	}
	if len(l.queue) > 0 && !first.IsZero() {
		l.timer = time.AfterFunc(time.Until(first), func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.pass(key)
		})
	}
}

// dial makes a connection, on which requests and replies take their time.
func (f *fake) dial(int) (Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns++
	return &fakeConn{f: f, random: rand.New(rand.NewPCG(f.seed, 1<<40+f.conns)), closed: make(chan struct{}),
		over: make(chan struct{})}, nil
}

type fakeConn struct {
	f      *fake
	random *rand.Rand
	once   sync.Once
	closed chan struct{}
	stray  bool // a message has come that no command waits for

	mu   sync.Mutex
	over chan struct{} // closes with the connection, or when it says RESET
}

func (c *fakeConn) Close() { c.once.Do(func() { c.end(nil); close(c.closed) }) }

func (c *fakeConn) Cut() { c.once.Do(func() { c.end(c.f.cut); close(c.closed) }) }

// end ends what is kept over the connection, in a way of which a note is made.
func (c *fakeConn) end(how map[<-chan struct{}]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.f.mu.Lock()
	if how != nil {
		how[c.over] = true
	}
	c.f.mu.Unlock()
	close(c.over)
	c.over = make(chan struct{})
}

// keeper is what is closed when that ends which is kept over the connection.
func (c *fakeConn) keeper() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

var errClosed = errors.New("closed")

// travel is the way of a message; false: the connection was closed meanwhile.
func (c *fakeConn) travel() bool {
	select {
	case <-c.closed:
		return false
	case <-time.After(time.Duration(c.random.ExpFloat64() * float64(time.Millisecond))):
		return true
	}
}

func (c *fakeConn) Do(_ time.Duration, args ...string) (Reply, error) {
	if !c.travel() {
		return Reply{}, errClosed
	}
	if args[0] == "QUIT" || args[0] == "RESET" {
		c.end(c.f.quit)
		if !c.travel() {
			return Reply{}, errClosed
		}
		return Reply{}, nil
	}
	over := c.keeper()
	notify := args[len(args)-1] == Notify
	if notify && c.stray {
		return Reply{Error: Stray + "granted a 1 1 1"}, nil
	}
	r, undo := c.f.run(args, over)
	c.stray = c.stray || notify && c.f.mutant == secondMessage && !r.Null
	if f := c.f; f.mutant == lateRelease && args[0] == "UNLOCK" || f.mutant == lateDowngrade &&
		args[0] == "RLOCK" {
		time.AfterFunc(time.Duration(c.random.Int64N(int64(200*time.Millisecond))),
			func() { f.run(args, over) })
	}
	if !c.travel() {
		if undo != nil {
			time.AfterFunc(time.Duration(c.random.Int64N(int64(20*time.Millisecond))), undo)
		}
		return Reply{}, errClosed
	}
	if notify && undo != nil && c.f.mutant == takenBack {
		undo()
	}
	return r, nil
}

// run runs a command; undo takes it back.
func (f *fake) run(args []string, closed <-chan struct{}) (r Reply, undo func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if args[0] == "LOCKCTL" && args[1] == "BREAK" {
		return f.breakUp(args[2]), nil
	}
	if args[0] == "MUNLOCK" {
		return f.unlockSet(args), nil
	}
	if args[0] == "MRENEW" {
		return f.renewSet(args, closed), nil
	}
	if args[0] == "MLOCK" {
		return f.lockSet(args, closed)
	}
	if args[0] == "LOCKCTL" && args[1] == "INFO" {
		return f.info(args[2]), nil
	}
	if args[0] == "LOCKCTL" {
		h := f.lock(args[2]).holds[args[3]]
		if h == nil {
			return Reply{Null: true}, nil
		}
		return Reply{Array: []int64{remains(h), h.fence, h.count}}, nil
	}
	if args[0] == "GUARD" {
		return f.guard(args), nil
	}
	key, token, options := args[1], args[2], args[3:]
	if token == "TOKEN" {
		token, options = args[3], args[4:]
	}
	number := map[string]int64{}
	for i := 0; i < len(options); i++ {
		if options[i] == "REENTRANT" || options[i] == "KEEPALIVE" || options[i] == "BREAK" ||
			options[i] == Notify {
			number[options[i]] = 1
			continue
		}
		n, err := strconv.ParseInt(options[i+1], 10, 64)
		if err != nil {
			return Reply{Error: fmt.Sprint("ERR ", err)}, nil
		}
		number[options[i]] = n
		i++
	}
	ms := func(name string) time.Duration { return time.Duration(number[name]) * time.Millisecond }
	switch args[0] {
	case "UNLOCK":
		return f.unlock(key, token, number["FENCE"]), nil
	case "RENEW":
		return f.renew(key, token, ms("PX"), number["FENCE"], number["KEEPALIVE"] == 1, ms("LINGER"),
			closed), nil
	}
	w := &fakeWaiter{token: token, mode: Verb(args[0]), lease: ms("PX"), id: 1 + f.random.Int(),
		given: make(chan []int64, 1),
		keep:  number["KEEPALIVE"] == 1, over: closed, asked: time.Now(),
		linger: ms("LINGER"), atLeast: ms("ATLEAST"), permits: number["PERMITS"],
		breaks: number["BREAK"] == 1}
	undo = func() { f.undo(key, w) }
	if w.breaks {
		f.breaks(key, w)
	}
	for try := int64(1); ; try++ {
		if refusal := f.inUse(key, w); refusal != "" {
			return Reply{Error: refusal}, nil
		}
		if r := f.try(key, w, number["REENTRANT"] == 1, number["WAIT"] > 0); r != nil {
			if len(r) == 0 {
				return Reply{Error: "DEADLOCK others read"}, nil
			}
			return Reply{Array: r}, undo
		}
		if try >= number["TRIES"] {
			break
		}
		f.mu.Unlock()
		time.Sleep(ms("EVERY"))
		f.mu.Lock()
	}
	if number["WAIT"] == 0 {
		return Reply{Null: true}, nil
	}
	wait := ms("WAIT")
	switch f.mutant {
	case hastyWait:
		wait = wait * 9 / 10
	case lateWait:
		wait += 3 * time.Second
	}
	f.mu.Unlock()
	var got []int64
	select {
	case got = <-w.given:
	case <-time.After(wait):
	case <-closed:
	}
	f.mu.Lock()
	if got == nil {
		select {
		case got = <-w.given:
		default:
		}
	}
	if got != nil {
		return Reply{Array: got}, undo
	}
	f.leave(key, w)
	return Reply{Null: true}, nil
}

// try is one attempt; nil: others hold the lock, or stand before; empty: others read what w would write.
func (f *fake) try(key string, w *fakeWaiter, reentrant, wait bool) []int64 {
	l := f.lock(key)
	if h := l.holds[w.token]; h != nil {
		if h.mode == Read && w.mode == Write {
			if !f.free(l, w.token, Write) {
				return []int64{}
			}
			f.fence++
			h.fence = f.fence
		}
		if h.mode != w.mode {
			h.mode = w.mode
			defer f.pass(key)
		}
		if reentrant && f.mutant != uncounted {
			h.count++
			if f.mutant == countedTwice && f.random.IntN(5) == 0 {
				h.count++
			}
		}
		h.ids = append(h.ids, w.id)
		if e := time.Now().Add(w.lease); e.After(h.expires) {
			h.expires = e
		}
		f.outlast(h, w)
		f.keep(key, w.token, h, w.keep, w.linger, w.over)
		return []int64{h.fence, remains(h), h.count}
	}
	if f.mutant == falseNull && !wait && f.random.IntN(10) == 0 {
		return nil
	}
	if f.mutant != lockOfPermits || w.mode != Write || l.permits == 0 {
		if len(l.holds)+len(l.queue) == 0 || f.mutant == heedlessPermits {
			l.permits = w.permits
		}
	}
	if (len(l.queue) == 0 || w.breaks) && f.free(l, w.token, w.mode) {
		return f.grant(key, l, w)
	}
	if wait {
		l.queue = append(l.queue, w)
		f.pass(key)
		select {
		case got := <-w.given:
			return got
		default:
		}
	}
	return nil
}

// keep notes a request for h that came over a connection: on has the hold kept alive until that closes,
// which frees it then unless another one has asked for it since.
func (f *fake) keep(key, token string, h *fakeHold, on bool, linger time.Duration, over <-chan struct{}) {
	if !on {
		h.askedSince = h.askedSince || h.kept && h.keeper != over
		return
	}
	h.kept, h.keeper, h.linger, h.lingers = true, over, linger, time.Time{}
	pause := time.Duration(f.random.Int64N(int64(40 * time.Millisecond)))
	go func() {
		<-over
		if f.mutant == immortalKeeper {
			return
		}
		time.Sleep(pause)
		f.mu.Lock()
		defer f.mu.Unlock()
		l := f.lock(key)
		ours := func() bool { return l.holds[token] == h && h.kept && h.keeper == over }
		if !ours() && (f.mutant != lingerAgain || l.holds[token] != h) {
			return
		}
		if linger := f.lingering(h); linger > 0 && (!f.quit[over] || f.mutant == quitLingers) {
			h.lingers = time.Now().Add(linger)
			f.mu.Unlock()
			time.Sleep(linger)
			f.mu.Lock()
			if l = f.lock(key); !ours() && (f.mutant != lingerAgain || l.holds[token] != h) {
				return
			}
		}
		if f.cut[over] && f.mutant != hastyKill {
			h.kept, h.askedSince = false, false
			return
		}
		if h.kept = false; h.askedSince && f.mutant != greedyKeeper {
			h.askedSince = false
			return
		}
		f.release(l, token, h, f.mutant == restlessKeeper)
		f.pass(key)
	}()
}

// lingering is for how long a hold goes on whose connection has ended.
func (f *fake) lingering(h *fakeHold) time.Duration {
	switch f.mutant {
	case noLinger:
		return 0
	case shortLinger:
		return h.linger / 2
	case endlessLinger:
		return h.linger + 20*time.Second
	}
	return h.linger
}

// outlast notes how long the hold that w asked for keeps others out at least.
func (f *fake) outlast(h *fakeHold, w *fakeWaiter) {
	from := time.Now()
	if f.mutant == shortRest {
		from = w.asked.Add(-w.atLeast / 4)
	}
	if end := from.Add(w.atLeast); end.After(h.least) || w.atLeast > 0 && f.mutant == shortenedRest {
		h.least = end
	}
}

// release frees a hold, which may rest then, unless it is gone for good.
func (f *fake) release(l *fakeLock, token string, h *fakeHold, gone bool) {
	if f.mutant == lostPermit && h.mode == Permit && f.random.IntN(3) == 0 {
		return
	}
	delete(l.holds, token)
	if f.mutant == endlessRest && h.least.After(time.Now()) {
		h.least = h.least.Add(time.Second)
	}
	if h.least.After(time.Now()) && !gone && f.mutant != noRest {
		f.rests++
		if f.mutant == sharedRest && h.mode == Permit {
			token, f.rests = "all", 0
		}
		l.holds[fmt.Sprintf("rest of %s %d", token, f.rests)] = &fakeHold{mode: h.mode, expires: h.least}
	}
}

// inUse is the refusal of a key that is in use as something else than w wants, or "".
func (f *fake) inUse(key string, w *fakeWaiter) string {
	l := f.lock(key)
	switch used := len(l.holds)+len(l.queue) > 0; {
	case f.mutant == heedlessForm && w.mode == Permit && !used && f.random.IntN(5) == 0:
		return "LOCKTYPE it is a lock"
	case !used || l.permits == w.permits:
	case l.permits*w.permits > 0 && f.mutant != heedlessPermits:
		return fmt.Sprintf("PERMITS %d are there", l.permits)
	case l.permits*w.permits == 0 &&
		(f.mutant != lockOfPermits && f.mutant != nullOfPermits || w.permits > 0):
		return "LOCKTYPE it is something else"
	}
	return ""
}

func (f *fake) leave(key string, w *fakeWaiter) {
	l := f.lock(key)
	l.queue = slices.DeleteFunc(l.queue, func(other *fakeWaiter) bool { return other == w })
	f.pass(key)
}

// undo takes back what w was granted, but not what the same token asked for again.
func (f *fake) undo(key string, w *fakeWaiter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.lock(key)
	h := l.holds[w.token]
	if h == nil || !slices.Contains(h.ids, w.id) {
		return
	}
	if h.count > 1 {
		h.count--
	}
	h.ids = slices.DeleteFunc(h.ids, func(id int) bool { return id == w.id })
	if len(h.ids) == 0 || f.mutant == undoneRetry {
		delete(l.holds, w.token)
	}
	f.pass(key)
}

func (f *fake) unlock(key, token string, fence int64) Reply {
	l := f.lock(key)
	h := l.holds[token]
	if h == nil && f.mutant == ownerless {
		for other := range l.holds {
			token, h, fence = other, l.holds[other], 0
		}
	}
	if h == nil || fence != 0 && fence != h.fence && f.mutant != fenceIgnored {
		return Reply{Null: true}
	}
	if h.count--; h.count > 0 {
		return Reply{Int: 0}
	}
	f.last[key] = Holder{digest(token), h.fence, 1, millis(remains(h))}
	f.release(l, token, h, false)
	f.pass(key)
	if f.mutant == nullRelease && f.random.IntN(5) == 0 {
		return Reply{Null: true}
	}
	return Reply{Int: 1}
}

func (f *fake) renew(key, token string, lease time.Duration, fence int64, keep bool, linger time.Duration,
	over <-chan struct{}) Reply {
	h := f.lock(key).holds[token]
	if h == nil || fence != 0 && fence != h.fence {
		return Reply{Int: 0}
	}
	h.ids = append(h.ids, 0) // it is relied upon
	f.keep(key, token, h, keep, linger, over)
	if e := time.Now().Add(lease); e.After(h.expires) || f.mutant == shorteningRenew {
		h.expires = e
	}
	return Reply{Int: remains(h)}
}

// guard is GUARD key token INCR counter, or GUARD key FENCE n INCR counter.
func (f *fake) guard(args []string) Reply {
	holds, n := f.lock(args[1]).holds, len(args)
	held := holds[args[2]] != nil
	for _, h := range holds {
		if args[2] == "FENCE" && (fmt.Sprint(h.fence) == args[3] || f.mutant == fencelessGuard) {
			held = true
		}
	}
	if f.mutant == falseNotHeld && f.random.IntN(10) == 0 || !held && f.mutant != heedlessGuard {
		return Reply{Error: "NOTHELD the command has not run"}
	}
	if f.mutant == partedGuard {
		later := time.Duration(f.random.Int64N(int64(100 * time.Millisecond)))
		f.mu.Unlock()
		time.Sleep(later)
		f.mu.Lock()
	}
	f.counters[args[n-1]]++
	return Reply{Int: f.counters[args[n-1]]}
}

// info is LOCKCTL INFO.
func (f *fake) info(key string) (r Reply) {
	for token, h := range f.lock(key).holds {
		if !strings.HasPrefix(token, "rest of ") && (f.mutant != hiddenHolder || f.random.IntN(10) > 0) {
			r.Holders = append(r.Holders, Holder{digest(token), h.fence, h.count, millis(remains(h))})
		}
	}
	if last := f.last[key]; f.mutant == formerHolder && len(r.Holders) == 0 && last.Fence > 0 {
		r.Holders = append(r.Holders, last)
	}
	return r
}

// remains is a hold's ttl in milliseconds, at least one.
func remains(h *fakeHold) int64 {
	return (time.Until(h.expires) + time.Millisecond - 1).Milliseconds()
}
