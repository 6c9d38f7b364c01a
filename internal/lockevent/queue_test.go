package lockevent

import (
	"testing"
	"time"
)

// What has no room is counted, and told of once; after a gap that could not be told, in the next one.
func TestQueue(t *testing.T) {
	q, n := NewQueue(), uint64(0)
	for q.Put(Event{Kind: Granted}) {
		n++
	}
	if n != MostQueued {
		t.Errorf("%d events wait", n)
	}
	q.Lose(2)
	gap := q.Gap(time.Unix(7, 0), "p")
	if want := (Event{Time: time.Unix(7, 0), Kind: Missed, Proxy: "p", Count: 2}); gap != want {
		t.Errorf("%+v", gap)
	}
	q.Again(gap)
	q.Lose(1)
	if gap = q.Gap(time.Now(), "p"); gap.Count != 3 {
		t.Errorf("%+v", gap)
	}
	if gap = q.Gap(time.Now(), "p"); gap.Count != 0 {
		t.Errorf("again: %+v", gap)
	}
	q.Told(5)
	if told, lost := q.Counts(); told != 5 || lost != 3 {
		t.Errorf("%d told, %d lost", told, lost)
	}
}
