package scripts_test

import (
	"cmp"
	"crypto/sha1"
	"encoding/hex"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"pgregory.net/rapid"

	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/scripts"
)

// offerTime is how long a free lock is reserved for a waiter.
const offerTime = 500 * time.Millisecond

// model is what clients may rely on: who holds the lock, and who stands in the
// queue. It judges each reply of the scripts.
type model struct {
	now   time.Time     // the server's clock, which may step back
	spent time.Duration // how much time has passed, steps back left out
	ran   time.Duration // by spent: when a script ran last
	hold  map[string]*modelHold
	queue map[string]*modelWaiter // by id of the request
	fence int64                   // the highest so far
	// proxyClock is what the clock shows, in µs, of whom the lock was asked for last.
	proxyClock int64
	forgot     int64 // the highest when the key of the fence was lost last
	// while the key stays, newest first: the releases by which a waiter got the lock, and that waiter
	passed [][2]string
	there  bool        // the key is
	told   []modelTold // behind the fence of the slot, newest last
	bare   bool        // there is no key of the fence, and no room before the next of these

	guarded int64 // how often a guarded command has run

	permits int // that the semaphore has; 0: it is a lock
}

// modelTold is what a release was answered.
type modelTold struct{ id, reply string }

type modelHold struct {
	mode       redlock.Mode
	until      time.Time
	count      int64
	fence      int64
	kept       string // its keeper
	askedSince bool   // others have asked for it since it has one
	meta       string
	made       []string        // +id, =id, -id, ^id:fence:count, *id:fence:count as in hold.lua
	gone       map[string]bool // of these, the ids of those that were cancelled
	least      time.Time       // if it is released before, it rests until then
	others     []string        // keepers of other proxies, which renew it until kept has done so
}

// resting is the token of a hold that was released, and rests; of each permit it is the beginning.
const resting = "-"

// idOf is the id of a request that made a hold.
func idOf(mark string) string {
	id, _, _ := strings.Cut(mark[1:], ":")
	return id
}

// before is what a reader had who became the writer by that.
func before(mark string) (fence, count int64) {
	fmt.Sscanf(mark[strings.IndexByte(mark, ':')+1:], "%d:%d", &fence, &count)
	return fence, count
}

type modelWaiter struct {
	a        redlock.Acquire
	proxy    string
	place    int64
	deadline time.Time
	asked    time.Duration // by model.spent
	spared   bool          // for a while nobody asked, so it was given another half second
	up       *modelHold    // the shared hold that it wants to make an exclusive one, or nil
	gone     bool          // a script for another request has dropped it
}

func (m *model) live(token string) *modelHold {
	if h := m.hold[token]; h != nil && h.until.After(m.now) {
		return h
	}
	return nil
}

// free is how many permits nobody holds but token.
func (m *model) free(token string) int {
	n := m.permits
	for t := range m.hold {
		if t != token && m.live(t) != nil {
			n--
		}
	}
	return n
}

// conflict is a hold that prevents token from holding the lock in mode.
func (m *model) conflict(token string, mode redlock.Mode) (other string) {
	if mode == redlock.Permit {
		if m.free(token) > 0 {
			return ""
		}
		return "others"
	}
	for t := range m.hold {
		if h := m.live(t); h != nil && t != token && (mode == redlock.Write || h.mode == redlock.Write) {
			other = t
		}
	}
	return other
}

// runScript notes that a script runs. If that is the first one for a while, then nobody could ask: who was
// heard just before that keeps its place for another half second.
func (m *model) runScript() {
	if m.spent-m.ran > 2*offerTime {
		for _, w := range m.queue {
			if !w.spared && m.ran-w.asked < offerTime {
				w.asked, w.spared = m.spent, true
			}
		}
	}
	m.ran = m.spent
}

// overtaken are waiters at earlier places whose proxies are alive: all waiters of such a proxy have asked in
// the last half second. A proxy counts as dead if one of them does not take an offer.
func (m *model) overtaken(id string, mode redlock.Mode, place int64) (all []string) {
	for wid, w := range m.queue {
		if wid != id && w.place < place && w.deadline.After(m.now) && m.stands(w) &&
			m.heard(w.proxy) < offerTime && (mode != redlock.Read || w.a.Mode != redlock.Read) {
			all = append(all, wid)
		}
	}
	return all
}

// grant notes a new hold and says what is wrong with it.
func (m *model) grant(a *redlock.Acquire, fence int64, ttl time.Duration) error {
	place := int64(1) << 40
	if w := m.queue[a.ID]; w != nil {
		place = w.place
	}
	if other := m.conflict(a.Token, a.Mode); other != "" {
		return fmt.Errorf("%s got the lock while %s holds it", a.Token, other)
	}
	if past := m.overtaken(a.ID, a.Mode, place); len(past) > 0 && !a.Break &&
		!(place == 1<<40 && a.Wait > 0 && a.Mode == redlock.Read) &&
		!(a.Mode == redlock.Permit && len(past) < m.free(a.Token)) {
		return fmt.Errorf("%s overtook %q", a.ID, past)
	}
	clock := m.now.UnixMicro()
	if fence <= m.fence || fence < min(clock, m.proxyClock) {
		return fmt.Errorf("the fence %d is not above %d and the clocks %d and %d", fence, m.fence,
			clock, m.proxyClock)
	}
	if fence > max(m.fence, clock)+10e6 {
		return fmt.Errorf("the fence %d runs away from %d and the clock %d", fence, m.fence, clock)
	}
	if ttl != a.Lease {
		return fmt.Errorf("a lease of %v, not of %v", ttl, a.Lease)
	}
	m.fence, m.bare = fence, false
	if a.Mode == redlock.Write {
		clear(m.hold)
	}
	m.hold[a.Token] = &modelHold{a.Mode, m.now.Add(ttl + runs), 1, fence, taking(a.Keeper), false, a.Meta,
		[]string{"+" + a.ID}, map[string]bool{}, m.least(a), nil}
	delete(m.queue, a.ID)
	return nil
}

// least is until when a hold goes on at least that a is granted, or asks for again, now.
func (m *model) least(a *redlock.Acquire) (at time.Time) {
	if a.AtLeast > 0 {
		at = m.now.Add(a.AtLeast + runs)
	}
	return at
}

// leave ends the hold of a token that was released, or has it rest: to all others it goes on.
func (m *model) leave(token string) {
	h, nobody := m.hold[token], resting
	delete(m.hold, token)
	if h.mode == redlock.Permit {
		nobody += fmt.Sprint(h.fence)
	}
	other := m.live(nobody)
	if h.least.After(m.now) && (other == nil || h.least.After(other.until)) {
		m.hold[nobody] = &modelHold{mode: h.mode, until: h.least, count: 1, made: h.made}
	}
}

// tell notes what a release was answered.
func (m *model) tell(id, reply string) {
	if m.bare { // in the place of the fence
		m.bare = false
		return
	}
	m.told = append(m.told, modelTold{id, reply})
	if len(m.told) > 64 {
		m.told = m.told[len(m.told)-32:]
	}
}

// pass notes a release by which a waiter got the lock. At least eight are remembered.
func (m *model) pass(id, next string) {
	m.passed = slices.Insert(m.passed, 0, [2]string{id, next})
	left := 7 * 34
	for i, r := range m.passed[1:] {
		if left < 19 {
			m.passed = m.passed[:1+i]
			break
		}
		left -= 18 + len(r[1])
	}
}

func (h *modelHold) did(mark string) {
	h.made = append(h.made, mark)
	h.trim()
}

// trim keeps the requests that there is room for: eight, or fewer if their clients name them. The first,
// which the lock was granted to, stays; of the others, those that fit in whole, counted from the last.
func (h *modelHold) trim() {
	if len(strings.Join(h.made, "")) <= 136 {
		return
	}
	first, i, left := h.made[0][1:], len(h.made), 119
	for left >= len(h.made[i-1]) {
		i--
		left -= len(h.made[i])
	}
	delete(h.gone, first)
	h.made = append([]string{"@" + first}, h.made[i:]...)
}

// knows says that a request has made h, or another request to which its client has given the same name.
func (h *modelHold) knows(id string) bool { return h.find(id) >= 0 || h.named(id) >= 0 }

// named is the first request with the same name of its client.
func (h *modelHold) named(id string) int {
	_, name, ok := strings.Cut(id, ",")
	return slices.IndexFunc(h.made, func(mark string) bool {
		return ok && strings.HasSuffix(idOf(mark), ","+name)
	})
}

// asked says that h has a request with one of these marks that the same proxy made after id.
func (h *modelHold) asked(marks, id string, made ...string) bool {
	return slices.ContainsFunc(made, func(m string) bool {
		return strings.ContainsRune(marks, rune(m[0])) && m[1:9] == id[:8] && m[9:17] > id[8:16]
	})
}

// means says that a release, or a renewal, may mean h: h was not granted to a later request.
func (h *modelHold) means(id string) bool { return !h.asked("+@", id, h.made[0]) }

func (h *modelHold) find(id string) int {
	return slices.IndexFunc(h.made, func(mark string) bool { return idOf(mark) == id })
}

// cancel takes back what the i-th request of h did, unless a client has been told of it since whose request
// is still there: then it goes with that one.
func (h *modelHold) cancel(i int) {
	if h.made[i][0] == '=' { // it has made nothing
		h.made = slices.Delete(h.made, i, i+1)
	} else {
		h.gone[idOf(h.made[i])] = true
	}
	renewals := h.drop(renewed)
	last := len(h.made) - 1
	for last >= 0 && h.gone[idOf(h.made[last])] {
		last--
	}
	for j := len(h.made) - 1; j > last; j-- {
		counted := strings.ContainsRune("+*", rune(h.made[j][0]))
		if counted && h.count == 1 && renewals > 0 { // somebody was told that it lasts
			break
		}
		if counted {
			h.count--
		}
		if h.made[j][0] != '+' {
			h.mode = redlock.Read
			h.fence, _ = before(h.made[j])
		}
		delete(h.gone, idOf(h.made[j]))
		h.made = h.made[:j]
	}
	for range renewals {
		h.made = append(h.made, "="+renewed)
	}
}

// drop takes the marks of an id out of what made h, and says how many there were.
func (h *modelHold) drop(id string) (n int) {
	n = len(h.made)
	h.made = slices.DeleteFunc(h.made, func(mark string) bool { return mark[1:] == id })
	return n - len(h.made)
}

// check notes that the owner of h was told that it holds the lock.
func (h *modelHold) check() {
	others := slices.DeleteFunc(slices.Clone(h.made), func(mark string) bool { return mark[1:] == renewed })
	if len(others) > 0 && others[len(others)-1] == "="+checked {
		return
	}
	renewals := h.drop(renewed)
	h.drop(checked)
	h.made = append(h.made, "="+checked)
	for range renewals {
		h.made = append(h.made, "="+renewed)
	}
	h.trim()
}

// stands says that w has not lost its right to its place: it still has its shared hold, if it had one.
func (m *model) stands(w *modelWaiter) bool {
	return w.up == nil || w.up.mode == redlock.Read && m.live(w.a.Token) == w.up
}

// taking is the keeper that a hold gets from a request: one with = only says who asks.
func taking(keeper string) string {
	if strings.HasPrefix(keeper, "=") {
		return ""
	}
	return keeper
}

// rely notes a request for the hold that named a keeper, or who asks, or none.
func (h *modelHold) rely(keeper string) {
	switch {
	case taking(keeper) != "":
		if h.kept != "" {
			h.others = slices.DeleteFunc(append([]string{h.kept}, h.others...),
				func(other string) bool { return other[:2] == keeper[:2] })
		}
		h.kept = keeper
	case h.kept != "" && keeper != "="+h.kept:
		h.askedSince = true
	}
}

// renewedBy notes that a keeper renews the hold. false: it may not.
func (h *modelHold) renewedBy(keeper string) bool {
	if h.kept == keeper {
		h.others = nil
	}
	return h.kept != "" && slices.ContainsFunc(append(h.others, h.kept),
		func(other string) bool { return other[:2] == keeper[:2] }) // of one proxy
}

// again notes that the token of h has asked once more.
func (h *modelHold) again(a *redlock.Acquire, now time.Time, once, counted string) {
	switch {
	case h.find(a.ID) >= 0:
	case h.named(a.ID) >= 0: // by its client, as another request
		h.did("=" + a.ID)
		h.rely(a.Keeper)
	default:
		mark := once
		if a.Reentrant {
			mark = counted
			h.count++
		}
		h.did(mark + a.ID)
		h.rely(a.Keeper)
		h.meta = cmp.Or(a.Meta, h.meta)
		if a.AtLeast > 0 {
			h.least = rig.Later(h.least, now.Add(a.AtLeast+runs))
		}
	}
	if until := now.Add(a.Lease + runs); until.After(h.until) {
		h.until = until
	}
}

// then is the fence and the count that the request was told, or would have been told, before a later
// upgrade.
func (h *modelHold) then(id string) (fence, count int64) {
	at := h.named(id)
	if at < 0 {
		at = h.find(id)
	}
	if at < 0 {
		return h.fence, h.count
	}
	for _, mark := range h.made[at+1:] {
		if mark[0] != '^' && mark[0] != '*' {
			continue
		}
		return before(mark)
	}
	return h.fence, h.count
}

// runs is the millisecond that runs, from whose end leases count.
const runs = time.Millisecond

// renew makes the lease of h longer, and returns what remains of it.
func (h *modelHold) renew(now time.Time, lease time.Duration) time.Duration {
	if h.find(renewed) < 0 {
		h.did("=" + renewed)
	}
	if until := now.Add(lease + runs); until.After(h.until) {
		h.until = until
	}
	return h.until.Sub(now) - runs
}

// upgraded judges the reply to a reader that is to become the writer. It reports whether nothing else has to
// be judged.
func (m *model) upgraded(a *redlock.Acquire, h *modelHold, v resp.Value) (done bool, err error) {
	second := false
	for id, w := range m.queue {
		second = second ||
			id != a.ID && w.up != nil && w.deadline.After(m.now) && m.stands(w) &&
				m.heard(w.proxy) < offerTime && !a.Break
	}
	other := m.conflict(a.Token, redlock.Write)
	switch {
	case strings.HasPrefix(v.Err(), "DEADLOCK "):
		for id, w := range m.queue {
			if id != a.ID && w.up != nil && m.stands(w) {
				return true, nil
			}
		}
		return true, fmt.Errorf("%s: nobody else wants that", v.Err())
	case second:
		return true, fmt.Errorf("a second reader wants to be the writer: %s", textOf(v))
	case len(v.Elems) == 4:
		fence := v.Elems[1].Int
		if other != "" {
			return true, fmt.Errorf("%s became the writer while %s holds the lock", a.Token, other)
		}
		if fence <= m.fence || fence < m.now.UnixMicro() {
			return true, fmt.Errorf("the fence %d is not above %d and the clock", fence, m.fence)
		}
		had := fmt.Sprintf(":%d:%d", h.fence, h.count)
		h.again(a, m.now, "^", "*")
		h.made[len(h.made)-1] += had
		h.trim()
		h.mode, h.fence, m.fence, m.bare = redlock.Write, fence, fence, false
		delete(m.queue, a.ID)
		clear(m.hold)
		m.hold[a.Token] = h
		want := fmt.Sprintf("[%s %d %d %d]", a.Token, fence,
			(h.until.Sub(m.now) - runs).Milliseconds(), h.count)
		if textOf(v) != want {
			return true, fmt.Errorf("became the writer: %s, want %s", textOf(v), want)
		}
		return true, nil
	case other == "":
		return true, fmt.Errorf("the only reader did not become the writer: %s", textOf(v))
	}
	return false, nil
}

// used judges whether the key may be used as a asks for: as a lock, or as a semaphore with so many permits.
// done: nothing else has to be judged.
func (m *model) used(a *redlock.Acquire, v resp.Value) (done bool, err error) {
	inUse, unused := "", true
	for token := range m.hold {
		if m.live(token) != nil {
			inUse, unused = token, false
		}
	}
	for id, w := range m.queue {
		unused = unused && id == a.ID
		if id != a.ID && w.deadline.After(m.now) && m.stands(w) && m.heard(w.proxy) < offerTime {
			inUse = id
		}
	}
	word := "LOCKTYPE "
	if a.Permits > 0 && m.permits > 0 {
		word = fmt.Sprintf("PERMITS %d ", m.permits)
	}
	switch refused := strings.HasPrefix(v.Err(), word); {
	case a.Permits == m.permits && !refused:
		return false, nil
	case a.Permits == m.permits, refused && unused:
		return true, fmt.Errorf("%s asks for %d permits of %d: %s", a.ID, a.Permits, m.permits, v.Err())
	case refused:
		delete(m.queue, a.ID)
		return true, nil
	case inUse != "":
		return true, fmt.Errorf("%s asks for %d permits of %d, %s is there: %s", a.ID, a.Permits, m.permits,
			inUse, textOf(v))
	}
	m.permits = a.Permits
	clear(m.hold)
	clear(m.queue)
	return false, nil
}

// broken judges what BREAK has ended: all other holds, but none that the same proxy was granted later. rest
// is what else the reply says; done: nothing.
func (m *model) broken(a *redlock.Acquire, v resp.Value) (rest resp.Value, done bool, err error) {
	ended, spared := false, false
	for token := range m.hold {
		switch h := m.live(token); {
		case h == nil || token == a.Token:
		case h.means(a.ID):
			ended = true
			delete(m.hold, token)
		default:
			spared = true
		}
	}
	want, got := "all", "all"
	if spared && ended {
		want = "-2"
	} else if spared {
		want = "-1"
	}
	if v.Kind == ':' && v.Int < 0 {
		got = textOf(v)
	}
	if got != want || !spared && ended != (len(v.Elems) == 5) {
		return v, true, fmt.Errorf("%s broke %s (%v), want %s (%v)", a.ID, got, textOf(v), want, ended)
	}
	if ended {
		m.bare = false
		v.Elems = v.Elems[:min(4, len(v.Elems))]
	}
	return v, spared, nil
}

// acquired judges the reply to an acquire.
func (m *model) acquired(a *redlock.Acquire, proxy string, v resp.Value) error {
	if done, err := m.used(a, v); done {
		return err
	}
	h := m.live(a.Token)
	up := h != nil && h.mode == redlock.Read && a.Mode == redlock.Write && !h.knows(a.ID)
	asks := up && (!a.Reentrant || proxy != "" || h.means(a.ID))
	if a.Break && (h == nil || asks) {
		rest, done, err := m.broken(a, v)
		if done || err != nil {
			return err
		}
		v = rest
	}
	if asks {
		if done, err := m.upgraded(a, h, v); done {
			return err
		}
	}
	switch {
	case h != nil && a.Reentrant && proxy == "" && !h.knows(a.ID) && !h.means(a.ID):
		if textOf(v) != "-1" {
			return fmt.Errorf("an earlier request than that of the grant: %s, want -1", textOf(v))
		}
		return nil
	case h != nil && !up:
		if h.mode == redlock.Write && a.Mode == redlock.Read && !h.knows(a.ID) &&
			!h.asked("+=^*@", a.ID, h.made...) {
			h.mode = redlock.Read
		}
		known := h.knows(a.ID)
		fence, count := h.then(a.ID)
		h.again(a, m.now, "=", "+")
		if !known {
			count = h.count
		}
		delete(m.queue, a.ID)
		want := fmt.Sprintf("[%s %d %d %d]", a.Token, fence,
			(h.until.Sub(m.now) - runs).Milliseconds(), count)
		if textOf(v) != want {
			return fmt.Errorf("it holds the lock: %s, want %s", textOf(v), want)
		}
		return nil
	case len(v.Elems) == 4:
		if v.Elems[3].Int != 1 {
			return fmt.Errorf("a new hold with the count %d", v.Elems[3].Int)
		}
		return m.grant(a, v.Elems[1].Int, milliseconds(v.Elems[2].Int))
	case strings.HasPrefix(v.Err(), "QUEUEFULL "):
		if len(m.queue) < modelQueue {
			return fmt.Errorf("%q with %d waiters", v.Err(), len(m.queue))
		}
		return nil
	case v.Null() == (proxy != "") || v.Err() != "":
		return fmt.Errorf("it may wait: %v, reply %s", proxy != "", textOf(v))
	}
	var rising *modelHold
	if up {
		rising = h
	}
	w, place := m.queue[a.ID], int64(1)<<40
	switch {
	case up: // closedUp sees where it really stands
		place = 1
		for _, other := range m.queue {
			place = min(place, other.place-1)
		}
	case proxy != "":
		place = v.Elems[0].Int
	}
	if m.conflict(a.Token, a.Mode) == "" {
		ahead := 0
		for id, other := range m.queue {
			if id != a.ID && other.place < place {
				ahead++
			}
		}
		if ahead == 0 && !up {
			return fmt.Errorf("%s was refused a free lock that nobody waits for: %s", a.ID, textOf(v))
		}
	}
	if proxy == "" {
		return nil
	}
	switch {
	case w == nil:
		w = &modelWaiter{a: *a, proxy: proxy, place: place, deadline: m.now.Add(a.Wait), up: rising}
		for id, other := range m.queue {
			if up && other.place <= place && other.deadline.After(m.now) && m.stands(other) &&
				m.heard(other.proxy) < offerTime {
				return fmt.Errorf("%s must be before all but stands at %d, %s at %d", a.ID, place,
					id, other.place)
			}
			if !up && other.place >= place && !(other.gone && m.mayLosePlace(other)) {
				return fmt.Errorf("%s came last but stands at %d, %s at %d", a.ID, place, id, other.place)
			}
		}
		m.queue[a.ID] = w
	case rising != w.up:
		w.place, w.deadline, w.up = place, m.now.Add(a.Wait), rising
	case place < w.place && !up && !(w.gone && m.mayLosePlace(w)), place > w.place && !m.mayLosePlace(w):
		return fmt.Errorf("%s was moved from %d to %d", a.ID, w.place, place)
	case place != w.place, w.gone:
		w.place, w.deadline, w.gone = place, m.now.Add(a.Wait), false
	}
	w.asked, w.spared = m.spent, false
	return nil
}

// closedUp notes the present places of the waiters while id asks: they may have moved forward, in the same
// order.
func (m *model) closedUp(id string, place func(id string) int64) error {
	for a, first := range m.queue {
		for b, second := range m.queue {
			if a != id && b != id && place(a) > 0 && place(b) > 0 && first.place < second.place &&
				place(a) >= place(b) {
				return fmt.Errorf("%s stood before %s and does not any more", a, b)
			}
		}
	}
	for other, w := range m.queue {
		switch n := place(other); {
		case other == id:
		case n > 0:
			w.place = n
		default:
			w.gone = true
		}
	}
	return nil
}

// mayLosePlace says that a waiter may be dropped, and join the queue anew when it asks: its time is over, or
// its proxy has not been heard for as long as a lock is reserved.
func (m *model) mayLosePlace(w *modelWaiter) bool {
	return w.up != nil || m.spent-w.asked >= offerTime || !w.deadline.After(m.now) ||
		m.heard(w.proxy) >= offerTime
}

// heard is for how long a proxy has had a waiter that did not ask.
func (m *model) heard(proxy string) (longest time.Duration) {
	for _, w := range m.queue {
		if w.proxy == proxy {
			longest = max(longest, m.spent-w.asked)
		}
	}
	return longest
}

// handed judges a hand-over to a waiter.
func (m *model) handed(v resp.Value) error {
	w := m.queue[v.Elems[1].Text()]
	if w == nil {
		return fmt.Errorf("handed over to %s, who does not wait", v.Elems[1].Text())
	}
	return m.grant(&w.a, v.Elems[2].Int, milliseconds(v.Elems[3].Int))
}

// released judges the reply to a release.
func (m *model) released(token, id string, v resp.Value) error {
	h := m.live(token)
	want := "nil"
	again := slices.IndexFunc(m.passed, func(r [2]string) bool { return r[0] == id })
	before := slices.IndexFunc(m.told, func(r modelTold) bool { return r.id == id })
	switch {
	case again >= 0:
		if len(v.Elems) == 4 && v.Elems[1].Text() == m.passed[again][1] {
			return nil
		}
		want = "1"
	case before >= 0:
		want = m.told[before].reply
	case h != nil && h.find(id) >= 0:
		want = "0"
	case h != nil && !h.means(id):
	case h != nil && h.asked("+=^*@", id, h.made...):
		want = "-1"
	case h != nil && h.count > 1:
		h.count--
		h.did("-" + id)
		m.tell(id, "0")
		want = "0"
	case h != nil:
		m.leave(token)
		m.tell(id, "1")
		if len(v.Elems) == 4 {
			m.pass(id, v.Elems[1].Text())
			return m.handed(v)
		}
		want = "1"
	}
	if textOf(v) != want {
		return fmt.Errorf("release of %s: %s, want %s", token, textOf(v), want)
	}
	return nil
}

// cancelled judges the reply to a cancel.
func (m *model) cancelled(a *redlock.Acquire, v resp.Value) error {
	_, waits := m.queue[a.ID]
	delete(m.queue, a.ID)
	done := waits
	if h := m.live(a.Token); h != nil {
		if i := h.find(a.ID); i >= 0 && !strings.ContainsRune("-@", rune(h.made[i][0])) && !h.gone[a.ID] {
			done = true
			h.cancel(i)
			if h.count == 0 {
				delete(m.hold, a.Token)
			}
		}
	}
	if len(v.Elems) == 4 {
		return m.handed(v)
	}
	// A request that CHECK has told of stays, marked as cancelled or not: a plain lock has no room for the
	// mark.
	h := m.live(a.Token)
	kept := h != nil && h.find(checked) >= 0
	if (v.Int == 1) != done && !waits && !kept {
		return fmt.Errorf("cancel of %s: %s, want %v", a.ID, textOf(v), done)
	}
	return nil
}

const modelQueue = 6

// renewed stands for renewals in what made a hold.
const renewed = "0000000000000000"

// checked stands for CHECK there.
const checked = "1111111111111111"

// The seed is fixed: nothing fails by chance. A flag on the command line goes before this, as in make soak.
func init() { flag.Set("rapid.seed", "1") }

// TestModel has random requests of random clients, sent once or again, at random times of
// a clock that also steps back, judged by the model. R2 R6 R14 R15 R20 R29 R30 R33
func TestModel(t *testing.T) {
	t.Run("as it is", func(t *testing.T) {
		testModel(t, anyPermits, func(script scripts.Script) scripts.Script { return script })
	})
	t.Run("two waiters a script", func(t *testing.T) {
		testModel(t, anyPermits, func(script scripts.Script) scripts.Script { return looking(t, script, 7) })
	})
}

// looking is the script that looks at fewer places of the queue.
func looking(t testing.TB, s scripts.Script, places int) scripts.Script {
	const usual = "local looks = 1500"
	if fewer := strings.Replace(s.Source, usual, fmt.Sprint("local looks = ", places), 1); fewer != s.Source {
		sum := sha1.Sum([]byte(fewer))
		s.Source, s.SHA = fewer, hex.EncodeToString(sum[:])
	} else if s.Name == scripts.Acquire.Name {
		t.Fatalf("%s does not say %s", s.Name, usual)
	}
	return s
}

// anyPermits has half of the tests without a semaphore.
var anyPermits = rapid.IntRange(-2, 3)

// testModel runs variants of the scripts beside the model, and each test draws how many permits there are; 0
// or less: it is a lock.
func testModel(t testing.TB, permitsOf *rapid.Generator[int], variant func(scripts.Script) scripts.Script) {
	mini := miniredis.NewMiniRedis() // it counts TTLs down, so a clock that steps back is up to the test
	s := &rig.Server{T: t, Mini: mini, Dial: mini.Dial}
	c := s.Connect()
	defer c.Close()
	defer mini.Close()
	for _, script := range scripts.All() {
		s.Ask("SCRIPT", "LOAD", variant(script).Source)
	}
	rapid.Check(t, func(t *rapid.T) {
		mini.FlushAll()
		m := &model{forgot: -1, now: time.UnixMilli(1_800_000_000_000), hold: map[string]*modelHold{},
			queue: map[string]*modelWaiter{}}
		mini.SetTime(m.now)
		var expires time.Time
		raw := func(script scripts.Script, args ...string) []byte {
			m.runScript()
			mini.SetTTL(rig.LockKey, expires.Sub(m.now))
			keys := []string{rig.LockKey, fenceKey}[:max(script.Keys, 1)]
			reply, err := c.Do(evalSHA(variant(script), keys, args...))
			expires = m.now.Add(mini.TTL(rig.LockKey))
			if err != nil {
				t.Fatal(err)
			}
			return slices.Clone(reply)
		}
		ask := func(script scripts.Script, args ...string) resp.Value {
			v, _, _ := resp.Parse(raw(script, args...))
			t.Log(script.Name, args, textOf(v))
			if v.Err() != "" && !strings.HasPrefix(v.Err(), "QUEUEFULL") &&
				!strings.HasPrefix(v.Err(), "DEADLOCK") && !strings.HasPrefix(v.Err(), "LOCKTYPE") &&
				!strings.HasPrefix(v.Err(), "PERMITS") && !asksAgain(v) {
				t.Fatal(v.Err())
			}
			return v
		}
		// exists says whether the key is there, and if it is not, that nothing is missing.
		exists := func() bool {
			mini.SetTime(m.now)
			m.there = expires.After(m.now) && mini.Exists(rig.LockKey)
			if m.there {
				return true
			}
			mini.Del(rig.LockKey)
			for token := range m.hold {
				if h := m.live(token); h != nil {
					t.Fatalf("the hold of %s is lost: %+v", token, h)
				}
			}
			for id, w := range m.queue {
				if w.deadline.After(m.now) && m.heard(w.proxy) < offerTime && m.stands(w) {
					t.Fatalf("%s has lost its place: %+v", id, w)
				}
			}
			clear(m.hold)
			clear(m.queue)
			m.passed = nil
			return false
		}
		judge := func(err error) {
			if err != nil {
				t.Fatalf("%v\n%s", err, textOf(s.Ask("HGETALL", rig.LockKey)))
			}
			exists()
		}
		var requests []*redlock.Acquire
		proxyOf := map[string]string{}
		var releases [][3]string
		keepers := []string{"P9:none"}
		proxies := []string{"P1", "P2"} // that live; their successors have other names
		dead := map[string]bool{}
		ids := 0
		newID := func() string {
			ids++
			return fmt.Sprintf("id%014d", ids)
		}
		tokens := rapid.SampledFrom([]string{"a", "b", "c", "#d"})
		permits := max(permitsOf.Draw(t, "permits"), 0) // that most requests name
		acquire := func(a *redlock.Acquire) {
			proxy := proxyOf[a.ID]
			limits := fmt.Sprint(modelQueue)
			if a.Permits > 0 {
				limits += fmt.Sprint(" ", a.Permits)
			}
			wait := millis(a.Wait)
			if w := m.queue[a.ID]; w != nil && w.up == nil {
				wait += fmt.Sprint(" ", w.place)
			}
			args := append(words(a), proxy, wait, limits, "PUBLISH", a.Keeper, said(a), "")
			switch {
			case a.Break:
				args = append(args, "1")
			case said(a) != "":
			case a.Keeper == "" && proxy == "" && a.Mode == redlock.Write:
				args = args[:5]
			case a.Keeper == "":
				args = args[:9]
			}
			m.proxyClock = m.now.UnixMicro() + rapid.Int64Range(-3e6, 15e6).Draw(t, "clock of the proxy")
			v := ask(scripts.Acquire, plainly(m.proxyClock, args)...)
			for i := 0; asksAgain(v) && i < 100; i++ {
				v = ask(scripts.Acquire, plainly(m.proxyClock, args)...)
			}
			if v.Kind == ':' && v.Int == 1 {
				v.Int = m.proxyClock
			}
			v = whole(v, args)
			if err := m.closedUp(a.ID,
				func(id string) int64 { return rig.Integer(mini.HGet(rig.LockKey, "i:"+id)) }); err != nil {
				t.Fatal(err)
			}
			judge(m.acquired(a, proxy, v))
		}
		release := func(r [3]string, proxy string) {
			// the grace is on half the time
			v := ask(scripts.Release, r[0], "", r[1], proxy, "PUBLISH",
				[]string{"grant", "offer"}[ids%2], r[2])
			judge(m.released(r[0], r[1], v))
		}
		t.Repeat(map[string]func(*rapid.T){
			"acquire": func(t *rapid.T) {
				a := &redlock.Acquire{
					Token:     tokens.Draw(t, "token"),
					Mode:      rapid.SampledFrom([]redlock.Mode{redlock.Write, redlock.Read}).Draw(t, "mode"),
					Lease:     time.Duration(rapid.IntRange(1, 3000).Draw(t, "lease")) * time.Millisecond,
					Reentrant: rapid.Bool().Draw(t, "reentrant"), ID: newID(),
				}
				a.Permits = permits
				if rapid.IntRange(0, 9).Draw(t, "another use") == 0 {
					a.Permits = rapid.IntRange(0, 3).Draw(t, "permits")
				}
				if a.Permits > 0 {
					a.Mode, a.Reentrant = redlock.Permit, false
				}
				if proxy := rapid.SampledFrom(append([]string{""}, proxies...)).Draw(t,
					"proxy"); proxy != "" {
					proxyOf[a.ID] = proxy
					a.Wait = time.Duration(rapid.IntRange(1, 5000).Draw(t, "wait")) * time.Millisecond
				} else if a.Permits == 0 {
					a.Break = rapid.IntRange(0, 3).Draw(t, "breaks") == 0
				}
				switch rapid.IntRange(0, 4).Draw(t, "keep") {
				case 0:
					keepers = append(keepers, fmt.Sprintf("P%d:%d", 8+ids%2, ids))
					a.Keeper = keepers[len(keepers)-1]
				case 1: // it keeps the hold, or kept it
					a.Keeper = "=" + rapid.SampledFrom(keepers).Draw(t, "keeper")
				}
				a.Meta = rapid.SampledFrom([]string{"", "", "", " of - + = 1 2 3\n", "\t7 "}).Draw(t, "meta")
				if rapid.IntRange(0, 3).Draw(t, "rests") == 0 {
					a.AtLeast = time.Duration(rapid.IntRange(1, 4000).Draw(t, "at least")) * time.Millisecond
					a.Lease = max(a.Lease, a.AtLeast)
				}
				if rapid.IntRange(0, 2).Draw(t, "named") == 0 {
					a.Named = fmt.Sprintf("n%07d", ids)
					a.ID += "," + a.Named
				}
				requests = append(requests, a)
				acquire(a)
			},
			"again": func(t *rapid.T) {
				if len(requests) > 0 {
					acquire(requests[max(0, len(requests)-1-rapid.IntRange(0, 7).Draw(t, "which"))])
				}
			},
			"again by its client": func(t *rapid.T) { // which names it, over another connection
				if len(requests) == 0 {
					return
				}
				if a := *requests[max(0,
					len(requests)-1-rapid.IntRange(0, 4).Draw(t, "which"))]; a.Named != "" {
					proxy := proxyOf[a.ID]
					a.ID = newID() + "," + a.Named
					proxyOf[a.ID] = proxy
					requests = append(requests, &a)
					acquire(&a)
				}
			},
			"waiters": func(t *rapid.T) { // they all ask
				ids := make([]string, 0, len(m.queue))
				for id := range m.queue {
					ids = append(ids, id)
				}
				slices.Sort(ids)
				for _, id := range ids {
					if w := m.queue[id]; w != nil && w.deadline.After(m.now) && !dead[w.proxy] {
						acquire(&w.a)
					}
				}
			},
			// and then they all ask, in any order
			"Redis is away": func(t *rapid.T) {
				var ids []string
				for id, w := range m.queue {
					if !dead[w.proxy] {
						ids = append(ids, id)
					}
				}
				slices.Sort(ids)
				away := time.Duration(rapid.IntRange(0, 4000).Draw(t, "ms")) * time.Millisecond
				m.now, m.spent = m.now.Add(away), m.spent+away
				exists()
				for _, id := range rapid.Permutation(ids).Draw(t, "order") {
					if w := m.queue[id]; w != nil && w.deadline.After(m.now) {
						acquire(&w.a)
					}
				}
			},
			"release": func(t *rapid.T) {
				r := [3]string{tokens.Draw(t, "token"), newID()}
				if h := m.hold[r[0]]; h != nil && rapid.Bool().Draw(t, "its fence is known") {
					r[2] = fmt.Sprint(h.fence)
				}
				releases = append(releases, r)
				release(r, rapid.SampledFrom(proxies).Draw(t, "proxy"))
			},
			"all release": func(t *rapid.T) {
				for _, token := range slices.Sorted(maps.Keys(m.hold)) {
					if token[:1] != resting {
						r := [3]string{token, newID()}
						releases = append(releases, r)
						release(r, rapid.SampledFrom(proxies).Draw(t, "proxy"))
					}
				}
			},
			"release again": func(t *rapid.T) {
				if len(releases) > 0 {
					r := releases[max(0, len(releases)-1-rapid.IntRange(0, 9).Draw(t, "which"))]
					release(r, "P1")
				}
			},
			"release of another grant": func(t *rapid.T) {
				token := tokens.Draw(t, "token")
				if v := ask(scripts.Release, token, "12345", newID(), "P1", "PUBLISH"); !v.Null() {
					t.Fatalf("%s", textOf(v))
				}
			},
			"renew": func(t *rapid.T) {
				token, lease := tokens.Draw(t,
					"token"), time.Duration(rapid.IntRange(1, 5000).Draw(t, "lease"))*time.Millisecond
				h, means := m.live(token), ""
				switch rapid.IntRange(0, 3).Draw(t, "means") {
				case 0:
					means = fmt.Sprint(m.fence)
				case 1:
					means = newID()
				case 2: // a late copy
					means = fmt.Sprintf("id%014d", max(0, ids-rapid.IntRange(0, 9).Draw(t, "age")))
				}
				keeper := ""
				if rapid.Bool().Draw(t, "kept") {
					keeper = "=" + rapid.SampledFrom(keepers).Draw(t, "keeper")
				}
				v, want := renewedIn(ask(renewScript, token, millis(lease), means, keeper)), int64(0)
				if h != nil &&
					(means == "" || means[0] == 'i' && h.means(means) || fmt.Sprint(h.fence) == means) {
					want = h.renew(m.now, lease).Milliseconds()
					h.rely(keeper)
				}
				if v.Int != want || v.Kind != ':' {
					t.Fatalf("renew of %s: %s, want %d", token, textOf(v), want)
				}
			},
			"guard": func(t *rapid.T) { // a token, or the fence that it has, had, or another one had
				token, fence := tokens.Draw(t, "token"), ""
				if h := m.live(token); h != nil && rapid.Bool().Draw(t, "when its lease ends") {
					m.now, m.spent = h.until, m.spent+h.until.Sub(m.now)
					exists()
				}
				held := m.live(token) != nil
				if rapid.Bool().Draw(t, "by its fence") {
					meant := m.fence - rapid.Int64Range(0, 1).Draw(t, "before the last")
					if h := m.hold[token]; h != nil {
						meant = h.fence
					}
					token, fence, held = "", fmt.Sprint(meant), false
					for other := range m.hold {
						held = held || m.live(other) != nil && m.live(other).fence == meant
					}
				}
				v, _, _ := resp.Parse(raw(scripts.Guard, token, fence, "0", "INCR", "guarded"))
				switch {
				case held:
					if m.guarded++; v.Kind != ':' || v.Int != m.guarded {
						t.Fatalf("guard by %q %s: %s, want %d", token, fence, textOf(v), m.guarded)
					}
				case !strings.HasPrefix(v.Err(), "NOTHELD "):
					t.Fatalf("guard by %q %s, which holds nothing: %s", token, fence, textOf(v))
				}
			},
			"renew as keeper": func(t *rapid.T) {
				token, lease := tokens.Draw(t,
					"token"), time.Duration(rapid.IntRange(1, 5000).Draw(t, "lease"))*time.Millisecond
				keeper := rapid.SampledFrom(keepers).Draw(t, "keeper")
				v := renewedIn(ask(keepScript, token, millis(lease), "", keeper))
				want := int64(0)
				if h := m.live(token); h != nil && h.renewedBy(keeper) {
					want = h.renew(m.now, lease).Milliseconds()
				} else if h != nil {
					want = -1
				}
				if textOf(v) != fmt.Sprint(want) {
					t.Fatalf("%s renewed by %s: %s, want %d", token, keeper, textOf(v), want)
				}
			},
			"take over": func(t *rapid.T) {
				token := tokens.Draw(t, "token")
				keepers = append(keepers, fmt.Sprintf("P%d:%s", 8+ids%2, newID()))
				keeper := keepers[len(keepers)-1]
				v, want := renewedIn(ask(renewScript, token, "1", "", keeper)), "0"
				if h := m.live(token); h != nil {
					h.rely(keeper)
					want = fmt.Sprintf("[%d %d]", h.renew(m.now, time.Millisecond).Milliseconds(), h.fence)
				}
				if textOf(v) != want {
					t.Fatalf("%s took %s over: %s, want %s", keeper, token, textOf(v), want)
				}
			},
			"detach": func(t *rapid.T) {
				token, keeper := tokens.Draw(t, "token"), rapid.SampledFrom(keepers).Draw(t, "keeper")
				v := ask(detachScript, token, keeper, "P1", "PUBLISH")
				h := m.live(token)
				switch {
				case h == nil || h.kept != keeper:
					if textOf(v) != "0" {
						t.Fatalf("%s freed what %s does not hold: %s", keeper, token, textOf(v))
					}
				case h.askedSince: // it stays
					if h.kept, h.askedSince = "", len(h.others) > 0; h.askedSince {
						h.kept, h.others = h.others[0], h.others[1:]
					}
					if textOf(v) != "1" {
						t.Fatalf("%s of %s: %s", keeper, token, textOf(v))
					}
				default:
					m.leave(token)
					if len(v.Elems) == 4 {
						judge(m.handed(v))
					} else if textOf(v) != "1" {
						t.Fatalf("%s of %s: %s", keeper, token, textOf(v))
					}
				}
				exists()
			},
			"break": func(t *rapid.T) {
				id, held := newID(), false
				if rapid.Bool().Draw(t, "late") {
					id = fmt.Sprintf("id%014d", max(0, ids-rapid.IntRange(0, 9).Draw(t, "age")))
				}
				for token := range m.hold {
					if h := m.live(token); h != nil && h.means(id) {
						held = true
						delete(m.hold, token)
					}
				}
				v := ask(breakScript, "P1", "PUBLISH", "", id)
				if (textOf(v) != "0") != held {
					t.Fatalf("break of a lock that is held (%v): %s", held, textOf(v))
				}
				if held {
					m.bare = false
				}
				if len(v.Elems) == 4 {
					judge(m.handed(v))
				}
				exists()
			},
			"cancel": func(t *rapid.T) {
				if len(requests) > 0 {
					a := requests[max(0, len(requests)-1-rapid.IntRange(0, 7).Draw(t, "which"))]
					judge(m.cancelled(a,
						ask(scripts.Cancel, a.Token, a.ID,
							rapid.SampledFrom(proxies).Draw(t, "proxy"), "PUBLISH")))
				}
			},
			// none of its waiters asks again, but late copies may come
			"a proxy is killed": func(t *rapid.T) {
				if rapid.IntRange(0, 3).Draw(t, "really") == 0 {
					i := rapid.IntRange(0, len(proxies)-1).Draw(t, "proxy")
					dead[proxies[i]] = true
					proxies[i] = fmt.Sprintf("Q%d", len(dead))
				}
			},
			// or leaves because of the proxy: holds last until their leases end
			"a keeper is killed": func(t *rapid.T) {
				keepers = []string{"P9:none"}
			},
			// when all leases are over it is its turn, whoever died before it
			"a waiter goes on alone": func(t *rapid.T) {
				var alive []string
				free, ends := m.now, []time.Time{}
				for id, w := range m.queue {
					if !dead[w.proxy] && w.up == nil {
						alive = append(alive, id)
					}
				}
				for _, h := range m.hold {
					ends = append(ends, h.until)
				}
				slices.SortFunc(ends, time.Time.Compare)
				if first := len(ends) - max(m.permits, 1); m.permits > 0 && first >= 0 {
					ends = ends[:first+1] // when a permit is free
				} else if m.permits > 0 {
					ends = nil
				}
				for _, end := range ends {
					free = rig.Later(free, end)
				}
				if len(alive) == 0 {
					return
				}
				w := m.queue[slices.Min(alive)]
				for m.queue[w.a.ID] == w && w.deadline.After(m.now.Add(300*time.Millisecond)) {
					m.now, m.spent = m.now.Add(300*time.Millisecond), m.spent+300*time.Millisecond
					if exists(); m.queue[w.a.ID] != w {
						return
					}
					late := m.now.Sub(free) - time.Duration(len(dead))*offerTime
					if acquire(&w.a); m.queue[w.a.ID] == w && late > 2*time.Second {
						t.Fatalf("%s waits, %v after all leases: %+v", w.a.ID, m.now.Sub(free), w)
					}
				}
			},
			"time": func(t *rapid.T) {
				step := time.Duration(rapid.OneOf(rapid.IntRange(1, 50), rapid.IntRange(400, 4000)).Draw(t,
					"ms")) * time.Millisecond
				m.now, m.spent = m.now.Add(step), m.spent+step
				exists()
			},
			"hours": func(t *rapid.T) {
				m.now, m.spent = m.now.Add(5*time.Hour), m.spent+5*time.Hour
				exists()
			},
			"another lock of the slot": func(t *rapid.T) {
				keys := []string{"lock:{job}2", fenceKey}
				token := newID()
				mini.Del(keys[0])
				clock := m.now.UnixMicro() + rapid.Int64Range(-3e6, 15e6).Draw(t, "clock of the proxy")
				args := plainly(clock, []string{token, "1000", "w", newID(), "0"})
				reply, _ := c.Do(evalSHA(scripts.Acquire, keys, args...))
				v, _, _ := resp.Parse(reply)
				if v.Int == 1 {
					v.Int = clock
				}
				if v.Int <= m.fence {
					t.Fatalf("%s, after the fence %d", textOf(v), m.fence)
				}
				m.fence, m.bare = v.Int, false
				if rapid.Bool().Draw(t, "released") {
					id := newID()
					reply, _ := c.Do(evalSHA(scripts.Release, keys, token, "", id, "P1", "PUBLISH"))
					if string(reply) != ":1\r\n" {
						t.Fatalf("%q", reply)
					}
					m.tell(id, "1")
				}
			},
			"the lock is deleted": func(t *rapid.T) {
				if rapid.IntRange(0, 3).Draw(t, "really") == 0 {
					mini.Del(rig.LockKey)
					clear(m.hold)
					clear(m.queue)
					exists()
				}
			},
			"the fence is deleted": func(t *rapid.T) {
				// Otherwise the clock has stepped back, or that of a proxy may be behind the fence, and
				// nothing remembers it.
				if m.now.UnixMicro() > m.fence+3e6 {
					mini.Del(fenceKey)
					m.told, m.bare, m.forgot = nil, true, m.fence
				}
			},
			"inspect": func(t *rapid.T) {
				var who []string
				if rapid.Bool().Draw(t, "check") {
					who = []string{tokens.Draw(t, "token")}
				}
				state, err := scripts.ReadLock(raw(scripts.Inspect, who...), &scripts.Pages{})
				if len(who) > 0 && m.live(who[0]) != nil {
					m.live(who[0]).check()
				}
				if err != nil {
					t.Fatal(err)
				}
				for i := range state.Holders {
					h := &state.Holders[i]
					if want := m.live(h.Owner); want == nil ||
						*h != (redlock.Holder{Owner: h.Owner, Mode: want.mode,
							TTL: want.until.Sub(m.now) - runs, Count: want.count, Fence: want.fence,
							Age: h.Age, Kept: want.kept != "", Meta: want.meta}) {
						t.Fatalf("%+v, want %+v", h, want)
					}
				}
				rest, permits := time.Duration(0), 0
				for token := range m.hold {
					h := m.live(token)
					if h == nil || token[:1] != resting || len(who) > 0 && h.mode != redlock.Write {
						continue
					}
					if rest = max(rest, h.until.Sub(m.now)-runs); h.mode == redlock.Permit {
						permits++
					}
				}
				if state.Rest != rest || state.Resting != permits {
					t.Fatalf("%d permits rest, until %v, want %d until %v", state.Resting, state.Rest,
						permits, rest)
				}
				for token := range m.hold {
					if token[:1] == resting {
						continue
					}
					if len(who) > 0 && who[0] != token && m.live(token) != nil &&
						m.live(token).mode != redlock.Write {
						continue // CHECK tells of no other readers
					}
					if m.live(token) != nil &&
						!slices.ContainsFunc(state.Holders,
							func(h redlock.Holder) bool { return h.Owner == token }) {
						t.Fatalf("%s is not seen to hold it: %+v", token, state)
					}
				}
			},
			"clock steps back": func(t *rapid.T) {
				// What is over may have been seen to be, or not, and then it is not any more.
				if m.forgot == m.fence { // with nothing but the clock to go by, it must not
					return
				}
				for token := range m.hold {
					if m.live(token) == nil {
						return
					}
				}
				for _, w := range m.queue {
					if !w.deadline.After(m.now) {
						return
					}
				}
				m.now = m.now.Add(-time.Duration(rapid.IntRange(1, 1500).Draw(t, "ms")) * time.Millisecond)
				exists()
			},
		})
		// When all is over nothing is in the way of anybody, and nothing stays.
		m.now, m.spent = m.now.Add(20*time.Second), m.spent+20*time.Second
		if exists() {
			t.Fatalf("left: %v", s.Ask("HGETALL", rig.LockKey))
		}
	})
}

// asksAgain says that the script has not found out yet who is first in the queue.
func asksAgain(v resp.Value) bool {
	return v.Kind == ':' && v.Int == -3 ||
		len(v.Elems) == 3 && v.Elems[1].Int == 1 && strings.Trim(v.Elems[2].Text(), "*") == ""
}

// words are the arguments of a in the acquire script.
func words(a *redlock.Acquire) []string {
	reentrant := "0"
	if a.Reentrant {
		reentrant = "1"
	}
	return []string{a.Token, millis(a.Lease), string(a.Mode), a.ID, reentrant}
}

// said is what a says of its hold, as the scripts take it.
func said(a *redlock.Acquire) string {
	if a.AtLeast == 0 && !strings.HasPrefix(a.Meta, "\t") {
		return a.Meta
	}
	return fmt.Sprintf("\t%d %s", a.AtLeast.Milliseconds(), a.Meta)
}

func millis(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }
