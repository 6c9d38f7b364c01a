package proxy

import (
	"bytes"
	"time"

	"lockproxy/commands"
)

// monitors is what a loop knows of the clients in MONITOR: its own, and that others have some.
//
//	dispatch --> observe --> feed --(posted once for many lines)--> tell on each loop that has any
type monitors struct {
	own      map[*session]struct{}
	audience []int  // by worker.index: how many clients in MONITOR it has
	feed     []byte // lines for all of them
	posted   bool   // flush is going to run
}

// maxFeed is how many bytes of lines are collected at most before they are passed on.
const maxFeed = 256 << 10

// maxUnseen is how many bytes of lines about a transaction are kept until EXEC. The commands behind them are
// not shown.
const maxUnseen = 1 << 20

var monitorOnly = []byte("-ERR Replica can't interact with the keyspace\r\n")

// Monitor implements commands.Connection. From the reply on no command is missed: by then each
// loop knows that somebody listens here.
func (c connection) Monitor(reply []byte) {
	s := c.s
	s.acted = true
	s.setHold(holdOrder)
	tag, here := s.current, s.w.index
	s.onEach(func(w *worker) { w.listen(here, 1) }, func() {
		if s.gone {
			s.w.unlisten()
		} else {
			s.Monitoring = true
			s.w.monitors.add(s)
		}
		s.answer(tag, reply)
	})
}

// stopMonitor ends MONITOR, if the client is in it.
func (s *session) stopMonitor() {
	if s.Monitoring {
		s.Monitoring = false
		delete(s.w.monitors.own, s)
		s.w.unlisten()
	}
}

func (m *monitors) add(s *session) {
	if m.own == nil {
		m.own = make(map[*session]struct{})
	}
	m.own[s] = struct{}{}
}

// unlisten tells all loops that there is one client in MONITOR less here.
func (w *worker) unlisten() {
	for _, other := range w.server.workers {
		other.loop.Post(func() { other.listen(w.index, -1) })
	}
}

// listen notes that a worker has n more clients in MONITOR.
func (w *worker) listen(index, n int) {
	if w.monitors.audience == nil {
		w.monitors.audience = make([]int, len(w.server.workers))
	}
	w.monitors.audience[index] += n
	w.watch()
}

// watched says that somebody is in MONITOR.
func (m *monitors) watched() bool {
	for _, n := range m.audience {
		if n > 0 {
			return true
		}
	}
	return false
}

// watch works out whether commands need attention.
func (w *worker) watch() {
	w.alert = w.pause.kind != commands.PauseNone || w.monitors.watched()
}

// observe shows a command that is going to be run to those in MONITOR. What is put into a transaction
// is shown when EXEC runs it.
func (s *session) observe(cmd *commands.Command, args [][]byte) {
	m := &s.w.monitors
	if !m.watched() || !cmd.Shown() {
		return
	}
	if s.Transaction.Open && cmd.Queue != commands.QueueNot {
		if len(s.unseen) < maxUnseen {
			s.unseen = commands.AppendMonitorCall(s.unseen, &s.Client, cmd, args)
		}
		return
	}
	if s.Transaction.Open && cmd.Flags&commands.RunsQueue != 0 && !s.tx.fails() {
		now := time.Now()
		for call := range bytes.Lines(s.unseen) { // its line ends are the only ones that it has
			m.feed = append(commands.AppendMonitorTime(m.feed, now), call...)
		}
	}
	if !s.Transaction.Open || cmd.Flags&commands.EndsMulti != 0 {
		s.unseen = nil
	}
	m.feed = commands.AppendMonitorTime(m.feed, time.Now())
	m.feed = commands.AppendMonitorCall(m.feed, &s.Client, cmd, args)
	switch {
	case len(m.feed) >= maxFeed:
		s.w.passFeed()
	case !m.posted:
		m.posted = true
		s.w.loop.Post(s.w.passFeed)
	}
}

// passFeed gives the lines that were collected to every loop that has clients in MONITOR.
func (w *worker) passFeed() {
	m := &w.monitors
	feed := m.feed
	m.feed, m.posted = nil, false
	if len(feed) == 0 {
		return
	}
	for i, n := range m.audience {
		if n > 0 {
			other := w.server.workers[i]
			other.loop.Post(func() { other.tell(feed) })
		}
	}
}

// tell shows lines, which nobody changes any more, to the clients in MONITOR. One that does not
// read them is closed by the limit on output, as it would be for replies.
func (w *worker) tell(lines []byte) {
	for s := range w.monitors.own {
		if s.silence != silentAlways && s.hold&holdClosing == 0 && !s.gone {
			s.pushBytes(s.answers.head-1, lines)
		}
	}
}
