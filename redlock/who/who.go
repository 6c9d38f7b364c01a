// Package who finds out which clients hold a lock and wait for it. Redis does not know: the proxy that
// granted the lock does, in its index. So all proxies are asked, unless this one knows:
//
//	LOCKCTL INFO --> Of --> index.Who: what this proxy remembers
//	                    \-> peers.Ask: what others do
//
// What others say is only shown.
package who

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"lockproxy/redlock"
	"lockproxy/redlock/index"
	"lockproxy/redlock/peers"
)

// Topic is that of the questions.
const Topic = "who"

const (
	// MostWaiters is how many waiters of a lock are told, those that have waited longest.
	MostWaiters = 10
	// mostNames is how many locks one question is about, and mostNameBytes how long their names are together.
	mostNames     = 1000
	mostNameBytes = 64 << 10
	// mostText bounds what is shown of a name, an address or a user.
	mostText = 128
)

// said is what a proxy says of one lock, in JSON. Proxies of other versions read it, too: what they do not
// know they leave out.
type said struct {
	// Bytes, since a name need not be UTF-8.
	Name    []byte              `json:"name"`
	Holders []index.KnownHolder `json:"holders,omitempty"`
	Waiters []index.KnownWaiter `json:"waiters,omitempty"`
}

// Known is who has to do with a lock, as far as proxies remember it. It is for people: any of it may be
// wrong, or out of date.
type Known struct {
	Holders map[string]index.KnownHolder // by the digest of the token
	Waiters []index.KnownWaiter          // those that have waited longest first
}

// Who knows, and asks. Safe for concurrent use.
type Who struct {
	Index *index.Index
	Peers *peers.Peers // nil: there are none
	ID    string       // of this proxy
}

// Of finds out about these locks, whose states are known. It blocks for as long as peers.Ask. Peers is
// asked only for what is unknown here.
func (w *Who) Of(ctx context.Context, states map[string]redlock.State) map[string]Known {
	g := make(gathering)
	for name := range states {
		g.addSaid(w.ID, w.here(name))
	}
	var unknown []string
	for name, state := range states {
		if !g[name].complete(&state) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	asked := questions(unknown)
	answers := make([][]peers.Answer, len(asked))
	var asking sync.WaitGroup
	for i, question := range asked {
		// ends when the answers are there, or Patience is over
		asking.Go(func() { answers[i], _ = w.Peers.Ask(ctx, Topic, question) })
	}
	asking.Wait()
	for _, answer := range slices.Concat(answers...) {
		g.readAnswer(answer)
	}
	return g.result()
}

// questions are about all of names. Names that are too long for a question are left out. Each is a JSON array
// of names, in base64.
func questions(names []string) (all [][]byte) {
	for len(names) > 0 {
		n, size := 0, 0
		var some [][]byte
		for n < len(names) && n < mostNames && (n == 0 || size+len(names[n]) <= mostNameBytes) {
			size += len(names[n])
			some = append(some, []byte(names[n]))
			n++
		}
		names = names[n:]
		if question, err := json.Marshal(some); err == nil {
			all = append(all, question)
		}
	}
	return all
}

// Answer answers the question of another proxy. What is too much for one answer is left out. nil: it is no
// question.
func (w *Who) Answer(question []byte) []byte {
	var names [][]byte
	if json.Unmarshal(question, &names) != nil || len(names) > mostNames {
		return nil
	}
	size := 0
	var all []said
	for _, name := range names {
		one := w.here(string(name))
		if len(one.Holders)+len(one.Waiters) == 0 {
			continue
		}
		text, err := json.Marshal(one)
		if size += len(text) + 1; err != nil || size > peers.MostBytes-2 {
			break
		}
		all = append(all, one)
	}
	answer, _ := json.Marshal(all)
	return answer
}

// here is what this proxy remembers of a lock.
func (w *Who) here(name string) said {
	holders, waiters := w.Index.Who(name)
	return said{[]byte(name), holders, longest(waiters)}
}

// gathering is what all proxies say, by the name of the lock. Only locks that were asked about have an entry.
type gathering map[string]*Known

// complete says that k has all of a lock.
func (k *Known) complete(s *redlock.State) bool {
	for i := range s.Holders {
		if _, ok := k.Holders[s.Holders[i].Digest()]; !ok {
			return false
		}
	}
	return len(k.Waiters) >= min(s.Waiters, MostWaiters)
}

// readAnswer takes the answer of another proxy.
func (g gathering) readAnswer(a peers.Answer) {
	var all []said
	if json.Unmarshal(a.Body, &all) != nil {
		return
	}
	for _, one := range all {
		if g[string(one.Name)] != nil { // it was asked for
			g.addSaid(a.From, one)
		}
	}
}

// addSaid takes what a proxy says of one lock. Of two that know a holder, the one counts that had to do with
// it last.
func (g gathering) addSaid(from string, one said) {
	k := g[string(one.Name)]
	if k == nil {
		k = &Known{Holders: make(map[string]index.KnownHolder)}
		g[string(one.Name)] = k
	}
	for _, h := range one.Holders {
		if last, ok := k.Holders[h.Digest]; ok && last.Noted <= h.Noted {
			continue
		}
		h.Client, h.Waited, h.Proxy = shown(h.Client), bounded(h.Waited), from
		k.Holders[h.Digest] = h
	}
	for _, w := range one.Waiters[:min(len(one.Waiters), MostWaiters)] {
		if w.Mode != redlock.Read && w.Mode != redlock.Permit {
			w.Mode = redlock.Write
		}
		w.Client, w.Waited, w.Proxy = shown(w.Client), bounded(w.Waited), from
		k.Waiters = append(k.Waiters, w)
	}
}

// result is what was found, with the waiters of all proxies in one order.
func (g gathering) result() map[string]Known {
	all := make(map[string]Known, len(g))
	for name, k := range g {
		all[name] = Known{k.Holders, longest(k.Waiters)}
	}
	return all
}

// longest are the waiters that are told.
func longest(all []index.KnownWaiter) []index.KnownWaiter {
	slices.SortFunc(all, func(a, b index.KnownWaiter) int {
		return cmp.Or(cmp.Compare(b.Waited, a.Waited), cmp.Compare(a.Addr, b.Addr))
	})
	return all[:min(len(all), MostWaiters)]
}

// bounded is a time in ms that another proxy says. No wait is longer than a year.
func bounded(ms int64) int64 { return min(max(ms, 0), (365 * 24 * time.Hour).Milliseconds()) }

// shown is a client as it may be shown.
func shown(c redlock.Client) redlock.Client {
	return redlock.Client{Name: cleanText(c.Name), Addr: cleanText(c.Addr), User: cleanText(c.User)}
}

// cleanText drops what cannot be printed, and cuts what is long. It ends up in terminals and pages: no
// control characters reach them.
func cleanText(text string) string {
	text = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, text[:min(len(text), 4*mostText)])
	for i := range text {
		if i >= mostText {
			return text[:i]
		}
	}
	return text
}
