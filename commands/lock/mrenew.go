package lock

import (
	"context"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/commands"
	"lockproxy/redlock/locks"
)

// mrenewVerb is
//
//	MRENEW numkeys key [key ...] token [PX ms | EX s]
//
// Reply: the least ms that are left; 0: the token does not hold all of them. No lease is made shorter.
func mrenewVerb(l *Lockers) *commands.Command {
	return l.heldVerb("mrenew", "Makes the leases of several holds longer.", mrenew, "lease")
}

// mrenew is the task. If one of the locks is not held, the leases of the others are longer all the same: the
// client learns only that it does not hold all.
func mrenew(ctx context.Context, m *many) []byte {
	if err := m.untold(thenLock); err != nil {
		return commands.ErrorReply(err)
	}
	// What is left counts from before the requests: so it ends here no later than in Redis.
	sent := time.Now()
	err := m.set.Renew(ctx)
	least := m.set.Parts()[0].Renewed.Left
	for _, p := range m.set.Parts() {
		m.noteRenewed(p, sent)
		least = min(least, p.Renewed.Left)
	}
	held := func(p *locks.SetPart) bool { return p.Renewed.Left > 0 }
	if err == nil {
		err = m.lostMeanwhile(held)
	}
	if err == nil {
		err = m.whyNothing(held)
	}
	if err != nil {
		return commands.ErrorReply(err)
	}
	return redcon.AppendInt(nil, least.Milliseconds())
}

// noteRenewed notes the outcome for one lock, of a request that was sent then. An error leaves open what has
// happened, so nothing is noted.
func (m *many) noteRenewed(p *locks.SetPart, sent time.Time) {
	token, until := m.set.Token(), sent.Add(p.Renewed.Left)
	switch {
	case p.Err != nil:
		return
	case p.Renewed.Left > 0:
		p.L.Prolonged(p.Name, token, until, 0)
		p.L.Renewed(p.Name, token, until, m.who, p.L.KeeperOf(p.Name, token) != "")
	default:
		m.all.Ledger.noteNotHeld(p.Name, token, p.Fence, nil)
	}
}
