package keepalive

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/redlock"
)

// names of the states, and of the events, as they stand in cells.
var (
	stateNames = strings.Fields("resting ready asked doubted readyAgain askedAgain freeing clearing over")
	eventNames = strings.Fields("begun due expired spent sent lasts lastsLate gone goneWhy elsewhere " +
		"silent missed told prolonged letGo release givenUp freed unfreed abandoned")
)

// cells say what each event does in each state: "." nothing; else the state after it, when something is due
// then (@), and what is told of the hold (!).
const cells = `
           resting                ready                  asked
begun      .                      .                      .
due        ready@end              .                      .
expired    clearing@late!expired  clearing@late!expired  clearing@late!expired
spent      over!max               over!max               over!max
sent       asked@end              asked@end              .
lasts      resting@third          resting@third          resting@third
lastsLate  resting@third          resting@third          asked@end
gone       doubted@doubt          doubted@doubt          doubted@doubt
goneWhy    over!broken            over!broken            over!broken
elsewhere  over!taken             over!taken             over!taken
silent     .                      .                      ready@end
missed     resting@now            .                      .
told       resting@now            .                      .
prolonged  resting@third          ready@end              asked@end
letGo      over                   over                   over
release    freeing@now            freeing@now            freeing@now
givenUp    clearing@now!together  clearing@now!together  clearing@now!together
freed      .                      .                      .
unfreed    .                      .                      .
abandoned  .                      .                      .

           doubted                readyAgain             askedAgain
begun      .                      .                      .
due        readyAgain@end         .                      .
expired    over!gone              clearing@late!expired  clearing@late!expired
spent      over!max               over!max               over!max
sent       .                      askedAgain@end         .
lasts      .                      resting@third          resting@third
lastsLate  .                      resting@third          asked@end
gone       .                      over!gone              over!gone
goneWhy    .                      over!broken            over!broken
elsewhere  .                      over!taken             over!taken
silent     .                      .                      readyAgain@end
missed     .                      .                      .
told       over!broken            over!broken            over!broken
prolonged  .                      readyAgain@end         askedAgain@end
letGo      over                   over                   over
release    freeing@now            freeing@now            freeing@now
givenUp    clearing@now!together  clearing@now!together  clearing@now!together
freed      .                      .                      .
unfreed    .                      .                      .
abandoned  .                      .                      .

           freeing                clearing               over
begun      .                      .                      resting@third
due        freeing@now            clearing@now           .
expired    .                      .                      .
spent      .                      .                      .
sent       .                      .                      .
lasts      .                      .                      .
lastsLate  .                      .                      .
gone       .                      .                      .
goneWhy    .                      .                      .
elsewhere  .                      .                      .
silent     .                      .                      .
missed     .                      .                      .
told       .                      .                      .
prolonged  .                      .                      .
letGo      .                      .                      .
release    .                      .                      .
givenUp    .                      .                      .
freed      over!freed             over                   .
unfreed    freeing@pause          clearing@pause         .
abandoned  over                   over                   .
`

// Each event does in each state what the table says, and nothing in the others. R18 R19
func TestEachCell(t *testing.T) {
	met := 0
	for _, part := range strings.Split(strings.Trim(cells, "\n"), "\n\n") {
		rows := strings.Split(part, "\n")
		states := strings.Fields(rows[0])
		for i, row := range rows[1:] {
			words := strings.Fields(row)
			if words[0] != eventNames[i] || len(words) != 1+len(states) {
				t.Fatalf("the table has %q for %s", row, eventNames[i])
			}
			for j, name := range states {
				met++
				if got := meeting(t, name, holdEvent(i)); got != words[1+j] {
					t.Errorf("%s in %s: %s, want %s", words[0], name, got, words[1+j])
				}
			}
		}
	}
	if want := int(events) * int(over); met != want {
		t.Errorf("%d cells, want %d", met, want)
	}
}

// What a hint says of a hold that is gone is told of it.
func TestEachHint(t *testing.T) {
	for said, want := range map[hint]string{saidTaken: "over!taken", saidReleased: "over!elsewhere",
		saidBroken: "over!broken"} {
		for _, e := range []holdEvent{told, goneWhy} {
			if got := meeting(t, "askedAgain", e, func(h *Kept) { h.hint = said }); got != want {
				t.Errorf("%s after hint %d: %s, want %s", eventNames[e], said, got, want)
			}
		}
	}
	spent := func(h *Kept) { h.of.Max, h.made = 1, 1 }
	if got := meeting(t, "askedAgain", gone, spent); got != "over!max" {
		t.Errorf("gone after MAX renewals: %s", got)
	}
}

// paths are the events that lead to a state.
var paths = map[string][]holdEvent{
	"resting": {begun}, "ready": {begun, due}, "asked": {begun, due, sent},
	"doubted": {begun, due, sent, gone}, "readyAgain": {begun, due, sent, gone, due},
	"askedAgain": {begun, due, sent, gone, due, sent},
	"freeing":    {begun, release}, "clearing": {begun, givenUp}, "over": {begun, letGo},
}

// meeting brings a hold into a state, and is what e does with it then, as in cells.
func meeting(t *testing.T, from string, e holdEvent, change ...func(*Kept)) (cell string) {
	synctest.Test(t, func(t *testing.T) {
		told := ""
		k := New(nobody{}, redlock.NewNames("lock:"), Options{Log: slog.New(slog.DiscardHandler)})
		h := &Kept{k: k, state: over, of: Hold{Name: "job", Keeper: "k", Lease: lease,
			Lost: func(l Lost) { told += "!" + string(l.Why) },
			Over: func(how End, _ int64) { told += "!" + string(how) },
		}}
		h.due.owner = h
		time.Sleep(time.Minute)
		k.mu.Lock()
		defer k.mu.Unlock() // then it is freed, if it is to be
		defer func() {
			h.slot.ready = nil
			h.meetEvent(letGo)
		}()
		h.slot = k.slotOf(1)
		h.until, h.heeded = k.now()+lease, -hintPause
		h.end, h.latest = h.until+lastWord, h.until+2*lastWord
		for _, e := range paths[from] {
			h.meetEvent(e)
		}
		k.leaving.nextHold() // a freer has it
		k.told, h.hint, h.slot.ready = nil, hintOf[e], nil
		if h.state == ready || h.state == readyAgain {
			h.slot.ready = []*Kept{h}
		}
		for _, f := range change {
			f(h)
		}
		if h.state != state(1+slices.Index(stateNames, from)) {
			t.Fatalf("it is in state %d, not %s", h.state, from)
		}
		if !h.meetEvent(e) {
			cell = "."
			return
		}
		if n := len(h.slot.ready); n != 1 && (h.state == ready || h.state == readyAgain) {
			t.Errorf("it stands in line %d times", n)
		}
		for _, tell := range k.told {
			tell()
		}
		cell = stateNames[h.state-1] + dueIn(h) + told
	})
	return cell
}

// hintOf is the hint that an event is about.
var hintOf = map[holdEvent]hint{missed: unsaid, told: saidBroken, goneWhy: saidBroken}

// dueIn is when something is due for h, as in cells.
func dueIn(h *Kept) string {
	third := h.until - lease*2/3
	switch at, now := h.due.at, h.k.now(); {
	case len(h.k.leaving.holds) > 0:
		return "@now"
	case h.due.place == 0:
		return ""
	case at == now:
		return "@now"
	case at == now+20*time.Millisecond:
		return "@pause"
	case at == now+doubtTime:
		return "@doubt"
	case at == h.latest:
		return "@late"
	case at == h.end:
		return "@end"
	case at <= third && at >= third-lease/30:
		return "@third"
	default:
		return "@" + (at - now).String()
	}
}

// nobody is an engine without an upstream.
type nobody struct{ Engine }

func (nobody) Detach(context.Context, string, string, string, func()) error { return nil }
