package trace

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// History is what happened in one round.
type History struct {
	Seed   uint64
	Took   time.Duration
	Keys   []string
	Slacks Slacks
	Quorum bool `json:",omitempty"` // the locks are kept by independent masters, a majority of which decides
	Moves  bool `json:",omitempty"` // the locks move from one node to another
	Ops    []Op
	Events []Event
}

// Event is one fault, or a moment in which the machine was not itself.
type Event struct {
	Name   string
	Start  time.Duration
	End    time.Duration
	Settle time.Duration // how long after its end order and time may suffer from it
	Loses  []string      // keys of whose locks an asynchronous fail-over may have lost what was granted
	Resent bool          `json:",omitempty"` // subscriptions may have moved
	Barren bool          `json:",omitempty"` // no majority could be had, from Start to End
	Clean  bool          `json:",omitempty"` // it hinders clients, but no proxy and nothing behind it
}

// over is when nothing of the event is felt any more.
func (e Event) over() time.Duration { return e.End + e.Settle }

// Later are the events that are felt in a round that begins pause after this one, as its own times.
func (h *History) Later(pause time.Duration) (later []Event) {
	next := h.Took + pause
	for _, e := range h.Events {
		if e.over() > next { // its locks are not those of the next round
			e.Start, e.End, e.Loses = e.Start-next, e.End-next, nil
			later = append(later, e)
		}
	}
	return later
}

// of is the history of one key, in the order of the calls.
func (h *History) of(key string) []Op {
	var ops []Op
	for _, o := range h.Ops {
		if o.Key == key {
			ops = append(ops, o)
		}
	}
	return ops
}

// Save writes the history, compressed, to a file of dir, which is made if need be, and returns its path.
func (h *History) Save(dir string) (path string, err error) {
	path = filepath.Join(dir, fmt.Sprintf("history-%d.json.gz", h.Seed))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return path, err
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := cmp.Or(json.NewEncoder(z).Encode(h), z.Close()); err != nil {
		return path, err
	}
	return path, os.WriteFile(path, b.Bytes(), 0o644)
}
