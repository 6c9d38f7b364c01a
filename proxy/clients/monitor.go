package clients

import (
	"bytes"
	"sync/atomic"
	"time"

	"lockproxy/commands"
	"lockproxy/commands/monitorline"
	"lockproxy/proxy/client"
)

// monitors are the clients of a loop in MONITOR, and what they and those of other loops are to be shown.
//
//	a command --> Observe --> feed --(posted once for many lines)--> showLines, on each loop with any
type monitors struct {
	// Only any is read by other loops. The rest belongs to the loop.
	own    map[*Monitor]struct{}
	any    atomic.Bool // there are some, as other loops see it
	feed   []byte      // lines for those of all loops
	posted bool        // passFeed is going to run
}

// maxFeed bounds the bytes of lines that are collected before they are passed on. Otherwise they are passed
// on once a round.
const maxFeed = 256 << 10

// maxUnseen bounds the bytes of lines about a transaction that are kept until EXEC. Later commands of it are
// not shown.
const maxUnseen = 1 << 20

// MonitorOnly is for a client in MONITOR that sends a command about data.
var MonitorOnly = []byte("-ERR Replica can't interact with the keyspace\r\n")

// Monitor is one client's part in MONITOR: whether it is in it, and the lines about its own commands.
type Monitor struct {
	h      client.Host
	on     *Loop
	behind uint32 // the number of its MONITOR, whose answer comes before all lines
	unseen []byte // commands of its transaction, which are shown when EXEC runs them
	begun  int64  // All.begun when they were noted: what came while nobody listened is not known
}

// NewMonitor is that of a client of the loop.
func NewMonitor(h client.Host, on *Loop) Monitor { return Monitor{h: h, on: on} }

// Memory is how many bytes it keeps.
func (m *Monitor) Memory() int { return len(m.unseen) }

// Start is MONITOR. By the time of the reply each loop knows that somebody listens here, so no later command
// is missed. Other loops see it by the counter in All and by any, which are set before the answer.
func (m *Monitor) Start(reply []byte) {
	m.h.About().Monitoring, m.behind = true, m.h.CurrentTag()
	m.on.monitors.own[m] = struct{}{}
	m.on.monitors.any.Store(true)
	if m.on.all.monitoring.Add(1) == 1 {
		m.on.all.begun.Add(1)
	}
	m.h.AnswerLater(client.ByProxy)
	m.h.SetHold(client.HoldOrder)
	m.h.Answer(m.behind, reply)
}

// End ends MONITOR, if the client is in it.
func (m *Monitor) End() {
	m.unseen = nil
	if about := m.h.About(); about.Monitoring {
		about.Monitoring = false
		delete(m.on.monitors.own, m)
		m.on.monitors.any.Store(len(m.on.monitors.own) > 0)
		m.on.all.monitoring.Add(-1)
	}
}

// Observe shows a command that is about to run to the clients in MONITOR. Commands of a transaction are shown
// when EXEC runs them. execFails says that EXEC would run nothing. It is called for each command while
// anybody is in MONITOR, on the loop of the client that sends it.
func (m *Monitor) Observe(cmd *commands.Command, args [][]byte, execFails bool) {
	l, about := m.on, m.h.About()
	if l.all.monitoring.Load() == 0 || !monitorline.Shows(cmd) {
		return
	}
	if begun := l.all.begun.Load(); m.begun != begun {
		m.unseen, m.begun = nil, begun
	}
	open := about.Transaction.Open
	if open && cmd.Queue != commands.QueueNot {
		if len(m.unseen) < maxUnseen {
			line := monitorline.AppendTime(m.unseen, time.Now())
			m.unseen = monitorline.AppendCall(line, about, cmd, args)
		}
		return
	}
	if open && cmd.Flags&commands.RunsQueue != 0 && !execFails {
		// What came before EXEC is shown before the commands that EXEC runs.
		l.passFeed()
		l.monitors.feed = timedLines(m.unseen, time.Now())
		l.passFeed()
	}
	if !open || cmd.Flags&commands.EndsMulti != 0 {
		m.unseen = nil
	}
	feed := monitorline.AppendTime(l.monitors.feed, time.Now())
	l.monitors.feed = monitorline.AppendCall(feed, about, cmd, args)
	switch {
	case len(l.monitors.feed) >= maxFeed:
		l.passFeed()
	case !l.monitors.posted:
		l.monitors.posted = true
		l.Post(l.passFeed)
	}
}

// timedLines puts now in place of the times in lines, which have as many digits.
func timedLines(lines []byte, now time.Time) []byte {
	var room [len("+1339518083.107412 ")]byte
	stamp := monitorline.AppendTime(room[:0], now)
	for line := range bytes.Lines(lines) { // the only line ends are those between calls
		copy(line, stamp)
	}
	return lines
}

// passFeed passes the collected lines to every loop that has clients in MONITOR. The lines are handed over,
// not copied: no loop may write to them from now on.
func (l *Loop) passFeed() {
	m := &l.monitors
	feed := m.feed
	m.feed, m.posted = nil, false
	if len(feed) == 0 {
		return
	}
	for _, other := range l.all.loops {
		if other.monitors.any.Load() {
			other.Post(func() { other.showLines(feed) })
		}
	}
}

// showLines shows lines, which must not change any more, to the clients in MONITOR. A client that does not
// read them is closed by its output limit, as for replies.
func (l *Loop) showLines(lines []byte) {
	for m := range l.monitors.own {
		if m.h.TakesPushes() {
			m.h.Push(m.behind, lines)
		}
	}
}
