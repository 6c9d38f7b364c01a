package index

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"
)

// This file puts names into packs. A pack is a member of a set:
//
//	id of the proxy | number of the pack | length | name | length | name ...
//	(idBytes)       | (uvarint, as are lengths; see encoding/binary)
//
// Beside each member a set needs 130 bytes, so a pack has many names. It never changes, but for its score.
// When one of its names is to go the pack is removed, and the other names join new packs. So do those of the
// pack that was begun last, unless it is full, when others are added or removed.

const (
	// mostInPack is how many names a pack has. All proxies must have the same.
	mostInPack = 16
	// mostPackBytes is about how long a pack of several names is at most: to write it anew shall cost little.
	mostPackBytes = 4 << 10
	// mostGone is how many packs are remembered that could not be removed, none of which is much longer than
	// mostPackBytes. Others end with their scores.
	mostGone = 1 << 10
)

// pack is a pack as this proxy has written it, or is going to. Looks alone use it, but for its address.
type pack struct {
	member []byte
	names  int
	until  time.Duration // its score, from notes.born on
	due    bool          // it is going to be written
	gone   bool          // it is removed, or going to be
}

// isFull says that no name of so many bytes can join p. Without a pack none can.
func (p *pack) isFull(bytes int) bool {
	return p == nil || p.names == mostInPack || p.names > 0 && len(p.member)+bytes > mostPackBytes
}

// coverLock makes p the pack of a lock, and has it outlast the lock's holds. It lasts twice as long as they
// do, so that renewals at a third of a lease change its score only now and then.
func (p *pack) coverLock(k *note, now time.Duration) {
	until := k.until()
	k.pack, k.written = p, until+max(until-now, 0)
	p.until = max(p.until, k.written)
}

// eachName calls f with the names of a pack. A member that is no pack may have names that no lock has.
func eachName(member []byte, f func(name []byte)) {
	_, n := binary.Uvarint(member[min(idBytes, len(member)):])
	rest := member[min(idBytes+max(n, 0), len(member)):]
	for range mostInPack {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return
		}
		f(rest[n : n+int(size)])
		rest = rest[n+int(size):]
	}
}

// addPack has p written.
func (to *sortedSet) addPack(p *pack) {
	if !p.due {
		p.due = true
		to.add = append(to.add, p)
	}
}

// removePack has p removed.
func (to *sortedSet) removePack(p *pack) {
	if !p.gone {
		p.gone = true
		to.gone = append(to.gone, p)
	}
}

// joinPack has a name written with the pack that is open. The shard of k is locked.
func (x *Index) joinPack(to *sortedSet, k *note, now time.Duration) {
	if to.open.isFull(len(k.name)) {
		x.packs++
		to.open = &pack{member: binary.AppendUvarint([]byte(x.id), x.packs)}
		to.addPack(to.open)
	}
	p := to.open
	p.names++
	p.member = append(binary.AppendUvarint(p.member, uint64(len(k.name))), k.name...)
	p.coverLock(k, now)
	k.leaveRing()
}

// collectDue takes what is due to a set out of its notes. What was not written the last time is due still.
func (x *Index) collectDue(set int, now, age, stays time.Duration) {
	to, n := &x.sets[set], &x.notes
	to.add = slices.DeleteFunc(to.add, func(p *pack) bool { return p.gone })
	to.gone = slices.DeleteFunc(to.gone, func(p *pack) bool {
		return len(p.member) > 2*mostPackBytes || p.until+skew+2*sweepPause < now // others have swept it
	})
	to.gone = to.gone[max(0, len(to.gone)-mostGone):]
	before, last := len(to.gone), to.open
	to.open = nil
	n.eachShard(set, func(s *noteShard) {
		n.clearGone(s, now, stays, to)
		for k := s.fresh.newer; k != &s.fresh; {
			next := k.newer
			if !n.expireHolds(s, k, now) && now-k.at >= age && k.holds[0].granted {
				x.joinPack(to, k, now)
			}
			k = next
		}
		for k := s.due.newer; k != &s.due; k = s.due.newer {
			k.leaveRing()
			k.pack.coverLock(k, now)
			to.addPack(k.pack)
		}
	})
	if !last.isFull(0) && (to.open != nil || len(to.gone) > before) {
		to.removePack(last)
	}
	for _, p := range to.gone[before:] {
		eachName(p.member, func(name []byte) {
			s, hash := n.lockShard(string(name))
			if k := s.findNote(string(name), hash); k != nil && k.pack == p {
				x.joinPack(to, k, now)
			}
			s.mu.Unlock()
		})
	}
	to.open = cmp.Or(to.open, last)
}

// clearGone removes the names that have been free for so long. A lock that was taken again, and is not
// written yet, keeps its old pack. If it has been written since, its old pack goes now.
func (n *notes) clearGone(s *noteShard, now, stays time.Duration, to *sortedSet) {
	over := 0
	for ; over < len(s.gone) && now-s.gone[over].at >= stays; over++ {
		f := s.gone[over]
		k := s.findNote(f.name, n.hash(f.name))
		switch {
		case k == nil || k.pack != nil && k.pack != f.pack:
			to.removePack(f.pack)
		case k.pack == nil && !f.pack.gone:
			k.leaveRing()
			k.pack = f.pack
			s.queueNote(k)
		}
	}
	if over > 0 { // their memory goes
		s.gone = slices.Clone(s.gone[over:])
	}
}
