package keepalive

import (
	"bytes"
	"time"

	"lockproxy/internal/subscription"
)

// hint is what a message on this proxy's channel says about a hold. Anyone who may publish there can send
// one, so none is believed: Redis is asked. If Redis does not have the hold any more, the hint tells why.
type hint uint8

const (
	noHint   hint = iota
	missed        // nobody knows: a message may have come before this proxy could hear it
	taken         // by a keeper of another proxy
	released      // by UNLOCK at another proxy
	broken        // by LOCKCTL BREAK
)

// hintPause is the least time between two questions that hints about one hold cause. It bounds what a flood
// of messages costs.
const hintPause = 100 * time.Millisecond

// heard takes a message of another proxy: keepers, and what became of their holds.
func (k *Renewer) heard(e subscription.Event) {
	if e.Kind == subscription.Live {
		k.change(k.unheard)
	}
	words := bytes.Fields(e.Payload)
	if e.Kind != subscription.Message || len(words) == 0 {
		return
	}
	said := noHint
	switch string(words[0]) {
	case "taken":
		said = taken
	case "released":
		said = released
	case "broken":
		said = broken
	default:
		return
	}
	k.change(func() {
		for _, keeper := range words[1:] {
			if h := k.keepers[string(keeper)]; h != nil {
				k.hinted(h, said)
			}
		}
	})
}

// unheard makes Redis be asked about all holds, since this proxy can hear from now on only. mu is held.
func (k *Renewer) unheard() {
	for _, h := range k.holds {
		k.hinted(h, missed)
	}
}

// hinted makes Redis be asked whether it still has h. mu is held here and in all methods below.
func (k *Renewer) hinted(h *Kept, said hint) {
	h.hint = max(h.hint, said)
	switch {
	case h.doubt != "" && h.hint > missed: // Redis has said already that it has it no more
		k.over(h, h.hint, h.doubt)
	case h.state == resting:
		k.set(h, min(h.at, max(k.now(), h.heeded+hintPause)))
	}
}

// heed turns q into a question that only checks the hold, if a hint is why it is asked: the lease is left
// alone until a renewal is due. It clears the hint of h.
func (k *Renewer) heed(h *Kept, q *question) {
	if q.hint = h.hint; q.hint == noHint {
		return
	}
	now := k.now()
	if h.hint = noHint; q.hint > missed {
		h.heeded = now
	}
	if now < h.until-h.lease*3/4 {
		q.lease = 0
	}
}

// over ends h, which Redis does not have any more. A hold that was released is no loss, nor is one that
// another keeper took over: that one hears of its end. why is the reason if no hint gives one.
func (k *Renewer) over(h *Kept, said hint, why Loss) {
	switch said {
	case taken:
		k.leave(h, Taken)
	case released:
		k.leave(h, Elsewhere)
	case broken:
		k.lose(h, Broken)
	default:
		k.lose(h, why)
	}
}
