package holds

import (
	"sync"

	"lockproxy/redlock/keepalive"
	"lockproxy/redlock/locks"
)

// Keeping is one of several holds that are kept alive together.
type Keeping struct {
	L    *locks.Locker
	Hold keepalive.Hold
}

// together are holds of which all are kept alive or none: when one is lost the others are given up, and the
// client is told of the one. A hold that is released, or that another connection keeps from now on, leaves
// the others alone.
type together struct {
	mu    sync.Mutex
	kept  []*keepalive.Kept
	lost  bool
	first int // the hold that was lost first
}

// KeepAll keeps several holds alive, as Keep does, until one of them is lost. letGo releases all of them.
func (s *KeptSet) KeepAll(all []Keeping, push Pusher) (letGo func()) {
	group := new(together)
	var kept []*keepalive.Kept
	for i, k := range all {
		told := k.Hold.Lost
		k.Hold.Lost = func(lost keepalive.Lost) {
			if told != nil {
				told(lost)
			}
			group.lose(i)
		}
		one := s.Keep(k.L, k.Hold, func(message func(int) []byte) {
			push(func(proto int) []byte {
				if line := message(proto); group.tells(i) {
					return line
				}
				return nil
			})
		})
		kept = append(kept, one)
		group.add(one)
	}
	return func() {
		for _, one := range kept {
			one.Release()
		}
	}
}

// add adds a hold.
func (g *together) add(kept *keepalive.Kept) {
	g.mu.Lock()
	g.kept = append(g.kept, kept)
	lost := g.lost
	g.mu.Unlock()
	if lost {
		kept.GiveUp()
	}
}

// lose gives up the other holds, since the i-th is lost.
func (g *together) lose(i int) {
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

// tells says that the client is told of the i-th hold, which is lost.
func (g *together) tells(i int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.first == i
}
