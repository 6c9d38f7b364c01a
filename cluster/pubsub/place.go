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
//	Moved, a feed that fails --> placeTopic --> subscribeAt: subscribed at its home
//	                               \--> placeLater: it is loose --> placeLoose --> placeTopic

// Pauses before a topic is subscribed again.
const (
	minResubscribe = 10 * time.Millisecond
	maxResubscribe = 500 * time.Millisecond
	// movedPause gives the topology time to follow: a new one ends the pause.
	movedPause = 50 * time.Millisecond
)

// backoff is the pause after that many failures in a row: from minResubscribe, twice as long each time.
func backoff(tries int) time.Duration {
	return min(minResubscribe<<min(tries-1, 10), maxResubscribe)
}

// homeOf is the node where t belongs: the master of its slot. For a classic channel every master will do,
// because PUBLISH reaches subscribers at any node; so its home stays where it is. "": no node serves it now.
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

// settleHome chooses the home of the topics without a slot. It stays as long as that node is a master,
// because each change has all of them subscribed anew. mu is held.
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

// placeTopic makes sure that t is subscribed where it has to be, and nowhere else. mu is held. It may be
// called at any time: where nothing has changed, nothing is sent.
func (s *Subscriptions) placeTopic(t *Topic) {
	if s.closed || !t.used() {
		return
	}
	delete(s.loose, t)
	home := s.homeOf(t)
	if t.home != home {
		if t.live() {
			s.loseTopic(t)
		}
		t.home = home
	}
	now := s.nodes.Topology()
	for _, l := range t.places() {
		stays := l.feed.addr == home || t.everywhere && now.Master(l.feed.addr) != nil
		if !stays && !l.leaving {
			t.reason = errMoved
			l.feed.sendUnsubscribe(l, nil)
		}
	}
	if home == "" {
		t.reason = errors.New("no node serves the slot")
		s.placeLater(t, t.nextPause())
		return
	}
	s.subscribeAt(t, home)
	if t.everywhere {
		for _, n := range now.Masters {
			s.subscribeAt(t, n.Addr)
		}
	}
	s.settleJoins(t)
}

// subscribeAt subscribes t at addr, unless it is already. mu is held. A node that has just failed rests: then
// t is tried again when that is over. A subscription that is about to end is asked for anew, over the same
// feed.
func (s *Subscriptions) subscribeAt(t *Topic, addr string) {
	l := t.at(addr)
	if l != nil && !l.leaving {
		return
	}
	if l == nil {
		f := s.feeds[addr]
		if f == nil {
			// Many topics of a node that is away make one dial.
			if wait := time.Until(s.resting[addr].until); wait > 0 {
				s.placeLater(t, wait)
				return
			}
			f = newFeed(s, addr)
			s.feeds[addr] = f
			s.tasks.Go(f.runFeed) // ends with the connection, or with s.ctx
		}
		l = &subscriptionAt{topic: t, feed: f}
		places := append(slices.Clone(t.places()), l)
		t.where.Store(&places)
		f.subscribed[t.TopicName] = l
	}
	if l.leaving || t.asked == 0 {
		t.asked++ // earlier requests do not count any more
	}
	l.since, l.leaving = t.asked, false
	l.feed.sendSubscribe(l)
}

// endIfUnused unsubscribes t everywhere if it has no listeners. o, if not nil, waits for that. mu is held. t
// is gone from the index only when all nodes have confirmed: until then messages may come for it.
func (s *Subscriptions) endIfUnused(t *Topic, o *barrier) {
	if t.used() {
		return
	}
	for _, l := range t.places() {
		l.feed.sendUnsubscribe(l, o)
	}
	s.forgetIfOver(t)
}

// forgetIfOver drops a topic that has no listeners and no subscriptions. mu is held.
func (s *Subscriptions) forgetIfOver(t *Topic) {
	if t.used() || len(t.places()) > 0 || s.index.all[t.TopicName] != t {
		return
	}
	delete(s.loose, t)
	s.index.removeTopic(t)
	s.price -= countedPrice(t.Kind, t.Name)
}

// settleJoins ends the joins of t that have all the answers they wait for: of the home, and of every other
// node that was asked and can be reached. mu is held.
func (s *Subscriptions) settleJoins(t *Topic) {
	home := t.at(t.home)
	if home == nil {
		return
	}
	answered := home.answer
	for _, l := range t.places() {
		if !l.leaving {
			answered = min(answered, l.answer)
		}
	}
	t.endJoins(answered, nil)
}

// endJoins ends the joins that wait for the SUBSCRIBE of that number, or an earlier one. mu is held. err is
// for them all; nil: they were answered.
func (t *Topic) endJoins(number uint64, err error) {
	for len(t.joins) > 0 && t.joins[0].number <= number {
		o := t.joins[0].barrier
		o.err = cmp.Or(err, o.err)
		o.answerArrived()
		t.joins = t.joins[1:]
	}
}

// nextPause is how long t waits before it is tried again; it grows with each call.
// mu is held.
func (t *Topic) nextPause() time.Duration {
	t.tries++
	return backoff(t.tries)
}

// placeLater has placeTopic called for t after a pause. mu is held. If it waits already, the earlier time
// counts. One timer rings for all.
func (s *Subscriptions) placeLater(t *Topic, pause time.Duration) {
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
	s.timer = time.AfterFunc(time.Until(due), s.placeLoose)
}

// placeLoose calls placeTopic for the topics whose pause is over. It runs on the goroutine of the timer.
func (s *Subscriptions) placeLoose() {
	s.mu.Lock()
	defer s.unlockAndTell()
	s.timer = nil
	now := time.Now()
	waiting := s.loose
	s.loose = make(map[*Topic]time.Time)
	for t, due := range waiting {
		if due.After(now) {
			s.placeLater(t, due.Sub(now))
		} else {
			s.placeTopic(t)
		}
	}
}

// Moved follows the topology: topics that belong elsewhere now are
// lost where they were and subscribed there.
func (s *Subscriptions) Moved() {
	s.mu.Lock()
	defer s.unlockAndTell()
	s.settleHome()
	s.rekey()
	for _, t := range s.index.all {
		s.placeTopic(t)
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

// passesByItself says that an error goes away by itself: the slot moves, the node loads or fails over, or a
// script keeps it busy.
func passesByItself(text string) bool {
	return retry.MayPass(text) || busy(text)
}

// ofSlot says that an error is about the slot of a shard channel. PING never gets such a one.
func ofSlot(text string) bool {
	r, _ := retry.ErrorOf([]byte("-" + text))
	return r != nil && r.OfKeys
}

// busy says that a node refuses all commands, because it runs a script.
func busy(text string) bool { return strings.HasPrefix(text, "BUSY ") }
