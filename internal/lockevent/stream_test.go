package lockevent

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// What has no room, or cannot be told, is counted, and told of once, in front of the next events that are
// told.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, lost := NewStream(), 0
		fails := 2 // first all are lost, then all but one
		var all []Event
		s.Tell = func(_ context.Context, some []Event) int {
			if fails--; fails >= 0 {
				some = some[:1-fails]
			}
			all = append(all, some...)
			return len(some)
		}
		s.Lost = func(n int) { lost += n }
		note := func(n int) {
			for range n {
				s.Note(Event{Kind: Granted, Time: time.Unix(7, 0), Proxy: "p"})
			}
		}
		ctx, end := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			s.Run(ctx)
		}()
		note(1)
		synctest.Wait() // it is lost
		note(1)
		synctest.Wait() // the one that was lost is told, and this one is lost
		note(1)
		synctest.Wait()
		end()
		<-over
		note(MostQueued + 5)
		s.Run(ctx)
		granted := Event{Kind: Granted, Time: time.Unix(7, 0), Proxy: "p"}
		missed := func(n uint64) Event {
			return Event{Kind: Missed, Time: time.Unix(7, 0), Proxy: "p", Count: n}
		}
		want := append([]Event{missed(1), missed(1), granted, missed(5)},
			slices.Repeat([]Event{granted}, MostQueued)...)
		if !slices.Equal(all, want) {
			t.Errorf("told %d events, the first %v", len(all), all[:min(len(all), 5)])
		}
		if told, n := s.Counts(); told != MostQueued+1 || n != 7 || lost != 7 {
			t.Errorf("%d told, %d lost, %d of them said", told, n, lost)
		}
	})
}
