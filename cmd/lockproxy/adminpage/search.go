package adminpage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"lockproxy/commands/lock"
	"lockproxy/internal/sleep"
	"lockproxy/redlock"
)

const (
	// mostRows is how many locks a search shows, and mostHolders how many holders and waiters of each.
	mostRows    = 200
	mostHolders = 5
	// mostSearches is how many different searches there may be at a time, and mostMatch how long one may be.
	mostSearches = 8
	mostMatch    = 256
	// searchEvery is how often a search is made. It may be less often: for each moment that a search took the
	// next one waits four.
	searchEvery = 2 * time.Second
	searchShare = 4
	// searchPatience bounds one search.
	searchPatience = 5 * time.Second
)

var errSearches = errors.New("8 other searches are open already: close one of them, or search for the same")

// search is a search for locks that at least one viewer looks at. The board's mu guards it. match and viewers
// are there from the beginning, the rest once it has been made.
type search struct {
	match   string // a glob
	viewers int
	shown   shown
	// when it is to be made again; zero: at once
	due   time.Time
	names map[string]string // of the locks that it shows, by their ids
}

// rows is what viewers see of a search. Names is 0 as long as there is no upstream. Error and Rows may both
// have something: what was found before it went wrong.
type rows struct {
	Match string    `json:"match"`
	Error string    `json:"error,omitempty"`
	Names int       `json:"names"` // that there are about, also those that are not shown
	Took  float64   `json:"took"`  // in ms
	Rows  []lockRow `json:"rows"`
}

// lockRow is one lock. Times are in ms. Used and Of are of a semaphore; Rest is for how long the lock rests.
type lockRow struct {
	ID      string      `json:"id"`
	Name    string      `json:"name"`
	State   string      `json:"state"`
	Fence   int64       `json:"fence"`
	Waiters int         `json:"waiters"`
	Used    int         `json:"used,omitempty"`
	Of      int         `json:"of,omitempty"`
	Rest    int64       `json:"rest,omitempty"`
	Held    int         `json:"held"` // holders, also those that are not shown
	Holders []holder    `json:"holders"`
	Waiting []waiterRow `json:"waiting"`
}

// holder is one who holds the lock: TTL is how long yet, Age for how long already, Count how often it has
// taken it, Kept whether it is kept alive.
type holder struct {
	client
	Token string `json:"token"` // its digest
	Mode  string `json:"mode"`
	TTL   int64  `json:"ttl"`
	Age   int64  `json:"age"`
	Count int64  `json:"count"`
	Kept  bool   `json:"kept"`
	Meta  string `json:"meta,omitempty"`
}

// waiterRow is one who waits, and for how long already.
type waiterRow struct {
	client
	Mode   string `json:"mode"`
	Waited int64  `json:"waited"`
}

// client is as the proxy with that id tells of it; empty: nobody knows it.
type client struct {
	Name  string `json:"client"`
	Addr  string `json:"addr"`
	User  string `json:"user"`
	Proxy string `json:"proxy"`
}

var modes = map[redlock.Mode]string{
	redlock.Write: "write", redlock.Read: "read", redlock.Permit: "permit",
}

// globOf makes a glob of what a viewer searches for: a word is looked for anywhere in a name.
func globOf(text string) string {
	switch {
	case text == "":
		return "*"
	case strings.ContainsAny(text, `*?[\`):
		return text
	}
	return "*" + text + "*"
}

// makeSearches makes the searches, one at a time, until ctx ends.
func (b *board) makeSearches(ctx context.Context) {
	for {
		s, wait := b.nextSearch(time.Now())
		if s == nil {
			select {
			case <-ctx.Done():
				return
			case <-b.kick:
			case <-time.After(wait):
			}
			continue
		}
		begin := time.Now()
		// Without mu: this is what takes long. match never changes.
		text, names := b.findLocks(ctx, s.match)
		if ctx.Err() != nil {
			return
		}
		took := time.Since(begin)
		b.mu.Lock()
		s.names, s.due = names, time.Now().Add(searchEvery)
		s.shown.setNewest(text)
		b.tellViewers()
		b.mu.Unlock()
		// One search at a time, and four times as long a pause as it took: searches go on for a fifth of the
		// time at most, however many look.
		if !sleep.For(ctx, searchShare*took) {
			return
		}
	}
}

// nextSearch is the search that is to be made now, or for how long there is none.
func (b *board) nextSearch(now time.Time) (next *search, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.searches {
		if next == nil || s.due.Before(next.due) {
			next = s
		}
	}
	switch {
	case next == nil:
		return nil, searchEvery
	case next.due.After(now):
		return nil, next.due.Sub(now)
	}
	return next, 0
}

// findLocks makes a search. names are those of the locks that it shows, by their ids.
func (b *board) findLocks(ctx context.Context, match string) (text []byte, names map[string]string) {
	ctx, cancel := context.WithTimeout(ctx, searchPatience)
	defer cancel()
	// Rows is empty and not nil, which JSON would show as null.
	said, names := rows{Match: match, Rows: []lockRow{}}, make(map[string]string)
	begin := time.Now()
	if source := b.o.Source(); source != nil {
		found, n, err := source.Locks(ctx, globOf(match), mostRows)
		said.Names = max(n, len(found))
		if err != nil {
			said.Error = printable(err.Error(), mostReason)
		}
		for i := range found {
			one := rowOf(&found[i])
			names[one.ID] = found[i].Name
			said.Rows = append(said.Rows, one)
		}
	}
	said.Took = float64(time.Since(begin).Microseconds()) / 1000
	text, _ = json.Marshal(said) // it has texts and numbers
	return text, names
}

// idOf names a lock in few bytes, whatever its name has.
func idOf(name string) string {
	// 12 bytes: two of the few hundred names on a page do not have the same by chance.
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:12])
}

// rowOf is a lock as viewers see it. Only what printable lets through of names and texts gets into it.
func rowOf(s *lock.Seen) lockRow {
	state := &s.State
	r := lockRow{ID: idOf(s.Name), Name: printable(s.Name, mostName), State: state.Name(), Fence: state.Fence,
		Waiters: state.Waiters, Used: state.Used(), Of: state.Permits, Rest: state.Rest.Milliseconds(),
		Held: len(state.Holders), Holders: []holder{}, Waiting: []waiterRow{}}
	for i := range state.Holders[:min(len(state.Holders), mostHolders)] {
		h := &state.Holders[i]
		// the zero value if no proxy knows who it is
		known := s.Known.Holders[h.Digest()]
		r.Holders = append(r.Holders, holder{
			client: clientOf(known.Client, known.Proxy), Token: h.Digest(), Mode: modes[h.Mode],
			TTL: h.TTL.Milliseconds(), Age: h.Age.Milliseconds(), Count: h.Count, Kept: h.Kept,
			Meta: printable(h.Meta, mostText),
		})
	}
	for _, w := range s.Known.Waiters[:min(len(s.Known.Waiters), mostHolders)] {
		r.Waiting = append(r.Waiting, waiterRow{clientOf(w.Client, w.Proxy), modes[w.Mode],
			w.Waited})
	}
	return r
}

// clientOf is a client of a proxy, with texts that can be printed.
func clientOf(c redlock.Client, proxy string) client {
	return client{printable(c.Name, mostText), printable(c.Addr, mostText), printable(c.User, mostText),
		printable(proxy, mostText)}
}

// nameOf is the name of a lock that some search shows.
func (b *board) nameOf(id string) (name string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.searches {
		if name, ok = s.names[id]; ok {
			return name, true
		}
	}
	return "", false
}

// searchAgain has all searches made at once.
func (b *board) searchAgain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.searches {
		s.due = time.Time{}
	}
	select {
	case b.kick <- struct{}{}:
	default:
	}
}
