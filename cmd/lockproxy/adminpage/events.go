package adminpage

import (
	"context"
	"time"

	"lockproxy/internal/lockevent"
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

// eventLog has the last events. The board's mu guards it.
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

// watch hears events until ctx ends.
func (b *board) watch(ctx context.Context) {
	for {
		if source := b.o.Source(); source != nil {
			leave, err := source.Watch(ctx, b.note)
			if err == nil {
				<-ctx.Done()
				leave()
				return
			}
			b.note([]lockevent.Event{{Time: time.Now(), Kind: lockevent.Missed,
				Reason: err.Error()}})
		}
		if !pause(ctx, watchAgain) {
			return
		}
	}
}

// note takes events. It does not wait for anybody.
func (b *board) note(all []lockevent.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events.note(all)
}

func (l *eventLog) note(all []lockevent.Event) {
	for i := range all {
		e := &all[i]
		if l.fresh >= mostNew {
			l.skipped += max(1, e.Count)
			continue
		}
		l.fresh++
		l.add(eventRow{
			client: clientOf(redlock.Client(e.Client), e.Proxy),
			Time:   e.Time.UnixMilli(), Kind: string(e.Kind), Lock: printable(e.Lock, mostName), Mode: e.Mode,
			Token: e.Token, Fence: e.Fence, Reason: printable(e.Reason, mostReason), Count: e.Count,
		})
	}
}

// add makes e the last event.
func (l *eventLog) add(e eventRow) {
	l.seq++
	e.Seq = l.seq
	l.last = append(l.last, e)
	l.last = l.last[max(0, len(l.last)-mostEvents):]
}

// flush says whether events have come since it was called before. From now on more of them are kept.
func (l *eventLog) flush() bool {
	if l.skipped > 0 {
		l.add(eventRow{Time: time.Now().UnixMilli(), Kind: "skipped", Count: l.skipped})
	}
	some := l.fresh > 0
	l.fresh, l.skipped = 0, 0
	return some
}

// since are the events after that with seq. They stay as they are.
func (l *eventLog) since(seq uint64) []eventRow {
	return l.last[max(0, len(l.last)-int(min(l.seq-seq, mostEvents))):]
}
