package commands

import (
	"lockproxy/internal/resp"
	"lockproxy/redlock"
)

// unlockVerb is
//
//	UNLOCK key [token | TOKEN token] [FENCE n] [ID id]
//
// Reply: 1 released; 0 still held, the count went down; Null: the token holds
// nothing here.
func unlockVerb(l *Lockers) *Command {
	verb := &Command{
		Name: "unlock", Arity: -2, Flags: Write | LockVerb, Keys: onKey, Route: Local,
		needs: keyRight(l), secret: secretTokens, check: shortName(1),
		Docs: &Docs{
			Summary: "Frees a lock, or counts a re-entered hold down.", Since: "0.1.0", Group: "lock", Complexity: "O(1)",
			Arguments: []Argument{{Name: "key", Type: "key"}, tokenArgument, fenceArgument, idArgument},
		},
	}
	syntax := newLockSyntax(verb)
	verb.Run = func(c *Call) { unlock(c, l, syntax) }
	return verb
}

var tokenArgument = Argument{Name: "token", Type: "oneof", Optional: true, Arguments: []Argument{
	{Name: "token", Type: "string"},
	{Name: "token", Type: "string", Token: "TOKEN"},
}}

// release is one UNLOCK on its way.
type release struct {
	lockCaller
	l      *redlock.Locker
	grants Grants // of the connection when it asked: RESET gives it new ones
	proto  int
	args   lockArgs
	asked  redlock.Release
}

func unlock(c *Call, all *Lockers, s *lockSyntax) {
	l := all.of(string(c.Args[1]))
	r := &release{lockCaller: lockCaller{c.Actions}, l: l, grants: c.Client.Grants, proto: c.Client.Proto}
	if err := r.args.parseHeld(s, c, l); err != nil {
		c.Reply(ErrorReply(err))
		return
	}
	r.asked = redlock.Release{Name: r.args.name, Token: r.args.token, Fence: r.args.fence, Named: r.args.id}
	l.Release(r, &r.asked, r)
}

// Released implements redlock.Releaser.
func (r *release) Released(done redlock.Released, err error) []byte {
	if err != nil {
		return ErrorReply(err)
	}
	if done.Whole {
		r.l.Unlocked(r.asked.Name, r.asked.Token, done.Keeper)
	}
	if done.Whole || !done.Held && r.asked.Fence == 0 {
		r.grants.forget(r.asked.Name, r.asked.Token)
	}
	switch {
	case !done.Held:
		return resp.Null(r.proto)
	case done.Whole:
		return resp.One
	}
	return resp.Zero
}

// parseHeld reads the arguments of a verb that concerns a hold; without a token it is the one that this
// connection was granted. It fails when the client must be told first that the hold was lost.
func (a *lockArgs) parseHeld(s *lockSyntax, c *Call, l *redlock.Locker) (err error) {
	if err = a.parse(s, l, c.Args); err == nil {
		err = c.Client.Kept.refuse(a.name)
	}
	if err == nil && a.token == "" {
		a.token, err = c.Client.Grants.token(a.name)
	}
	return err
}
