package keepalive

import (
	"bytes"
	"log/slog"
	"time"

	"lockproxy/internal/subscription"
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
func (k *Renewer) hear(e subscription.Change) {
	words := bytes.Fields(e.Payload)
	switch {
	case e.Kind == subscription.Live: // from now on only it can be heard what becomes of holds
		k.change(func() {
			for _, h := range k.holds {
				h.heed(unsaid)
			}
		})
	case e.Kind == subscription.Refused:
		k.deaf.Write(k.o.Log, slog.LevelWarn, "locks are kept alive without word from other proxies",
			"err", e.Err)
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

// listen subscribes to the channel of this proxy's keepers, until Close. mu is not held.
func (k *Renewer) listen() {
	stop := k.engine.Listen(-1, k.names.KeeperChannel(), k.hear)
	k.change(func() {
		if k.ctx.Err() == nil {
			k.unlisten = stop
		} else { // Close has come first
			k.told = append(k.told, stop)
		}
	})
}
