package lockevent

import (
	"context"
	"sync/atomic"
	"time"

	"lockproxy/internal/sleep"
)

const (
	// MostQueued is how many events may wait in a Stream.
	MostQueued = 8192
	// mostTold is how many events are told at a time.
	mostTold = 1024
)

// Stream is a way of events to one of those that are told of them:
//
//	Note --> Run, a goroutine --> Tell: many at a time, in their order
//
// Nobody waits for that. What has no room, or cannot be told, is counted, and in front of the next events
// that are told is one that says how many were missed. Safe for concurrent use.
type Stream struct {
	// Tell tells of events, and says of how many: those behind them are lost.
	Tell func(ctx context.Context, all []Event) (told int)
	// Pause is how long events are collected before they are told.
	Pause time.Duration
	// Lost, if not nil, is told how many events were lost just now.
	Lost func(n int)

	events     chan Event
	missed     atomic.Uint64 // lost ones of which those who are told have still to hear
	told, lost atomic.Uint64
}

// NewStream returns a Stream, whose exported fields the caller sets before it calls Run, once.
func NewStream() *Stream { return &Stream{events: make(chan Event, MostQueued)} }

// Note has an event told. It does not block. An event that has no room is lost and counted: a lock must not
// wait for those who watch it.
func (s *Stream) Note(e Event) {
	select {
	case s.events <- e:
	default:
		s.loseEvents(1)
	}
}

func (s *Stream) loseEvents(n int) {
	s.lost.Add(uint64(n))
	s.missed.Add(uint64(n))
	if s.Lost != nil {
		s.Lost(n)
	}
}

// Run tells of events until ctx ends, and then of those that still wait.
func (s *Stream) Run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case e := <-s.events:
			sleep.For(ctx, s.Pause)
			s.tellWaiting(ctx, e)
		case <-ctx.Done():
		}
	}
	for len(s.events) > 0 {
		s.tellWaiting(ctx, <-s.events)
	}
}

// tellWaiting tells of first, and others that wait.
func (s *Stream) tellWaiting(ctx context.Context, first Event) {
	var all []Event
	gap, gaps := s.missed.Swap(0), 0 // events that were missed; events of all that tell of it
	if gap > 0 {
		all = append(all, Event{Time: first.Time, Kind: Missed, Proxy: first.Proxy, Count: gap})
		gaps = 1
	}
	all = append(all, first)
	for len(s.events) > 0 && len(all) < mostTold {
		all = append(all, <-s.events)
	}
	told := s.Tell(ctx, all)
	// Not even the event about the gap was told, so the gap goes on.
	if told < gaps {
		s.missed.Add(gap)
		told = gaps
	}
	s.told.Add(uint64(told - gaps))
	if lost := len(all) - told; lost > 0 {
		s.loseEvents(lost)
	}
}

// Waiting is how many events are still to be told.
func (s *Stream) Waiting() int { return len(s.events) }

// Counts is how many events were told, and how many were lost. Those about missed ones are neither.
func (s *Stream) Counts() (told, lost uint64) { return s.told.Load(), s.lost.Load() }
