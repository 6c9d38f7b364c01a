package holds

import (
	"sync"

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
	mu    sync.Mutex
	kept  []*keepalive.Kept
	lost  bool
	first int // the hold that was lost first
}

// KeepAll keeps several holds alive, as Keep does, until one of them is lost. letGo releases all of them,
// forget forgets them. It is called on the task of an MLOCK. A hold may be lost while the others are still
// being added.
func (s *KeptSet) KeepAll(all []Keeping, push Pusher) (letGo, forget func()) {
	group := new(together)
	var kept []*keepalive.Kept
	for i, k := range all {
		// what the caller wants to know, of each hold
		told := k.Hold.Lost
		k.Hold.Lost = func(lost keepalive.Lost) {
			told(lost)
			group.loseHold(i)
		}
		one := s.Keep(k.L, k.Hold, func(message func(int) []byte) {
			push(func(proto int) []byte {
				// Only the first loss is pushed: the others follow from it.
				if line := message(proto); group.tellsOf(i) {
					return line
				}
				return nil
			})
		})
		kept = append(kept, one)
		group.addKept(one)
	}
	each := func(end func(*keepalive.Kept)) func() {
		return func() {
			for _, one := range kept {
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
	lost := g.lost
	g.mu.Unlock()
	if lost {
		kept.GiveUp()
	}
}

// loseHold gives up the other holds, since the i-th is lost. GiveUp calls Lost of each, and so this again,
// which then does nothing; mu must not be held. The i-th has ended already, so GiveUp leaves it alone.
func (g *together) loseHold(i int) {
	g.mu.Lock()
	before, kept := g.lost, g.kept
	if !before {
		g.lost, g.first = true, i
	}
	g.mu.Unlock()
	if before {
		return
	}
	for _, one := range kept {
		one.GiveUp()
	}
}

// tellsOf says that the client is told of the i-th hold, which is lost.
func (g *together) tellsOf(i int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.first == i
}
