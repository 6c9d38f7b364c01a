// Package master is the independent masters of RedLock, each of which knows nothing of the others.
//
//	Connect --> Masters --> Ask --> conn: one connection, in order --> Answerer
//	                |
//	                +--> a look each second --> Vote, Health
//
// A Master is asked over one connection, so that what was asked first runs first. After its time a request is
// given up, and its answerer told so; it may run all the same, but before whatever is asked later.
//
// What a master grants counts only if it has forgotten nothing. So each look asks for its run id, its
// settings of persistence and its clock (look.go): one that has restarted, or whose clock has stepped, does
// not vote for as long as the longest lease may run.
package master

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pubsub"
	"lockproxy/internal/subscription"
)

// Options say how to reach masters that know nothing of each other. Zero values mean the
// defaults.
type Options struct {
	User, Password string
	TLS            func() *tls.Config // as in Options
	ConnectTimeout time.Duration      // to connect, log in and say what it is
	Timeout        time.Duration      // one that owes a reply and is silent for so long counts as away; 50 ms
	Lease          time.Duration      // the longest in use: who may have lost some waits so long; 24 h
	Scripts        [][]byte           // sources that it is given at each connect, before anything else
	Log            *slog.Logger
	Dial           func(ctx context.Context, network, addr string) (net.Conn, error) // nil: net.Dialer
}

func (o Options) withDefaults() Options {
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, cluster.ConnectTimeout)
	o.Timeout = cmp.Or(o.Timeout, 50*time.Millisecond)
	o.Lease = cmp.Or(o.Lease, 24*time.Hour)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

const (
	// masterLook is how often a master is asked how it is.
	masterLook = time.Second
	// Pauses before a master is dialled again.
	minRedial = 20 * time.Millisecond
	maxRedial = time.Second
	// What may wait for the replies of one master.
	maxMasterRequests = 10_000
	maxMasterBytes    = 16 << 20 // bytes
)

// Why a master is asked nothing.
var (
	errNotYet    = errors.New("it is not connected yet")
	errNoSign    = errors.New("it does not answer")
	errCrowded   = errors.New("too many requests wait for it")
	errScripts   = errors.New("it had lost its scripts, and has them again")
	errReplyLate = errors.New("no reply in time")
)

// Master is one of several independent Redis servers, as RedLock needs them. It reaches the
// server over one connection, in order, and knows whether what it says may be trusted:
//
//	Ask --> one connection --> reply
//	                 \--> a look each second --> Vote, Health
//
// A server that is away is dialled again in the background, and until it has said something
// every request fails at once. Safe for concurrent use.
type Master struct {
	addr   string
	o      Options
	nodes  *lone
	topics *pubsub.Subscriptions // of channels of this server
	set    *set
	born   time.Time
	ctx    context.Context // ends with Close
	end    context.CancelFunc
	tasks  sync.WaitGroup

	mu     sync.Mutex
	conn   *conn // nil: not connected
	why    error // why not
	tried  bool  // a connect has ended, well or not
	silent bool  // it owes a reply, and says nothing
	last   int64 // the server's id of the last connection that was of use; 0: none
	state  state
}

// newMaster returns a Master that connects in the background until Close.
func newMaster(addr string, o Options, set *set) *Master {
	o = o.withDefaults()
	m := &Master{addr: addr, o: o, set: set, born: time.Now(), why: errNotYet}
	m.nodes = newLone(addr, &cluster.Dialer{
		Login:          cluster.Login{User: o.User, Password: o.Password},
		TLS:            o.TLS,
		ConnectTimeout: o.ConnectTimeout,
		KeepAlive:      cluster.KeepAlive,
		Log:            o.Log, Net: o.Dial,
	})
	m.topics = pubsub.New(m.nodes, o.Log)
	m.ctx, m.end = context.WithCancel(context.Background())
	m.tasks.Go(m.run) // ends with m.ctx
	return m
}

// Addr is the address that it is dialled at.
func (m *Master) Addr() string { return m.addr }

// Close ends the connections. Requests that wait for a reply fail.
func (m *Master) Close() {
	m.end()
	m.tasks.Wait()
	m.topics.Close()
}

// Subscribe is Subscriptions.Subscribe for a classic channel of this server.
func (m *Master) Subscribe(ctx context.Context, channel string, notify func(subscription.Event)) (
	cancel func(), err error,
) {
	return m.topics.Subscribe(ctx, -1, channel, notify)
}

// Ask sends req, one whole command, which must not change any more, and has to told its reply (RESP2,
// error replies included) under tag, or after timeout that there is none. Requests run in the order in which
// Ask was called. None is sent twice, but for one whose script the server did not have, which
// therefore did not run, and only if nothing was sent behind it.
//
// After timeout, or when the connection breaks, req may run all the same, later, but before what
// Ask is given later. The error wraps ErrUnavailable if it has not run and will not,
// ErrUnknownOutcome if the connection was lost, or neither. Ask does not block.
func (m *Master) Ask(req []byte, timeout time.Duration, tag int, to Answerer) {
	m.mu.Lock()
	err := m.away()
	if err == nil {
		err = m.conn.push(&request{req: req, to: to, tag: tag}, timeout)
	}
	m.mu.Unlock()
	if err != nil {
		to.Answer(tag, nil, cluster.NodeError{
			Addr: m.addr, Err: fmt.Errorf("%w: %w", cluster.ErrUnavailable, err),
		})
	}
}

// away says why nothing can be asked now, or nil. mu is held.
func (m *Master) away() error {
	switch {
	case m.conn == nil:
		return m.why
	case m.silent:
		return errNoSign
	}
	return nil
}

// tell logs something about m.
func (m *Master) tell(level slog.Level, text string, args ...any) {
	m.o.Log.Log(m.ctx, level, text, append([]any{"node", m.addr}, args...)...)
}

// run connects again and again.
func (m *Master) run() {
	for pause := minRedial; ; pause = min(2*pause, maxRedial) {
		if m.serve() {
			pause = minRedial
		}
		select {
		case <-time.After(pause):
		case <-m.ctx.Done():
			return
		}
	}
}

// serve serves one connection until it ends. It reports whether it was of use.
func (m *Master) serve() (joined bool) {
	c := newConn(m)
	if err := c.Begin(m.ctx, m.nodes, m.addr); err != nil {
		var n cluster.NodeError
		if errors.As(err, &n) {
			err = n.Err // whose it is will be said
		}
		m.part(nil, err)
		return false
	}
	err := m.greet(c)
	if err == nil {
		joined = true
		m.join(c)
		err = m.watch(c)
	}
	err = c.End(err)
	if joined {
		err = errors.New("the connection was lost: " + err.Error()) // not as one that was never of use
	}
	m.part(c, err)
	return joined
}

// join makes c the way to the server.
func (m *Master) join(c *conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tried {
		m.tell(slog.LevelInfo, "master is back")
	}
	m.conn, m.why, m.silent, m.tried, m.last = c, nil, false, true, c.id
	m.set.signal()
}

// part gives c up, if there was one, and what waits for replies on it.
func (m *Master) part(c *conn, err error) {
	m.mu.Lock()
	if m.ctx.Err() == nil && (m.conn != nil || !m.tried) {
		m.tell(slog.LevelWarn, "master is away", "err", cluster.Explain(err))
	}
	m.conn, m.why, m.tried, m.silent = nil, err, true, false
	tell := func() {}
	if c != nil {
		tell = c.abandon(err)
	}
	m.set.signal()
	m.mu.Unlock()
	tell()
}

// watch looks at the server each second until the connection has to be given up.
func (m *Master) watch(c *conn) error {
	tick := time.NewTicker(masterLook)
	defer tick.Stop()
	for {
		select {
		case <-c.Context().Done():
			return context.Cause(c.Context())
		case <-tick.C:
		}
		if err := m.look(c); err != nil {
			return err
		}
	}
}

// lone is one server as the Nodes of subscriptions.
type lone struct {
	*cluster.Dialer
	topology cluster.Topology
}

func newLone(addr string, dialer *cluster.Dialer) *lone {
	n := &cluster.Node{Addr: addr, Master: true}
	l := &lone{dialer, cluster.Topology{Version: 1, Kind: cluster.Single, Masters: []*cluster.Node{n}}}
	for i := range l.topology.Slots {
		l.topology.Slots[i] = n
	}
	return l
}

// Topology implements Nodes.
func (l *lone) Topology() *cluster.Topology { return &l.topology }

// Refresh implements Nodes: the server is always the same.
func (l *lone) Refresh() {}
