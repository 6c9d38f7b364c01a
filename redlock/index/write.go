package index

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/internal/resp"
	"lockproxy/redlock"
)

const (
	// mostMembers is how many members one command adds or removes.
	mostMembers = 500
	// sweepPause is the time between two removals of what is over.
	sweepPause = 30 * time.Second
	// skew is by how much the clocks of proxies may differ: what is over for so long is removed by any of
	// them.
	skew = time.Minute
	// failPause and unablePause are how long nothing is written after an attempt failed, or was forbidden.
	failPause   = time.Second
	unablePause = 10 * time.Second
)

// setChange is what is to be written to one set. until has the same length as names, and counts from
// notes.born.
type setChange struct {
	gone  []string
	names []string
	until []time.Duration // of names
}

// writeDue writes what is due: it adds the names of locks that have been held for age, and removes those of
// locks that have been free for stays. It blocks for about patience, and is called by one goroutine at a
// time.
func (x *Index) writeDue(ctx context.Context, age, stays time.Duration) {
	var changes [keys]setChange
	now := x.notes.now()
	for i := range x.notes.shards {
		x.notes.collectDue(&x.notes.shards[i], now, age, stays, &changes)
	}
	x.notes.sweepSome(now)
	var all sync.WaitGroup
	var errs [keys]error
	for i := range changes {
		if c := &changes[i]; len(c.gone)+len(c.names) > 0 {
			all.Go(func() { errs[i] = x.applyChange(ctx, &x.sets[i], c, now) })
		}
	}
	all.Wait()
	var failed error
	for i, err := range errs {
		if err != nil {
			failed = err
			x.notes.rewriteNames(changes[i].names)
		}
	}
	x.noteWritten(failed)
}

// collectDue adds what is due in a shard to changes. What it takes out is due no more: if it cannot be
// written, writeDue has it written again.
func (n *notes) collectDue(s *noteShard, now, age, stays time.Duration, changes *[keys]setChange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := s.fresh.newer; k != &s.fresh; {
		next := k.newer
		if !n.expireHolds(s, k, now) && now-k.at >= age && k.holds[0].granted {
			k.leaveRing()
			s.queueNote(k)
		}
		k = next
	}
	for k := s.due.newer; k != &s.due; k = s.due.newer {
		k.leaveRing()
		// A hold that is renewed is written anew with each third renewal, if that comes at a third of its
		// lease.
		until := k.until()
		k.written = until + max(until-now, 0)
		c := &changes[k.hash%keys]
		c.names, c.until = append(c.names, k.name), append(c.until, k.written)
	}
	n.clearGone(s, now, stays, changes)
}

// clearGone adds to changes the names that have been free for so long. A lock that was taken again keeps its
// name: it is written anew, or looked at later if it may be free soon.
func (n *notes) clearGone(s *noteShard, now, stays time.Duration, changes *[keys]setChange) {
	over := 0
	var later []freed
	for ; over < len(s.gone) && now-s.gone[over].at >= stays; over++ {
		name := s.gone[over].name
		hash := n.hash(name)
		switch k := s.findNote(name, hash); {
		case k == nil:
			c := &changes[hash%keys]
			c.gone = append(c.gone, name)
		case k.newer != nil: // it is fresh, since due is empty here
			later = append(later, freed{name, now})
		}
	}
	clear(s.gone[:over]) // their names go
	if s.gone = append(s.gone[over:], later...); len(s.gone) == 0 {
		s.gone = nil
	}
}

// sweeps is in how many looks all shards are swept.
const sweeps = 64

// sweepSome forgets holds that are over, of other shards with each call. Without it holds that nobody frees,
// or asks for again, would stay for ever.
func (n *notes) sweepSome(now time.Duration) {
	for range shards / sweeps {
		n.shards[n.swept%shards].sweepShard(n, now)
		n.swept++
	}
}

// sweepShard forgets the holds of s that are over. mu is not held.
func (s *noteShard) sweepShard(n *notes, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.notes {
		n.expireHolds(s, k, now)
	}
	if len(s.notes) == 0 { // it may have been large
		s.notes = make(map[uint64]*note)
	}
}

// rewriteNames has names written again that could not be. Names that could not be removed are not noted
// again: their scores end.
func (n *notes) rewriteNames(names []string) {
	for _, name := range names {
		s, hash := n.lockShard(name)
		if k := s.findNote(name, hash); k != nil {
			s.queueNote(k)
		}
		s.mu.Unlock()
	}
}

// applyChange writes c to a set. What is removed goes first: a lock that is free may have been taken again.
func (x *Index) applyChange(ctx context.Context, to *sortedSet, c *setChange, now time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var err error // the first one; nothing is asked behind it
	ask := func(req []byte) {
		if err == nil {
			_, err = x.askSet(ctx, to, req)
		}
	}
	for some := range slices.Chunk(c.gone, mostMembers) {
		req := x.beginCommand("ZREM", to, len(some))
		for _, name := range some {
			req = x.appendMember(req, name)
		}
		ask(req)
	}
	clock := time.Now()
	for at := 0; at < len(c.names); at += mostMembers {
		end := min(at+mostMembers, len(c.names))
		req := x.beginCommand("ZADD", to, 2*(end-at))
		for i := at; i < end; i++ {
			req = redcon.AppendBulkString(req, millis(clock.Add(c.until[i]-now)))
			req = x.appendMember(req, c.names[i])
		}
		ask(req)
	}
	if err != nil || len(c.names) == 0 {
		return err
	}
	if clock.Sub(to.swept) >= sweepPause {
		to.swept = clock
		ask(resp.AppendCommandStrings(nil, "ZREMRANGEBYSCORE", to.key, "-inf", millis(clock.Add(-skew))))
	}
	// The whole set goes once no proxy has written for so long: then all scores are over.
	last := max(2*x.o.MaxLease, time.Minute) + skew
	ask(resp.AppendCommandStrings(nil, "PEXPIRE", to.key, strconv.FormatInt(last.Milliseconds(), 10)))
	return err
}

// millis is a score.
func millis(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

// beginCommand begins a command for so many words behind the key.
func (x *Index) beginCommand(verb string, to *sortedSet, words int) []byte {
	req := redcon.AppendArray(make([]byte, 0, 64+64*words), 2+words)
	return redcon.AppendBulkString(redcon.AppendBulkString(req, verb), to.key)
}

// appendMember appends what a set has for a lock that this proxy has granted.
func (x *Index) appendMember(req []byte, name string) []byte {
	name = x.canonical(name)
	req = append(strconv.AppendInt(append(req, '$'), int64(len(x.id)+1+len(name)), 10), "\r\n"...)
	return append(append(append(append(req, x.id...), ':'), name...), "\r\n"...)
}

// canonical is the one name of a lock that has two, as a and {a}. Otherwise the lock would be listed twice,
// and removing one name would leave the other.
func (x *Index) canonical(name string) string {
	if strings.IndexByte(name, '{') < 0 { // nearly always, and without a copy
		return name
	}
	return string(redlock.Unbraced([]byte(name)))
}

// askSet sends one command. The error is that of the server, if it sent one. All of its commands may run
// twice.
func (x *Index) askSet(ctx context.Context, to *sortedSet, req []byte) (resp.Value, error) {
	reply, err := x.upstream.Do(ctx, to.slot, req, true)
	if err != nil {
		return resp.Value{}, err
	}
	v, _, err := resp.Parse(reply)
	switch {
	case err != nil:
		return v, err
	case v.Err() != "":
		return v, redlock.Said(v.Err())
	}
	return v, nil
}

// noteWritten notes how an attempt to write has ended. An attempt that worked makes the sets usable again.
func (x *Index) noteWritten(err error) {
	switch {
	case err == nil:
		x.unable.Store(nil)
	case !forbidden(err):
		x.resume = time.Now().Add(failPause)
	default:
		x.resume = time.Now().Add(unablePause)
		if why := err.Error(); x.unable.Swap(&why) == nil {
			x.tellUnable(err)
		}
	}
}

// tellUnable logs why the sets cannot be used.
func (x *Index) tellUnable(err error) {
	x.warn.Write(x.o.Log, slog.LevelWarn,
		"LOCKCTL LIST looks through all keys: the index of locks cannot be used",
		"remedy", "allow ZADD, ZREM, ZREMRANGEBYSCORE, ZSCAN and PEXPIRE of "+x.o.Prefix+
			"index:* to the upstream's user, and let nobody else write these keys", "err", err)
}

// forbidden says that the server refuses a command: the right to it is missing, it does not know it, or the
// key has something else.
func forbidden(err error) bool {
	var said redlock.ReplyError
	if !errors.As(err, &said) {
		return false
	}
	return resp.Forbidden([]byte("-"+string(said))) || strings.HasPrefix(string(said), "WRONGTYPE")
}
