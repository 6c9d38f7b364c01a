package proxy

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/commands"
	"lockproxy/internal/glob"
	"lockproxy/internal/lockevent"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
	"lockproxy/internal/subscription"
	"lockproxy/proxy/watch"
)

// watchers are the clients of a loop that watch the events of locks (LOCKCTL WATCH).
//
//	watch.Hub --> tellWatchers --(posted to each loop that has any)--> watcher.tell
type watchers struct {
	own     map[*watcher]struct{}
	any     atomic.Bool
	pending atomic.Int64  // events on their way to the loop
	missed  atomic.Uint64 // events that were left out since too many were
}

const (
	// mostPending bounds the events on their way to a loop.
	mostPending = 20_000
	// mostUnread is how many bytes may wait for a client that watches. Of further events it is told how many
	// it has missed.
	mostUnread = 1 << 20
)

var watchOnly = []byte("-ERR this connection watches locks: use another one for that, or RESET\r\n")

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
	h := watch.New(watch.Options{Proxy: proxy, Publish: publish, Subscribe: subscribe,
		Tell: func(all []lockevent.Event) { tellWatchers(s, all) }, Log: s.o.Log})
	go h.Run(s.ctx) // ends in stop
	return h
}

// tellWatchers passes events, which must not change any more, to every loop with clients that watch, and to
// whoever looks at them.
func tellWatchers(s *Server, all []lockevent.Event) {
	s.events.show(all)
	n := int64(len(all))
	for _, w := range s.workers {
		switch {
		case !w.watchers.any.Load():
		case w.watchers.pending.Add(n) > mostPending:
			w.watchers.pending.Add(-n)
			w.watchers.missed.Add(uint64(n))
		default:
			w.loop.Post(func() {
				w.watchers.pending.Add(-n)
				w.watchers.tell(all)
			})
		}
	}
}

// tell tells the clients of the loop.
func (w *watchers) tell(all []lockevent.Event) {
	missed := w.missed.Swap(0)
	for one := range w.own {
		one.missed += missed
		one.tell(all)
	}
}

// watcher is one client's part in LOCKCTL WATCH.
type watcher struct {
	h      host
	out    *output
	match  []byte // pattern of the names of locks
	missed uint64 // events that it is still to be told of
}

// start is LOCKCTL WATCH. By the time of the reply the upstream has confirmed the subscription, so no later
// event is missed.
func (w *watcher) start(match []byte) {
	h, server := w.h, w.h.worker().server
	h.Actions().Await(func(done func([]byte)) {
		go func() { // ends when the upstream has answered, or after some seconds
			if err := server.events.hub.Join(server.ctx); err != nil {
				done(commands.ErrorReply(err))
				return
			}
			done(resp.OK)
		}()
	}, func(reply []byte) []byte {
		switch {
		case resp.IsError(reply):
		case h.Gone() || h.About().Watching:
			server.events.hub.Leave()
		default:
			w.match = match
			h.About().Watching = true
			h.worker().addWatcher(w)
		}
		return reply
	}, nil)
}

// addWatcher has a client told of events.
func (w *worker) addWatcher(one *watcher) {
	if w.watchers.own == nil {
		w.watchers.own = make(map[*watcher]struct{})
	}
	w.watchers.own[one] = struct{}{}
	w.watchers.any.Store(true)
	w.watch()
}

// end ends LOCKCTL WATCH, if the client does that.
func (w *watcher) end() {
	about := w.h.About()
	if !about.Watching {
		return
	}
	about.Watching = false
	all := &w.h.worker().watchers
	delete(all.own, w)
	all.any.Store(len(all.own) > 0)
	w.missed = 0
	w.h.worker().watch()
	w.h.worker().server.events.hub.Leave()
}

// tell tells the client of the events of the locks that it watches.
func (w *watcher) tell(all []lockevent.Event) {
	if !w.h.TakesPushes() {
		return
	}
	proto, room := w.h.About().Proto, mostUnread-w.out.waiting()
	var b []byte
	for i := range all {
		e := &all[i]
		if e.Lock != "" && !glob.Match(w.match, []byte(e.Lock)) {
			continue
		}
		if len(b) >= room {
			w.missed++
			continue
		}
		if w.missed > 0 {
			b = appendEvent(b, proto, &lockevent.Event{Time: time.Now(), Kind: lockevent.Missed,
				Count: w.missed, Reason: lockevent.Slow, Proxy: w.h.worker().server.events.proxy})
			w.missed = 0
		}
		b = appendEvent(b, proto, e)
	}
	if len(b) > 0 {
		w.h.Push(w.h.Answers().Answered(), func(int) []byte { return b })
	}
}

// appendEvent appends what a client is told of an event: a push of "lock-event", the kind, and a map.
func appendEvent(b []byte, proto int, e *lockevent.Event) []byte {
	b = resp.AppendPush(b, proto, 3)
	b = resp.AppendBulks(b, "lock-event", string(e.Kind))
	b = resp.AppendMap(b, proto, 11)
	b = resp.AppendBulks(b, "lock", e.Lock, "mode", e.Mode, "token", e.Token, "fence")
	b = redcon.AppendInt(b, e.Fence)
	b = resp.AppendBulks(b, "client", e.Client.Addr, "name", e.Client.Name, "user", e.Client.User,
		"proxy", e.Proxy, "time")
	b = redcon.AppendInt(b, e.Time.UnixMicro())
	b = resp.AppendBulks(b, "reason", e.Reason, "count")
	return redcon.AppendInt(b, int64(e.Count))
}
