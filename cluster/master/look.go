package master

import (
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
)

const (
	// clockStep is how far the clock of a master may be from what the last look let expect. A smaller step
	// moves the end of a lease by no more than that.
	clockStep = 50 * time.Millisecond
	// clockRate is how much of a second it may gain or lose in a second without having stepped: twice the 500
	// ppm by which ntpd slews a clock at most.
	clockRate = 1e-3
)

// serverState is what a Master has learnt of its server. Guarded by Master.mu. It outlives connections: a
// restart shows only beside what was known before.
type serverState struct {
	serverReport // the last one

	clocked            bool          // its clock is known, since
	clockAt            time.Duration // since Master.born
	clockLow, clockTop time.Duration // bounds of its clock less ours, which is 0 at Master.born

	until time.Time // it does not vote before; zero, or past: it may
	doubt string    // why; "" once it votes again
}

// serverReport is what a server says of itself. It is the answer to one look.
type serverReport struct {
	runID   string
	id      int64 // of the connection
	uptime  time.Duration
	durable bool          // at that time it wrote every command to disk before it answered
	evicts  error         // why it may delete locks by itself
	unfit   error         // why it is no master for RedLock
	clock   time.Duration // since the epoch
	sent    time.Time     // its clock was asked for between
	got     time.Time     // and
}

var (
	// TIME comes first, so that its answer is not late because of the others.
	askTime        = resp.AppendCommandStrings(nil, "TIME")
	askServer      = resp.AppendCommandStrings(nil, "INFO", "server")
	askReplication = resp.AppendCommandStrings(nil, "INFO", "replication")
	askMemory      = resp.AppendCommandStrings(nil, "INFO", "memory")
	askConfig      = resp.AppendCommandStrings(nil, "CONFIG", "GET", "*append*")
	askID          = resp.AppendCommandStrings(nil, "CLIENT", "ID")
)

// inquire asks the server about its state. INFO and TIME must be allowed; of CONFIG, CLIENT ID and INFO
// memory an error only means that less is known.
func (c *conn) inquire() (r serverReport, err error) {
	r.sent = time.Now()
	all, err := c.askOwn(c.m.o.ConnectTimeout,
		askTime, askServer, askReplication, askConfig, askID, askMemory)
	if err != nil {
		return r, err
	}
	v := make([]resp.Value, len(all))
	for i, e := range all {
		if v[i], _, err = resp.Parse(e.reply); err != nil {
			return r, err
		}
	}
	now, server, replication, config := v[0], v[1], v[2], cluster.Pairs(v[3])
	switch {
	case len(now.Elems) != 2:
		return r, fmt.Errorf("TIME: %s", now.Err())
	case server.Err() != "":
		return r, fmt.Errorf("INFO: %s", server.Err())
	}
	seconds, _ := strconv.ParseInt(string(now.Elems[0].Str), 10, 64)
	micros, _ := strconv.ParseInt(string(now.Elems[1].Str), 10, 64)
	r.clock = time.Duration(seconds)*time.Second + time.Duration(micros)*time.Microsecond
	r.got = all[0].got
	is := cluster.ServerOf(server)
	r.runID = is.RunID
	up, _ := strconv.ParseInt(cluster.Field(server, "uptime_in_seconds"), 10, 64)
	r.uptime = max(time.Duration(up-1), 0) * time.Second // it counts whole seconds
	// Only then is everything that was answered on disk (Redis documentation, persistence).
	r.durable = config["appendonly"] == "yes" && config["appendfsync"] == "always" &&
		config["no-appendfsync-on-rewrite"] != "yes"
	r.id = v[4].Int // none on servers that do not know CLIENT ID
	r.evicts = cluster.MemoryOf(v[5]).Evicts()
	switch {
	case cluster.Unsuited(server) != nil:
		r.unfit = cluster.Unsuited(server)
	case r.runID == "":
		r.unfit = cluster.Refusal("it does not say its run_id (INFO server), " +
			"so nobody could know when it has restarted")
	case is.Mode == "cluster":
		r.unfit = cluster.Refusal("it is a node of a Redis Cluster: " +
			"RedLock needs masters that know nothing of each other")
	case is.Mode == "sentinel":
		r.unfit = cluster.Refusal("it is a Sentinel: RedLock needs Redis masters")
	case cluster.Field(replication, "role") == "slave":
		r.unfit = cluster.Refusal("it is a replica: RedLock needs masters that know nothing of each other")
	}
	return r, nil
}

// greetServer prepares a new connection: it loads the scripts, asks for the state of the server, and makes
// sure that nothing will run any more that came over the connection before. It returns once the server has
// answered all of that. Then its report is judged, so Vote is right before the first request.
func (m *Master) greetServer(c *conn) error {
	// Once that is answered it is connected. The clock is asked for only then: otherwise dialling would count
	// as a part of the time of its answer, within which no step shows.
	if _, err := c.askOwn(2*m.o.ConnectTimeout, askID); err != nil {
		return err
	}
	r, err := c.inquire()
	if err != nil {
		return err
	}
	var load [][]byte
	for _, script := range m.o.Scripts {
		load = append(load, resp.AppendCommandStrings(nil, "SCRIPT", "LOAD", string(script)))
	}
	m.mu.Lock()
	if m.last > 0 && m.last != r.id && m.state.runID == r.runID {
		// A server that has hung finds unread requests on both connections. If CLIENT KILL is forbidden, it
		// reads the older one first as a rule.
		id := strconv.FormatInt(m.last, 10)
		load = append(load, resp.AppendCommandStrings(nil, "CLIENT", "KILL", "ID", id))
	}
	m.mu.Unlock()
	loaded, err := c.askOwn(m.o.ConnectTimeout, load...)
	if err != nil {
		return err
	}
	for i := range m.o.Scripts {
		// Where that is forbidden, requests bring the sources of their scripts along when they have to.
		if text := loaded[i].reply; text[0] == '-' && !resp.Forbidden(text) {
			// without the "-" and the end of the line
			return cluster.Said(string(text[1 : len(text)-2]))
		}
	}
	m.last = r.id
	m.judgeReport(r)
	return nil
}

// lookAtServer asks the server how it is. A server that is no independent master is given up if it was
// dialled by a name: a managed service fails over by giving the name of the master to another server, while
// the one before lives on as a replica. Under its own address it is kept, for nobody else can be there: it
// does not vote.
func (m *Master) lookAtServer(c *conn) error {
	r, err := c.inquire()
	if err != nil {
		return err
	}
	if unfit := m.judgeReport(r); unfit != nil && cluster.Named(m.addr) {
		return misled{unfit}
	}
	return nil
}

// misled ends a connection so that the name of its server is looked up again: why.
type misled struct{ error }

// judgeReport decides whether the server's answers count from now on. It returns why the server is no
// independent master. Whoever may have lost locks is silent for as long as the longest lease, because by then
// all that it may have forgotten has ended.
func (m *Master) judgeReport(r serverReport) (unfit error) {
	if duplicate := m.set.registerRunID(m.addr, r.runID); duplicate != "" && r.unfit == nil {
		r.unfit = cluster.Refusal("it is the same server as " + duplicate)
	}
	unfit = r.unfit
	lost := "it was no independent master"
	if r.unfit == nil && r.evicts != nil && !m.o.AllowEviction {
		r.unfit, lost = r.evicts, "it may have evicted keys"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s, now := &m.state, time.Now()
	if m.o.AllowEviction && r.evicts != nil && s.evicts == nil {
		m.logNode(slog.LevelWarn, "node may evict locks", "err", r.evicts, "new-locks", "granted")
	}
	if r.unfit != nil {
		if s.unfit == nil || s.unfit.Error() != r.unfit.Error() {
			m.logNode(slog.LevelWarn, "master does not vote", "err", r.unfit)
		}
		// as a replica it got the data of another server
		s.doubt = lost + ", and may have lost locks that are still held"
		s.until = now.Add(m.o.Lease)
	}

	switch {
	case s.runID == r.runID:
	case r.durable && s.durable: // it has lost nothing
	default:
		// This goes for the first contact too: the server may have restarted to become durable, and then
		// Redis 7 begins empty. Uptime is counted by its clock; a step of that is dealt with below.
		m.denyVote("it restarted and may have lost locks that are still held", now.Add(m.o.Lease-r.uptime))
	}
	// The name may have another server by now: subscriptions must not stay at the one before.
	if s.runID != "" && s.runID != r.runID && cluster.Named(m.addr) {
		m.topics.Redial()
	}
	s.serverReport = r
	m.reckon(r.clock, r.sent, r.got)
	if s.doubt != "" && !now.Before(s.until) {
		s.doubt = ""
		m.logNode(slog.LevelInfo, "master votes again")
	}
	m.set.signalChange()
	return unfit
}

// denyVote keeps the master from voting for a while. A reason that holds for longer already stays, and
// then nothing is logged. Master.mu is held.
func (m *Master) denyVote(why string, until time.Time) {
	s := &m.state
	if !until.After(time.Now()) || !until.After(s.until) {
		return
	}
	s.doubt, s.until = why, until
	m.logNode(slog.LevelWarn, "master does not vote", "err", why, "until", until.Round(time.Second))
}

// Heard notes what the server's clock showed in a reply that has just come, to a request made at asked or
// later. It returns the result of Vote after that, so that a reply which shows a step does not count itself.
// It never blocks.
func (m *Master) Heard(clock, asked time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reckon(time.Duration(clock.UnixNano()), asked, time.Now()) {
		m.set.signalChange()
	}
	return m.ballot()
}

// Distrust keeps the master from voting for as long as after a restart: why. It never blocks.
func (m *Master) Distrust(why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.denyVote(why, time.Now().Add(m.o.Lease))
	m.set.signalChange()
}

// reckon keeps the master from voting for a while if its clock has stepped. It showed clock, since the epoch,
// between sent and got. Those are compared by the monotonic clock, which no step of our own moves. Master.mu
// is held.
func (m *Master) reckon(clock time.Duration, sent, got time.Time) (stepped bool) {
	step := m.stepped(clock-got.Sub(m.born), clock-sent.Sub(m.born), got.Sub(m.born))
	if step != 0 {
		m.denyVote(fmt.Sprintf("its clock stepped by %v", step.Round(time.Millisecond)),
			time.Now().Add(m.o.Lease))
	}
	return step != 0
}

// stepped compares the server's clock with what it is expected to show, and returns the difference if that
// is a step. Master.mu is held.
//
// The difference between its clock and ours is only known as an interval, from low to top, as wide as the
// reply took that came at at. So a late reply is no step. The intervals of all replies must overlap; what
// they have in common is what is known, and it grows a little wider each second.
func (m *Master) stepped(low, top, at time.Duration) time.Duration {
	s := &m.state
	at = max(at, s.clockAt) // a reply to look is judged when all of it has come
	defer func() { s.clocked, s.clockAt = true, at }()
	if !s.clocked {
		s.clockLow, s.clockTop = low, top
		return 0
	}
	slack := time.Duration(float64(at-s.clockAt) * clockRate)
	step := time.Duration(0)
	switch {
	case low > s.clockTop+slack:
		step = low - s.clockTop
	case top < s.clockLow-slack:
		step = top - s.clockLow
	default:
		s.clockLow, s.clockTop = max(low, s.clockLow-slack), min(top, s.clockTop+slack)
		return 0
	}
	s.clockLow, s.clockTop = low, top
	if step.Abs() <= clockStep+slack {
		return 0
	}
	return step
}

// Vote says whether what the server answers counts: nil, or why not. It never blocks.
func (m *Master) Vote() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ballot()
}

// ballot is Vote. Master.mu is held.
func (m *Master) ballot() error {
	if err := m.vote(); err != nil {
		return cluster.NodeError{Addr: m.addr, Err: err}
	}
	return nil
}

func (m *Master) vote() error {
	if err := m.away(); err != nil {
		return err
	}
	s := &m.state
	if s.unfit != nil {
		return s.unfit
	}
	if left := time.Until(s.until); left > 0 {
		left = max(left.Round(time.Second), time.Second)
		return fmt.Errorf("%s: it does not vote for another %v", s.doubt, left)
	}
	return nil
}

// Health is how a master is now. It is a copy, for metrics and people.
type Health struct {
	Addr        string
	Up          bool          // it answers
	Votes       bool          // and its answers count
	Why         string        // it does not vote; "": it does
	Until       time.Time     // when it may vote again, if only time is missing; else zero
	RunID       string        // "" before the first connect
	Evicts      bool          // it may delete locks by itself
	ClockOffset time.Duration // of its clock against the one of this machine
}

// Health returns how the server is. It never blocks.
func (m *Master) Health() Health {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.state
	h := Health{Addr: m.addr, Up: m.away() == nil, RunID: s.runID, Evicts: s.evicts != nil}
	if err := m.vote(); err != nil {
		h.Why = cluster.Explain(err)
	} else {
		h.Votes = true
	}
	if time.Until(s.until) > 0 {
		h.Until = s.until
	}
	if s.clocked {
		h.ClockOffset = (s.clockLow+s.clockTop)/2 - time.Duration(m.born.UnixNano())
	}
	return h
}
