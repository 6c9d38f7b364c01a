package pipe

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/cluster/pipe/script"
	"lockproxy/internal/loop"
	"lockproxy/internal/resp"
)

// This file connects pipes to nodes that do whatever a node, a network or an operator may do, and checks
// what pipes promise:
//
//	each request has one end, within a bounded time: its whole reply, or Fail
//	one that may not be sent again runs once at most; one that is said not to have run has not
//	a reply belongs to its request
//	whoever waits for a short queue, or for a connection, is told
//	in the end there is no pipe to a node that has left, no queue and no goroutine

var (
	modelSeed = flag.Uint64("model.seed", 1000031, "the first seed of TestPoolModel; 0: by the clock")
	modelRuns = flag.Int("model.runs", 2, "how many seeds TestPoolModel tries")
)

func TestPoolModel(t *testing.T) {
	first := *modelSeed
	if first == 0 {
		first = uint64(time.Now().UnixNano() % 1e9)
	}
	for seed := first; seed < first+uint64(*modelRuns) && !t.Failed(); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runModel(t, seed) })
		})
	}
}

const (
	modelIll    = 6 * time.Second // how long nodes behave badly
	modelBudget = 2 * time.Second
	modelSilent = 3 * time.Second
	modelEnd    = 40 * time.Second // by then all must be over
)

var modelAddrs = []string{"a:1", "b:1", "c:1", "d:1"}

// model is the nodes, the control plane, and the senders.
type model struct {
	t     *testing.T
	rng   *rand.Rand // of the loop
	loop  *loop.Loop
	pool  *Pool
	stats Stats
	born  time.Time

	well     atomic.Bool
	conns    atomic.Uint64
	dials    atomic.Int64
	seed     uint64
	mu       sync.Mutex
	topology *cluster.Topology
	ran      map[int]int // how often each request was run
	moment   time.Time   // of the last connection
	atOnce   int         // connections made at that moment

	asked    []*modelAsk
	ready    int // that WhenReady owes
	privates []*modelOwner
	owners   []*modelOwner
	depth    int
}

func (m *model) Topology() *cluster.Topology {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.topology
}

func (m *model) Refresh()                  {}
func (m *model) Suspect()                  {}
func (m *model) Outages() *cluster.Outages { return nil }
func (m *model) Member(string) string      { return "" }
func (m *model) Login() *cluster.Login     { return nil }

// chance is true once in n times.
func chance(rng *rand.Rand, n int) bool { return rng.IntN(n) == 0 }

// modelAsk is one request and the Receiver of its reply.
type modelAsk struct {
	m       *model
	id      int
	resend  bool
	how     string
	sent    time.Time
	text    []byte
	refused bool // Discard said false
	over    bool
	reply   string
	err     error
	again   func() // sends more, in the middle of the end of this one
}

func (a *modelAsk) errorf(format string, args ...any) {
	a.m.t.Helper()
	a.m.t.Errorf("%v: request %d (%s, resend %v): %s", a.m.loop.Now().Sub(a.m.born), a.id, a.how, a.resend,
		fmt.Sprintf(format, args...))
}

func (a *modelAsk) Receive(tag uint32, chunk []byte, last bool) {
	if a.over || a.refused || int(tag) != a.id {
		a.errorf("reply %.40q with tag %d, over %v, refused %v", chunk, tag, a.over, a.refused)
	}
	a.text = append(a.text, chunk...)
	if !last {
		return
	}
	a.reply = string(a.text)
	if mine := fmt.Sprintf("id:%d;", a.id); !strings.Contains(a.reply, mine) && a.reply[0] != '-' {
		a.errorf("got the reply %.60q", a.reply)
	}
	a.end()
}

func (a *modelAsk) Fail(tag uint32, err error) {
	if a.over || int(tag) != a.id {
		a.errorf("failed with tag %d, over %v: %v", tag, a.over, err)
	}
	if errors.Is(err, cluster.ErrUnavailable) == errors.Is(err, cluster.ErrUnknownOutcome) {
		a.errorf("failed without outcome: %v", err)
	}
	a.err = err
	a.end()
}

func (a *modelAsk) Discard(tag uint32) bool {
	if a.over || !a.resend || int(tag) != a.id {
		a.errorf("discard with tag %d, over %v", tag, a.over)
	}
	a.refused = chance(a.m.rng, 2)
	a.text = nil
	return !a.refused
}

func (a *modelAsk) Detour(tag uint32) {
	if a.over || a.refused || int(tag) != a.id {
		a.errorf("detour with tag %d, over %v", tag, a.over)
	}
}

// Order implements Ordered: every fifth request is nobody's.
func (a *modelAsk) Order(uint32) (client int64, n uint32, latest bool) {
	return int64(a.id % 5), uint32(a.id), false
}

func (a *modelAsk) end() {
	a.over = true
	a.text = nil
	if a.m.pool.closed || a.m.loop.Now().Sub(a.m.born) > modelIll {
		return
	}
	if a.again != nil && a.m.depth < 3 {
		a.m.depth++
		a.again()
		a.m.depth--
	}
}

// request makes a request.
func (m *model) request(how string, resend bool) (*modelAsk, []byte) {
	a := &modelAsk{m: m, id: len(m.asked), resend: resend, how: how, sent: m.loop.Now()}
	m.asked = append(m.asked, a)
	words := []string{"DO"}
	switch {
	case chance(m.rng, 6):
		words = []string{"EVALSHA", "abc", "0"}
	case chance(m.rng, 40):
		words = append(words, strings.Repeat("y", m.rng.IntN(3*loop.Shared)))
	}
	return a, resp.AppendCommandStrings(nil, append(words, fmt.Sprintf("id:%d;", a.id))...)
}

// send sends one request in some way.
func (m *model) send() {
	modes := []Mode{{Proto: 2}, {Proto: 3}, {Proto: 2}, {Proto: 3}, {Proto: 2, DB: 1},
		{Proto: 3, Second: true}}
	mode := modes[m.rng.IntN(len(modes))]
	if len(m.privates) > 0 && chance(m.rng, 3) {
		mode = ModeOf(m.privates[m.rng.IntN(len(m.privates))].set)
	}
	n, resend := m.rng.IntN(16384), chance(m.rng, 2)
	masters := len(m.pool.Topology().Masters)
	way := m.rng.IntN(12)
	if masters == 0 && (way == 1 || way == 2) {
		way = 5
	}
	a, req := m.request(fmt.Sprintf("way %d, DB %d, proto %d, own %v", way, mode.DB, mode.Proto,
		mode.Own != nil), resend)
	tag := uint32(a.id)
	if script.Is(req) {
		m.pool.WatchScripts()
	}
	if chance(m.rng, 6) {
		a.again = func() {
			for range m.rng.IntN(4) {
				m.send()
			}
		}
	}
	var pipe *Pipe
	switch way {
	case 0:
		pipe = m.pool.Send(&Request{Mode: mode, Bytes: req, To: a, Tag: tag, Resend: resend})
	case 1:
		pipe = m.pool.Send(&Request{
			Target: ToMaster(m.rng.IntN(masters)), Mode: mode, Bytes: req, To: a, Tag: tag, Resend: resend,
		})
	case 2:
		pipe = m.pool.Send(&Request{
			Target: ToShard(m.rng.IntN(masters)), Mode: mode, Bytes: req, To: a, Tag: tag, Resend: resend,
		})
	case 3:
		a.resend = true
		readers := ReplicasFirst
		if chance(m.rng, 2) {
			readers = AllReaders
		}
		pipe = m.pool.Send(&Request{
			Target: ToSlot(n), Mode: mode, Bytes: req, To: a, Tag: tag,
			Readers: readers, Seed: m.rng.Int64(),
		})
	case 4:
		pipe = m.pool.Send(&Request{
			Target: ToNode(modelAddrs[m.rng.IntN(len(modelAddrs))]), Mode: mode, Bytes: req,
			To: a, Tag: tag, Resend: resend,
		})
	default:
		pipe = m.pool.Send(&Request{
			Target: ToSlot(n), Mode: mode, Bytes: req, To: a, Tag: tag, Resend: resend,
		})
	}
	if pipe != nil && pipe.Full() {
		m.ready++
		again := chance(m.rng, 4)
		pipe.WhenReady(func() {
			m.ready--
			if again && !m.well.Load() && !m.pool.closed {
				m.send()
			}
		})
	}
}

// modelOwner has a Private or an owned pipe.
type modelOwner struct {
	m    *model
	set  *owned.Set
	pipe *Pipe
	over bool
	done int // that Configure owes
}

func (o *modelOwner) Stale() {
	if o.over {
		o.m.t.Error("an ended set is told that it is stale")
	}
	if chance(o.m.rng, 8) && !o.m.well.Load() {
		o.m.send()
	}
}

type modelPushes struct{ *modelOwner }

func (o modelPushes) Push(message []byte) {
	if string(message) != ">2\r\n+invalidate\r\n$3\r\nabc\r\n" {
		o.m.t.Errorf("push %q", message)
	}
}

func (o *modelOwner) Push([]byte, bool) {}
func (o *modelOwner) Lost(error) {
	if o.over {
		o.m.t.Error("lost what is not had any more")
	}
	o.over = true
}

// private begins the use of a Private.
func (m *model) private() {
	o := &modelOwner{m: m}
	setup := owned.Setup{Redirect: chance(m.rng, 3), Before: resp.AppendCommandStrings(nil, "BEFORE")}
	k := m.rng.IntN(3)
	setup.Requests = func(bool, int64) (reqs [][]byte) {
		for range k {
			reqs = append(reqs, resp.AppendCommandStrings(nil, "SETUP"))
		}
		return reqs
	}
	o.set = m.pool.Private(Mode{Proto: 2 + m.rng.IntN(2)}, modelPushes{o}, nil)
	o.done++
	o.set.Configure(setup, func() { o.done-- })
	o.set.Precede(chance(m.rng, 4))
	if chance(m.rng, 4) {
		o.set.Everywhere()
	}
	m.privates = append(m.privates, o)
}

func (m *model) endPrivate(i int) {
	o := m.privates[i]
	m.privates = append(m.privates[:i:i], m.privates[i+1:]...)
	o.over = true
	o.set.End()
}

// own begins the use of an owned pipe.
func (m *model) own() {
	o := &modelOwner{m: m}
	mode := Mode{Proto: 2 + m.rng.IntN(2)}
	if len(m.privates) > 0 && chance(m.rng, 4) {
		mode = ModeOf(m.privates[m.rng.IntN(len(m.privates))].set)
	}
	addr := m.pool.MasterOf(m.rng.IntN(16384))
	if addr == "" {
		return
	}
	o.pipe = m.pool.Own(addr, mode, o)
	m.owners = append(m.owners, o)
	m.useOwn(o)
}

func (m *model) useOwn(o *modelOwner) {
	for range m.rng.IntN(4) {
		a, req := m.request("own", false)
		if chance(m.rng, 6) {
			a.again = func() {
				if !o.over {
					m.useOwn(o)
				}
			}
		} else if chance(m.rng, 10) {
			a.again = func() { m.endOwn(o) }
		}
		o.pipe.Request(req, a, uint32(a.id))
	}
}

func (m *model) endOwn(o *modelOwner) {
	if o.over {
		return
	}
	o.over = true
	if chance(m.rng, 2) {
		o.pipe.Release()
	} else {
		o.pipe.End()
	}
}

// step does one thing.
func (m *model) step() {
	switch n := m.rng.IntN(100); {
	case n < 3:
		m.shuffle(m.rng, modelAddrs[m.rng.IntN(2):m.rng.IntN(3)+2]...)
		m.pool.Update()
	case n < 5 && len(m.privates) < 4:
		m.private()
	case n < 7 && len(m.privates) > 0:
		m.endPrivate(m.rng.IntN(len(m.privates)))
	case n < 9 && len(m.owners) < 100:
		m.own()
	case n < 12 && len(m.owners) > 0:
		i := m.rng.IntN(len(m.owners))
		if o := m.owners[i]; chance(m.rng, 2) {
			m.endOwn(o)
			m.owners = append(m.owners[:i:i], m.owners[i+1:]...)
		} else if !o.over {
			m.useOwn(o)
		}
	default:
		for range 1 << m.rng.IntN(4) {
			m.send()
		}
	}
}

func runModel(t *testing.T, seed uint64) {
	m := &model{
		t: t, rng: rand.New(rand.NewPCG(seed,
			0)), seed: seed, loop: loop.NewPortable(), born: time.Now(), ran: make(map[int]int),
	}
	m.shuffle(m.rng, "a:1", "b:1", "c:1")
	go m.loop.Run()
	o := Options{
		QueueLimit:     300 + m.rng.IntN(5000),
		ConnectTimeout: time.Second,
		Timeout:        modelSilent,
		Budget:         modelBudget,
		MaxOwn:         2 + m.rng.IntN(12),
		Source:         func([]byte) ([]byte, bool) { return []byte("return 1"), true },
	}
	m.on(func() { m.pool = New(m.loop, m, o, &m.stats) })
	pace := rand.New(rand.NewPCG(0, seed))
	closeEarly := chance(pace, 8)
	for time.Since(m.born) < modelIll {
		m.on(m.step)
		time.Sleep(time.Duration(pace.IntN(100)) * time.Millisecond)
	}
	if !closeEarly {
		m.well.Store(true)
		time.Sleep(modelEnd)
		m.on(m.settled)
		m.on(m.leave)
		time.Sleep(modelEnd)
		m.on(m.left)
	}
	m.on(m.pool.Close)
	m.loop.Close()
	time.Sleep(10 * time.Second) // nodes see that their connections are closed
	m.judge()
}

// on runs f on the loop and waits for it.
func (m *model) on(f func()) {
	done := make(chan struct{})
	m.loop.Post(func() { f(); close(done) })
	<-done
}

// settled is called when nodes have been well for long.
func (m *model) settled() {
	for _, a := range m.asked {
		if !a.over {
			a.errorf("no end, %v after it was sent", m.loop.Now().Sub(a.sent))
		}
	}
	p := m.pool
	if m.ready != 0 || len(p.waiting.all) != 0 || p.waiting.bytes != 0 || p.stuckPipes.n != 0 ||
		p.StuckEpoch() != 0 {
		m.t.Errorf("%d are not told that queues are short, %d requests of %d bytes wait, %d are stuck, "+
			"epoch %d",
			m.ready, len(p.waiting.all), p.waiting.bytes, p.stuckPipes.n, p.StuckEpoch())
	}
	if len(p.senders)+len(p.waiting.firsts) != 0 {
		m.t.Errorf("%d senders have something that is sent again", len(p.senders))
	}
	for _, o := range m.privates {
		if o.done != 0 {
			m.t.Error("Configure is not done")
		}
	}
}

// leave ends all uses, and all nodes but one leave.
func (m *model) leave() {
	for len(m.privates) > 0 {
		m.endPrivate(0)
	}
	for _, o := range m.owners {
		m.endOwn(o)
	}
	m.shuffle(m.rng, "a:1")
	m.pool.Update()
	for range 100 {
		a, req := m.request("in the end", false)
		m.pool.Send(&Request{
			Target: ToSlot(m.rng.IntN(16384)), Mode: Mode{Proto: 2}, Bytes: req, To: a, Tag: uint32(a.id),
		})
	}
}

// left is called long after that.
func (m *model) left() {
	m.settled()
	for _, a := range m.asked[len(m.asked)-100:] {
		if a.err != nil || a.reply == "" || a.reply[0] == '-' {
			a.errorf("reply %.40q, err %v although all is well", a.reply, a.err)
		}
	}
	p := m.pool
	for key, pipe := range p.byNode {
		if key.addr != "a:1" || !key.mode.plain() || pipe.queued() != 0 {
			m.t.Errorf("a pipe to %s, mode %+v, is left, with %d bytes", key.addr, key.mode, pipe.queued())
		}
	}
	up := 0
	for _, n := range m.stats.Nodes() {
		up += int(n.Connections)
	}
	if own, sets := p.own.Now(); own != (owned.Stats{}) || sets+len(p.ownPipes) != 0 ||
		m.stats.Own() != own || up > len(p.byNode) {
		m.t.Errorf("of somebody's own %+v are left, %d pipes, %d sets, %+v, %d connections",
			own, len(p.ownPipes), sets, m.stats.Own(), up)
	}
}

// judge checks how often each request has run.
func (m *model) judge() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.asked {
		n := m.ran[a.id]
		switch {
		case !a.over:
			a.errorf("no end")
		case !a.resend && n > 1:
			a.errorf("was run %d times", n)
		case n > 0 && errors.Is(a.err, cluster.ErrUnavailable):
			a.errorf("was run %d times and is said not to have run: %v", n, a.err)
		case n > 0 && a.reply == modelBusy:
			a.errorf("was run %d times and is told that the node could not be connected to", n)
		case n == 0 && a.err == nil && a.reply[0] != '-':
			a.errorf("was not run and answered %.40q", a.reply)
		case n > 0 && !a.resend && strings.HasPrefix(a.reply, "-"):
			a.errorf("was run and answered %.80q", a.reply)
		}
	}
	if limit := int64(200 * (1 + time.Since(m.born)/time.Second)); m.dials.Load() > limit {
		m.t.Errorf("%d dials", m.dials.Load())
	}
}
