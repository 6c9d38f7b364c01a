package redlock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"lockproxy/internal/resp"
	"lockproxy/internal/subscription"
	"lockproxy/redlock/scripts"
)

// server is a Redis that tests run against: a real one, or one in the process.
type server struct {
	t    testing.TB
	dial func() (net.Conn, error)
	mini *miniredis.Miniredis // nil: a real one
	sent bool                 // SPUBLISH is known
}

// newMini is a Redis in the process, for tests in fake time.
func newMini(t testing.TB) *server {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	return &server{t: t, mini: m, dial: m.Dial}
}

// conn is a connection to a server.
type conn struct {
	net.Conn
	buf []byte
}

func (s *server) connect() *conn {
	c, err := s.dial()
	if err != nil {
		s.t.Fatal(err)
	}
	return &conn{Conn: c}
}

// reply reads one whole reply.
func (c *conn) reply() ([]byte, error) {
	chunk := make([]byte, 16<<10)
	for {
		if _, rest, err := resp.Parse(c.buf); err == nil {
			whole := c.buf[:len(c.buf)-len(rest)]
			c.buf = rest
			return whole, nil
		} else if !errors.Is(err, resp.ErrIncomplete) {
			return nil, err
		}
		n, err := c.Read(chunk)
		if err != nil {
			return nil, err
		}
		c.buf = append(slices.Clip(c.buf), chunk[:n]...)
	}
}

// do runs one command, whose script is loaded when the server does not have it.
func (c *conn) do(req []byte) ([]byte, error) {
	if _, err := c.Write(req); err != nil {
		return nil, err
	}
	reply, err := c.reply()
	if err != nil || !bytes.HasPrefix(reply, []byte("-NOSCRIPT")) {
		return reply, err
	}
	for _, s := range scripts.All() {
		if _, err := c.do(resp.AppendCommandStrings(nil, "SCRIPT", "LOAD", s.Source)); err != nil {
			return nil, err
		}
	}
	return c.do(req)
}

// ask runs one command of a test on a connection of its own.
func (s *server) ask(words ...string) resp.Value {
	s.t.Helper()
	c := s.connect()
	defer c.Close()
	reply, err := c.do(resp.AppendCommandStrings(nil, words...))
	if err != nil {
		s.t.Fatalf("%q: %v", words, err)
	}
	v, _, err := resp.Parse(reply)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// keys are all keys but those of fences.
func (s *server) keys() (keys []string) {
	s.t.Helper()
	for _, key := range s.ask("KEYS", "*").Elems {
		if !strings.Contains(key.Text(), ":fence:{") {
			keys = append(keys, key.Text())
		}
	}
	return keys
}

// upstream reaches a server the way that a proxy does, with faults.
type upstream struct {
	s *server

	mu         sync.Mutex
	conn       *conn
	faults     func(req string) (before, after error) // of Do; after: the reply is lost
	mute       bool                                   // messages are lost
	unsubbable error                                  // Subscribe fails
	hang       chan struct{}                          // Subscribe waits for it
	notify     map[int]func(subscription.Event)
	channels   []string // subscribed to so far
	subs, asks int
	// replicas says how many of them have everything at the end of a timeout; nil: none.
	// It is called once the request has run.
	replicas func(need int) int
}

// asked is how many commands it was asked to run.
func (u *upstream) asked() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.asks
}

func (u *upstream) Sharded() bool { return u.s.sent }

func (u *upstream) Masters() int { return 1 }

func (u *upstream) Master(slot int) string { return "" }

func (u *upstream) DoMaster(ctx context.Context, _ int, req []byte, resend bool) ([]byte, error) {
	return u.Do(ctx, 0, req, resend)
}

func (u *upstream) Do(ctx context.Context, slot int, req []byte, resend bool) ([]byte, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if !resend {
		return nil, errors.New("the scripts may all be sent again")
	}
	u.asks++
	var before, after error
	if u.faults != nil {
		before, after = u.faults(scriptOf(req))
	}
	if before != nil {
		return nil, before
	}
	if u.conn == nil {
		u.conn = u.s.connect()
	}
	reply, err := u.conn.do(req)
	if after != nil {
		return nil, after
	}
	return reply, err
}

// Synced runs req and waits for replicas, until timeout when they are too few.
func (u *upstream) Synced(ctx context.Context, slot int, req []byte, replicas int, timeout time.Duration) ([]byte, int, error) {
	reply, err := u.Do(ctx, slot, req, true)
	if err != nil {
		return nil, 0, err
	}
	u.mu.Lock()
	have := u.replicas
	u.mu.Unlock()
	acked := 0
	if have != nil {
		acked = have(replicas)
	}
	if acked < replicas {
		select {
		case <-time.After(timeout):
		case <-ctx.Done():
			return nil, 0, context.Cause(ctx)
		}
	}
	return reply, acked, nil
}

// scriptOf is the name of the script that req runs.
func scriptOf(req []byte) string {
	for _, s := range scripts.All() {
		if bytes.Contains(req, []byte(s.SHA)) {
			return s.Name
		}
	}
	return ""
}

func (u *upstream) Subscribe(ctx context.Context, slot int, channel string, notify func(subscription.Event)) (func(), error) {
	u.mu.Lock()
	err, hang := u.unsubbable, u.hang
	u.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err != nil {
		return nil, err
	}
	c := u.s.connect()
	word := "SUBSCRIBE"
	if u.Sharded() && slot >= 0 {
		word = "SSUBSCRIBE"
	}
	if _, err := c.do(resp.AppendCommandStrings(nil, word, channel)); err != nil {
		return nil, err
	}
	u.mu.Lock()
	if u.notify == nil {
		u.notify = map[int]func(subscription.Event){}
	}
	u.subs++
	n := u.subs
	u.notify[n] = notify
	u.channels = append(u.channels, channel)
	u.mu.Unlock()
	done := make(chan struct{})
	go func() { // ends with the connection
		defer close(done)
		for {
			message, err := c.reply()
			if err != nil {
				return
			}
			v, _, _ := resp.Parse(message)
			u.mu.Lock()
			mute := u.mute
			u.mu.Unlock()
			if !mute && strings.HasSuffix(v.Elems[0].Text(), "message") {
				notify(subscription.Event{Kind: subscription.Message, Payload: v.Elems[2].Str})
			}
		}
	}()
	return func() {
		u.mu.Lock()
		delete(u.notify, n)
		u.mu.Unlock()
		c.Close()
		<-done
	}, nil
}

// tell has all subscriptions hear e.
func (u *upstream) tell(kind subscription.EventKind) {
	u.mu.Lock()
	var all []func(subscription.Event)
	for _, n := range u.notify {
		all = append(all, n)
	}
	u.mu.Unlock()
	for _, n := range all {
		n(subscription.Event{Kind: kind})
	}
}

func (u *upstream) set(f func(u *upstream)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f(u)
}

func (u *upstream) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.conn != nil {
		u.conn.Close()
	}
}

// proxy is a Locker with the upstream that it goes through.
type proxy struct {
	*Locker
	up *upstream
	t  testing.TB
}

// proxies starts n proxies over s. At the end of the test nothing of them may be left.
func (s *server) proxies(t *testing.T, n int, o ...Options) []*proxy {
	var all []*proxy
	for range n {
		up, left := &upstream{s: s}, &leftovers{}
		options := append(o, Options{})[0]
		options.Log = left.logger()
		p := &proxy{New(up, options), up, t}
		all = append(all, p)
		t.Cleanup(func() {
			p.Close(context.Background())
			p.up.close()
			if what := left.String(); what != "" {
				t.Errorf("left behind: %s", what)
			}
		})
	}
	return all
}

// leftovers is a log that keeps what a Locker says of waiters that were there when it was closed.
type leftovers struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *leftovers) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Write takes a line of the log.
func (l *leftovers) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if bytes.Contains(line, []byte(leftBehind)) {
		l.text.Write(line)
	}
	return len(line), nil
}

func (l *leftovers) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// client is a client of p.
func (p *proxy) client() *asker { return &asker{l: p.Locker, up: p.up} }

// result is how an acquisition ended.
type result struct {
	Grant
	ok   bool
	err  error
	at   time.Time
	took time.Duration
}

// lock acquires as the verb LOCK does: a first request, and Wait when that queued.
func (p *proxy) lock(ctx context.Context, a Acquire) (res result) {
	began := time.Now()
	defer func() { res.at, res.took = time.Now(), time.Since(began) }()
	if a.Mode == "" {
		a.Mode = Write
	}
	if a.Name == "" {
		a.Name = "job"
	}
	q := p.NewAcquire(a)
	res.Grant, res.ok, res.err = p.client().acquire(q)
	if res.err != nil && !Refused(res.err) {
		p.Undo(q)
	}
	if res.ok || res.err != nil || q.Wait == 0 {
		return res
	}
	res.Grant, res.ok, res.err = p.Wait(ctx, q)
	return res
}

// begin is lock in the background. It returns when the request stands in the queue, or is through.
func (p *proxy) begin(ctx context.Context, a Acquire) chan result {
	p.t.Helper()
	done := make(chan result, 1)
	before := p.Stats().Waiting
	go func() { done <- p.lock(ctx, a) }()
	for i := 0; p.Stats().Waiting == before && len(done) == 0; i++ {
		time.Sleep(time.Millisecond)
		if i > 5000 {
			p.t.Fatal("it neither waits nor ends")
		}
	}
	return done
}

// unlock releases; it returns 1, 0 or -1 for Null.
func (p *proxy) unlock(token string) int {
	p.t.Helper()
	n, err := p.client().release(&Release{Name: "job", Token: token})
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

func (p *proxy) state() State {
	p.t.Helper()
	s, err := p.client().state("job")
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// granted waits for a grant.
func granted(t *testing.T, done chan result) result {
	t.Helper()
	select {
	case r := <-done:
		if r.err != nil || !r.ok {
			t.Fatalf("not granted: %v", r.err)
		}
		return r
	case <-time.After(20 * time.Second):
		t.Fatal("not granted in 20 s")
	}
	return result{}
}

// waits says that nothing has come yet.
func waiting(t *testing.T, all ...chan result) {
	t.Helper()
	time.Sleep(20 * time.Millisecond)
	for i, done := range all {
		if len(done) > 0 {
			t.Fatalf("number %d does not wait any more: %+v", i, <-done)
		}
	}
}

// empty waits until nothing is left but fences.
func (s *server) empty(t *testing.T) {
	t.Helper()
	for i := 0; ; i++ {
		keys := s.keys()
		if len(keys) == 0 {
			return
		}
		if i == 400 {
			for _, k := range keys {
				t.Errorf("left behind: %s, a %s with %v", k, s.ask("TYPE", k).Text(), s.ask("HGETALL", k))
			}
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// text shows a reply the way that tables spell it.
func text(v resp.Value) string {
	switch {
	case v.Null():
		return "nil"
	case v.Err() != "":
		word, _, _ := strings.Cut(v.Err(), " ")
		return "-" + word
	case v.Kind == '*':
		var all []string
		for _, e := range v.Elems {
			all = append(all, text(e))
		}
		return "[" + strings.Join(all, " ") + "]"
	case v.Kind == ':':
		return strconv.FormatInt(v.Int, 10)
	}
	return fmt.Sprint(v.Text())
}
