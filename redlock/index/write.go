package index

import (
	"cmp"
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
	// batch is how many packs one command adds or removes.
	batch = 64
	// sweepPause is the time between two removals of what is over.
	sweepPause = 30 * time.Second
	// skew is by how much the clocks of proxies may differ: what is over for so long is removed by any of
	// them.
	skew = time.Minute
	// sweepLooks is after how many looks the notes of the next set are swept.
	sweepLooks = 4
	// failPause is how long nothing is written after an attempt failed.
	failPause = time.Second
)

// writeDue writes what is due: it adds the names of locks that have been held for age, and removes those of
// locks that have been free for stays. It blocks for about patience, and is called by one goroutine at a
// time.
func (x *Index) writeDue(ctx context.Context, age, stays time.Duration) {
	now := x.notes.now()
	var all sync.WaitGroup
	var errs [keys]error
	for i := range x.sets {
		if x.collectDue(i, now, age, stays); x.sets[i].isDue() {
			all.Go(func() { errs[i] = x.writeSet(ctx, &x.sets[i]) })
		}
	}
	if x.looks++; x.looks%sweepLooks == 0 {
		x.notes.sweepSet(x.looks/sweepLooks%keys, now)
	}
	all.Wait()
	if err := pickError(errs[:]); err != nil {
		x.resume = time.Now().Add(failPause)
		if why := err.Error(); forbidden(err) && x.unable.Swap(&why) == nil {
			x.tellUnable(err)
		}
	}
}

// sweepSet forgets holds of a set that are over. Without it holds that nobody frees, or asks for again, would
// stay for ever.
func (n *notes) sweepSet(set int, now time.Duration) {
	n.eachShard(set, func(s *noteShard) {
		for _, k := range s.notes {
			n.expireHolds(s, k, now)
		}
		if len(s.notes) == 0 { // it may have been large
			s.notes = make(map[uint64]*note)
		}
	})
}

// isDue says that there is something to be written to a set.
func (to *sortedSet) isDue() bool { return len(to.add)+len(to.gone) > 0 || to.unbounded }

// writeSet writes what is due to a set. What is removed goes last, once all is added: its names may be among
// those. What has been written is due no more, and what is refused keeps nothing else from being written.
func (x *Index) writeSet(ctx context.Context, to *sortedSet) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var errs [4]error
	if time.Since(to.swept) >= sweepPause {
		to.swept = time.Now()
		_, errs[0] = x.askSet(ctx, to, "ZREMRANGEBYSCORE", "-inf", millis(to.swept.Add(-skew)))
	}
	added := len(to.add) > 0
	errs[1] = x.writePacks(ctx, to, "ZADD", &to.add)
	if to.unbounded = to.unbounded || added; to.unbounded {
		// The whole set goes once no proxy has written for so long: then all scores are over.
		last := max(2*x.o.MaxLease, time.Minute) + skew
		_, errs[2] = x.askSet(ctx, to, "PEXPIRE", strconv.FormatInt(last.Milliseconds(), 10))
		to.unbounded = errs[2] != nil && !forbidden(errs[2])
	}
	if len(to.add) == 0 {
		errs[3] = x.writePacks(ctx, to, "ZREM", &to.gone)
	}
	err := pickError(errs[:])
	if added && err == nil {
		x.unable.Store(nil)
	}
	return err
}

// writePacks adds packs by ZADD, or removes them by ZREM. due are those that are still to be written.
func (x *Index) writePacks(ctx context.Context, to *sortedSet, verb string, due *[]*pack) error {
	for len(*due) > 0 {
		some, all := (*due)[:min(batch, len(*due))], []string(nil)
		for _, p := range some {
			if verb == "ZADD" {
				all = append(all, millis(time.Now().Add(p.until-x.notes.now())))
			}
			all = append(all, string(p.member))
		}
		if _, err := x.askSet(ctx, to, verb, all...); err != nil {
			return err
		}
		for _, p := range some {
			p.due = false
		}
		*due = (*due)[len(some):]
	}
	*due = nil // their memory goes
	return nil
}

// millis is a score.
func millis(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

// askSet sends one command. words follow the key. The error is that of the server, if it sent one. All of its
// commands may run twice.
func (x *Index) askSet(ctx context.Context, to *sortedSet, verb string, words ...string) (resp.Value, error) {
	req := resp.AppendCommandStrings(nil, append([]string{verb, to.key}, words...)...)
	reply, err := x.upstream.Do(ctx, slot.Of([]byte(to.key)), req, true)
	if err != nil {
		return resp.Value{}, err
	}
	v, _, err := resp.Parse(reply)
	if err == nil && v.Err() != "" {
		err = redlock.Said(v.Err())
	}
	return v, err
}

// pickError returns an error that says that a command is forbidden, if there is one, otherwise the first.
func pickError(errs []error) error {
	return cmp.Or(errs[max(0, slices.IndexFunc(errs, forbidden))], cmp.Or(errs...))
}

// tellUnable logs why the sets cannot be used.
func (x *Index) tellUnable(err error) {
	x.warn.Write(x.o.Log, slog.LevelWarn,
		"LOCKCTL LIST looks through all keys: the index of locks cannot be used",
		"remedy", "allow ZADD, ZREM, ZREMRANGEBYSCORE, ZRANGE and PEXPIRE of "+x.o.Prefix+
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
