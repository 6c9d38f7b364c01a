package keepalive

import (
	"bytes"
	"time"

	"lockproxy/internal/subscription"
)

// hint is what a message on the channel of this proxy says of a hold. Whoever may publish there can send one,
// so none is believed: Redis is asked, and if it does not have the hold any more, the hint says why.
type hint uint8

const (
	noHint   hint = iota
	released      // by UNLOCK at another proxy
	broken        // by LOCKCTL BREAK
)

// hintPause is how long after a question that a hint has caused the next hint of that hold may cause another
// one: a flood of messages costs only so many questions.
const hintPause = 100 * time.Millisecond

// heard takes a message of another proxy: what became of holds, and their keepers.
func (k *Renewer) heard(e subscription.Event) {
	words := bytes.Fields(e.Payload)
	if e.Kind != subscription.Message || len(words) == 0 {
		return
	}
	said := noHint
	switch string(words[0]) {
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

// hinted has Redis asked whether it still has h. mu is held, as in all below.
func (k *Renewer) hinted(h *Kept, said hint) {
	h.hint = max(h.hint, said)
	switch h.state {
	case resting:
		k.set(h, min(h.at, max(k.now(), h.heeded+hintPause)))
	case doubted: // Redis has said already that it has it no more
		k.over(h, h.hint, h.doubt)
	}
}

// heed is the question about h if it is asked because of a hint, which it takes from h: until a renewal is
// due nothing is changed. Otherwise it is as good as any other.
func (k *Renewer) heed(h *Kept, q *question) {
	if q.hint = h.hint; q.hint == noHint {
		return
	}
	h.hint, h.heeded = noHint, k.now()
	if h.heeded < h.until-h.lease*3/4 {
		q.lease = 0
	}
}

// over ends h, which Redis has no more: released is no loss. why is the loss without a hint.
func (k *Renewer) over(h *Kept, said hint, why Loss) {
	switch said {
	case released:
		k.end(h)
	case broken:
		k.lose(h, Broken)
	default:
		k.lose(h, why)
	}
}
