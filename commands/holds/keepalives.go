package holds

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/internal/resp"
	"lockproxy/redlock/keepalive"
	"lockproxy/redlock/locks"
)

// Keepalives are the holds that are kept alive for as long as a connection lives. The zero value
// is ready and costs nothing. Its methods are called on the loop of the connection.
type Keepalives struct{ keeps *Kept }

// Kept is the content of Keepalives, made with the first hold. Safe for concurrent use: grants come from
// tasks, losses from the Locker.
type Kept struct {
	mu     sync.Mutex
	closed bool
	forget bool // set by Close: let holds end by themselves instead of releasing them
	holds  map[holdKey]*keepalive.Kept
	memory atomic.Int64 // bytes that holds take up
	sweep  int          // remove ended holds when there are this many
	swept  time.Time    // when Full last removed ended holds
}

// holdKey identifies a hold.
type holdKey struct{ name, token string }

// Pusher is what Actions.Pusher returns.
type Pusher = func(message func(proto int) []byte)

// firstSweep is how many holds there may be before ended ones are removed for the first time.
const firstSweep = 32

// Open makes room for holds that are to be kept alive.
func (k *Keepalives) Open() *Kept {
	if k.keeps == nil {
		k.keeps = &Kept{holds: make(map[holdKey]*keepalive.Kept), sweep: firstSweep}
	}
	return k.keeps
}

// Any says that a hold is being kept alive.
func (k *Keepalives) Any() bool {
	if k.keeps == nil {
		return false
	}
	k.keeps.mu.Lock()
	defer k.keeps.mu.Unlock()
	for _, h := range k.keeps.holds {
		if !h.Ended() {
			return true
		}
	}
	return false
}

// Close releases all holds, also those that are still to come. forget: they stay until their leases are over,
// so that the client can go on through another proxy.
func (k *Keepalives) Close(forget bool) {
	if k.keeps == nil {
		return
	}
	s := k.keeps
	k.keeps = nil
	s.mu.Lock()
	holds := s.holds
	s.closed, s.forget, s.holds = true, forget, nil
	s.mu.Unlock()
	for _, h := range holds {
		end(h, forget)
	}
}

func end(h *keepalive.Kept, forget bool) {
	if forget {
		h.Forget()
	} else {
		h.Release()
	}
}

// Keeper is the id under which this connection keeps the token's hold alive, "" if it does not.
func (k *Keepalives) Keeper(name, token string) string {
	if k.keeps == nil {
		return ""
	}
	k.keeps.mu.Lock()
	defer k.keeps.mu.Unlock()
	if h := k.keeps.holds[holdKey{name, token}]; h != nil && !h.Ended() {
		return h.Keeper()
	}
	return ""
}

// Keep keeps h alive, and tells h.Lost, and through push the client, if it is lost.
func (s *Kept) Keep(l *locks.Locker, h keepalive.Hold, push Pusher) *keepalive.Kept {
	as, fence, lost := holdKey{h.Name, h.Token}, h.Fence, h.Lost
	h.Lost = func(why keepalive.Loss) {
		if lost != nil {
			lost(why)
		}
		push(func(proto int) []byte { return s.tell(proto, as, fence, why) })
	}
	kept := l.Keep(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		end(kept, s.forget)
		return kept
	}
	if s.holds[as] == nil {
		s.memory.Add(int64(holdCost + len(as.name) + len(as.token)))
	}
	s.holds[as] = kept
	if len(s.holds) >= s.sweep {
		s.dropEnded()
		s.sweep = max(firstSweep, 2*len(s.holds))
	}
	return kept
}

// dropEnded forgets the holds that have ended. Nobody tells of those that were released over another
// connection.
func (s *Kept) dropEnded() {
	for as, h := range s.holds {
		if h.Ended() {
			s.drop(as)
		}
	}
}

// drop forgets one hold.
func (s *Kept) drop(as holdKey) {
	s.memory.Add(-int64(holdCost + len(as.name) + len(as.token)))
	delete(s.holds, as)
}

// holdCost is the memory of a hold that is kept alive, without its name and token.
const holdCost = 700

// Memory is how many bytes the holds take.
func (k *Keepalives) Memory() int {
	if k.keeps == nil {
		return 0
	}
	return int(k.keeps.memory.Load())
}

// sweepPause is the least time between two searches for ended holds, once a connection has its share.
const sweepPause = time.Second

// Full returns an error if the connection may not keep another hold alive. It may have at most as many as are
// left for all others, so that no connection can take all of them.
func (k *Keepalives) Full(l *locks.Locker) error {
	if err := l.Renewer.Full(); err != nil || k.keeps == nil {
		return err
	}
	s, free := k.keeps, l.Renewer.Free()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.holds) < free {
		return nil
	}
	if now := time.Now(); now.Sub(s.swept) > sweepPause {
		s.swept = now
		s.dropEnded()
	}
	if n := len(s.holds); n >= free {
		return fmt.Errorf("ERR this connection keeps %d holds alive, and only %d are left for all others: "+
			"unlock some, "+
			"lock without KEEPALIVE, or raise lock-max-keepalive", n, free)
	}
	return nil
}

// tell is the push for a loss. Verbs that come with the token are told by the Locker.
func (s *Kept) tell(proto int, as holdKey, fence int64, why keepalive.Loss) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil // RESET released it: that is no loss
	}
	if h := s.holds[as]; h != nil && h.Ended() {
		s.drop(as)
	}
	if proto < 3 {
		return nil
	}
	b := resp.AppendPush(nil, proto, 4)
	b = resp.AppendBulks(b, "lock-lost", as.name)
	b = redcon.AppendInt(b, fence)
	return resp.AppendBulks(b, string(why))
}
