package proxy

import (
	"bytes"
	"time"

	"lockproxy/commands"
)

// monitors is what a loop knows of clients in MONITOR: its own, and how many other loops have.
//
//	dispatch --> observe --> feed --(posted once for many lines)--> tell on each loop that has any
type monitors struct {
	own      map[*monitor]struct{}
	watchers []int  // by worker.index: how many clients in MONITOR it has
	feed     []byte // lines for all of them
	posted   bool   // flush is going to run
}

// maxFeed bounds the bytes of lines that are collected before they are passed on.
const maxFeed = 256 << 10

// maxUnseen bounds the bytes of lines about a transaction that are kept until EXEC. Later commands of it are
// not shown.
const maxUnseen = 1 << 20

var monitorOnly = []byte("-ERR Replica can't interact with the keyspace\r\n")

// monitor is one client's part in MONITOR: whether it is in it, and the lines about its own commands.
type monitor struct {
	h      host
	unseen []byte // commands of its transaction, which are shown when EXEC runs them
}

// start is MONITOR. By the time of the reply each loop knows that somebody listens here, so no later command
// is missed.
func (m *monitor) start(reply []byte) {
	w, tag := m.h.worker(), m.h.CurrentTag()
	onEach(m.h, func(other *worker) { other.listen(w.index, 1) }, func() {
		if m.h.Gone() {
			w.unlisten()
		} else {
			m.h.About().Monitoring = true
			w.monitors.add(m)
		}
		m.h.Answer(tag, reply)
	})
}

// end ends MONITOR, if the client is in it.
func (m *monitor) end() {
	m.unseen = nil
	if about := m.h.About(); about.Monitoring {
		about.Monitoring = false
		delete(m.h.worker().monitors.own, m)
		m.h.worker().unlisten()
	}
}

func (m *monitors) add(one *monitor) {
	if m.own == nil {
		m.own = make(map[*monitor]struct{})
	}
	m.own[one] = struct{}{}
}

// unlisten tells all loops that one client less is in MONITOR here.
func (w *worker) unlisten() {
	for _, other := range w.server.workers {
		other.loop.Post(func() { other.listen(w.index, -1) })
	}
}

// listen notes that a worker has n more clients in MONITOR.
func (w *worker) listen(index, n int) {
	if w.monitors.watchers == nil {
		w.monitors.watchers = make([]int, len(w.server.workers))
	}
	w.monitors.watchers[index] += n
	w.watch()
}

// watched says that somebody is in MONITOR.
func (m *monitors) watched() bool {
	for _, n := range m.watchers {
		if n > 0 {
			return true
		}
	}
	return false
}

// watch sets whether commands need attention.
func (w *worker) watch() {
	w.alert = w.pause.kind != commands.PauseNone || w.monitors.watched() || len(w.watchers.own) > 0
}

// observe shows a command that is about to run to the clients in MONITOR. Commands of a transaction are shown
// when EXEC runs them. execFails says that EXEC would run nothing.
func (m *monitor) observe(cmd *commands.Command, args [][]byte, execFails bool) {
	w, about := m.h.worker(), m.h.About()
	if !w.monitors.watched() || !cmd.Shown() {
		return
	}
	open := about.Transaction.Open
	if open && cmd.Queue != commands.QueueNot {
		if len(m.unseen) < maxUnseen {
			line := commands.AppendMonitorTime(m.unseen, time.Now())
			m.unseen = commands.AppendMonitorCall(line, about, cmd, args)
		}
		return
	}
	if open && cmd.Flags&commands.RunsQueue != 0 && !execFails {
		w.passFeed()
		w.monitors.feed = timed(m.unseen, time.Now())
		w.passFeed()
	}
	if !open || cmd.Flags&commands.EndsMulti != 0 {
		m.unseen = nil
	}
	feed := commands.AppendMonitorTime(w.monitors.feed, time.Now())
	w.monitors.feed = commands.AppendMonitorCall(feed, about, cmd, args)
	switch {
	case len(w.monitors.feed) >= maxFeed:
		w.passFeed()
	case !w.monitors.posted:
		w.monitors.posted = true
		w.loop.Post(w.passFeed)
	}
}

// timed puts now in place of the times in lines, which have as many digits.
func timed(lines []byte, now time.Time) []byte {
	var room [len("+1339518083.107412 ")]byte
	stamp := commands.AppendMonitorTime(room[:0], now)
	for line := range bytes.Lines(lines) { // the only line ends are those between calls
		copy(line, stamp)
	}
	return lines
}

// passFeed passes the collected lines to every loop that has clients in MONITOR.
func (w *worker) passFeed() {
	m := &w.monitors
	feed := m.feed
	m.feed, m.posted = nil, false
	if len(feed) == 0 {
		return
	}
	for i, n := range m.watchers {
		if n > 0 {
			other := w.server.workers[i]
			other.loop.Post(func() { other.tell(feed) })
		}
	}
}

// tell shows lines, which must not change any more, to the clients in MONITOR. A client that does not read
// them is closed by its output limit, as for replies.
func (w *worker) tell(lines []byte) {
	for m := range w.monitors.own {
		if m.h.TakesPushes() {
			m.h.Push(m.h.Answers().Answered(), func(int) []byte { return lines })
		}
	}
}
