package master

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/cluster"
	"lockproxy/cluster/internal/servers"
	"lockproxy/internal/loop"
	"lockproxy/internal/resp"
	"lockproxy/internal/scripted"
	"lockproxy/internal/subscription"
)

// loneRedis does as much of Redis as a Master needs, over net.Pipe. It answers ECHO; and EVALSHA, with the
// number of the call.
type loneRedis struct {
	mu      sync.Mutex
	runID   string
	started time.Time
	step    time.Duration // of its clock
	role    string
	mode    string
	config  map[string]string
	scripts map[string]bool
	ran     []string // commands besides those of looks
	calls   int
	ids     int64
	conns   map[int64]net.Conn

	refuse bool          // connections
	slow   time.Duration // to make one takes so long
	odd    string        // the answer to ECHO; "": what it should be
	hung   chan struct{} // not nil: it reads nothing until this is closed
	mute   bool          // it runs commands, and its replies are lost
	lost   int64         // the connections up to this one were forgotten: nothing comes through

	reads atomic.Int64 // that found something
}

// read is how often something was read.
func (p *loneRedis) read() int64 { return p.reads.Load() }

// countedReads is a connection whose reads are counted.
type countedReads struct {
	net.Conn
	reads *atomic.Int64
}

func (c countedReads) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.reads.Add(1)
	}
	return n, err
}

func newLoneRedis(runID string) *loneRedis {
	return &loneRedis{
		runID: runID, started: time.Now().Add(-1000 * time.Hour), role: "master", mode: "standalone",
		config: map[string]string{"appendonly": "no",
			"appendfsync": "everysec"}, scripts: map[string]bool{}, conns: map[int64]net.Conn{},
	}
}

func (p *loneRedis) dial(context.Context, string, string) (net.Conn, error) {
	p.mu.Lock()
	slow := p.slow
	p.mu.Unlock()
	time.Sleep(slow)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse {
		return nil, errors.New("connection refused")
	}
	near, far := net.Pipe()
	p.ids++
	p.conns[p.ids] = far
	go p.serve(p.ids, far) // ends when near is closed
	return near, nil
}

// with changes p.
func (p *loneRedis) with(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// restart loses everything but what is in config.
func (p *loneRedis) restart(runID string) {
	p.with(func() {
		p.runID, p.started, p.scripts = runID, time.Now(), map[string]bool{}
		p.cut()
	})
}

func (p *loneRedis) cut() {
	for id, conn := range p.conns {
		conn.Close()
		delete(p.conns, id)
	}
}

func (p *loneRedis) serve(id int64, conn net.Conn) {
	defer conn.Close()
	scripted.Each(countedReads{conn, &p.reads}, func(words []string) bool {
		p.mu.Lock()
		hung, lost := p.hung, id <= p.lost
		p.mu.Unlock()
		if lost {
			return true
		}
		if hung != nil {
			<-hung
		}
		p.mu.Lock()
		out := p.answer(id, words)
		mute := p.mute
		p.mu.Unlock()
		if mute || len(out) == 0 {
			return true
		}
		_, err := conn.Write(out)
		return err == nil
	}, nil)
}

// answer runs one command. mu is held.
func (p *loneRedis) answer(id int64, words []string) (out []byte) {
	if p.conns[id] == nil {
		return nil // killed meanwhile
	}
	switch command := strings.ToUpper(words[0]); command {
	case "CLIENT":
		switch words[1] {
		case "ID":
			return redcon.AppendInt(nil, id)
		case "LIST":
			const line = " addr=here:1 name=lockproxy flags=N obl=0 oll=0 qbuf=0 argv-mem="
			return redcon.AppendBulkString(nil, "id="+words[3]+line+"50\nid="+words[4]+line+"0\n")
		case "INFO":
			return redcon.AppendBulkString(nil, fmt.Sprintf("id=%d addr=here:1\n", id))
		case "KILL":
			old, _ := strconv.ParseInt(words[3], 10, 64)
			if p.conns[old] == nil {
				return redcon.AppendInt(nil, 0)
			}
			p.conns[old].Close()
			delete(p.conns, old)
			return redcon.AppendInt(nil, 1)
		}
		return redcon.AppendOK(nil)
	case "TIME":
		now := time.Now().Add(p.step)
		out = redcon.AppendArray(nil, 2)
		out = redcon.AppendBulkString(out, fmt.Sprint(now.Unix()))
		return redcon.AppendBulkString(out, fmt.Sprint(now.Nanosecond()/1000))
	case "INFO":
		if words[1] == "replication" {
			return redcon.AppendBulkString(nil, servers.Reply("role:"+p.role))
		}
		return redcon.AppendBulkString(nil, servers.Reply("run_id:"+p.runID, "redis_mode:"+p.mode,
			fmt.Sprint("uptime_in_seconds:", int(time.Now().Add(p.step).Sub(p.started).Seconds()))))
	case "CONFIG":
		if p.config == nil {
			return redcon.AppendError(nil, "NOPERM this user has no permissions")
		}
		out = redcon.AppendArray(nil, 2*len(p.config))
		for name, value := range p.config {
			out = redcon.AppendBulkString(redcon.AppendBulkString(out, name), value)
		}
		return out
	case "SCRIPT":
		sum := sha1.Sum([]byte(words[2]))
		p.scripts[hex.EncodeToString(sum[:])] = true
		return redcon.AppendBulkString(nil, hex.EncodeToString(sum[:]))
	case "EVALSHA":
		if !p.scripts[words[1]] {
			return redcon.AppendError(nil, "NOSCRIPT No matching script.")
		}
		p.calls++
		p.ran = append(p.ran, words[3])
		return redcon.AppendInt(nil, int64(p.calls))
	case "ECHO":
		p.ran = append(p.ran, words[1])
		if p.odd != "" {
			return []byte(p.odd)
		}
		return redcon.AppendBulkString(nil, words[1])
	case "PING":
		return []byte(servers.Reply("*2", "$4", "pong", "$0", ""))
	case "SUBSCRIBE", "UNSUBSCRIBE":
		out = redcon.AppendArray(nil, 3)
		out = redcon.AppendBulkString(out, strings.ToLower(command))
		out = redcon.AppendBulkString(out, words[1])
		return redcon.AppendInt(out, 1)
	}
	return redcon.AppendError(nil, "ERR unknown command")
}

func (p *loneRedis) history() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.ran, " ")
}

// portable is a loop until the test ends.
func portable(t *testing.T) *loop.Loop {
	l := loop.NewPortable()
	go l.Run() // ends with the test
	t.Cleanup(l.Close)
	return l
}

// inBubble runs test in fake time with a Master that is connected to p.
func inBubble(t *testing.T, o Options, prepare func(p *loneRedis),
	test func(t *testing.T, p *loneRedis, m *Master)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newLoneRedis("one")
		if prepare != nil {
			prepare(p)
		}
		o.Dial, o.Log, o.Timeout = p.dial, servers.Log(t), 50*time.Millisecond
		all, err := Connect(t.Context(), portable(t), []string{"10.0.0.1:6379"}, o)
		if err != nil {
			t.Fatal(err)
		}
		defer synctest.Wait()
		defer all[0].Close()
		test(t, p, all[0])
	})
}

// askMaster asks and waits for the answer.
func askMaster(m *Master, limit time.Duration, command ...string) ([]byte, error) {
	q := &question{done: make(chan struct{})}
	m.Ask(resp.AppendCommandStrings(nil, command...), limit, 0, q)
	<-q.done
	return q.reply, q.err
}

// echo asks for text, for limit at most.
func echo(m *Master, text string, limit time.Duration) (time.Duration, error) {
	began := time.Now()
	reply, err := askMaster(m, limit, "ECHO", text)
	if err == nil && string(reply) != string(redcon.AppendBulkString(nil, text)) {
		err = fmt.Errorf("reply %q to ECHO %s", reply, text)
	}
	return time.Since(began), err
}

// votes checks what Vote says: want is part of the reason, "" for none.
func votes(t *testing.T, m *Master, want string) {
	t.Helper()
	err := m.Vote()
	h := m.Health()
	if h.Votes != (err == nil) || h.Votes != (h.Why == "") {
		t.Errorf("Vote: %v, Health: %+v", err, h)
	}
	switch {
	case want == "" && err != nil:
		t.Errorf("it does not vote: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("Vote: %v, want %s", err, want)
	}
}

// A server that falls silent costs one time-out; then every request fails at once, until it
// says something. What it was sent runs in order. R27
func TestMasterSilent(t *testing.T) {
	inBubble(t, Options{}, nil, func(t *testing.T, p *loneRedis, m *Master) {
		if _, err := echo(m, "a", time.Second); err != nil {
			t.Fatal(err)
		}
		hung := make(chan struct{})
		p.with(func() { p.hung = hung })
		if took, err := echo(m, "b", 50*time.Millisecond); !errors.Is(err, errReplyLate) ||
			took != 50*time.Millisecond {
			t.Errorf("after %v: %v", took, err)
		}
		took, err := echo(m, "c", 50*time.Millisecond)
		if !errors.Is(err, cluster.ErrUnavailable) || took != 0 {
			t.Errorf("after %v: %v", took, err)
		}
		votes(t, m, "does not answer")
		p.with(func() { p.hung = nil })
		close(hung)
		synctest.Wait()
		votes(t, m, "")
		if _, err := echo(m, "d", 50*time.Millisecond); err != nil {
			t.Error(err)
		}
		if got := p.history(); got != "a b d" {
			t.Errorf("it ran %s", got)
		}
	})
}

// A request that gave up early says nothing about the server.
func TestMasterShortTimeout(t *testing.T) {
	inBubble(t, Options{}, nil, func(t *testing.T, p *loneRedis, m *Master) {
		p.with(func() { p.mute = true })
		for range 3 {
			if took, err := echo(m, "a", 10*time.Millisecond); took != 10*time.Millisecond {
				t.Errorf("after %v: %v", took, err)
			}
		}
		votes(t, m, "")
		echo(m, "a", 10*time.Millisecond)
		votes(t, m, "does not answer")
	})
}

// A connection on which nothing comes any more is given up, and requests sent over it never run behind those
// of the next one. R27
func TestMasterHangs(t *testing.T) {
	inBubble(t, Options{}, nil, func(t *testing.T, p *loneRedis, m *Master) {
		hung := make(chan struct{})
		p.with(func() { p.hung = hung })
		echo(m, "late", 50*time.Millisecond)
		time.Sleep(10 * time.Second) // that connection is given up, and others after it
		p.with(func() { p.hung = nil })
		time.Sleep(5 * time.Second)
		votes(t, m, "")
		if _, err := echo(m, "next", 50*time.Millisecond); err != nil {
			t.Error(err)
		}
		close(hung)
		synctest.Wait()
		if got := p.history(); got != "next" {
			t.Errorf("it ran %s", got)
		}
	})
}

// A connection that was forgotten on the way is given up as soon as a new one says so, long before
// ConnectTimeout.
func TestMasterForgotten(t *testing.T) {
	inBubble(t, Options{ConnectTimeout: time.Hour}, nil, func(t *testing.T, p *loneRedis, m *Master) {
		p.with(func() { p.lost = p.ids })
		echo(m, "a", 50*time.Millisecond)
		votes(t, m, "does not answer")
		time.Sleep(masterLook + time.Second)
		votes(t, m, "")
		if _, err := echo(m, "b", 50*time.Millisecond); err != nil || p.history() != "b" {
			t.Errorf("%v, and it ran %s", err, p.history())
		}
	})
}

// What is asked in one round of the loop leaves in one write. R27
func TestMasterWritesOnceARound(t *testing.T) {
	inBubble(t, Options{}, nil, func(t *testing.T, p *loneRedis, m *Master) {
		var said []string
		ask := func(texts ...string) {
			for i, text := range texts {
				req := resp.AppendCommandStrings(nil, "ECHO", text)
				m.Ask(req, time.Second, i, answer(func(reply []byte) { said = append(said, string(reply)) }))
			}
		}
		before := p.read()
		m.loop.Post(func() { ask("a", "b", "c") })
		synctest.Wait()
		if got := p.read() - before; got != 1 {
			t.Errorf("three requests came in %d reads", got)
		}
		if want := "$1\r\na\r\n $1\r\nb\r\n $1\r\nc\r\n"; strings.Join(said, " ") != want {
			t.Errorf("replies %q", said)
		}
	})
}

// answer is an Answerer that is given a reply.
type answer func(reply []byte)

func (a answer) Answer(_ int, reply []byte, err error) {
	if err == nil {
		a(reply)
	}
}

// A reply that came in time counts, however late a busy loop reads it. R27
func TestMasterBusyLoop(t *testing.T) {
	inBubble(t, Options{}, nil, func(t *testing.T, p *loneRedis, m *Master) {
		for range 20 { // two events at one moment come in any order
			synctest.Wait() // a PING that is being written would have the request wait for its end
			q := &question{done: make(chan struct{})}
			m.Ask(resp.AppendCommandStrings(nil, "ECHO", "a"), 50*time.Millisecond, 0, q)
			m.loop.Post(func() {}) // the request is written in this round, or before
			m.loop.Post(func() { m.loop.Post(func() { time.Sleep(100 * time.Millisecond) }) })
			<-q.done
			if q.err != nil {
				t.Fatal(q.err)
			}
			time.Sleep(time.Second)
		}
		votes(t, m, "")
	})
}

// A cut connection fails what waits for replies, is made again in the background, and nothing is
// sent twice.
func TestMasterCut(t *testing.T) {
	inBubble(t, Options{}, nil, func(t *testing.T, p *loneRedis, m *Master) {
		p.with(func() { p.mute = true })
		lost := make(chan error)
		go func() {
			_, err := echo(m, "lost", time.Minute)
			lost <- err
		}()
		synctest.Wait()
		p.with(func() { p.refuse, p.mute = true, false; p.cut() })
		if err := <-lost; !errors.Is(err, cluster.ErrUnknownOutcome) {
			t.Error(err)
		}
		if took, err := echo(m, "no", time.Second); !errors.Is(err, cluster.ErrUnavailable) || took != 0 {
			t.Errorf("after %v: %v", took, err)
		}
		time.Sleep(time.Hour)
		votes(t, m, "refused")
		p.with(func() { p.refuse = false })
		time.Sleep(maxRedial)
		synctest.Wait()
		votes(t, m, "")
		if _, err := echo(m, "yes", time.Second); err != nil {
			t.Error(err)
		}
		if got := p.history(); got != "lost yes" {
			t.Errorf("it ran %s", got)
		}
	})
}

// A server that has restarted does not vote until the longest lease is over since then, unless
// it had everything on disk. R27 R31
func TestMasterRestart(t *testing.T) {
	always := func(p *loneRedis) { p.config["appendonly"], p.config["appendfsync"] = "yes", "always" }
	for _, c := range []struct {
		name           string
		before, after  func(p *loneRedis)
		away           time.Duration
		want           string
		votesAfter     time.Duration // since the restart
		notVotingAfter time.Duration
	}{
		{"in memory", nil, nil, 0, "restarted", 61 * time.Second, 58 * time.Second},
		{"on disk", always, nil, 0, "", 0, 0},
		{"on disk only since", nil, always, 0, "restarted", 61 * time.Second, 58 * time.Second},
		{"on disk now and then", always,
			func(p *loneRedis) { p.config["no-appendfsync-on-rewrite"] = "yes" }, 0,
			"restarted", 61 * time.Second, 58 * time.Second},
		{"settings forbidden", func(p *loneRedis) { p.config = nil }, nil, 0, "restarted", 61 * time.Second,
			58 * time.Second},
		{"its clock steps meanwhile", nil, func(p *loneRedis) { p.step = time.Hour }, 0, "stepped",
			61 * time.Second, 58 * time.Second},
		{"back late", nil, nil, 40 * time.Second, "restarted", 63 * time.Second, 58 * time.Second},
		{"back later than any lease", nil, nil, 70 * time.Second, "", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, Options{Lease: time.Minute}, c.before,
				func(t *testing.T, p *loneRedis, m *Master) {
					time.Sleep(10 * time.Second)
					votes(t, m, "")
					restarted := time.Now()
					p.restart("two")
					p.with(func() {
						p.refuse = c.away > 0
						if c.after != nil {
							c.after(p)
						}
					})
					time.Sleep(c.away)
					p.with(func() { p.refuse = false })
					time.Sleep(1100 * time.Millisecond)
					votes(t, m, c.want)
					if c.want == "" {
						return
					}
					if h := m.Health(); !h.Up || h.RunID != "two" || h.Until.IsZero() {
						t.Errorf("%+v", h)
					}
					if _, err := echo(m, "release", time.Second); err != nil {
						t.Error(err) // it can be asked all the same
					}
					time.Sleep(time.Until(restarted.Add(c.notVotingAfter)))
					votes(t, m, c.want)
					time.Sleep(time.Until(restarted.Add(c.votesAfter)))
					votes(t, m, "")
				})
		})
	}
}

// A server that has been up for a short time when it is met may have lost leases too; also one that is
// durable now, since it may have restarted to become so. Once it was seen to be durable it may restart. R27
// R31
func TestMasterYoung(t *testing.T) {
	young := func(p *loneRedis) { p.started = time.Now().Add(-20 * time.Second) }
	inBubble(t, Options{Lease: time.Minute}, young, func(t *testing.T, p *loneRedis, m *Master) {
		votes(t, m, "restarted")
		time.Sleep(39 * time.Second)
		votes(t, m, "restarted")
		time.Sleep(3 * time.Second)
		votes(t, m, "")
	})
	inBubble(t, Options{Lease: time.Minute}, func(p *loneRedis) {
		young(p)
		p.config["appendonly"], p.config["appendfsync"] = "yes", "always"
	}, func(t *testing.T, p *loneRedis, m *Master) {
		votes(t, m, "restarted")
		time.Sleep(42 * time.Second)
		votes(t, m, "")
		p.restart("two")
		time.Sleep(1100 * time.Millisecond)
		votes(t, m, "")
	})
}

// A master that became a replica has the data of another one, also when it is a master again. R27
func TestMasterDemoted(t *testing.T) {
	inBubble(t, Options{Lease: time.Minute}, nil, func(t *testing.T, p *loneRedis, m *Master) {
		p.with(func() { p.role = "slave" })
		time.Sleep(10500 * time.Millisecond)
		votes(t, m, "it is a replica")
		p.with(func() { p.role = "master" })
		time.Sleep(time.Second)
		votes(t, m, "was no independent master")
		time.Sleep(58 * time.Second)
		votes(t, m, "was no independent master")
		time.Sleep(2 * time.Second)
		votes(t, m, "")
	})
}

// A clock that steps ends leases early or late: no vote for one longest lease. One that is
// merely wrong, or drifts a little, does no harm. R27
func TestMasterClock(t *testing.T) {
	o := Options{Lease: time.Minute}
	for _, step := range []time.Duration{60 * time.Millisecond, -60 * time.Millisecond, time.Hour} {
		inBubble(t, o, nil, func(t *testing.T, p *loneRedis, m *Master) {
			time.Sleep(10500 * time.Millisecond)
			votes(t, m, "")
			p.with(func() { p.step = step })
			time.Sleep(time.Second)
			votes(t, m, "its clock stepped by "+step.String())
			time.Sleep(58 * time.Second)
			votes(t, m, "clock stepped")
			time.Sleep(2 * time.Second)
			votes(t, m, "")
			if off := m.Health().ClockOffset; (off - step).Abs() > time.Millisecond {
				t.Errorf("offset %v", off)
			}
		})
	}
	inBubble(t, o, func(p *loneRedis) { p.step = -time.Hour },
		func(t *testing.T, p *loneRedis, m *Master) {
			for range 600 {
				time.Sleep(time.Second)
				p.with(func() { p.step += 500 * time.Microsecond }) // as NTP slews
				if m.Vote() != nil {
					votes(t, m, "")
					return
				}
			}
		})
}

// A reply that shows a step of the clock does not count itself, even between two looks. A late reply shows
// no step, in whichever direction it was late. R27
func TestMasterClockInReplies(t *testing.T) {
	tell := func(m *Master, p *loneRedis, there, back time.Duration) error {
		asked := time.Now()
		time.Sleep(there)
		clock := time.Now().Add(p.step)
		time.Sleep(back)
		return m.Heard(clock, asked)
	}
	for _, c := range []struct {
		step, there, back time.Duration
		seen              bool
	}{
		{60 * time.Millisecond, 0, 0, true},
		{-60 * time.Millisecond, 0, 0, true},
		{time.Hour, 20 * time.Millisecond, 20 * time.Millisecond, true},
		{40 * time.Millisecond, 0, 0, false},
		{0, 300 * time.Millisecond, 0, false},
		{0, 0, 300 * time.Millisecond, false},
		{0, 45 * time.Millisecond, 0, false},
		{0, 0, 2 * time.Minute, false}, // it had hung
		{-300 * time.Millisecond, 30 * time.Millisecond, 0, true},
		{300 * time.Millisecond, 0, 30 * time.Millisecond, true},
	} {
		inBubble(t, Options{Lease: time.Minute}, nil, func(t *testing.T, p *loneRedis, m *Master) {
			time.Sleep(10100 * time.Millisecond)
			for range 3 {
				if err := tell(m, p, 0, 3*time.Millisecond); err != nil {
					t.Error(err)
				}
			}
			p.with(func() { p.step = c.step })
			if err := tell(m, p, c.there, c.back); (err != nil) != c.seen || err != nil &&
				!strings.Contains(err.Error(), "its clock stepped") {
				t.Errorf("%+v: %v", c, err)
			}
			if !c.seen {
				return
			}
			time.Sleep(58 * time.Second)
			votes(t, m, "clock stepped")
			time.Sleep(4 * time.Second)
			votes(t, m, "")
		})
	}
}

// A master that is not believed does not vote for the longest lease, and the log says why. R27
func TestMasterIsDistrusted(t *testing.T) {
	inBubble(t, Options{Lease: time.Minute}, nil, func(t *testing.T, p *loneRedis, m *Master) {
		time.Sleep(10100 * time.Millisecond)
		votes(t, m, "")
		m.Distrust("it gave a lock the fence 5")
		votes(t, m, "the fence 5")
		time.Sleep(58 * time.Second)
		votes(t, m, "the fence 5")
		time.Sleep(4 * time.Second)
		votes(t, m, "")
	})
}

// A step is also seen if it happens while the server hangs, although late answers say little about its
// clock. R27
func TestMasterClockBehindSilence(t *testing.T) {
	inBubble(t, Options{Lease: time.Minute}, nil, func(t *testing.T, p *loneRedis, m *Master) {
		time.Sleep(10500 * time.Millisecond)
		hung := make(chan struct{})
		p.with(func() { p.hung, p.step = hung, -300*time.Millisecond })
		time.Sleep(1200 * time.Millisecond)
		p.with(func() { p.hung = nil })
		close(hung)
		synctest.Wait()
		votes(t, m, "")
		time.Sleep(time.Second)
		votes(t, m, "clock stepped")
	})
}

// A new connection shows a step at once, however long it took to make. R27
func TestMasterClockBehindADial(t *testing.T) {
	inBubble(t, Options{Lease: time.Minute}, nil, func(t *testing.T, p *loneRedis, m *Master) {
		time.Sleep(10500 * time.Millisecond)
		p.with(func() {
			p.slow, p.step = 300*time.Millisecond, -200*time.Millisecond
			p.cut()
		})
		time.Sleep(500 * time.Millisecond) // less than to the next look
		synctest.Wait()
		votes(t, m, "clock stepped")
	})
}

// A reply of more values than any to a lock ends the connection before they come.
func TestMasterWithoutMeasure(t *testing.T) {
	inBubble(t, Options{}, nil, func(t *testing.T, p *loneRedis, m *Master) {
		p.with(func() { p.odd = "*600000\r\n" })
		if took, err := echo(m, "a", time.Second); !errors.Is(err, resp.ErrBounds) || took != 0 {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// Whoever is told that a request was lost finds the master away: a count of those that answer is right then.
func TestMasterIsAwayOnceLost(t *testing.T) {
	inBubble(t, Options{}, nil, func(t *testing.T, p *loneRedis, m *Master) {
		p.with(func() { p.mute, p.refuse = true, true })
		vote := make(chan error, 1)
		ask := resp.AppendCommandStrings(nil, "ECHO", "lost")
		m.Ask(ask, time.Minute, 0, lossFunc(func() { vote <- m.Vote() }))
		synctest.Wait()
		p.with(p.cut)
		if err := <-vote; err == nil {
			t.Error("it votes")
		}
	})
}

// lossFunc is called when there is an answer, or none any more.
type lossFunc func()

func (f lossFunc) Answer(int, []byte, error) { f() }

// The scripts are there before anything else. Who asks for one that was lost since is told so.
func TestMasterScripts(t *testing.T) {
	source := []byte("return 1")
	sum := sha1.Sum(source)
	inBubble(t, Options{Scripts: [][]byte{source}}, nil, func(t *testing.T, p *loneRedis, m *Master) {
		for _, want := range []string{":1\r\n", "-NOSCRIPT No matching script.\r\n"} {
			reply, err := askMaster(m, time.Hour, "EVALSHA", hex.EncodeToString(sum[:]), "1", "a")
			if string(reply) != want || err != nil {
				t.Errorf("%q %v, want %q", reply, err, want)
			}
			p.with(func() { p.scripts = map[string]bool{} })
		}
	})
}

// What cannot serve as a master of RedLock is refused at once, and says why. R32
func TestConnectMastersRefuses(t *testing.T) {
	for _, c := range []struct {
		want  string
		spoil func(all []*loneRedis)
	}{
		{"", func([]*loneRedis) {}},
		{"", func(all []*loneRedis) { all[1].refuse = true }},
		{"10.0.0.3:1: it is a replica", func(all []*loneRedis) { all[2].role = "slave" }},
		{"10.0.0.1:1: it is a node of a Redis Cluster", func(all []*loneRedis) { all[0].mode = "cluster" }},
		{"10.0.0.2:1: it is a Sentinel", func(all []*loneRedis) { all[1].mode = "sentinel" }},
		{"it is the same server as 10.0.0.", func(all []*loneRedis) { all[1].runID = all[0].runID }},
		{"10.0.0.1:1: it does not say its run_id", func(all []*loneRedis) { all[0].runID = "" }},
		{"connection refused", func(all []*loneRedis) { all[0].refuse, all[1].refuse = true, true }},
	} {
		synctest.Test(t, func(t *testing.T) {
			all := []*loneRedis{newLoneRedis("a"), newLoneRedis("b"), newLoneRedis("c")}
			c.spoil(all)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			addrs := []string{"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"}
			masters, err := Connect(ctx, portable(t), addrs, Options{
				Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
					return all[addr[7]-'1'].dial(ctx, network, addr)
				},
			})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			for _, m := range masters {
				m.Close()
			}
			synctest.Wait()
		})
	}
}

// Most of the masters are enough to start with. One that comes later is checked as well. R32
func TestConnectMastersLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := []*loneRedis{newLoneRedis("a"), newLoneRedis("b"), newLoneRedis("a")}
		all[2].refuse = true
		addrs := []string{"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"}
		masters, err := Connect(t.Context(), portable(t), addrs, Options{
			Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				return all[addr[7]-'1'].dial(ctx, network, addr)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		votes(t, masters[2], "refused")
		all[2].with(func() { all[2].refuse = false })
		time.Sleep(2 * time.Second)
		votes(t, masters[0], "")
		votes(t, masters[2], "it is the same server as 10.0.0.1:1")
		for _, m := range masters {
			m.Close()
		}
		synctest.Wait()
	})
}

// Masters that are not reached are told of at once, and each ten seconds, with what may help; and so is for
// what Connect waits.
func TestConnectTellsWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := []*loneRedis{newLoneRedis("a"), newLoneRedis("b"), newLoneRedis("c")}
		all[1].refuse, all[2].refuse = true, true
		var lines strings.Builder
		var why atomic.Pointer[error]
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		_, err := Connect(ctx, portable(t), []string{"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"}, Options{
			Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				return all[addr[7]-'1'].dial(ctx, network, addr)
			},
			Log:    slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelWarn})),
			Failed: func(err error) { why.Store(&err) },
		})
		if err == nil {
			t.Fatal("two of three were not reached")
		}
		for _, addr := range []string{"10.0.0.2:1", "10.0.0.3:1"} {
			n := 0
			for line := range strings.Lines(lines.String()) {
				if strings.Contains(line, addr) && strings.Contains(line, "connection refused") {
					n++
				}
			}
			if n != 3 {
				t.Errorf("%d lines about %s in 25 s:\n%s", n, addr, lines.String())
			}
		}
		const want = "redlock: 1 of 3 masters answer, and 2 are needed: 10.0.0.2:1: "
		if p := why.Load(); p == nil || !strings.HasPrefix((*p).Error(), want) {
			t.Errorf("it waits for %v", p)
		}
	})
}

// Messages come over a connection of their own, and a lost one is made again.
func TestMasterSubscribe(t *testing.T) {
	inBubble(t, Options{}, nil, func(t *testing.T, p *loneRedis, m *Master) {
		events := make(chan subscription.EventKind, 9)
		cancel := m.Subscribe("lock:{a}", func(e subscription.Change) { events <- e.Kind })
		if kind := <-events; kind != subscription.Live {
			t.Errorf("event %d", kind)
		}
		p.with(p.cut)
		if kind := <-events; kind != subscription.Lost {
			t.Errorf("event %d", kind)
		}
		if kind := <-events; kind != subscription.Live {
			t.Errorf("event %d", kind)
		}
		cancel()
	})
}
