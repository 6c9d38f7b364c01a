// Package watch has the events of locks told to all proxies, and those of all proxies to the clients that
// watch them (LOCKCTL WATCH).
//
//	Note --> lockevent.Stream --> PUBLISH, many events in a message
//	                                            |
//	                                         upstream
//	                                            |
//	Tell <-- hearChange <-- SUBSCRIBE, while anybody watches
//
// Nobody waits for any of that. Events that cannot be passed on are counted, and the next that can be are
// behind an event that tells how many were missed.
package watch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"lockproxy/internal/journal"
	"lockproxy/internal/lockevent"
	"lockproxy/internal/subscription"
)

// Options are what a Relay needs.
type Options struct {
	Proxy string // id of this proxy
	// Publish publishes a message on the channel of events. It may block until ctx ends.
	Publish func(ctx context.Context, message []byte) error
	// Subscribe listens to that channel. It never blocks.
	Subscribe func(notify func(subscription.Change)) (cancel func())
	// Tell gets the events of all proxies, one call after the other. It must not block.
	Tell func([]lockevent.Event)
	Log  *slog.Logger
}

const (
	// mostMessage is from how many bytes on a message takes no further events.
	mostMessage = 64 << 10
	// pause is how long events are collected, so that a proxy publishes 100 messages a second at most.
	pause = 10 * time.Millisecond
	// patience bounds the time of one PUBLISH, and how long a subscription is waited for.
	patience = 5 * time.Second
)

// Relay passes on events: those of this proxy are noted in its Stream. Safe for concurrent use.
type Relay struct {
	*lockevent.Stream
	o      Options
	failed journal.Lines

	// A second Join waits for the first one: otherwise both would be the first.
	joining chan struct{} // full while Join subscribes; capacity 1
	// Below mu: how many Joins were not undone, and the one subscription whose events they all get.
	mu       sync.Mutex
	watchers int
	cancel   func() // of the subscription; nil: there is none
}

// New returns a Relay, of which somebody has to call Run.
func New(o Options) *Relay {
	h := &Relay{o: o, Stream: lockevent.NewStream(), joining: make(chan struct{}, 1)}
	h.Stream.Tell, h.Pause = h.publishEvents, pause
	return h
}

// publishEvents publishes events, and says how many. A message has whole events only. After an error the rest
// is given up: the Stream counts what was not published, and tells of it before the next event that is.
func (h *Relay) publishEvents(ctx context.Context, all []lockevent.Event) (published int) {
	for published < len(all) && ctx.Err() == nil {
		var message []byte
		n := published
		for ; n < len(all) && len(message) < mostMessage; n++ {
			message = all[n].Append(message)
		}
		within, cancel := context.WithTimeout(ctx, patience)
		err := h.o.Publish(within, message)
		cancel()
		if err != nil {
			h.failed.Write(h.o.Log, slog.LevelWarn, "events of locks could not be published",
				"count", len(all)-published, "err", err)
			break
		}
		published = n
	}
	return published
}

// Join has Tell called with the events that are published from now on, until Leave is called as often as
// Join. It blocks until the upstream has confirmed the subscription; after an error there is nothing to
// leave.
func (h *Relay) Join(ctx context.Context) error {
	ctx, stop := context.WithTimeoutCause(ctx, patience, errUnconfirmed)
	defer stop()
	select {
	case h.joining <- struct{}{}:
		defer func() { <-h.joining }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	h.mu.Lock()
	h.watchers++
	first := h.cancel == nil
	h.mu.Unlock()
	// A later one subscribes only to learn that the subscription lives. The room for one, and the look at it
	// before sending, keep the callback from ever blocking: it comes again each time that a lost subscription
	// lives again, when nobody listens to this channel any more.
	answered := make(chan error, 1)
	cancel := h.o.Subscribe(func(e subscription.Change) {
		if (e.Kind == subscription.Live || e.Kind == subscription.Refused) && len(answered) == 0 {
			answered <- e.Err
		}
		if first {
			h.hearChange(e)
		}
	})
	if first {
		h.mu.Lock()
		h.cancel = cancel
		h.mu.Unlock()
	} else {
		defer cancel()
	}
	var err error
	select {
	case err = <-answered:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		h.Leave()
	}
	return err
}

var errUnconfirmed = errors.New("cluster: subscribe: no node confirmed it in time")

// Leave undoes Join. It does not block.
func (h *Relay) Leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers--; h.watchers == 0 {
		h.cancel()
		h.cancel = nil
	}
}

// hearChange is told what happens to the subscription. From the loss of the subscription on events may have
// been missed, and nobody knows how many: the watchers are told so at once, not when the subscription lives
// again.
func (h *Relay) hearChange(e subscription.Change) {
	switch e.Kind {
	case subscription.Message:
		if all := lockevent.Read(e.Payload); len(all) > 0 {
			h.o.Tell(all)
		}
	case subscription.Lost:
		h.o.Tell([]lockevent.Event{{Time: time.Now(), Kind: lockevent.Missed, Proxy: h.o.Proxy,
			Reason: lockevent.NotHeard}})
	}
}
