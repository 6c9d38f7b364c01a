package single

import (
	"cmp"
	"errors"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/index"
)

// This file is about plain locks, which most UNLOCKs free. Their release.lua is as cheap as a script can be
// that compares and deletes, because it notes nothing: if it has run and is sent again, it finds nothing.
// Then it is this proxy that knows better, because it has granted the lock and knows how long its lease
// lasts.
//
//	release.lua for that very grant --> 1; or 0, or who got the lock: it was no plain lock any more
//	        \--> nil, sent once, or not granted: the token may have another grant --> release.lua for any
//	        \--> nil, sent twice --> release.lua for the fence of that grant
//	                                    --> 1 or 0: it was no plain lock any more
//	                                    \-> Null: it has gone, so a copy has freed it if its lease goes on
//
// Servers that have a command for this run that first, at a tenth of the cost: DELIFEQ or DELEX with the
// whole value of the lock, as soon as its fence is known. It is one more way to the same 1 or nil.
//
// In the last case a BREAK or an UNLOCK through another proxy may have ended the hold instead, or Redis may
// have lost the lock. Nothing tells that from a copy that has run.

// errOverMeanwhile is for an UNLOCK that was sent again until its lease was over.
var errOverMeanwhile = errors.New("redlock: Redis did not answer until the lease was over: " +
	"the lock is free, but whether this UNLOCK has freed it is not known")

// releaseAfter goes on with a release for which the grant that p was is not there. repeated: it was sent
// twice.
func (l *releaser) releaseAfter(
	by redlock.Caller, r *redlock.Release, to redlock.Releaser, p index.Plain, repeated bool,
) {
	// Others may have the lock by now, if a copy has freed it. Then only p knows the fence.
	if fence := cmp.Or(p.Fence, l.grants.PlainFence(r, &p)); repeated && fence != 0 {
		that := *r
		that.Fence = fence
		r, to = &that, freedBefore{to, p.Ends}
	}
	l.releaseAny(by, r, to)
}

// freedBefore is told what release.lua says to an UNLOCK that may have freed the lock before. ends is when
// the lease of the lock ends.
type freedBefore struct {
	to   redlock.Releaser
	ends time.Time
}

// Released implements redlock.Releaser.
func (f freedBefore) Released(done redlock.Released, err error) []byte {
	switch {
	case err != nil, done.Held:
	case time.Now().Before(f.ends):
		done = redlock.Released{Held: true, Whole: true}
	default:
		err = errOverMeanwhile
	}
	return f.to.Released(done, err)
}
