package pubsub

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"lockproxy/cluster/retry"
)

// This file decides where topics are subscribed, and moves them when that changes:
//
//	Moved, a feed that fails --> place --> connect: subscribed at its home
//	                               \--> again: it is loose --> retry --> place

// Pauses before a topic is subscribed again.
const (
	minResubscribe = 10 * time.Millisecond
	maxResubscribe = 500 * time.Millisecond
	// movedPause gives the topology time to follow: a new one ends the pause.
	movedPause = 50 * time.Millisecond
)

func backoff(tries int) time.Duration {
	return min(minResubscribe<<min(tries-1, 10), maxResubscribe)
}

// homeOf is the node where t belongs: the master of its slot. For a classic channel every master will do,
// because PUBLISH reaches subscribers at any node; so its home stays where it is.
func (s *Subscriptions) homeOf(t *Topic) string {
	top := s.nodes.Topology()
	if t.slot < 0 || len(top.Masters) == 1 {
		return *s.home.Load()
	}
	if t.Kind != Shard && top.Master(t.home) != nil {
		return t.home
	}
	switch n := top.Slots[t.slot]; {
	case n != nil:
		return n.Addr
	case t.Kind != Shard:
		return *s.home.Load()
	}
	return ""
}

// settleHome chooses the home of the topics without a slot. It stays as long as that node is a master. mu is
// held.
func (s *Subscriptions) settleHome() {
	t := s.nodes.Topology()
	if t.Master(*s.home.Load()) != nil {
		return
	}
	home := ""
	if len(t.Masters) > 0 {
		home = t.Masters[0].Addr
	}
	s.home.Store(&home)
}

// place makes sure that t is subscribed where it has to be, and nowhere else. mu is held.
func (s *Subscriptions) place(t *Topic) {
	if s.closed || !t.used() {
		return
	}
	delete(s.loose, t)
	home := s.homeOf(t)
	if t.home != home {
		if t.live() {
			s.lose(t)
		}
		t.home = home
	}
	now := s.nodes.Topology()
	for _, l := range slices.Clone(t.places) {
		stays := l.feed.addr == home || t.everywhere && now.Master(l.feed.addr) != nil
		if !stays && !l.leaving {
			t.reason = errMoved
			l.feed.leave(l, nil)
		}
	}
	if home == "" {
		t.reason = errors.New("no node serves the slot")
		s.again(t, t.pause())
		return
	}
	s.connect(t, home)
	if t.everywhere {
		for _, n := range now.Masters {
			s.connect(t, n.Addr)
		}
	}
	s.settle(t)
}

// connect subscribes t at addr, unless it is already. mu is held.
func (s *Subscriptions) connect(t *Topic, addr string) {
	l := t.at(addr)
	if l != nil && !l.leaving {
		return
	}
	if l == nil {
		f := s.feeds[addr]
		if f == nil {
			if wait := time.Until(s.resting[addr].until); wait > 0 {
				s.again(t, wait)
				return
			}
			f = newFeed(s, addr)
			s.feeds[addr] = f
			s.tasks.Go(f.run) // ends with the connection, or with s.ctx
		}
		l = &subscriptionAt{topic: t, feed: f}
		t.places = append(t.places, l)
		f.subscribed[t.key()] = l
	}
	if l.leaving || t.asked == 0 {
		t.asked++ // earlier requests do not count any more
	}
	l.since, l.leaving = t.asked, false
	l.feed.subscribe(l)
}

// endIfUnused unsubscribes t everywhere if it has no listeners. o, if not nil, waits for that. mu is held.
func (s *Subscriptions) endIfUnused(t *Topic, o *barrier) {
	if t.used() {
		return
	}
	for _, l := range t.places {
		l.feed.leave(l, o)
	}
	s.forgetIfOver(t)
}

// forgetIfOver drops a topic that has no listeners and no subscriptions. mu is held.
func (s *Subscriptions) forgetIfOver(t *Topic) {
	if t.used() || len(t.places) > 0 || s.index.all[t.key()] != t {
		return
	}
	delete(s.loose, t)
	s.index.remove(t)
	s.price -= countedPrice(t.Kind, t.Name)
}

// settle ends the joins of t that have all the answers they wait for: of the home, and of every other node
// that was asked and can be reached. mu is held.
func (s *Subscriptions) settle(t *Topic) {
	home := t.at(t.home)
	if home == nil {
		return
	}
	answered := home.answer
	for _, l := range t.places {
		if !l.leaving {
			answered = min(answered, l.answer)
		}
	}
	t.endJoins(answered, nil)
}

// endJoins ends the joins that wait for the SUBSCRIBE of that number, or an earlier one. mu is held.
func (t *Topic) endJoins(number uint64, err error) {
	for len(t.joins) > 0 && t.joins[0].number <= number {
		o := t.joins[0].barrier
		o.err = cmp.Or(err, o.err)
		o.arrived()
		t.joins = t.joins[1:]
	}
}

// pause is how long t waits before it is tried again; it grows with each call.
// mu is held.
func (t *Topic) pause() time.Duration {
	t.tries++
	return backoff(t.tries)
}

// again has place called for t after a pause. mu is held.
func (s *Subscriptions) again(t *Topic, pause time.Duration) {
	if s.closed || !t.used() {
		return
	}
	due := time.Now().Add(pause)
	if old, ok := s.loose[t]; ok && old.Before(due) {
		due = old
	}
	s.loose[t] = due
	if s.timer != nil && !due.Before(s.rings) {
		return
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.rings = due
	s.timer = time.AfterFunc(time.Until(due), s.retry)
}

// retry calls place for the topics whose pause is over.
func (s *Subscriptions) retry() {
	s.mu.Lock()
	defer s.unlock()
	s.timer = nil
	now := time.Now()
	waiting := s.loose
	s.loose = make(map[*Topic]time.Time)
	for t, due := range waiting {
		if due.After(now) {
			s.again(t, due.Sub(now))
		} else {
			s.place(t)
		}
	}
}

// Moved follows the topology: topics that belong elsewhere now are
// lost where they were and subscribed there.
func (s *Subscriptions) Moved() {
	s.mu.Lock()
	defer s.unlock()
	s.settleHome()
	s.rekey()
	for _, t := range s.index.all {
		s.place(t)
	}
}

// Redial has all topics subscribed over new connections: the names of their nodes lead elsewhere now.
func (s *Subscriptions) Redial() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.feeds {
		f.elsewhere = true
	}
}

// passes says that an error goes away by itself.
func passes(text string) bool {
	return retry.MayPass(text) || strings.HasPrefix(text, "BUSY ")
}
