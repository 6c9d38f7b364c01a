package lock

import (
	"sync"

	"lockproxy/commands"
	"lockproxy/commands/holds"
	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/locks"
)

// unlockVerb is
//
//	UNLOCK key [token | TOKEN token] [FENCE n] [ID id]
//
// Reply: 1 released; 0 still held, the count went down; Null: the token holds nothing here.
func unlockVerb(l *Lockers) *commands.Command {
	spare := &sync.Pool{New: func() any { return new(release) }}
	return l.newVerb("unlock", -2, commands.Write, commands.Docs{
		Summary: "Frees a lock, or counts a re-entered hold down.", Complexity: "O(1)",
		Arguments: append([]commands.Argument{keyArgument}, takes("token", "FENCE", "ID")...),
	}, func(c *commands.Call, s *syntax) error { return unlock(c, l, s, spare) })
}

// release is one UNLOCK on its way. It is reused once its outcome is known, which it is told once. It stays
// on the loop.
type release struct {
	commands.Actions
	spare  *sync.Pool
	l      *locks.Locker
	ledger *Ledger
	who    *redlock.Client // as events show it
	grants holds.Grants    // of the connection when it asked: RESET replaces them
	proto  int
	args   arguments
	asked  redlock.Release
	fence  int64 // of the hold, as far as it was known when it asked
}

// unlock begins an UNLOCK. A wait of the token for the lock ends too: who unlocks does not want it any more.
// With FENCE only that grant is meant, and no wait.
func unlock(c *commands.Call, all *Lockers, s *syntax, spare *sync.Pool) error {
	l := all.engineOf(c.Args[1])
	r := spare.Get().(*release)
	r.Actions, r.spare, r.l, r.ledger = c.Actions, spare, l, all.Ledger // one of spare is empty
	r.grants, r.proto, r.who = c.Client.Grants, c.Client.Proto, c.Client.Holder()
	if err := r.args.parseHeld(s, c, l); err != nil {
		return err
	}
	if r.args.only == 0 {
		c.Client.Waits.Unlock(r.args.Name, r.args.Token)
	}
	r.asked.Name, r.asked.Token = r.args.Name, r.args.Token
	r.asked.Fence, r.asked.Named = r.args.only, r.args.Named
	r.fence = l.Granting(r.args.Name, r.args.Token)
	l.Release(r, &r.asked, r)
	return nil
}

// Released implements redlock.Releaser. Nobody has r after that.
func (r *release) Released(done redlock.Released, err error) []byte {
	answer := r.releaseReply(done, err)
	spare := r.spare
	*r = release{}
	spare.Put(r)
	return answer
}

// releaseReply makes the client's answer. Whether it was granted here decides what is measured; the reply is
// Redis's in either case.
func (r *release) releaseReply(done redlock.Released, err error) []byte {
	r.l.CountOutcome(done.Held, err, locks.Released, locks.NotHeld)
	if err != nil {
		return commands.ErrorReply(err)
	}
	name, token := r.asked.Name, r.asked.Token
	// With a fence, the token may hold the lock by another grant, and its grant stays remembered.
	if done.Whole || !done.Held && r.asked.Fence == 0 {
		r.grants.Forget(name, token)
	}
	switch {
	case !done.Held:
		if r.asked.Fence == 0 {
			r.ledger.noteNotHeld(name, token, r.fence, r.grants.Owner())
		}
		if err := whyNothing(r.l, name, token, r.asked.Fence); err != nil {
			return commands.ErrorReply(err)
		}
		return resp.Null(r.proto)
	case done.Whole:
		e, ok := r.l.Unlocked(name, token, done.Keeper, r.fence, r.grants.Owner())
		r.ledger.noteReleased(name, token, r.who, e, ok)
		return resp.One
	}
	return resp.Zero
}

// parseHeld reads the arguments of a verb about a hold. Without a token it takes the one that this connection
// was granted. Grants.Token fails if it knows none, or more than one.
func (a *arguments) parseHeld(s *syntax, c *commands.Call, l *locks.Locker) (err error) {
	if err = a.parseArgs(s, l, c.Args); err == nil && a.Token == "" {
		a.Token, err = c.Client.Grants.Token(l, a.Name)
	}
	return err
}
