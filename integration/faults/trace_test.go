package faults

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/integration/rig"
	"lockproxy/integration/trace"
)

var (
	seed      = flag.Uint64("seed", 0, "seed of the traces; 0: another one each time")
	traceTime = flag.Duration("for", 0, "how long traces are taken; 0: with -long 10m, "+
		"else until they have some hundred operations")
)

// traced are two proxies that traces are taken of.
type traced struct {
	t        *testing.T
	args     []string
	timeless bool // order and time are not judged

	mu      sync.Mutex
	proxies []*rig.Proxy
}

func startTraced(t *testing.T, args ...string) *traced {
	two := &traced{t: t, args: args, timeless: !*rig.Long && *traceOps == 0}
	for range 2 {
		two.proxies = append(two.proxies, two.start())
	}
	return two
}

func (two *traced) start(more ...string) *rig.Proxy {
	args := append(slices.Clone(two.args), more...)
	return rig.StartProxy(two.t, args...)
}

func (two *traced) proxy(n int) *rig.Proxy {
	two.mu.Lock()
	defer two.mu.Unlock()
	return two.proxies[n]
}

// replace starts a proxy at the address of one that was killed.
func (two *traced) replace(n int) {
	p := two.start("--listen", two.proxy(n).Addr)
	two.mu.Lock()
	defer two.mu.Unlock()
	two.proxies[n] = p
}

// traceRig are proxies over a cluster with replicas.
type traceRig struct {
	*traced
	cluster *rig.Cluster
}

// startTraceRig has a node that falls silent given up soon.
func startTraceRig(t *testing.T) *traceRig {
	c := rig.StartLinkedCluster(rig.On(t, *traceServer), 3, 1)
	c.DeadAfter("2000")
	return &traceRig{startTraced(t, "--upstream", c.Addrs(), "--upstream-timeout", "2s"), c}
}

func (two *traced) dial(n int) (trace.Conn, error) {
	c, err := rig.Dial(two.proxy(n).Addr)
	if err != nil {
		return nil, err
	}
	id, err := c.Do("CLIENT", "ID")
	if err == nil && id.IsError() { // it does not serve yet
		err = errors.New(id.Text)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return &traceConn{Conn: c, proxy: two.proxy(n).Addr, id: id.String(),
		listens: two.proxy(int(id.Int() % 2)).Addr}, nil
}

// traceConn is a connection as package trace wants it. Messages come over another one, to the same proxy or
// to the other.
type traceConn struct {
	*rig.Conn
	proxy, id string // the address of the proxy, and what CLIENT ID said
	listens   string // the address of the proxy that messages come from

	mu     sync.Mutex
	news   *rig.Conn // nil: none yet
	closed bool

	stray string // a message that came on the channel of an earlier one of them; "": none
}

func (c *traceConn) Close() {
	c.Conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed = true; c.news != nil {
		c.news.Close()
		c.news = nil
	}
}

// listen returns the connection for messages. It makes one if there is none, or only broken. It returns nil
// once c is closed.
func (c *traceConn) listen(broken *rig.Conn) (news *rig.Conn, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.news != broken {
		return c.news, nil
	}
	if broken != nil {
		broken.Close()
	}
	c.news, err = rig.Dial(c.listens)
	return c.news, err
}

// subscribe has the messages of a channel come. The idle connection may have broken unnoticed, as when its
// proxy was killed. Then a new one is made.
func (c *traceConn) subscribe(d time.Duration, channel string) (news *rig.Conn, err error) {
	c.mu.Lock()
	old := c.news
	c.mu.Unlock()
	for _, broken := range []*rig.Conn{nil, old} {
		news, err = c.listen(broken)
		if err != nil || news == nil {
			return nil, cmp.Or(err, net.ErrClosed)
		}
		if err = news.Send("SUBSCRIBE", channel); err == nil {
			_, err = c.next(news, d, "subscribe", channel)
		}
		if err == nil || news != old || errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
	}
	return news, err
}

// next waits for the next message, or confirmation, on a channel.
func (c *traceConn) next(news *rig.Conn, d time.Duration, kind, channel string) (text string, err error) {
	for {
		v, err := news.Receive(d)
		switch {
		case err != nil:
			return "", err
		case len(v.Elems) != 3:
			return "", errors.New(v.String())
		case v.Elems[0].Text == kind && v.Elems[1].Text == channel:
			return v.Elems[2].Text, nil
		}
		c.stray = v.String()
	}
}

// traceChannels counts the channels of NOTIFY so far. No two commands may have one: whoever still waits for a
// message of a proxy that was killed would hear that of another client.
var traceChannels atomic.Int64

// told waits for the outcome of a command that ends with NOTIFY, each on a channel of its own.
func (c *traceConn) told(d time.Duration, args []string) (trace.Reply, error) {
	deaf := func(err error) (trace.Reply, error) {
		return trace.Reply{}, fmt.Errorf("%w: %w", trace.ErrMessages, err)
	}
	channel := fmt.Sprintf("trace:%d", traceChannels.Add(1))
	news, err := c.subscribe(d, channel)
	if err != nil {
		return deaf(err)
	}
	if stray := c.stray; stray != "" {
		c.stray = ""
		return trace.Reply{Error: trace.Stray + stray}, nil
	}
	r, err := c.ask(d, append(args, channel))
	if err != nil || !r.queued {
		return r.Reply, err
	}
	text, err := c.next(news, d, "message", channel)
	if err != nil {
		return deaf(err)
	}
	return messageOf(text), nil
}

// messageOf is what a message of NOTIFY says, as a reply.
func messageOf(text string) trace.Reply {
	words := strings.SplitN(text, " ", 3)
	switch {
	case words[0] == "timeout" && len(words) == 2:
		return trace.Reply{Null: true}
	case words[0] == "error" && len(words) == 3:
		return trace.Reply{Error: words[2]}
	case words[0] == "granted" && len(words) == 3:
		r := trace.Reply{}
		for _, word := range strings.Split(words[2], " ") {
			if n, err := strconv.ParseInt(word, 10, 64); err == nil {
				r.Array = append(r.Array, n)
			}
		}
		return r
	}
	return trace.Reply{Error: trace.Stray + text}
}

func (c *traceConn) Cut() {
	other, err := rig.Dial(c.proxy)
	if err != nil {
		return
	}
	defer other.Close()
	if other.Send("CLIENT", "KILL", "ID", c.id) == nil {
		other.Receive(rig.Patience)
	}
}

func (c *traceConn) Do(d time.Duration, args ...string) (trace.Reply, error) {
	if args[len(args)-1] == trace.Notify {
		return c.told(d, args)
	}
	r, err := c.ask(d, args)
	return r.Reply, err
}

// traceReply is a reply, which may be QUEUED.
type traceReply struct {
	trace.Reply
	queued bool
}

func (c *traceConn) ask(d time.Duration, args []string) (r traceReply, err error) {
	if err := c.Send(args...); err != nil {
		return r, err
	}
	v, err := c.Receive(d)
	if err != nil {
		return r, err
	}
	r.Null, r.queued = v.Null, v.Text == "QUEUED"
	switch {
	case v.IsError():
		r.Error = v.Text
	case v.Kind == ':':
		r.Int = v.Int()
	case slices.Contains(args, string(trace.Look)):
		for _, h := range v.Field("holders").Elems {
			r.Holders = append(r.Holders, trace.Holder{Digest: h.Field("token").Text,
				Fence: h.Field("fence").Int(), Count: h.Field("count").Int(),
				TTL: time.Duration(h.Field("ttl").Int()) * time.Millisecond})
		}
	case v.Kind == '*' && !v.Null:
		r.Array = []int64{}
		for _, e := range v.Elems {
			if e.Kind == ':' {
				r.Array = append(r.Array, e.Int())
			}
			for _, fence := range e.Elems { // of MLOCK
				r.Array = append(r.Array, fence.Int())
			}
		}
	}
	return r, nil
}

// figures are the sums over all rounds.
type figures struct {
	trace.Sum
	unanswered []trace.Op // nobody knows their outcome
}

// enough reports whether so much happened that a fault would likely have shown: in a quiet round and in
// another.
func (f *figures) enough() bool { return f.Rounds >= 2 && f.Ops >= 400 && f.Grants >= 80 }

func (f *figures) String() string {
	return fmt.Sprintf("%d rounds, %d operations (%d without an answer), %d grants %v, faults %v, "+
		"exceptions %v, %d violations",
		f.Rounds, f.Ops, f.Unanswered, f.Grants, f.Of, f.Faults, f.Exceptions, f.Violations)
}

// Clients of two proxies over a cluster take, renew, check and free locks at random while
// faults happen. No order of their calls may need a lock that breaks its promise. With -long, -ops and in
// TestLimitTracesOnTime they are to be served in order and on time, too.
// R2 R5 R8 R14 R15 R16 R25 R29 R30 R31 R33
func TestTraces(t *testing.T) {
	t.Parallel()
	tr := startTraceRig(t)
	takeTraces(t, 1, tr.faults(), tr.round)
}

// takeTraces takes rounds for as long as the flags say, in short until enough has happened to be judged,
// and judges them. If many operations are wanted, it takes rounds until it has that many of them, divided
// by part.
func takeTraces(t *testing.T, part int, faults []fault,
	round func(seed uint64, n int, d *deck) trace.Round) *figures {
	first := *seed
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	t.Logf("again with: go test ./integration/faults -run %s -seed %d", t.Name(), first)
	took := *traceTime
	if took == 0 {
		took = rig.Dose(0, 10*time.Minute)
	}
	sum := &figures{Sum: trace.Sum{Test: t.Name(), Server: *traceServer, Seed: first}}
	deck := newDeck(faults, rand.New(rand.NewPCG(first, 0)))
	begun, told, failures := time.Now(), time.Now(), 0
	var earlier []trace.Event
	for n := 0; failures < 5; n++ {
		if ran := time.Since(begun); *traceOps > 0 {
			if sum.Ops >= *traceOps/part || *traceTime > 0 && ran > took { //house:brief how long to go on
				break
			}
		} else if ran > took && (sum.enough() || ran > took+4*rig.Patience) { //house:brief how long to go on
			break
		}
		r := round(first+uint64(n), n, deck)
		r.Earlier = earlier
		h := r.Run()
		ended := time.Now()
		v := trace.Judge(h)
		sum.Add(v.Sum)
		sum.unanswered = append(sum.unanswered, v.Unanswered...)
		dir := *traceHistories
		if len(v.Violations) > 0 {
			failures++
			dir = cmp.Or(dir, filepath.Join(os.TempDir(), "lockproxy-traces"))
		}
		if dir != "" {
			path, err := h.Save(dir)
			if len(v.Violations) > 0 || err != nil {
				t.Errorf("seed %d, round %d: the history is %s (%v)", first, n, path, err)
			}
		}
		for _, violation := range v.Violations {
			t.Errorf("seed %d, round %d: %s", first, n, violation)
		}
		earlier = h.Later(time.Since(ended))
		if *rig.Long && time.Since(told) >= time.Minute { //house:brief tells how far it is
			told = time.Now()
			sum.keep(t, begun)
			fmt.Printf("%s after %v, seed %d: %s\n", t.Name(),
				time.Since(begun).Round(time.Second), first, sum)
		}
	}
	sum.keep(t, begun)
	fmt.Printf("%s, %v, seed %d: %s\n", t.Name(), time.Since(begun).Round(time.Second), first, sum)
	if !sum.enough() {
		t.Errorf("too little happened: %s", sum)
	}
	return sum
}

// round runs the clients over fresh locks, in quiet or with the next faults of the deck.
func (two *traced) round(seed uint64, n int, d *deck) trace.Round {
	r := trace.Round{
		Seed: seed, Clients: 8, Proxies: 2, For: 2500 * time.Millisecond, Think: 8 * time.Millisecond,
		Slacks: trace.Roomy, Timeless: two.timeless, Dial: two.dial,
		Upgrades: true, Keepalive: true, Guards: true, Notify: true,
		Linger: true, AtLeast: true, Breaks: true, Sets: true, Looks: true, Probe: true,
	}
	fill(&r, 24)
	for i := range r.Clients * 3 / 8 {
		r.Keys = append(r.Keys, fmt.Sprintf("trace-%d-%d", r.Seed, i))
	}
	semaphore(&r)
	if n%4 > 0 {
		d.draw(2).into(&r)
	}
	return r
}

// fill makes a round of several groups if many operations are wanted: the time that faults take is the same,
// and no client meets more others than otherwise.
func fill(r *trace.Round, groups int) {
	if *traceOps > 0 {
		r.Groups = groups
		r.Clients *= groups
	}
}

// semaphore has one of the keys, or one of twelve if there are many, be a semaphore in two rounds of three,
// with two to four permits.
func semaphore(r *trace.Round) {
	n := int64(r.Seed % 6)
	if n >= 4 {
		return
	}
	r.Semaphores = map[string]int64{}
	for i := 2; i < len(r.Keys); i += 12 {
		r.Semaphores[r.Keys[i]] = 2 + n%3
	}
}

// hand are the faults of one round.
type hand []fault

// into has them happen in r, one after the other.
func (faults hand) into(r *trace.Round) {
	for _, f := range faults {
		r.For += f.takes
	}
	r.Faults = func(ctx context.Context, random *rand.Rand, run *trace.Running) {
		for _, f := range faults {
			time.Sleep(300*time.Millisecond + time.Duration(random.Int64N(int64(400*time.Millisecond))))
			f.happen(random, run)
		}
	}
}

// happen has one fault happen in a round, which knows of it also if it does not come to its end.
func (f fault) happen(random *rand.Rand, run *trace.Running) {
	e := trace.Event{Name: f.name, Start: run.Now(), Settle: f.settle, Resent: f.resent}
	defer func() {
		e.End = run.Now()
		run.Note(e)
	}()
	f.run(random, run, &e)
}
