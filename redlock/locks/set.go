package locks

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"lockproxy/internal/sleep"
	"lockproxy/redlock"
)

// LockSet is several locks that a client takes as one: it gets all of them or none.
//
//	Take --> those of one slot, or of the only master, in one step (beside.TakeAll) --> granted
//	     \-> one after the other, waiting for each; those that are held already are asked for again
//	         meanwhile, so that their leases go on (LockSet.keepUp)
//	     --> leases made equal, replicas asked (LockSet.finishSet)
//	     \-> others hold one, or trouble: what was taken is given back (LockSet.GiveBack)
//
// Each lock is held as if it had been asked for alone, by the same token. All proxies take locks in the same
// order (byPlace), so that no two Sets wait for each other: whoever waits for a lock holds only locks that
// come before it. A LockSet is used by one goroutine at a time.
type LockSet struct {
	// Waiting is told of each lock that has to be waited for; nil: nobody is.
	Waiting func(p *SetPart)

	parts []*SetPart // in the order in which they are taken
	given []*SetPart // as the client names them
	wait  time.Duration
	until time.Time // when the wait is over
}

// SetPart is one lock of a LockSet.
type SetPart struct {
	Name  string
	L     *Locker
	Grant redlock.Grant
	// Keeper is the keeper that the hold gets, if the LockSet is kept alive. Otherwise it is the one that the
	// client's connection has for its hold of the lock already, as redlock.Acquire has it, or "": the caller
	// sets it before Take and Renew.
	Keeper string

	slot int
	key  string
	// Released, Renewed and Err are the outcome of Release and Renew.
	Released redlock.Released
	Renewed  redlock.Renewed
	Err      error
	// Fence is that of the grant which is known here when Release or Renew asks; 0: none is.
	Fence int64

	first *redlock.Acquire // the request that takes the lock
	last  *redlock.Acquire // the request that has asked for it last; nil: first
	left  bool             // they may have left something in Redis
	kept  string           // the keeper that the token's hold had here before, or ""
}

// NewSet returns the set of the locks of these names, each of them once, for requests like a; of says which
// Locker has a lock. The requests get their tokens and ids here.
func NewSet(of func(name string) *Locker, names []string, a redlock.Acquire) *LockSet {
	if a.Token == "" {
		a.Token, a.Fresh = redlock.NewToken(), true
	}
	s := &LockSet{wait: a.Wait}
	a.Wait, a.Mode = 0, redlock.Write
	for _, name := range names {
		l := of(name)
		place := l.names.Place(name)
		at := slices.IndexFunc(s.parts, func(p *SetPart) bool { return p.L == l && p.key == place.Key })
		if at < 0 {
			a.Name, a.Sync, at = name, l.Sync(), len(s.parts)
			p := &SetPart{Name: name, L: l, slot: place.Slot, key: place.Key, first: l.NewAcquire(a)}
			p.Keeper = p.first.Keeper
			s.parts = append(s.parts, p)
		}
		s.given = append(s.given, s.parts[at])
	}
	slices.SortFunc(s.parts, byPlace)
	return s
}

// byPlace is the order in which all proxies take locks: by slot, those of RedLock behind the others, by key.
func byPlace(a, b *SetPart) int {
	return cmp.Or(cmp.Compare(a.slot, b.slot), cmp.Compare(a.L.longest, b.L.longest),
		cmp.Compare(a.key, b.key))
}

// Parts are the locks of the set, each once. Given are those that the client has named, in its order.
func (s *LockSet) Parts() []*SetPart { return s.parts }
func (s *LockSet) Given() []*SetPart { return s.given }

// Token is the token of all holds.
func (s *LockSet) Token() string { return s.parts[0].first.Token }

// Lease is the lease of all holds.
func (s *LockSet) Lease() time.Duration { return s.parts[0].first.Lease }

// Ask is the request that takes the lock.
func (p *SetPart) Ask() *redlock.Acquire { return p.first }

// Left is what is sure to be left at now of the least lease.
func (s *LockSet) Left(now time.Time) time.Duration {
	least := s.parts[0].Grant.Left(now)
	for _, p := range s.parts[1:] {
		least = min(least, p.Grant.Left(now))
	}
	return least
}

// Take takes all locks. ok is false if others hold one of them: that is held, and nothing is held any more
// that Take has taken. It waits for all of them together as long as the request says. After an error nothing
// is held either, unless the error is redlock.ErrMayHold. What the token held before stays. It blocks.
func (s *LockSet) Take(ctx context.Context) (ok bool, held *SetPart, err error) {
	s.until = time.Now().Add(s.wait)
	for _, p := range s.parts {
		p.first.Keeper, p.kept = p.Keeper, p.L.KeeperOf(p.Name, p.first.Token)
	}
	held, err = s.takeAll(ctx)
	if held == nil && err == nil {
		err = s.finishSet(ctx)
	}
	switch {
	case err != nil:
		s.restoreKeepers(ctx)
		err = s.GiveBack(err)
	case held != nil:
		if err = s.GiveBack(nil); err == nil {
			s.restoreKeepers(ctx)
		}
	}
	return held == nil && err == nil, held, err
}

// takeAll takes the locks in their order. held is the one that others hold.
func (s *LockSet) takeAll(ctx context.Context) (held *SetPart, err error) {
	for next := 0; next < len(s.parts) && held == nil && err == nil; {
		end := next + 1
		for end < len(s.parts) && s.parts[next].beside(s.parts[end]) {
			end++
		}
		held, err = s.takeTogether(ctx, next, end)
		next = end
	}
	return held, err
}

// beside says that p and o can be taken in one step.
func (p *SetPart) beside(o *SetPart) bool {
	return p.L == o.L && p.L.beside != nil && (p.slot == o.slot || p.L.engine.Masters() == 1)
}

// takeTogether takes the locks from next to end, which may be had in one step. left is noted before anything
// is sent: a request whose outcome nobody hears of is taken back, too.
func (s *LockSet) takeTogether(ctx context.Context, next, end int) (held *SetPart, err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if end-next > 1 {
		of := s.parts[next:end]
		var all []*redlock.Acquire
		for _, p := range of {
			all = append(all, p.first)
			p.left = true
		}
		grants, at, err := of[0].L.beside.TakeAll(all)
		switch {
		case err == redlock.ErrOneByOne:
		case err == nil && grants != nil:
			for i, p := range of {
				p.Grant = grants[i]
			}
			return nil, nil
		case err != nil && !redlock.Refused(err):
			return nil, err
		default:
			for _, p := range of {
				p.left = false
			}
			if err != nil || s.wait == 0 {
				return of[at], err
			}
		}
	}
	for ; next < end; next++ {
		if ok, err := s.takeOne(ctx, next); !ok || err != nil {
			return s.parts[next], err
		}
	}
	return nil, nil
}

// takeOne takes the lock at i, waiting for it if there is time.
func (s *LockSet) takeOne(ctx context.Context, i int) (ok bool, err error) {
	p := s.parts[i]
	a := p.first
	if s.wait > 0 {
		a.Wait = max(time.Until(s.until), 0)
	}
	p.left = true
	if a.Wait > 0 && p.L.Follows(a) {
		return s.waitFor(ctx, i)
	}
	p.Grant, ok, err = p.L.attemptOnce(ctx, a)
	if !ok && err == nil && a.Wait > 0 {
		return s.waitFor(ctx, i)
	}
	p.left = ok || err != nil && !redlock.Refused(err)
	return ok, err
}

// waitFor waits for the lock at i, while the leases of those before it go on.
func (s *LockSet) waitFor(ctx context.Context, i int) (ok bool, err error) {
	p := s.parts[i]
	if s.Waiting != nil {
		s.Waiting(p)
	}
	limited, cancel := context.WithCancelCause(ctx)
	var keeping sync.WaitGroup
	if i > 0 {
		keeping.Go(func() { s.keepUp(limited, cancel, s.parts[:i]) }) // ends with the wait
	}
	p.Grant, ok, err = p.L.Wait(limited, p.first)
	cancel(nil) // unless keepUp has, whose cause stays
	keeping.Wait()
	p.left = ok // otherwise Wait has taken it back, or says that it has not
	if ok && context.Cause(limited) == errLostMeanwhile {
		return false, errLostMeanwhile
	}
	return ok, err
}

// errLostMeanwhile is for a LockSet of which a lock was lost while it waited for another one.
var errLostMeanwhile = redlock.ReplyError("TRYAGAIN one of the locks was taken away while this MLOCK " +
	"waited for another one, and all are given back: ask again")

// leastPause is the least pause between two rounds of keepUp.
const leastPause = 5 * time.Millisecond

// keepUp asks again for locks that are held already, at a third of the lease, until ctx ends. If one of them
// is lost it ends ctx.
func (s *LockSet) keepUp(ctx context.Context, cancel context.CancelCauseFunc, held []*SetPart) {
	lease := s.Lease()
	due := held[0].Grant.At.Add(lease / 3)
	for sleep.For(ctx, max(time.Until(due), leastPause)) {
		due = time.Now().Add(lease / 3)
		switch held, err := eachPart(held, func(p *SetPart) (bool, error) { return p.askAgain(ctx) }); {
		case held != nil && err == nil:
			cancel(errLostMeanwhile)
			return
		case err != nil:
			due = time.Now().Add(lease / 12)
		}
	}
}

// askAgain asks for a lock once more, which makes its lease longer. ok is false if others hold it by now. It
// does not wait in the queue.
func (p *SetPart) askAgain(ctx context.Context) (ok bool, err error) {
	before := cmp.Or(p.last, p.first)
	a := *before
	a.Wait = 0
	g, ok, err := p.L.attemptOnce(ctx, &a)
	if a.ID == before.ID { // it is the same request once more
		before.Unsure = before.Unsure || a.Unsure
	} else if ok || err != nil && !redlock.Refused(err) {
		// What the last one did is not needed any more, but what the first did is the hold.
		if before != p.first {
			p.L.Undo(before)
		}
		p.last = &a
	}
	if ok {
		p.Grant = g
	}
	return ok, err
}

// apart is how far apart leases may end that count as equal: servers' clocks differ by as much.
const apart = 10 * time.Millisecond

// finishSet makes the leases of all locks that are held equal, and has the replicas confirm them.
func (s *LockSet) finishSet(ctx context.Context) error {
	latest := slices.MaxFunc(s.parts, func(a, b *SetPart) int {
		return a.Grant.At.Compare(b.Grant.At)
	}).Grant.At
	held, err := eachPart(s.parts, func(p *SetPart) (bool, error) {
		if latest.Sub(p.Grant.At) <= apart {
			return true, nil
		}
		return p.askAgain(ctx)
	})
	if held != nil && err == nil {
		err = errLostMeanwhile
	}
	if err != nil {
		return err
	}
	_, err = eachPart(s.parts, func(p *SetPart) (bool, error) {
		g, err := p.L.Confirm(ctx, p.first, p.Grant)
		if err == nil {
			p.Grant = g
		}
		return err == nil, err
	})
	return err
}

// restoreKeepers has holds that were kept alive here before go on with their keepers, since Take has given
// them new ones in vain. What Take has made itself is taken back first.
func (s *LockSet) restoreKeepers(ctx context.Context) {
	eachPart(s.parts, func(p *SetPart) (ok bool, err error) {
		if !p.left || p.kept == "" || p.first.Keeper == "" || p.first.Keeper[0] == '=' {
			return true, nil
		}
		for _, a := range p.madeRequests() {
			err = cmp.Or(err, p.L.engine.UndoOnce(a))
		}
		if err == nil {
			_, err = p.L.renewHold(ctx, &redlock.Renew{
				Name: p.Name, Token: p.first.Token, Lease: p.first.Lease, Keeper: p.kept})
		}
		if err != nil {
			p.L.o.Log.Warn("a lock that is kept alive could not be given its keeper again", "err", err)
		}
		return true, nil
	})
}

// GiveBack takes back what Take has left, before anybody hears that nothing is held: why, nil if others hold
// one of the locks. What cannot be taken back at once, or may still come, is taken back in the background,
// and the error that is returned says so.
func (s *LockSet) GiveBack(why error) error {
	_, failed := eachPart(s.parts, func(p *SetPart) (bool, error) {
		var failed error
		for _, a := range p.madeRequests() {
			err := errUnsure
			if !a.Unsure {
				err = p.L.engine.UndoOnce(a)
			}
			if err != nil {
				failed = err
				p.L.Undo(a)
			}
		}
		return true, failed
	})
	if failed == nil {
		return why
	}
	return s.parts[0].first.MayHold(cmp.Or(why, failed))
}

// errUnsure is why a request cannot be taken back at once.
var errUnsure = errors.New("redlock: it is not known whether a request has run, or still will")

// Undo takes back, in the background, what Take has left.
func (s *LockSet) Undo() {
	for _, p := range s.parts {
		for _, a := range p.madeRequests() {
			p.L.Undo(a)
		}
	}
}

// madeRequests are the requests that may have left something. The last one is taken back first: it was made
// last.
func (p *SetPart) madeRequests() []*redlock.Acquire {
	switch {
	case !p.left:
		return nil
	case p.last == nil:
		return []*redlock.Acquire{p.first}
	}
	return []*redlock.Acquire{p.last, p.first}
}

// Release frees all locks that the token holds. After an error the others are free all the same. It blocks.
func (s *LockSet) Release(ctx context.Context) error {
	_, err := eachPart(s.parts, func(p *SetPart) (ok bool, err error) {
		p.Fence = p.L.Granting(p.Name, p.first.Token)
		p.Released, p.Err = p.L.releaseHold(ctx, &redlock.Release{Name: p.Name, Token: p.first.Token})
		p.L.CountOutcome(p.Released.Held, p.Err, Released, NotHeld)
		return true, p.Err
	})
	return err
}

// Renew makes all leases longer. It blocks.
func (s *LockSet) Renew(ctx context.Context) error {
	_, err := eachPart(s.parts, func(p *SetPart) (ok bool, err error) {
		p.Fence = p.L.Granting(p.Name, p.first.Token)
		p.Renewed, p.Err = p.L.renewHold(ctx, &redlock.Renew{Name: p.Name, Token: p.first.Token,
			Lease: p.first.Lease, Keeper: p.Keeper})
		p.L.CountOutcome(p.Renewed.Left > 0, p.Err, Renewed, NotRenewed)
		return true, p.Err
	})
	return err
}

// eachPart calls do for all parts at once. It returns one for which that is not ok, and an error if there was
// one.
func eachPart(parts []*SetPart, do func(p *SetPart) (ok bool, err error)) (failed *SetPart, err error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, p := range parts {
		all.Go(func() { // ends with its request
			ok, one := do(p)
			mu.Lock()
			defer mu.Unlock()
			if !ok {
				failed = p
			}
			err = cmp.Or(err, one)
		})
	}
	all.Wait()
	return failed, err
}
