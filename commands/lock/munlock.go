package lock

import (
	"cmp"
	"context"

	"github.com/tidwall/redcon"

	"lockproxy/commands"
	"lockproxy/redlock/locks"
)

// munlockVerb is
//
//	MUNLOCK numkeys key [key ...] token
//
// Reply: how many of the locks were freed; 0: the token holds none of them.
func munlockVerb(l *Lockers) *commands.Command {
	return l.heldVerb("munlock", "Frees several locks.", munlock)
}

// munlock is the task. An error of one lock does not keep the others from being freed.
func munlock(ctx context.Context, m *many) []byte {
	err := m.set.Release(ctx)
	freed := 0
	for _, p := range m.set.Parts() {
		if m.noteReleased(p) {
			freed++
		}
	}
	if err == nil {
		err = m.whyNothing(func(p *locks.SetPart) bool { return p.Released.Held })
	}
	if err != nil {
		return commands.ErrorReply(err)
	}
	return redcon.AppendInt(nil, int64(freed))
}

// noteReleased notes the outcome for one lock, and says whether it was freed. A hold whose count only went
// down, and one of which nothing is known, are left as they are.
func (m *many) noteReleased(p *locks.SetPart) bool {
	switch {
	case p.Released.Whole:
		e, ok := p.L.Unlocked(p.Name, m.set.Token(), p.Released.Keeper, p.Fence, m.grants.Owner())
		m.all.Ledger.noteReleased(p.Name, m.set.Token(), m.who, e, ok)
		m.grants.Forget(p.Name, m.set.Token())
	case !p.Released.Held && p.Err == nil:
		m.all.Ledger.noteNotHeld(p.Name, m.set.Token(), p.Fence, m.grants.Owner())
		m.grants.Forget(p.Name, m.set.Token())
	}
	return p.Released.Whole
}

// whyNothing is whyNothing for the locks that the token does not hold. One error tells of all of them.
func (m *many) whyNothing(held func(p *locks.SetPart) bool) (err error) {
	for _, p := range m.set.Parts() {
		if !held(p) {
			err = cmp.Or(err, whyNothing(p.L, p.Name, m.set.Token(), 0))
		}
	}
	return err
}
