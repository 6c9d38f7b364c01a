package watch

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/commands"
	"lockproxy/internal/glob"
	"lockproxy/internal/lockevent"
	"lockproxy/internal/loop"
	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
)

// Watchers are the clients of all loops that watch the events of locks (LOCKCTL WATCH).
//
//	Relay --> Watchers.Tell --(posted to each loop that has any)--> Watcher.tellEvents
type Watchers struct {
	Context context.Context // of what is asked of Relay
	Hub     *Relay          // nil: nobody can watch
	loops   []*Loop
}

// Loop is those of one loop, to which it belongs.
type Loop struct {
	all  *Watchers
	loop *loop.Loop

	// Only own belongs to the loop alone. The others are what Tell, on the goroutine of the Relay, may know
	// of it.
	own     map[*Watcher]struct{}
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

// Only is for a client that watches and sends a command about data.
var Only = []byte("-ERR this connection watches locks: use another one for that, or RESET\r\n")

// Loop makes one more loop, before there is any client.
func (a *Watchers) Loop(l *loop.Loop) *Loop {
	one := &Loop{all: a, loop: l, own: make(map[*Watcher]struct{})}
	a.loops = append(a.loops, one)
	return one
}

// Tell passes events, which must not change any more, to every loop with clients that watch. The Relay calls
// it, on one goroutine at a time. It never blocks: a loop that is behind by mostPending events gets no more,
// and tells its clients how many they have missed.
func (a *Watchers) Tell(all []lockevent.Event) {
	n := int64(len(all))
	for _, l := range a.loops {
		switch {
		case !l.any.Load():
		case l.pending.Add(n) > mostPending:
			l.pending.Add(-n)
			l.missed.Add(uint64(n))
		default:
			l.loop.Post(func() {
				l.pending.Add(-n)
				l.tellWatchers(all)
			})
		}
	}
}

// Any says that a client of the loop watches.
func (l *Loop) Any() bool { return len(l.own) > 0 }

// tellWatchers tells the clients of the loop.
func (l *Loop) tellWatchers(all []lockevent.Event) {
	missed := l.missed.Swap(0)
	for one := range l.own {
		one.missed += missed
		one.tellEvents(all)
	}
}

// noteWatcher notes that a client begins to watch, or does no more. It must run on the loop.
func (l *Loop) noteWatcher(one *Watcher, watches bool) {
	if watches {
		l.own[one] = struct{}{}
	} else {
		delete(l.own, one)
	}
	l.any.Store(l.Any())
}

// Watcher is one client's part in LOCKCTL WATCH.
type Watcher struct {
	h      client.Host
	on     *Loop
	unread func() int // bytes that wait for the client
	match  []byte     // pattern of the names of locks
	missed uint64     // events that it is still to be told of
}

// NewWatcher is that of a client of the loop.
func NewWatcher(h client.Host, on *Loop, unread func() int) Watcher {
	return Watcher{h: h, on: on, unread: unread}
}

// Start is LOCKCTL WATCH. By the time of the reply the upstream has confirmed the subscription, so no later
// event is missed. Join blocks, so it runs on a goroutine; its result comes back to the loop.
func (w *Watcher) Start(match []byte) {
	h, hub, ctx := w.h, w.on.all.Hub, w.on.all.Context
	h.SetHold(client.HoldOrder) // RESET, or another WATCH, comes behind it
	h.Actions().Await(func(done func([]byte)) {
		go func() { // ends when the upstream has answered, or after some seconds
			if err := hub.Join(ctx); err != nil {
				done(commands.ErrorReply(err))
				return
			}
			done(resp.OK)
		}()
	}, func(reply []byte) []byte {
		switch {
		case resp.IsError(reply):
		case h.Gone(): // End has run already: this Join would never be undone
			hub.Leave()
		default:
			w.match = match
			h.About().Watching = true
			w.on.noteWatcher(w, true)
		}
		return reply
	}, nil)
}

// End ends LOCKCTL WATCH, if the client does that.
func (w *Watcher) End() {
	if about := w.h.About(); about.Watching {
		about.Watching = false
		w.missed = 0
		w.on.noteWatcher(w, false)
		w.on.all.Hub.Leave()
	}
}

// tellEvents tells the client of the events of the locks that it watches. Events without the name of a lock
// concern all who watch. A client that does not read is not waited for, nor closed: it is told later how many
// events were left out.
func (w *Watcher) tellEvents(all []lockevent.Event) {
	if !w.h.TakesPushes() {
		return
	}
	proto, room := w.h.About().Proto, mostUnread-w.unread()
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
				Count: w.missed, Reason: lockevent.Slow, Proxy: w.on.all.Hub.o.Proxy})
			w.missed = 0
		}
		b = appendEvent(b, proto, e)
	}
	if len(b) > 0 {
		w.h.Push(w.h.Answers().Answered(), b)
	}
}

// appendEvent appends what a client is told of an event: a push of "lock-event", the kind, and a map. RESP2
// has neither pushes nor maps: there it is an array of three, the last of which has 11 names, each
// followed by its value.
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
