package quorum_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"lockproxy/internal/resp"
	"lockproxy/internal/subscription"
	"lockproxy/redlock"
	"lockproxy/redlock/internal/proxies"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/locks"
	"lockproxy/redlock/quorum"
	"lockproxy/redlock/scripts"
)

// master is one independent master in fake time, with a clock of its own.
type master struct {
	*rig.Server
	// for how long it does not vote after it has lost its memory, or its clock has stepped
	longest time.Duration

	line sync.Mutex // one request at a time; taken before mu
	conn *rig.Conn

	mu    sync.Mutex    // never held while the server writes, since whoever reads that may want it
	ahead time.Duration // of the true time
	down  bool
	mute  time.Time // it does not vote until then
	life  int       // crashes so far
	ran   int       // requests
}

func newMaster(t testing.TB, longest time.Duration) *master {
	m := miniredis.NewMiniRedis()
	m.SetTime(time.Now())
	m.ClockTTL(true)
	return &master{Server: &rig.Server{T: t, Mini: m, Dial: m.Dial}, longest: longest}
}

var errAway = errors.New("the node is away")

// run runs a request now.
func (n *master) run(req []byte) ([]byte, error) {
	n.line.Lock()
	defer n.line.Unlock()
	n.mu.Lock()
	down := n.down
	if !down {
		n.ran++
		n.Mini.SetTime(time.Now().Add(n.ahead))
	}
	n.mu.Unlock()
	if down {
		return nil, errAway
	}
	if n.conn == nil {
		n.conn = n.Connect()
	}
	reply, err := n.conn.Do(req)
	return bytes.Clone(reply), err
}

// crash has it lose its memory, and stay away until it is up.
func (n *master) crash() {
	n.line.Lock()
	defer n.line.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down, n.mute = true, time.Now().Add(n.longest)
	n.life++
	n.Mini.FlushAll()
}

func (n *master) up() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		n.down, n.mute = false, time.Now().Add(n.longest)
	}
}

// step sets its clock.
func (n *master) step(ahead time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ahead != ahead {
		n.ahead, n.mute = ahead, time.Now().Add(n.longest)
	}
}

// stepUnseen sets its clock; proxies learn of it only when they look.
func (n *master) stepUnseen(ahead time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ahead = ahead
}

func (n *master) offset() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ahead
}

func (n *master) vote() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.down:
		return errAway
	case time.Now().Before(n.mute):
		return errors.New("quarantine")
	}
	return nil
}

func (n *master) close() {
	n.line.Lock()
	defer n.line.Unlock()
	if n.conn != nil {
		n.conn.Close()
	}
	n.Mini.Close()
}

// fault is what happens to one request.
type fault uint8

const (
	none        fault = iota
	lostRequest       // the connection breaks before it is written
	lostReply         // ... before the reply is read
	silence           // it is written, and the reply never comes
)

// link is the connection of one proxy to one master: a Node. Requests arrive in order.
type link struct {
	to    *master
	delay func() time.Duration // one way
	fault func(script string) fault
	trust bool // it has the node vote whenever it can be reached
	deaf  bool // it does not look at the clock in answers

	clock   sync.Mutex
	met     bool
	offset  time.Duration // of the node's clock, as far as is known here
	stepped time.Time     // the node does not vote until then, since its clock has stepped

	distrusted []string

	mu    sync.Mutex
	queue []*request
	busy  bool
	last  time.Time // when the last one arrives
	life  int       // of the connection
	asked int
	// instead, if not nil, changes requests, or answers in the node's place.
	instead func(req []byte) (changed, reply []byte)
	work    sync.WaitGroup
}

type request struct {
	req    []byte
	at     time.Time
	life   int
	fault  fault
	answer chan []byte // capacity 1; closed when the connection breaks
}

func (l *link) Addr() string { return "node" }

func (l *link) Vote() error {
	if l.trust {
		l.to.mu.Lock()
		defer l.to.mu.Unlock()
		if l.to.down {
			return errAway
		}
		return nil
	}
	l.clock.Lock()
	defer l.clock.Unlock()
	if !l.met { // as at a first contact
		l.met, l.offset = true, l.to.offset()
	}
	if time.Now().Before(l.stepped) {
		return errors.New("its clock has stepped")
	}
	return l.to.vote()
}

// Heard implements Node. How long the request took on its way, and how long the answer, is not known.
func (l *link) Heard(clock, asked time.Time) error {
	l.Vote()
	l.clock.Lock()
	low, top := clock.Sub(time.Now()), clock.Sub(asked)
	if !l.deaf && (low > l.offset+stepMost || top < l.offset-stepMost) {
		l.stepped = time.Now().Add(l.to.longest)
		l.offset = l.to.offset()
	}
	l.clock.Unlock()
	return l.Vote()
}

// Distrust implements Node.
func (l *link) Distrust(why string) {
	l.clock.Lock()
	defer l.clock.Unlock()
	l.stepped = time.Now().Add(l.to.longest)
	l.distrusted = append(l.distrusted, why)
}

// look is what a proxy does each second.
func (l *link) look() {
	l.Vote()
	l.clock.Lock()
	defer l.clock.Unlock()
	if now := l.to.offset(); (now - l.offset).Abs() > stepMost {
		l.offset, l.stepped = now, time.Now().Add(l.to.longest)
	}
}

// stepMost is by how much a clock may be off without having stepped.
const stepMost = 50 * time.Millisecond

// Ask implements Node.
func (l *link) Ask(req []byte, timeout time.Duration, tag int, to quorum.NodeAnswerer) {
	e, reply, err := l.send(req)
	if e == nil {
		to.Answer(tag, reply, err)
		return
	}
	l.work.Go(func() { // ends when the node has answered, or its time is over
		late := time.NewTimer(timeout)
		defer late.Stop()
		select {
		case reply, ok := <-e.answer:
			if !ok {
				to.Answer(tag, nil, errors.New("the connection has broken"))
				return
			}
			to.Answer(tag, reply, nil)
		case <-late.C:
			to.Answer(tag, nil, context.DeadlineExceeded)
		}
	})
}

// send has req under way, or returns what is said at once.
func (l *link) send(req []byte) (e *request, reply []byte, err error) {
	l.to.mu.Lock()
	down := l.to.down
	l.to.mu.Unlock()
	if down {
		return nil, nil, errAway
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	if l.instead != nil {
		changed, reply := l.instead(req)
		if reply != nil {
			return nil, reply, nil
		}
		req = changed
	}
	e = &request{req: bytes.Clone(req), life: l.life, answer: make(chan []byte, 1), at: time.Now()}
	if l.delay != nil {
		e.at = e.at.Add(l.delay())
	}
	if e.at.Before(l.last) {
		e.at = l.last
	}
	l.last = e.at
	if l.fault != nil {
		e.fault = l.fault(rig.ScriptOf(req))
	}
	if e.fault == lostRequest {
		return nil, nil, errors.New("the connection has broken")
	}
	l.queue = append(l.queue, e)
	if !l.busy {
		l.busy = true
		l.work.Go(l.serve) // ends when nothing is under way
	}
	return e, nil, nil
}

// serve has what was sent arrive.
func (l *link) serve() {
	for {
		l.mu.Lock()
		if len(l.queue) == 0 {
			l.busy = false
			l.mu.Unlock()
			return
		}
		e := l.queue[0]
		l.queue = l.queue[1:]
		l.mu.Unlock()
		time.Sleep(time.Until(e.at))
		l.mu.Lock()
		cut := e.life != l.life
		l.mu.Unlock()
		if cut {
			close(e.answer)
			continue
		}
		reply, err := l.to.run(e.req)
		switch {
		case err != nil || e.fault == lostReply:
			close(e.answer)
		case e.fault == silence:
		case l.delay != nil:
			back := l.delay()
			l.work.Go(func() {
				time.Sleep(back)
				e.answer <- reply
			})
		default:
			e.answer <- reply
		}
	}
}

// fails has requests fail.
func (l *link) fails(f func(script string) fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = f
}

// cut breaks the connection: what is under way does not arrive.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.life++
}

// Subscribe implements Node.
func (l *link) Subscribe(channel string, notify func(subscription.Change)) (cancel func()) {
	c := l.to.Connect()
	done := make(chan struct{})
	go func() { // ends with the connection
		defer close(done)
		if _, err := c.Do(resp.AppendCommandStrings(nil, "SUBSCRIBE", channel)); err == nil {
			notify(subscription.Change{Kind: subscription.Live})
		}
		for {
			message, err := c.Reply()
			if err != nil {
				return
			}
			v, _, _ := resp.Parse(message)
			if strings.HasSuffix(v.Elems[0].Text(), "message") && l.to.vote() != errAway {
				notify(subscription.Change{Kind: subscription.Message, Payload: bytes.Clone(v.Elems[2].Str)})
			}
		}
	}()
	return func() {
		c.Close()
		<-done
	}
}

// network has masters, and proxies that are linked to all of them.
type network struct {
	masters []*master
	links   [][]*link       // by proxy and master
	nodes   [][]quorum.Node // the same
	proxies []*locks.Locker
	left    proxies.Leftovers
}

const testNodeTimeout = 20 * time.Millisecond

// newNetwork makes masters and proxies; in a bubble. end must be called.
func newNetwork(t testing.TB, masters, proxies int, longest time.Duration) *network {
	rig.InTheseYears()
	s := &network{}
	for range masters {
		s.masters = append(s.masters, newMaster(t, longest))
	}
	for range proxies {
		var links []*link
		var nodes []quorum.Node
		for _, n := range s.masters {
			links = append(links, &link{to: n})
			nodes = append(nodes, links[len(links)-1])
		}
		s.links, s.nodes = append(s.links, links), append(s.nodes, nodes)
		s.proxies = append(s.proxies, s.proxyAt(nodes, locks.Options{Lease: time.Second}))
	}
	return s
}

// anew puts a proxy with other options in the place of proxy i.
func (s *network) anew(i int, o locks.Options) *locks.Locker {
	s.proxies[i].Close(context.Background())
	s.proxies[i] = s.proxyAt(s.nodes[i], o)
	return s.proxies[i]
}

func (s *network) proxyAt(nodes []quorum.Node, o locks.Options) *locks.Locker {
	o.Log = s.left.Logger()
	return locks.NewRedlock(nodes, quorum.Options{
		NodeTimeout: testNodeTimeout, NotRun: func(err error) bool { return err == errAway },
	}, o)
}

// end closes everything, and says what was left behind.
func (s *network) end() (left error) {
	for i, l := range s.proxies {
		l.Close(context.Background())
		if what := s.left.String(); what != "" {
			left = errors.Join(left, fmt.Errorf("proxy %d: %s", i, what))
		}
		for _, link := range s.links[i] {
			link.work.Wait()
		}
	}
	for _, n := range s.masters {
		n.close()
	}
	return left
}

// noQuorum says that err is that too few nodes could be had.
func noQuorum(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "NOQUORUM ") }

// driftOf is how much of a lease the clocks of two machines may disagree about.
func driftOf(lease time.Duration) time.Duration { return lease/100 + 2*time.Millisecond }

// keys are those of locks on master i.
func (s *network) keys(i int) (keys []string) {
	n := s.masters[i]
	n.mu.Lock()
	n.Mini.SetTime(time.Now().Add(n.ahead))
	n.mu.Unlock()
	return n.Keys()
}

// free says which masters have locks.
func (s *network) free() error {
	var err error
	for i := range s.masters {
		if keys := s.keys(i); len(keys) > 0 {
			err = errors.Join(err, fmt.Errorf("master %d has %q", i, keys))
		}
	}
	return err
}

// lockAt acquires as the verb LOCK does.
func lockAt(ctx context.Context, l *locks.Locker, a redlock.Acquire) (res proxies.Result) {
	began := time.Now()
	defer func() { res.At, res.Took = time.Now(), time.Since(began) }()
	if a.Mode == "" {
		a.Mode = redlock.Write
	}
	if a.Name == "" {
		a.Name = "job"
	}
	q := l.NewAcquire(a)
	if l.Follows(q) {
		res.Grant, res.OK, res.Err = l.Wait(ctx, q)
		return res
	}
	res.Grant, res.OK, res.Err = (&rig.Asker{L: l}).Acquire(q)
	if res.Err != nil && !redlock.Refused(res.Err) {
		l.Undo(q)
	}
	if res.OK || res.Err != nil || q.Wait == 0 {
		return res
	}
	res.Grant, res.OK, res.Err = l.Wait(ctx, q)
	return res
}

// unlockAt releases; it returns 1, 0 or -1 for Null.
func unlockAt(l *locks.Locker, token string, fence int64) (int, error) {
	return (&rig.Asker{L: l}).Release(&redlock.Release{Name: "job", Token: token, Fence: fence})
}

// holdsOn are the masters that have a hold of token.
func (s *network) holdsOn(token string) (on []int) {
	for i, n := range s.masters {
		c := scripts.InspectCall(redlock.NewNames("lock:"), "job", "", &scripts.Pages{})
		reply, err := n.run(c.Req)
		if err != nil {
			continue
		}
		v, _, _ := resp.Parse(reply)
		if v.Null() {
			continue
		}
		state, _ := scripts.ReadState(v)
		if slices.ContainsFunc(state.Holders,
			func(h redlock.Holder) bool { return h.Owner == redlock.OwnerOf(token) }) {
			on = append(on, i)
		}
	}
	return on
}

// renewAt renews a hold of the lock job, and returns what remains.
func renewAt(l *locks.Locker, token string, lease time.Duration, fence int64) (time.Duration, error) {
	r, err := (&rig.Asker{L: l}).Renew(&redlock.Renew{Name: "job", Token: token, Lease: lease, Fence: fence})
	return r.Left, err
}
