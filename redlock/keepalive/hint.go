package keepalive

import (
	"bytes"
	"context"
	"time"

	"lockproxy/internal/subscription"
	"lockproxy/redlock"
)

// hint is what a message on this proxy's channel says about a hold. Anyone who may publish there can send
// one, so none is believed: Redis is asked. If Redis does not have the hold any more, the hint tells why.
type hint uint8

const (
	noHint       hint = iota
	unsaid            // nobody knows: a message may have come before this proxy could hear it
	saidTaken         // by a keeper of another proxy
	saidReleased      // by UNLOCK at another proxy
	saidBroken        // by LOCKCTL BREAK
)

// hints are the messages, by their first word.
var hints = map[string]hint{"taken": saidTaken, "released": saidReleased, "broken": saidBroken}

// hintPause is the least time between two questions that hints about one hold cause. It bounds what a flood
// of messages costs.
const hintPause = 100 * time.Millisecond

// heed makes Redis be asked whether it still has h. Renewer.mu is held.
func (h *Kept) heed(said hint) {
	if h.hint = max(h.hint, said); h.hint > unsaid {
		h.meet(told)
	} else {
		h.meet(missed)
	}
}

// hear takes a message of another proxy: what became of holds, and their keepers.
func (k *Renewer) hear(e subscription.Event) {
	words := bytes.Fields(e.Payload)
	switch {
	case e.Kind == subscription.Live:
		k.change(k.checkAll)
	case e.Kind == subscription.Message && len(words) > 0 && hints[string(words[0])] != noHint:
		k.change(func() {
			for _, keeper := range words[1:] {
				if h := k.keepers[string(keeper)]; h != nil {
					h.heed(hints[string(words[0])])
				}
			}
		})
	}
}

// checkAll makes Redis be asked about all holds, since this proxy can hear from now on only. mu is held.
func (k *Renewer) checkAll() {
	for _, h := range k.holds {
		h.heed(unsaid)
	}
}

// listen subscribes to the channel of this proxy's keepers, however long that takes.
func (k *Renewer) listen() {
	redlock.Insist(k.ctx, func(ctx context.Context) error {
		stop, err := k.engine.Listen(ctx, -1, k.names.KeeperChannel(), k.hear)
		if err != nil {
			return err
		}
		k.change(func() {
			if k.ctx.Err() == nil { // otherwise Close has come first
				k.unlisten, stop = stop, k.unlisten
				k.checkAll()
			}
		})
		stop()
		return nil
	}, func(err error) { k.o.Log.Warn("locks are kept alive without word from other proxies", "err", err) })
}
