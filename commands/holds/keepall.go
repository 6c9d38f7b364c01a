package holds

import (
	"sync"
	"sync/atomic"

	"lockproxy/redlock/keepalive"
	"lockproxy/redlock/locks"
)

// Keeping is one of several holds that are kept alive together. The Lockers may differ: some of the locks may
// be kept by independent masters.
type Keeping struct {
	L    *locks.Locker
	Hold keepalive.Hold
}

// together are holds of which all are kept alive or none: when one is lost the others are given up, and the
// client is told of the one. A hold that is released, or that another connection keeps from now on, leaves
// the others alone. It lives as long as one of its holds is kept.
type together struct {
	mu   sync.Mutex
	kept []*keepalive.Kept
	lost atomic.Int64 // the place, from 1 on, of the hold that was lost first; 0: none is
}

// KeepAll keeps several holds alive, as Keep does, until one of them is lost. letGo releases all of them,
// forget forgets them. It is called on the task of an MLOCK. A hold may be lost while the others are still
// being added.
func (s *KeptSet) KeepAll(all []Keeping, push Pusher) (letGo, forget func()) {
	group := new(together)
	for i, k := range all {
		// what the caller wants to know, of each hold
		told, place := k.Hold.Lost, int64(i+1)
		k.Hold.Lost = func(lost keepalive.Lost) {
			told(lost)
			group.loseHold(place)
		}
		group.addKept(s.Keep(k.L, k.Hold, func(message func(int) []byte) {
			push(func(proto int) []byte {
				// Only the first loss is pushed: the others follow from it.
				if line := message(proto); group.lost.Load() == place {
					return line
				}
				return nil
			})
		}))
	}
	each := func(end func(*keepalive.Kept)) func() {
		return func() {
			for _, one := range group.kept { // without mu, since KeepAll has returned: nothing is added
				end(one)
			}
		}
	}
	return each((*keepalive.Kept).Release), each((*keepalive.Kept).Forget)
}

// addKept adds a hold. One that comes behind the loss is given up at once.
func (g *together) addKept(kept *keepalive.Kept) {
	g.mu.Lock()
	g.kept = append(g.kept, kept)
	g.mu.Unlock()
	if g.lost.Load() > 0 { // looked at behind the append: loseHold has seen it, or this has seen the loss
		kept.GiveUp()
	}
}

// loseHold gives up the other holds, since the one at that place is lost. GiveUp calls Lost of each, and so
// this again, which then does nothing; mu must not be held. What has ended already GiveUp leaves alone.
func (g *together) loseHold(place int64) {
	if !g.lost.CompareAndSwap(0, place) {
		return
	}
	g.mu.Lock()
	kept := g.kept
	g.mu.Unlock()
	for _, one := range kept {
		one.GiveUp()
	}
}
