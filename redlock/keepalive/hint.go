package keepalive

import (
	"bytes"
	"log/slog"
	"time"

	"lockproxy/internal/subscription"
)

// hint is what a message on this proxy's channel says about a hold. Anyone who may publish there can send
// one, so none is believed: Redis is asked. If Redis does not have the hold any more, the hint tells why.
// Those behind say more: of two the higher one counts.
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

// heedHint makes Redis be asked whether it still has h. Renewer.mu is held.
func (h *Kept) heedHint(said hint) {
	if h.hint = max(h.hint, said); h.hint > unsaid {
		h.meetEvent(told)
	} else {
		h.meetEvent(missed)
	}
}

// hearMessage takes a message of another proxy: what became of holds, and their keepers.
func (k *Renewer) hearMessage(e subscription.Change) {
	words := bytes.Fields(e.Payload)
	switch {
	case e.Kind == subscription.Live: // from now on only it can be heard what becomes of holds
		k.changeHolds(func() {
			for _, h := range k.holds {
				h.heedHint(unsaid)
			}
		})
	// It goes on: renewals find what has gone, only later.
	case e.Kind == subscription.Refused:
		k.deaf.Write(k.o.Log, slog.LevelWarn, "locks are kept alive without word from other proxies",
			"err", e.Err)
	case e.Kind == subscription.Message && len(words) > 0 && hints[string(words[0])] != noHint:
		k.changeHolds(func() {
			for _, keeper := range words[1:] {
				if h := k.keepers[string(keeper)]; h != nil {
					h.heedHint(hints[string(words[0])])
				}
			}
		})
	}
}

// listenForHints subscribes to the channel of this proxy's keepers, until Close. mu is not held.
func (k *Renewer) listenForHints() {
	stop := k.engine.Listen(-1, k.names.KeeperChannel(), k.hearMessage)
	k.changeHolds(func() {
		if k.ctx.Err() == nil {
			k.unlisten = stop
		} else { // Close has come first
			k.told = append(k.told, stop)
		}
	})
}
