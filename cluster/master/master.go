// Package master is the independent masters of RedLock, each of which knows nothing of the others.
//
//	Connect --> Masters --> Ask --> conn: one connection, in order, on a loop --> Answerer
//	                |
//	                +--> a look each second --> Vote, Health
//
// A Master is asked over one connection, an owned one of a pipe.Pool, so that what was asked first runs
// first. After its time a request is given up, and its answerer told so; it may run all the same, but before
// whatever is asked later. The connections of all masters are on one loop of the proxy: what is asked of them
// in one round leaves in one write to each, and the votes are counted where the replies are read. Only
// dialling and the looks are on goroutines of their own.
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
	"math"
	"net"
	"sync"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe"
	"lockproxy/cluster/pubsub"
	"lockproxy/internal/loop"
	"lockproxy/internal/resp"
	"lockproxy/internal/sleep"
	"lockproxy/internal/subscription"
)

// Options say how to reach masters that know nothing of each other. Zero values mean the
// defaults.
type Options struct {
	User, Password string
	Logins         *cluster.Logins    // in their place, if they are renewed; nil: they are not
	TLS            func() *tls.Config // called for each new connection; nil: no TLS
	ConnectTimeout time.Duration      // to connect, log in and say what it is
	Timeout        time.Duration      // one that owes a reply, and is silent for so long, is away; 250 ms
	Lease          time.Duration      // the longest; after losing locks, a master is silent so long; 24 h
	AllowEviction  bool               // one that may evict locks votes all the same
	Scripts        [][]byte           // sources that it is given at each connect, before anything else
	Log            *slog.Logger
	Failed         func(error) // Connect calls it with an *Unreached while it waits; nil: nothing
	// nil: net.Dialer
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

func (o Options) withDefaults() Options {
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, cluster.ConnectTimeout)
	o.Timeout = cmp.Or(o.Timeout, 250*time.Millisecond)
	o.Lease = cmp.Or(o.Lease, 24*time.Hour)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Logins == nil {
		o.Logins = cluster.NewLogins(cluster.Login{User: o.User, Password: o.Password})
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	return o
}

const (
	// masterLook is how often a master is asked how it is.
	masterLook = time.Second
	// reminder is how often it is logged that a master is still away.
	reminder = 10 * time.Second
	// Pauses before a master is dialled again.
	minRedial = 20 * time.Millisecond
	maxRedial = time.Second
	// What may wait for the replies of one master. Beyond that Ask fails at once, since a master that hangs
	// must not fill the memory.
	maxMasterRequests = 10_000
	maxMasterBytes    = 16 << 20 // of those requests
)

// Why a master is asked nothing.
var (
	errNotYet    = errors.New("it is not connected yet")
	errNoSign    = errors.New("it does not answer")
	errQueueFull = errors.New("too many requests wait for it")
	errReplyLate = errors.New("no reply in time")
)

// Master is one of several independent Redis servers, as RedLock needs them. It reaches the server over one
// connection, in order, and knows whether its answers can be trusted:
//
//	Ask --> one connection --> reply
//	                 \--> a look each second --> Vote, Health
//
// A server that is away is dialled again in the background. Until it has answered, every request fails at
// once. Safe for concurrent use.
//
// mu guards the connection's queues too, which Ask fills from any goroutine. Nobody calls an Answerer while
// holding it, because that may ask on. The set's own mutex is never held together with it.
type Master struct {
	addr   string
	o      Options
	loop   *loop.Loop
	nodes  *lone
	pool   *pipe.Pool            // of the loop: the connection
	topics *pubsub.Subscriptions // of channels of this server
	set    *masterSet
	born   time.Time
	ctx    context.Context // ends with Close
	end    context.CancelFunc
	tasks  sync.WaitGroup
	last   int64 // the server's id of the last connection that was of use; 0: none

	mu     sync.Mutex
	conn   *conn     // nil: not connected
	why    error     // why not
	tried  bool      // a connect has ended, well or not
	silent bool      // it owes a reply, and says nothing
	gone   time.Time // since when it is away, and
	said   time.Time // when that was logged last; zero: it is there
	state  serverState
}

// newMaster returns a Master that connects in the background until Close. o has its defaults already.
func newMaster(l *loop.Loop, addr string, o Options, set *masterSet) *Master {
	m := &Master{addr: addr, o: o, loop: l, set: set, born: time.Now(), why: errNotYet}
	m.nodes = newLone(addr, &cluster.Dialer{
		Logins:         o.Logins,
		TLS:            o.TLS,
		ConnectTimeout: o.ConnectTimeout,
		KeepAlive:      cluster.KeepAlive,
		Log:            o.Log, Net: o.Dial,
	})
	m.topics = pubsub.New(m.nodes, o.Log)
	l.Post(func() {
		m.pool = pipe.New(l, m.nodes, pipe.Options{
			ConnectTimeout: o.ConnectTimeout, Timeout: math.MaxInt64, // looks show silence
			Within: &resp.Answer, Log: o.Log,
		}, &set.stats)
	})
	m.ctx, m.end = context.WithCancel(context.Background())
	m.tasks.Go(m.keepConnected) // ends with m.ctx
	return m
}

// Addr is the address that it is dialled at.
func (m *Master) Addr() string { return m.addr }

// Close ends the connections. Requests that wait for a reply fail. It waits for them, so it must not be
// called on the loop, which has to close them.
func (m *Master) Close() {
	m.end()
	m.tasks.Wait()
	m.loop.Post(func() { m.pool.Close() })
	m.topics.Close()
}

// Subscribe is Subscriptions.Subscribe for a classic channel of this server.
func (m *Master) Subscribe(channel string, notify func(subscription.Change)) (cancel func()) {
	return m.topics.Subscribe(-1, channel, notify)
}

// Ask sends req, one whole command, which must not change any more. It tells to, under tag, the reply
// (RESP2, error replies included), or after timeout that there is none. Requests run in the order of the
// calls of Ask. None is sent twice.
//
// After timeout, or when the connection breaks, req may still run later, but before what Ask is given later.
// The error wraps ErrUnavailable if req has not run and will not, ErrUnknownOutcome if the connection was
// lost, or neither. Ask does not block.
func (m *Master) Ask(req []byte, timeout time.Duration, tag int, to Answerer) {
	m.mu.Lock()
	err := m.away()
	if err == nil {
		err = m.conn.pushRequest(request{req: req, to: to, tag: tag}, timeout)
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
	case m.conn.ctx.Err() != nil: // lost, or ended by Close: giveUpConn is about to note it
		return context.Cause(m.conn.ctx)
	case m.silent:
		return errNoSign
	}
	return nil
}

// logNode logs something about m.
func (m *Master) logNode(level slog.Level, text string, args ...any) {
	m.o.Log.Log(m.ctx, level, text, append([]any{"node", m.addr}, args...)...)
}

// keepConnected connects, again and again. It runs on a goroutine of its own until Close. The pause grows
// while connections are of no use, and begins anew behind one that was.
func (m *Master) keepConnected() {
	for pause := minRedial; ; pause = min(2*pause, maxRedial) {
		if m.serveConn() {
			pause = minRedial
		}
		if !sleep.For(m.ctx, pause) {
			return
		}
	}
}

// serveConn serves one connection until it ends. It reports whether it was of use. The error of a connection
// that could not be used is known to Ask and Vote until the next one is there.
func (m *Master) serveConn() (joined bool) {
	c := m.openConn()
	err := m.greetServer(c)
	if err == nil {
		joined = true
		m.adoptConn(c)
		err = m.watchServer(c)
	}
	err = c.endConn(err)
	if n, ok := errors.AsType[cluster.NodeError](err); ok {
		err = n.Err // the address is added where it is logged
	}
	if _, again := err.(misled); joined && !again {
		// The text tells it from a connection that never worked.
		err = errors.New("the connection was lost: " + err.Error())
	}
	m.giveUpConn(err)
	return joined
}

// adoptConn makes c the connection to the server. From now on requests are taken, so
// greetServer has loaded the scripts and decided about the vote before.
func (m *Master) adoptConn(c *conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.said.IsZero() {
		m.logNode(slog.LevelInfo, "master is back", "after", time.Since(m.gone).Round(time.Millisecond))
	}
	m.gone, m.said = time.Time{}, time.Time{}
	m.conn, m.why, m.silent, m.tried = c, nil, false, true
	m.set.signalChange()
}

// giveUpConn notes that there is no connection to the server, and why.
func (m *Master) giveUpConn(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	// misled is no trouble of the master: its name is only looked up again. After Close nobody minds.
	if _, is := err.(misled); !is && m.ctx.Err() == nil {
		m.tellAway(err)
	}
	m.conn, m.why, m.tried, m.silent = nil, err, true, false
	m.set.signalChange()
}

// tellAway logs at once that m is away, and each ten seconds that it still is. mu is held.
func (m *Master) tellAway(err error) {
	now := time.Now()
	switch {
	case m.said.IsZero():
		m.gone = now
		m.logNode(slog.LevelWarn, "master is away", "err", cluster.Explain(err))
	case now.Sub(m.said) >= reminder:
		m.logNode(slog.LevelWarn, "master is still away", "for", now.Sub(m.gone).Round(time.Second),
			"err", cluster.Explain(err))
	default:
		return
	}
	m.said = now
}

// watchServer asks the server for its state each second, until the connection has to be given up. It is
// called by the goroutine of keepConnected, which has nothing else to do as long as c lasts.
func (m *Master) watchServer(c *conn) error {
	tick := time.NewTicker(masterLook)
	defer tick.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		case <-tick.C:
		}
		if err := m.lookAtServer(c); err != nil {
			return err
		}
	}
}

// lone is one server, as subscriptions and pipes ask for their nodes. All slots are the server's, so that the
// home of any channel is this one.
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

// Topology implements pubsub.Nodes and pipe.Control.
func (l *lone) Topology() *cluster.Topology { return &l.topology }

// Refresh implements pubsub.Nodes and pipe.Control: the server is always the same.
func (l *lone) Refresh() {}

// Suspect implements pipe.Control: the looks of the Master find out.
func (l *lone) Suspect() {}

// Outages implements pipe.Control.
func (l *lone) Outages() *cluster.Outages { return nil }

// Member implements pipe.Control: the server has no others beside it.
func (l *lone) Member(string) string { return "" }
