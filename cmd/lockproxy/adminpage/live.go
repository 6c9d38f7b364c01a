package adminpage

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"
)

// writePatience is how long a viewer may take to read what it is sent.
const writePatience = 15 * time.Second

// hello is the first event of a stream. Token is for breaking locks, and is sent only if that is allowed.
type hello struct {
	Actions bool    `json:"actions"`
	Token   string  `json:"token,omitempty"`
	Points  []point `json:"points"`
}

// serveLive is the stream of one viewer: events of the kinds hello, status, locks and events, with JSON. It
// blocks until the viewer goes, the board is closed, or a write fails.
func (b *board) serveLive(w http.ResponseWriter, r *http.Request) {
	match := r.URL.Query().Get("match")
	if len(match) > mostMatch || !utf8.ValidString(match) {
		http.Error(w, "match: too long, or no text", http.StatusBadRequest)
		return
	}
	s, err := b.addViewer(match)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer b.removeViewer(s)
	// The browser connects again by itself when it breaks (EventSource).
	w.Header().Set("Content-Type", "text/event-stream")
	out := stream{w: w, to: http.NewResponseController(w)}
	b.mu.Lock()
	first := hello{Actions: b.o.Values().Admin.Actions, Points: append([]point{}, b.points...)}
	b.mu.Unlock()
	if first.Actions {
		first.Token = b.token
	}
	text, _ := json.Marshal(first)
	out.sendEvent("hello", text)
	// what this viewer has been sent: versions of the texts, and the number of the last event
	var seen struct{ status, locks, events uint64 }
	for out.err == nil {
		b.mu.Lock()
		// All under one lock, changed among them: what changes from here on closes that very channel, so no
		// change is missed.
		changed, closed, status, locks, events := b.changed, b.closed, b.status, s.shown,
			b.events.since(seen.events)
		seen.events = b.events.seq
		b.mu.Unlock()
		if closed {
			return
		}
		if status.n > seen.status {
			out.sendEvent("status", status.text)
		}
		if locks.n > seen.locks {
			out.sendEvent("locks", locks.text)
		}
		if len(events) > 0 {
			text, _ := json.Marshal(events) // it has texts and numbers
			out.sendEvent("events", text)
		}
		seen.status, seen.locks = status.n, locks.n
		// once for all that is new, so they arrive together
		out.flushEvents()
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		}
	}
}

// stream writes server-sent events until one cannot be written.
type stream struct {
	w   http.ResponseWriter
	to  *http.ResponseController
	err error
}

// sendEvent writes an event. JSON has no line breaks.
func (s *stream) sendEvent(kind string, data []byte) {
	// A viewer that does not read is given up, and cannot keep its goroutine.
	if s.err == nil {
		s.err = s.to.SetWriteDeadline(time.Now().Add(writePatience))
	}
	if s.err == nil {
		_, s.err = fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", kind, data)
	}
}

func (s *stream) flushEvents() {
	if s.err == nil {
		s.err = s.to.Flush()
	}
}
