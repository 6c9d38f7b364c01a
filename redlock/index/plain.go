package index

import (
	"time"

	"lockproxy/redlock"
)

// This file is what the engine single remembers of its grants for the UNLOCKs that come:
//
//   - The fence that the hold should have. If the hold has that fence and is unchanged since the grant, Redis
//     need not check whether this UNLOCK is a copy of one that freed an earlier hold.
//   - That the lock was plain. Then its UNLOCK means that very grant, and is cheap.
//
// A plain lock is noted as soon as it is asked for, because its UNLOCK may come before the grant, in the same
// pipeline. If it is not granted, that finds nothing. What is not noted only costs time.

// Plain is a plain lock as it was granted, or asked for.
type Plain struct {
	ID    [redlock.IDBytes]byte // of the request; zero: there is none
	Ends  time.Time             // of the lease
	Fence int64                 // 0: it is not granted yet
}

// Ask notes that a asks for a plain lock, unless somebody else has it. Its lease counts from sent.
func (x *Index) Ask(a *redlock.Acquire, sent time.Time) {
	if len(a.ID) != redlock.IDBytes { // it is longer if the client has named the request
		return
	}
	n, now := &x.notes, sent.Sub(x.notes.born)
	wish := plain{ends: now + a.Lease, asked: true}
	copy(wish.id[:], a.ID)
	s, hash := n.lockShard(a.Name)
	defer s.mu.Unlock()
	k := s.findNote(a.Name, hash)
	if h := k.holdOf(a.Token); h != nil {
		h.plain = wish
		if !h.granted {
			h.until = wish.ends
		}
	} else if k == nil || n.expireHolds(s, k, now) {
		s.addNote(a.Name, hash, &held{token: a.Token, until: wish.ends, plain: wish}, now)
	}
}

// Refused notes that a is not granted. An earlier hold of its token goes on.
func (x *Index) Refused(a *redlock.Acquire) {
	n := &x.notes
	s, hash := n.lockShard(a.Name)
	defer s.mu.Unlock()
	k := s.findNote(a.Name, hash)
	h := k.holdOf(a.Token)
	if h == nil || !h.asked {
		return
	}
	if h.plain = (plain{}); h.granted {
		return
	}
	s.removeHold(k, h)
	s.forgetFree(k, n.now())
}

// Changed notes that a lock is not plain any more. Then release.lua has to look at the hold: comparing the
// value would find nothing.
func (x *Index) Changed(name string) {
	s, hash := x.notes.lockShard(name)
	defer s.mu.Unlock()
	all := s.findNote(name, hash).allHolds()
	for i := range all {
		all[i].ends = 0
	}
}

// TakePlain returns the plain lock that r is to free, to one caller only. Its lease goes on. There is none
// for a request that its client has named, which release.lua has to recognise. So of two UNLOCKs of one grant
// only the first takes the short way.
func (x *Index) TakePlain(r *redlock.Release) (p Plain) {
	s, hash := x.notes.lockShard(r.Name)
	defer s.mu.Unlock()
	h := s.findNote(r.Name, hash).holdOf(r.Token)
	if h == nil || h.ends == 0 || r.Fence != 0 && (h.asked || r.Fence != h.fence) {
		return p
	}
	if r.Named == "" && x.notes.now() < h.ends {
		p = Plain{ID: h.id, Ends: x.notes.born.Add(h.ends), Fence: h.granting()}
	}
	h.ends = 0
	return p
}

// PlainFence is the fence of a plain lock that was taken, 0 if it is not known to have been granted.
func (x *Index) PlainFence(r *redlock.Release, p *Plain) int64 {
	s, hash := x.notes.lockShard(r.Name)
	defer s.mu.Unlock()
	if h := s.findNote(r.Name, hash).holdOf(r.Token); h != nil && !h.asked && h.id == p.ID {
		return h.fence
	}
	return 0
}
