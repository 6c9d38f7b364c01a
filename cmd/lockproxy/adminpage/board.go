package adminpage

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

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

// board is what all viewers see. Safe for concurrent use.
type board struct {
	o     Options
	token string // which the script has to give to break a lock

	mu       sync.Mutex
	changed  chan struct{} // closed, and made anew, when there is more to see
	closed   bool
	viewers  int
	stop     context.CancelFunc // of what is done for viewers; nil: there are none
	over     *sync.WaitGroup    // of the goroutines that do it
	status   shown
	searches map[string]*search
	kick     chan struct{} // capacity 1: a search is new
	events   eventLog
	points   []point // the newest last
	proxies  totals.Sum
}

// shown is the newest of what a viewer sees of something.
type shown struct {
	text []byte // JSON
	n    uint64 // rises with each new text; 0: there is none
}

// next makes text the newest.
func (s *shown) next(text []byte) { s.text, s.n = text, s.n+1 }

func newBoard(o Options) *board {
	return &board{o: o, token: rand.Text(), changed: make(chan struct{}), over: new(sync.WaitGroup),
		searches: make(map[string]*search), kick: make(chan struct{}, 1)}
}

// enter adds a viewer of a search. The first one has the work begin. Each calls leave once.
func (b *board) enter(match string) (*search, error) {
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
		case b.kick <- struct{}{}:
		default:
		}
	}
	s.viewers++
	if b.viewers++; b.viewers == 1 {
		b.begin()
	}
	return s, nil
}

// begin starts what is done for viewers, once what was done for earlier ones has ended. mu is held.
func (b *board) begin() {
	ctx, stop := context.WithCancel(context.Background())
	before := b.over
	b.stop, b.over = stop, new(sync.WaitGroup)
	for _, work := range []func(context.Context){b.run, b.list, b.watch, b.ask} {
		b.over.Go(func() { // ends with ctx: when the last viewer leaves
			before.Wait()
			work(ctx)
		})
	}
}

// leave takes a viewer of s away.
func (b *board) leave(s *search) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.viewers--; s.viewers == 0 {
		delete(b.searches, s.match)
	}
	if b.viewers--; b.viewers == 0 {
		b.stop()
	}
}

// close has all viewers leave, and waits for the work that was done for them.
func (b *board) close() {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		b.tell()
	}
	if b.viewers > 0 {
		b.stop()
	}
	over := b.over
	b.mu.Unlock()
	over.Wait()
}

// tell has viewers look again. mu is held.
func (b *board) tell() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// run shows the counters, and the events that have come, until ctx ends.
func (b *board) run(ctx context.Context) {
	g := newGauge(b.o)
	tick := time.NewTicker(eventsEvery)
	defer tick.Stop()
	for due := time.Now(); ; {
		if now := time.Now(); !now.Before(due) {
			due = now.Add(statusEvery)
			b.mu.Lock()
			proxies := b.proxies
			b.mu.Unlock()
			latest, text := g.look(now, proxies)
			b.mu.Lock()
			b.status.next(text)
			b.points = append(b.points, latest.Rate)
			b.points = b.points[max(0, len(b.points)-mostPoints):]
			b.tell()
			b.mu.Unlock()
		}
		b.mu.Lock()
		if b.events.flush() {
			b.tell()
		}
		b.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// ask asks the other proxies, until ctx ends.
func (b *board) ask(ctx context.Context) {
	for {
		if source := b.o.Source(); source != nil {
			sum := source.Proxies(ctx)
			if ctx.Err() != nil {
				return
			}
			b.mu.Lock()
			b.proxies = sum
			b.mu.Unlock()
		}
		if !pause(ctx, proxiesEvery) {
			return
		}
	}
}

// pause waits, and reports false if ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
