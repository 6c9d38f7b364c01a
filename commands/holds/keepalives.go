package holds

import (
	"fmt"
	"slices"
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

	lost  map[string][]loss // by name: losses that the client is still to be told
	ahead int64             // the fence of a loss that the client was told of before it was noted; 0: none
	order []string          // the names of lost, in the order of the losses
	most  int               // the most holds at a time, so far
}

// holdKey identifies a hold.
type holdKey struct{ name, token string }

// Pusher is what Actions.Pusher returns.
type Pusher = func(message func(proto int) []byte)

// loss is a hold that was lost although it was kept alive.
type loss struct {
	fence int64
	why   keepalive.Loss
}

const (
	// firstSweep is how many holds there may be before ended ones are removed for the first time.
	firstSweep = 32
	// leastLosses is how many losses a connection remembers at least. One that kept more holds at a time
	// remembers as many.
	leastLosses = 128
)

// Open makes room for holds that are to be kept alive.
func (k *Keepalives) Open() *Kept {
	if k.keeps == nil {
		k.keeps = &Kept{holds: make(map[holdKey]*keepalive.Kept), lost: make(map[string][]loss),
			sweep: firstSweep}
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
	s.closed, s.forget, s.holds, s.lost = true, forget, nil, nil
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

// Held is a hold that a connection keeps alive and on which a verb relies. The zero value is none.
type Held struct {
	hold  *keepalive.Kept
	keeps *Kept
	name  string
}

// Held returns the hold that a verb with this token relies on. It may be one that was just lost, of which the
// client is still to be told.
func (k *Keepalives) Held(name, token string) Held {
	if k.keeps == nil {
		return Held{}
	}
	k.keeps.mu.Lock()
	defer k.keeps.mu.Unlock()
	h := k.keeps.holds[holdKey{name, token}]
	if h == nil || h.Ended() && !h.Lost() {
		return Held{}
	}
	return Held{h, k.keeps, name}
}

// Any says that there is such a hold.
func (r Held) Any() bool { return r.hold != nil }

// Keeper is the id under which the hold is kept alive, "" if there is none.
func (r Held) Keeper() string {
	if r.hold == nil {
		return ""
	}
	return r.hold.Keeper()
}

// Lost returns an error if the hold was lost while the verb was on its way; the client is then not told
// again. A lease that the verb made longer must have been told to Prolonged before.
func (r Held) Lost() error {
	if r.hold == nil || !r.hold.Lost() {
		return nil
	}
	fence := r.hold.Fence()
	s := r.keeps
	s.mu.Lock()
	defer s.mu.Unlock()
	if all := s.lost[r.name]; len(all) > 0 && all[0].fence == fence {
		s.take(r.name)
	} else if !s.closed {
		s.ahead = fence
	}
	return fmt.Errorf("LOCKLOST %s was lost while this command was on its way, fence %d. Stop what it "+
		"protects, then lock again",
		resp.Clip([]byte(r.name)), fence)
}

// Keep keeps h alive, and tells h.Lost, and through push the client, if it is lost. If the hold that the verb
// relied on was lost while the verb was on its way, it releases h and returns an error: the client may take
// both for one.
func (s *Kept) Keep(l *locks.Locker, h keepalive.Hold, relies Held, push Pusher) error {
	name, token, fence, lost := h.Name, h.Token, h.Fence, h.Lost
	h.Lost = func(why keepalive.Loss) {
		if lost != nil {
			lost(why)
		}
		push(func(proto int) []byte { return s.tell(proto, name, token, loss{fence, why}) })
	}
	kept := l.Keep(h) // in place of what the verb relied on, which is not lost any more, or was before
	if err := relies.Lost(); err != nil {
		kept.Release()
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		end(kept, s.forget)
		return nil
	}
	if s.holds[holdKey{name, token}] == nil {
		s.memory.Add(int64(holdCost + len(name) + len(token)))
	}
	s.holds[holdKey{name, token}] = kept
	if len(s.holds) >= s.sweep {
		s.dropEnded()
		s.sweep = max(firstSweep, 2*len(s.holds))
	}
	s.most = max(s.most, len(s.holds))
	return nil
}

// dropEnded forgets the holds that have ended. Nobody tells of those that were released over another
// connection; tell forgets those that were lost.
func (s *Kept) dropEnded() {
	for as, h := range s.holds {
		if h.Ended() && !h.Lost() {
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

// tell is the push for a loss. A client of RESP2 is told by Refuse instead.
func (s *Kept) tell(proto int, name, token string, lost loss) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil // RESET released it: that is no loss
	}
	if h := s.holds[holdKey{name, token}]; h != nil && h.Ended() {
		s.drop(holdKey{name, token})
	}
	told := s.ahead == lost.fence
	if told {
		s.ahead = 0
	}
	if proto >= 3 {
		b := resp.AppendPush(nil, proto, 4)
		b = resp.AppendBulks(b, "lock-lost", name)
		b = redcon.AppendInt(b, lost.fence)
		return resp.AppendBulks(b, string(lost.why))
	}
	if told {
		return nil
	}
	if len(s.order) >= max(leastLosses, s.most) {
		s.take(s.order[0])
	}
	s.lost[name] = append(s.lost[name], lost)
	s.order = append(s.order, name)
	return nil
}

// Refuse returns the error for a verb that names a lost lock, once for each loss.
func (k *Keepalives) Refuse(name string) error {
	if k.keeps == nil {
		return nil
	}
	s := k.keeps
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lost[name]) == 0 {
		return nil
	}
	lost := s.take(name)
	return fmt.Errorf("LOCKLOST %s was lost (%s), fence %d: %s. Stop what it protects, then send this "+
		"command again: it was not run",
		resp.Clip([]byte(name)), lost.why, lost.fence, lossTexts[lost.why])
}

var lossTexts = map[keepalive.Loss]string{
	keepalive.Expired: "it could not be renewed before its lease was over",
	keepalive.Broken:  "LOCKCTL BREAK took it away",
	keepalive.Max:     "it was renewed MAX times, and its lease is over",
	keepalive.Gone:    "Redis does not have it any more",
}

// take removes the oldest loss of a name and returns it. There must be one.
func (s *Kept) take(name string) loss {
	all := s.lost[name]
	if len(all) == 1 {
		delete(s.lost, name)
	} else {
		s.lost[name] = all[1:]
	}
	i := slices.Index(s.order, name)
	s.order = slices.Delete(s.order, i, i+1)
	return all[0]
}
