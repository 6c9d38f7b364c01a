package adminpage

import (
	"context"
	"time"

	"lockproxy/internal/lockevent"
	"lockproxy/internal/sleep"
	"lockproxy/redlock"
)

const (
	// mostEvents is how many events are kept for viewers.
	mostEvents = 200
	// eventsEvery is how often new events are shown, and mostNew how many of them. The others are counted.
	eventsEvery = 250 * time.Millisecond
	mostNew     = 50
	// watchAgain is the pause before events are asked for again that could not be heard.
	watchAgain = 5 * time.Second
)

// eventLog has the last events. The board's mu guards it. Times and numbers are those of this proxy: a viewer
// that comes later gets what is kept.
type eventLog struct {
	last    []eventRow
	seq     uint64 // of the last one
	fresh   int    // how many of them have come since flush
	skipped uint64 // how many others
}

// eventRow is an event as viewers see it.
type eventRow struct {
	client
	Seq    uint64 `json:"seq"`
	Time   int64  `json:"time"` // in ms
	Kind   string `json:"kind"`
	Lock   string `json:"lock"`
	Mode   string `json:"mode"`
	Token  string `json:"token"` // its digest
	Fence  int64  `json:"fence"`
	Reason string `json:"reason"`
	Count  uint64 `json:"count"` // of a missed or skipped
}

// watchEvents hears events until ctx ends.
func (b *board) watchEvents(ctx context.Context) {
	for {
		if source := b.o.Source(); source != nil {
			// It hears as long as anybody looks, and calls noteEvents from another goroutine.
			leave, err := source.Watch(ctx, b.noteEvents)
			if err == nil {
				<-ctx.Done()
				leave()
				return
			}
			// so viewers see that what follows has a gap, and why
			b.noteEvents([]lockevent.Event{{Time: time.Now(), Kind: lockevent.Missed,
				Reason: err.Error()}})
		}
		if !sleep.For(ctx, watchAgain) {
			return
		}
	}
}

// noteEvents takes events. It does not wait for anybody.
func (b *board) noteEvents(all []lockevent.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events.noteEvents(all)
}

func (l *eventLog) noteEvents(all []lockevent.Event) {
	for i := range all {
		e := &all[i]
		// At most 200 events a second reach a browser: mostNew in each eventsEvery.
		if l.fresh >= mostNew {
			// Count of an event that tells of missed ones; others have 0 and are one event.
			l.skipped += max(1, e.Count)
			continue
		}
		l.fresh++
		l.addRow(eventRow{
			client: clientOf(redlock.Client(e.Client), e.Proxy),
			Time:   e.Time.UnixMilli(), Kind: string(e.Kind), Lock: printable(e.Lock, mostName), Mode: e.Mode,
			Token: e.Token, Fence: e.Fence, Reason: printable(e.Reason, mostReason), Count: e.Count,
		})
	}
}

// addRow makes e the last event.
func (l *eventLog) addRow(e eventRow) {
	l.seq++
	e.Seq = l.seq
	// Behind what viewers may be reading, never over it.
	l.last = append(l.last, e)
	l.last = l.last[max(0, len(l.last)-mostEvents):]
}

// flushFresh says whether events have come since it was called before. From now on more of them are kept.
func (l *eventLog) flushFresh() bool {
	if l.skipped > 0 {
		l.addRow(eventRow{Time: time.Now().UnixMilli(), Kind: "skipped", Count: l.skipped})
	}
	some := l.fresh > 0
	l.fresh, l.skipped = 0, 0
	return some
}

// since are the events after that with seq. They stay as they are. seq 0 is before all of them. What was
// dropped since seq is left out.
func (l *eventLog) since(seq uint64) []eventRow {
	return l.last[max(0, len(l.last)-int(min(l.seq-seq, mostEvents))):]
}
