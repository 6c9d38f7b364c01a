package memory

import (
	"io"
	"iter"
	"log/slog"
	"testing"
	"testing/synctest"

	"lockproxy/internal/loop"
)

// grower is the one client of a loop.
type grower struct {
	on      *Loop
	bytes   int
	evicted bool
}

func (g *grower) Measure() (bytes int, protected bool) { return g.bytes, false }
func (g *grower) ReadOn()                              {}
func (g *grower) Evict(bool) bool {
	g.evicted = true
	g.add(-g.bytes)
	return true
}

func (g *grower) add(n int) {
	g.bytes += n
	g.on.Add(n)
}

// An eviction that finds too little used, since a loop has not told all, goes on when it is told: otherwise
// clients would be held, and nobody would let them go.
func TestEvictionHearsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 1 << 20
		a := &Account{Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
		a.SetLimit(limit)
		on := loop.NewPortable()
		g := &grower{}
		g.on = a.Loop(on, iter.Seq[Client](func(yield func(Client) bool) { yield(g) }))
		go on.Run()
		defer on.Close()
		on.Post(func() {
			g.add(limit + grain/2) // an eviction is on its way
			g.add(-grain)
			g.add(grain - 1) // which is not told
		})
		synctest.Wait()
		if a.Over() > 0 || !g.evicted {
			t.Errorf("%d bytes too much are used, and nobody was closed", a.Over())
		}
	})
}
