package adminpage

import (
	"context"
	"encoding/json"
	"sync"
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

// eventLog has the last events. The board's mu guards it, but for fresh.
type eventLog struct {
	last []eventRow
	seq  uint64 // of the last one

	fresh freshEvents
}

// freshEvents are events that no viewer has seen. Safe for concurrent use.
type freshEvents struct {
	mu      sync.Mutex
	all     []eventRow
	skipped uint64
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
			leave, err := source.Watch(ctx, b.events.fresh.note)
			if err == nil {
				<-ctx.Done()
				leave()
				return
			}
			b.events.fresh.note([]lockevent.Event{{Time: time.Now(), Kind: lockevent.Missed,
				Reason: err.Error()}})
		}
		if !pause(ctx, watchAgain) {
			return
		}
	}
}

// note takes events. It does not block.
func (f *freshEvents) note(all []lockevent.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range all {
		e := &all[i]
		if len(f.all) >= mostNew {
			f.skipped += max(1, e.Count)
			continue
		}
		f.all = append(f.all, eventRow{
			client: clientOf(redlock.Client(e.Client), e.Proxy),
			Time:   e.Time.UnixMilli(), Kind: string(e.Kind), Lock: printable(e.Lock, mostName), Mode: e.Mode,
			Token: e.Token, Fence: e.Fence, Reason: printable(e.Reason, mostReason), Count: e.Count,
		})
	}
}

// take returns what is fresh, and forgets it.
func (f *freshEvents) take() (all []eventRow, skipped uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all, skipped = f.all, f.skipped
	f.all, f.skipped = nil, 0
	return all, skipped
}

// flush shows fresh events, and says whether there are any.
func (l *eventLog) flush() bool {
	all, skipped := l.fresh.take()
	if skipped > 0 {
		all = append(all, eventRow{Time: time.Now().UnixMilli(), Kind: "skipped", Count: skipped})
	}
	for i := range all {
		l.seq++
		all[i].Seq = l.seq
	}
	l.last = append(l.last, all...)
	l.last = l.last[max(0, len(l.last)-mostEvents):]
	return len(all) > 0
}

// since are the events after that with seq, as JSON; nil: there are none.
func (l *eventLog) since(seq uint64) []byte {
	if seq >= l.seq {
		return nil
	}
	text, _ := json.Marshal(l.last[max(0, len(l.last)-int(min(l.seq-seq, mostEvents))):])
	return text
}
