package adminpage

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"lockproxy/internal/sleep"
	"lockproxy/redlock/totals"
)

const (
	// mostViewers is how many streams there may be at a time.
	mostViewers = 64
	// statusEvery is how often the counters are shown.
	statusEvery = time.Second
	// proxiesEvery is how often other proxies are asked.
	proxiesEvery = 10 * time.Second
)

var errViewers = errors.New("64 others look at this page already: close one of them")

// board is what all viewers see. Safe for concurrent use. mu is held for moments only, and never while the
// upstream is asked or a viewer is written to.
type board struct {
	o     Options
	token string // which the script has to give to break a lock

	mu      sync.Mutex
	changed chan struct{} // closed, and made anew, when there is more to see
	closed  bool
	viewers int
	stop    context.CancelFunc // of what is done for viewers, if there are any
	over    *sync.WaitGroup    // of the goroutines that do it
	status  shown
	// by what is searched for: all who search for the same look at one search
	searches map[string]*search
	kick     chan struct{} // capacity 1: a search is new
	events   eventLog
	points   []point // the newest last
	// what the other proxies have said last; zero: they have not been asked yet
	proxies totals.Sum
}

// shown is the newest of what a viewer sees of something. A viewer notes which n it has sent, so each text is
// sent once to each, and one that is slow leaves texts out.
type shown struct {
	text []byte // JSON
	n    uint64 // rises with each new text; 0: there is none
}

// setNewest makes text the newest.
func (s *shown) setNewest(text []byte) { s.text, s.n = text, s.n+1 }

func newBoard(o Options) *board {
	return &board{o: o, token: rand.Text(), changed: make(chan struct{}), stop: func() {},
		over: new(sync.WaitGroup), searches: make(map[string]*search), kick: make(chan struct{}, 1)}
}

// addViewer adds a viewer of a search. The first one has the work begin. Each calls removeViewer once.
func (b *board) addViewer(match string) (*search, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.viewers >= mostViewers {
		return nil, errViewers
	}
	s := b.searches[match]
	if s == nil && len(b.searches) >= mostSearches {
		return nil, errSearches
	}
	if s == nil {
		s = &search{match: match}
		b.searches[match] = s
		select {
		// It is full if makeSearches has not looked yet, and then it will find this search, too.
		case b.kick <- struct{}{}:
		default:
		}
	}
	s.viewers++
	if b.viewers++; b.viewers == 1 {
		b.beginWork()
	}
	return s, nil
}

// beginWork starts what is done for viewers, once what was done for earlier ones has ended. mu is held.
func (b *board) beginWork() {
	ctx, stop := context.WithCancel(context.Background())
	// Work of earlier viewers may be in the middle of a question, and two goroutines must not write the same
	// fields.
	before := b.over
	b.stop, b.over = stop, new(sync.WaitGroup)
	for _, work := range []func(context.Context){
		b.showCounters, b.makeSearches, b.watchEvents, b.askProxies,
	} {
		b.over.Go(func() { // ends with ctx: when the last viewer leaves
			before.Wait()
			work(ctx)
		})
	}
}

// removeViewer takes a viewer of s away.
func (b *board) removeViewer(s *search) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// A search that goes on at this moment writes into the search that nobody looks at any more, and ends
	// with that.
	if s.viewers--; s.viewers == 0 {
		delete(b.searches, s.match)
	}
	if b.viewers--; b.viewers == 0 {
		b.stop()
	}
}

// closeBoard has all viewers leave, and waits for the work that was done for them. Streams see closed and
// end. It may be called again.
func (b *board) closeBoard() {
	b.mu.Lock()
	b.closed = true
	b.tellViewers()
	b.stop()
	over := b.over
	b.mu.Unlock()
	over.Wait()
}

// tellViewers has viewers look again. mu is held.
func (b *board) tellViewers() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// showCounters shows the counters, and the events that have come, until ctx ends.
func (b *board) showCounters(ctx context.Context) {
	// A gauge of its own for each time that somebody looks: rates over the time in between would mislead.
	g := newGauge(b.o)
	tick := time.NewTicker(eventsEvery)
	defer tick.Stop()
	// Events are looked at more often than the counters, on the same tick.
	for due := time.Now(); ; {
		if now := time.Now(); !now.Before(due) {
			due = now.Add(statusEvery)
			b.mu.Lock()
			proxies := b.proxies
			b.mu.Unlock()
			// without mu: it takes a while with many nodes
			latest, text := g.takeStatus(now, proxies)
			b.mu.Lock()
			b.status.setNewest(text)
			b.points = append(b.points, latest.Rate)
			b.points = b.points[max(0, len(b.points)-mostPoints):]
			b.tellViewers()
			b.mu.Unlock()
		}
		b.mu.Lock()
		if b.events.flushFresh() {
			b.tellViewers()
		}
		b.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// askProxies asks the other proxies, until ctx ends.
func (b *board) askProxies(ctx context.Context) {
	for {
		// No upstream yet: ask again in a while.
		if source := b.o.Source(); source != nil {
			sum := source.Proxies(ctx)
			if ctx.Err() != nil {
				return
			}
			b.mu.Lock()
			b.proxies = sum
			b.mu.Unlock()
		}
		if !sleep.For(ctx, proxiesEvery) {
			return
		}
	}
}
