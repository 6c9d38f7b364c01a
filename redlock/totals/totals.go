// Package totals adds up what all proxies have done with locks. Each counts for itself, so all are asked:
//
//	LOCKCTL STATS ALL --> Ask --> peers.Ask --> every proxy: Answer
//	                       |
//	                       \--> Sum
//
// What others say is only shown.
package totals

import (
	"context"
	"encoding/json"
	"slices"

	"lockproxy/redlock/locks"
	"lockproxy/redlock/peers"
)

// Topic is that of the questions.
const Topic = "stats"

// most bounds each number of another proxy: the sum of all that peers lets answer is an int64.
const most = 1 << 53

// Sum is what several proxies have done.
type Sum struct {
	locks.Stats
	Proxies int      // so many are added up, this one included
	Said    []string // ids of the others of them; sorted
	Silent  []string // ids of those that did not answer, or not with numbers; sorted
}

// Ask adds up what this proxy (here) and the others have done. p may be nil: there are no others. It blocks
// for as long as peers.Ask.
func Ask(ctx context.Context, p *peers.Peers, here locks.Stats) Sum {
	all, silent := p.Ask(ctx, Topic, nil)
	s := Sum{Stats: here, Proxies: 1, Silent: silent}
	for _, answer := range all {
		s.addAnswer(answer)
	}
	slices.Sort(s.Said)
	slices.Sort(s.Silent)
	return s
}

// Answer answers the question of another proxy. here returns what this one has done.
func Answer(here func() locks.Stats) peers.Responder {
	return func([]byte) []byte {
		said, now := make(map[string]uint64), here()
		for c, row := range locks.Counters {
			said[row.Name] = now[c]
		}
		answer, _ := json.Marshal(said)
		return answer
	}
}

// addAnswer adds what another proxy says. Counters that it does not know are 0 there; those that this one
// does not know are left out. Names of counters are those of LOCKCTL STATS.
func (s *Sum) addAnswer(a peers.Answer) {
	var said map[string]uint64
	if json.Unmarshal(a.Body, &said) != nil || said == nil {
		s.Silent = append(s.Silent, a.From)
		return
	}
	for c, row := range locks.Counters {
		s.Stats[c] += min(said[row.Name], most)
	}
	s.Proxies++
	s.Said = append(s.Said, a.From)
}
