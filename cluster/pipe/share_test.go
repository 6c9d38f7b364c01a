package pipe

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster/pipe/owned"
	"lockproxy/internal/scripted"
)

// guest is a keeper that belongs to a client.
type guest struct {
	keeper
	party owned.Party
}

func (g *guest) Party() owned.Party { return g.party }

// TestOwnShares proves that no address and user takes all places, that a client without a place is told why,
// and that it goes on as soon as places are free.
func TestOwnShares(t *testing.T) {
	inOwnBubble(t, Options{MaxOwn: 40, Budget: 2 * time.Second},
		func(t *testing.T, r *rig, node *scripted.Node) {
			crowd := func(host string, n int) (all []*guest, pipes []*Pipe) {
				r.own(func() {
					for range n {
						g := &guest{party: owned.Party{Host: host, User: "default"}}
						p := r.pool.Own("a:1", Mode{Proto: 2}, g)
						p.Request(command("GET"), g, 1)
						all, pipes = append(all, g), append(pipes, p)
					}
				})
				return all, pipes
			}
			served := func(all []*guest) (n int) {
				r.on(func() {
					for _, g := range all {
						if strings.Contains(strings.Join(g.heard, ";"), "OK") {
							n++
						}
					}
				})
				return n
			}
			greedy, pipes := crowd("10.0.0.1", 50)
			if n := served(greedy); n != 30 {
				t.Errorf("one client has %d of 40 places", n)
			}
			second, _ := crowd("10.0.0.2", 50)
			if n := served(second); n != 8 {
				t.Errorf("the second has %d of the 10 that were left", n)
			}
			third, _ := crowd("10.0.0.3", 1)
			if served(third) != 1 {
				t.Error("nothing is left for the third")
			}
			r.own(func() { pipes[0].Release(); pipes[1].End() })
			if n := served(greedy) + served(second); n != 39 {
				t.Errorf("%d were served when two places had come free", n)
			}
			time.Sleep(3 * time.Second)
			synctest.Wait()
			r.own(func() {
				for p := range r.pool.ownPipes {
					p.End()
				}
			})
			if again, _ := crowd("10.0.0.4", 50); served(again) != 30 {
				t.Errorf("one client has %d of 40 places when all were given back", served(again))
			}
		})
}
