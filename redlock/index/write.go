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

	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
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

// change is what is to be written to one set.
type change struct {
	gone  []string
	names []string
	until []time.Duration // of names
}

// write writes what is due: it adds the names of locks that have been held for age, and removes those of
// locks that have been free for stays.
func (x *Index) write(ctx context.Context, age, stays time.Duration) {
	var changes [keys]change
	now := x.notes.now()
	for i := range x.notes.shards {
		x.notes.collect(&x.notes.shards[i], now, age, stays, &changes)
	}
	x.notes.sweep(now)
	var all sync.WaitGroup
	var errs [keys]error
	for i := range changes {
		if c := &changes[i]; len(c.gone)+len(c.names) > 0 {
			all.Go(func() { errs[i] = x.apply(ctx, &x.sets[i], c, now) })
		}
	}
	all.Wait()
	var failed error
	for i, err := range errs {
		if err != nil {
			failed = err
			x.notes.rewrite(changes[i].names)
		}
	}
	x.wrote(failed)
}

// setOf is the number of the set that has the lock of that name.
func setOf(name string) int { return slot.Of([]byte(name)) % keys }

// collect adds what is due in a shard to changes.
func (n *notes) collect(s *shard, now, age, stays time.Duration, changes *[keys]change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := s.first; k != nil; {
		next := k.newer
		if !n.expire(s, k, now) && now-k.at >= age && k.first.granted {
			s.age(k)
			s.queue(k)
		}
		k = next
	}
	n.clear(s, now, stays, changes)
	for _, name := range s.due {
		k := s.find(name, n.hash(name))
		if k == nil || !k.queued {
			continue
		}
		// A hold that is renewed is written anew with each third renewal, if that comes at a third of its
		// lease.
		until := k.until()
		k.queued, k.written = false, until+max(until-now, 0)
		c := &changes[setOf(name)]
		c.names, c.until = append(c.names, name), append(c.until, k.written)
	}
	s.due = nil
}

// clear adds to changes the names that have been free for so long. A lock that was taken again keeps its
// name: it is written anew, or looked at later if it may be free soon.
func (n *notes) clear(s *shard, now, stays time.Duration, changes *[keys]change) {
	over := 0
	var later []freed
	for ; over < len(s.gone) && now-s.gone[over].at >= stays; over++ {
		name := s.gone[over].name
		switch k := s.find(name, n.hash(name)); {
		case k == nil:
			c := &changes[setOf(name)]
			c.gone = append(c.gone, name)
		case k.fresh:
			later = append(later, freed{name, now})
		}
	}
	if over > 0 {
		s.gone = append(slices.Clone(s.gone[over:]), later...)
	}
}

// sweeps is in how many looks all shards are swept.
const sweeps = 64

// sweep forgets holds that are over, of other shards with each call.
func (n *notes) sweep(now time.Duration) {
	for range shards / sweeps {
		n.shards[n.swept%shards].sweep(n, now)
		n.swept++
	}
}

func (s *shard) sweep(n *notes, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all(func(k *note) { n.expire(s, k, now) })
}

// rewrite has names written again that could not be.
func (n *notes) rewrite(names []string) {
	for _, name := range names {
		s, hash := n.lock(name)
		if k := s.find(name, hash); k != nil && !k.fresh {
			s.queue(k)
		}
		s.mu.Unlock()
	}
}

// apply writes c to a set. What is removed goes first: a lock that is free may have been taken again.
func (x *Index) apply(ctx context.Context, to *set, c *change, now time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for gone := c.gone; len(gone) > 0; gone = gone[min(len(gone), mostMembers):] {
		args := []string{"ZREM", to.key}
		for _, name := range gone[:min(len(gone), mostMembers)] {
			args = append(args, x.member(name))
		}
		if err := x.run(ctx, to, args...); err != nil {
			return err
		}
	}
	clock := time.Now()
	for at := 0; at < len(c.names); at += mostMembers {
		args := []string{"ZADD", to.key}
		for i := at; i < min(at+mostMembers, len(c.names)); i++ {
			args = append(args, millis(clock.Add(c.until[i]-now)), x.member(c.names[i]))
		}
		if err := x.run(ctx, to, args...); err != nil {
			return err
		}
	}
	if len(c.names) == 0 {
		return nil
	}
	if clock.Sub(to.swept) >= sweepPause {
		to.swept = clock
		if err := x.run(ctx, to, "ZREMRANGEBYSCORE", to.key, "-inf", millis(clock.Add(-skew))); err != nil {
			return err
		}
	}
	last := max(2*x.o.MaxLease, time.Minute) + skew
	return x.run(ctx, to, "PEXPIRE", to.key, strconv.FormatInt(last.Milliseconds(), 10))
}

func millis(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

// member is what a set has for a lock that this proxy has granted.
func (x *Index) member(name string) string { return x.id + ":" + x.canonical(name) }

// canonical is the one name of a lock that has two, as a and {a}.
func (x *Index) canonical(name string) string {
	if one, _, ok := x.names.LockOf(string(x.names.AppendKey(nil, name))); ok {
		return one
	}
	return name
}

// run sends one command. The error is that of the server, if it sent one.
func (x *Index) run(ctx context.Context, to *set, args ...string) error {
	_, err := x.ask(ctx, to, args...)
	return err
}

func (x *Index) ask(ctx context.Context, to *set, args ...string) (resp.Value, error) {
	reply, err := x.upstream.Do(ctx, to.slot, resp.AppendCommandStrings(nil, args...), true)
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

// wrote notes how an attempt to write has ended.
func (x *Index) wrote(err error) {
	switch {
	case err == nil:
		x.unable.Store(nil)
	case !forbidden(err):
		x.resume = time.Now().Add(failPause)
	default:
		x.resume = time.Now().Add(unablePause)
		if why := err.Error(); x.unable.Swap(&why) == nil {
			x.tell(err)
		}
	}
}

// tell logs why the sets cannot be used.
func (x *Index) tell(err error) {
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
