package commands

import (
	"github.com/tidwall/redcon"

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
		Name: "unlock", Arity: -2, Flags: Write | LockVerb, Keys: onKey, Route: Local, needs: keyRight(l), secret: secretTokens,
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
	Actions
	l      *redlock.Locker
	grants Grants // of the connection when it asked: RESET gives it new ones
	proto  int
	args   lockArgs
}

func unlock(c *Call, all *Lockers, s *lockSyntax) {
	l := all.of(string(c.Args[1]))
	r := &release{Actions: c.Actions, l: l, grants: c.Client.Grants, proto: c.Client.Proto}
	if err := r.args.parseHeld(s, c, l); err != nil {
		c.Reply(ErrorReply(err))
		return
	}
	r.ask()
}

func (r *release) ask() {
	slot, req := r.l.ReleaseRequest(r.args.name, r.args.token, r.args.fence, r.args.id)
	ask(r, r.l, slot, req, reread, r.answered)
}

// answered makes the client's answer of that of Redis.
func (r *release) answered(reply []byte) []byte {
	released, ok, keeper, err := r.l.ReadRelease(reply)
	if err == redlock.ErrAgain {
		r.ask()
		return nil
	}
	if err != nil {
		return reply
	}
	r.l.CountRelease(ok)
	if released {
		r.l.Unlocked(r.args.name, r.args.token, keeper)
	}
	if released || !ok && r.args.fence == 0 {
		r.grants.forget(r.args.name, r.args.token)
	}
	switch {
	case !ok:
		return resp.AppendNull(nil, r.proto)
	case reply[0] == ':': // as nearly always
		return reply
	case released:
		return redcon.AppendInt(nil, 1)
	}
	return redcon.AppendInt(nil, 0)
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
