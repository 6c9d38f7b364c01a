package holds

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/tidwall/redcon"

	"lockproxy/internal/resp"
	"lockproxy/redlock/keepalive"
	"lockproxy/redlock/locks"
)

// Keepalives are the holds that are kept alive for as long as a connection lives. The zero value
// is ready and costs nothing. Its methods are called on the loop of the connection. QUIT and RESET leave the
// zero value behind, so a connection can keep holds alive again after a RESET.
type Keepalives struct{ keeps *KeptSet }

// KeptSet is the content of Keepalives, made with the first hold. Safe for concurrent use: grants come from
// tasks, losses from the Locker. Once end is set, holds is nil for good: whoever still has the set adds
// nothing to it.
type KeptSet struct {
	mu     sync.Mutex
	end    func(*keepalive.Kept) // ends holds, once the connection has ended
	holds  map[holdKey]own
	memory atomic.Int64 // bytes that holds take up
}

// own is a hold of the connection. Through push its client is told of a loss.
type own struct {
	*keepalive.Kept // nil: it begins to be kept alive
	push            Pusher
}

// ended says that the hold is not kept any more.
func (h own) ended() bool { return h.Kept != nil && h.Ended() }

// holdKey identifies a hold. A connection may have several holds of one lock, by different tokens.
type holdKey struct{ name, token string }

// Pusher is what Actions.Pusher returns.
type Pusher = func(message func(proto int) []byte)

// Open makes room for holds that are to be kept alive.
func (k *Keepalives) Open() *KeptSet {
	if k.keeps == nil {
		k.keeps = &KeptSet{holds: make(map[holdKey]own)}
	}
	return k.keeps
}

// Any says that a hold is being kept alive. A hold counts from when it begins to be kept alive, and until its
// end is noted.
func (k *Keepalives) Any() bool { return k.countHolds() > 0 }

// countHolds is how many holds are being kept alive.
func (k *Keepalives) countHolds() int {
	if k.keeps == nil {
		return 0
	}
	k.keeps.mu.Lock()
	defer k.keeps.mu.Unlock()
	return len(k.keeps.holds)
}

// Close releases all holds, also those that are still to come: the client is done with them.
func (k *Keepalives) Close() { k.endHolds((*keepalive.Kept).Release) }

// Break says that the connection, which came from host, has gone. Holds with LINGER go on for so long. Then,
// or at once, all are released, also those that are still to come. forget: they stay until their leases are
// over instead, so that the client can go on over another connection.
func (k *Keepalives) Break(host string, forget bool) {
	let := (*keepalive.Kept).Release
	if forget {
		let = (*keepalive.Kept).Forget
	}
	k.endHolds(func(h *keepalive.Kept) { h.Break(host, let) })
}

// It takes each hold out before it calls end, which may come back to the set: mu must not be held then.
func (k *Keepalives) endHolds(end func(*keepalive.Kept)) {
	if k.keeps == nil {
		return
	}
	s := k.keeps
	k.keeps = nil
	s.mu.Lock()
	holds := s.holds
	s.end, s.holds = end, nil
	s.mu.Unlock()
	for _, h := range holds {
		if h.Kept != nil { // otherwise Keep ends it
			end(h.Kept)
		}
	}
}

// Keeper is the id under which this connection keeps the token's hold alive, "" if it does not. It is in the
// form that requests use (keepalive.Kept.Keeper).
func (k *Keepalives) Keeper(name, token string) string {
	if k.keeps == nil {
		return ""
	}
	k.keeps.mu.Lock()
	defer k.keeps.mu.Unlock()
	if h, ok := k.keeps.holds[holdKey{name, token}]; ok && h.Kept != nil && !h.Ended() {
		return h.Keeper()
	}
	return ""
}

// Keep keeps h alive, and tells h.Lost, and through push the client, if it is lost. It returns at once, and
// may be called from any goroutine. If the connection has ended meanwhile, the hold is ended in the same way
// as the others were; the result then is one that has ended, or is about to.
func (s *KeptSet) Keep(l *locks.Locker, h keepalive.Hold, push Pusher) *keepalive.Kept {
	as, told := holdKey{h.Name, h.Token}, h.Lost
	h.Lost = func(lost keepalive.Lost) { // knows no push: it may live longer than the connection
		if told != nil {
			told(lost)
		}
		s.tellLoss(as, lost)
	}
	h.Gone = func() { s.dropEnded(as) }
	s.addHold(as, own{push: push}) // it may be lost before it is known
	kept := l.Keep(h)              // which ends an earlier one
	if end := s.addHold(as, own{kept, push}); end != nil {
		end(kept)
	}
	s.dropEnded(as)
	return kept
}

// addHold notes a hold. If the connection has ended, it returns what ends the hold. The same hold may be
// added again: it takes the place of the one before.
func (s *KeptSet) addHold(as holdKey, h own) (end func(*keepalive.Kept)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil {
		return s.end
	}
	switch before, known := s.holds[as]; {
	case !known:
		s.memory.Add(holdCost(as))
	case before.Kept != nil && h.ended(): // by that one, which another goroutine keeps
		return nil
	}
	s.holds[as] = h
	return nil
}

// dropEnded forgets a hold, if it has ended.
func (s *KeptSet) dropEnded(as holdKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, ok := s.holds[as]; ok && h.ended() {
		s.memory.Add(-holdCost(as))
		delete(s.holds, as)
	}
}

// holdCost is the memory of a hold that is kept alive. In bytes: some 700 beside the texts.
func holdCost(h holdKey) int64 { return int64(700 + len(h.name) + len(h.token)) }

// Memory is how many bytes the holds take.
func (k *Keepalives) Memory() int {
	if k.keeps == nil {
		return 0
	}
	return int(k.keeps.memory.Load())
}

// Room returns an error if the connection, which comes from host, may not keep so many more holds alive. With
// what lingers of its host, it may have at most as many as are left for all others: so no connection can take
// all of them, nor a client that connects again and again. The number is one of this moment: holds that are
// asked for at the same time do not see each other.
func (k *Keepalives) Room(l *locks.Locker, host string, more int) error {
	free, err := l.Free()
	if err != nil {
		return err
	}
	n := l.Lingering(host) + k.countHolds()
	if n+more <= free {
		return nil
	}
	return fmt.Errorf("ERR this connection keeps %d holds alive, those included that linger of its host, "+
		"and only %d are left for all others: unlock some, lock without KEEPALIVE, or raise "+
		"lock-max-keepalive", n, free)
}

// tellLoss pushes a loss to the client. Verbs that come with the token are told by the Locker. The hold is
// not dropped yet: Gone, which comes behind Lost, does that.
func (s *KeptSet) tellLoss(as holdKey, lost keepalive.Lost) {
	s.mu.Lock()
	h, ok := s.holds[as]
	s.mu.Unlock()
	if ok {
		h.push(func(proto int) []byte { return s.lossPush(proto, as, lost) })
	}
}

// lossPush is that push; nil for a client of RESP2. It runs on the loop of the connection, behind what may
// have ended the set meanwhile.
func (s *KeptSet) lossPush(proto int, as holdKey, lost keepalive.Lost) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if proto < 3 || s.end != nil { // RESET released it: that is no loss
		return nil
	}
	// lock-lost, name, fence, why: as docs/locks.md tells clients
	b := resp.AppendPush(nil, proto, 4)
	b = resp.AppendBulks(b, "lock-lost", as.name)
	b = redcon.AppendInt(b, lost.Fence)
	return resp.AppendBulks(b, string(lost.Why))
}
