package single

import (
	"errors"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/index"
	"lockproxy/redlock/scripts"
)

// This file frees plain locks, which is most of the UNLOCKs. free.lua is as cheap as a script can be that
// compares and deletes, because it notes nothing: if it has run and is sent again, it finds nothing. Then it
// is this proxy that knows better, because it has granted the lock and knows how long its lease lasts.
//
//	free.lua --> 1
//	        \--> nil, sent once: it was no plain lock any more --> release.lua, as if there were no free.lua
//	        \--> nil, sent twice, and not granted --> likewise
//	        \--> nil, sent twice --> release.lua for that very grant
//	                                    --> 1 or 0: it was no plain lock any more
//	                                    \-> Null: it has gone, so a copy has freed it if its lease goes on
//
// Servers that have a command for this run that instead, at a tenth of the cost: DELIFEQ or DELEX with the
// whole value of the lock, as soon as its fence is known. It is one more way to the same 1 or nil.
//
// In the last case a BREAK or an UNLOCK through another proxy may have ended the hold instead, or Redis may
// have lost the lock. Nothing tells that from a copy that has run.

// errOverMeanwhile is for an UNLOCK that was sent again until its lease was over.
var errOverMeanwhile = errors.New("redlock: Redis did not answer until the lease was over: " +
	"the lock is free, but whether this UNLOCK has freed it is not known")

// sentFree is a Release that is on its way as free.lua. It is used again as a firstAttempt is.
type sentFree struct {
	e  *Engine
	by redlock.Caller
	r  *redlock.Release
	to redlock.Releaser

	plain    index.Plain
	command  bool // it is on its way as DELIFEQ or DELEX
	repeated bool // it was sent again, and may have run before
}

// freePlain frees a lock that was granted as a plain one.
func (e *Engine) freePlain(by redlock.Caller, r *redlock.Release, to redlock.Releaser, plain index.Plain) {
	slot, req, command := e.freeRequest(by.Buffer(), r, plain)
	sent, _ := e.freeings.Get().(*sentFree)
	if sent == nil {
		sent = new(sentFree)
	}
	*sent = sentFree{e, by, r, to, plain, command, false}
	by.Hold(r.Name) // a LOCK that came between free.lua and release.lua would be freed by that
	by.SendHome(slot, req, true, sent, nil)
}

// freeRequest is the request that frees a plain lock. command says that it is no script.
func (e *Engine) freeRequest(
	buf []byte, r *redlock.Release, plain index.Plain,
) (slot int, req []byte, command bool) {
	if plain.Fence != 0 && !e.scripted.Load() {
		if with := e.upstream.DeleteIf(); with != "" {
			slot, req = scripts.DeleteRequest(buf, e.names, with, r.Name, r.Token, plain.ID, plain.Fence)
			return slot, req, true
		}
	}
	slot, c := scripts.FreeCall(buf, e.names, r.Name, r.Token, plain.ID)
	return slot, c.Req, false
}

// Repeated implements redlock.Repeater.
func (s *sentFree) Repeated() { s.repeated = true }

// Answer implements redlock.Exchange.
func (s *sentFree) Answer(reply []byte) []byte {
	was := *s
	*s = sentFree{}
	was.e.freeings.Put(s)
	if was.command {
		var unable bool
		if reply, unable = scripts.ReadDeleted(reply); unable {
			was.e.scripted.Store(true) // a script does as well: nobody need be told
		}
	}
	done, _, err := scripts.ReadFreed(reply)
	if err != nil || done.Held {
		return was.to.Released(done, err)
	}
	if was.repeated {
		if fence := was.e.grants.PlainFence(was.r, &was.plain); fence != 0 {
			that := *was.r
			that.Fence = fence
			was.e.release(was.by, &that, freedBefore{was.to, was.plain.Ends})
			return nil
		}
	}
	was.e.release(was.by, was.r, was.to)
	return nil
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
