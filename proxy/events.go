package proxy

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"lockproxy/internal/lockevent"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
	"lockproxy/internal/subscription"
	"lockproxy/proxy/watch"
)

// events passes on what happens to locks and settings.
type events struct {
	audit Audit      // nil: there is none
	hub   *watch.Hub // for those who watch; nil: nobody can
	proxy string     // the id of this proxy
	// view has the events while somebody looks at them: those of all proxies if there is a hub, else those of
	// this one; nil: nobody does.
	view atomic.Pointer[func([]lockevent.Event)]
}

// locks returns what takes the events of locks; nil: nobody wants any.
func (e *events) locks() func(lockevent.Event) {
	if e.audit == nil && e.hub == nil && e.view.Load() == nil {
		return nil
	}
	return func(one lockevent.Event) {
		one.Proxy = e.proxy
		if e.audit != nil {
			e.audit.Note(one)
		}
		if e.hub != nil {
			e.hub.Note(one)
		} else {
			e.show([]lockevent.Event{one})
		}
	}
}

// show passes events to whoever looks at them.
func (e *events) show(all []lockevent.Event) {
	if tell := e.view.Load(); tell != nil {
		(*tell)(all)
	}
}

// audited notes an event that is for the audit log alone.
func (e *events) audited(one lockevent.Event) {
	if e.audit == nil {
		return
	}
	one.Time, one.Proxy = time.Now(), e.proxy
	e.audit.Note(one)
}

// counts counts those for the audit log, and those for LOCKCTL WATCH.
func (e *events) counts() (audit, watch EventCounts) {
	if audit.On = e.audit != nil; audit.On {
		audit.Told, audit.Lost = e.audit.Counts()
	}
	if watch.On = e.hub != nil; watch.On {
		watch.Told, watch.Lost = e.hub.Counts()
	}
	return audit, watch
}

// startWatching makes the hub of the events of locks, if they are to be told.
func startWatching(s *Server, prefix, proxy string) *watch.Hub {
	if !s.o.LockEvents {
		return nil
	}
	channel := prefix + "events"
	publish := func(ctx context.Context, message []byte) error {
		req := resp.AppendCommand(nil, []byte("PUBLISH"), []byte(channel), message)
		reply, err := s.client.Do(ctx, slot.Of([]byte(channel)), req, false)
		if err == nil && resp.IsError(reply) {
			err = errors.New(strings.TrimSpace(string(reply[1:])))
		}
		return err
	}
	subscribe := func(ctx context.Context, notify func(subscription.Event)) (func(), error) {
		return s.topics.Subscribe(ctx, -1, channel, notify)
	}
	h := watch.New(watch.Options{Proxy: proxy, Publish: publish, Subscribe: subscribe, Log: s.o.Log,
		Tell: func(all []lockevent.Event) {
			s.events.show(all)
			s.shared.Watchers.Tell(all)
		}})
	go h.Run(s.shared.Context) // ends in stop
	return h
}
