package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"lockproxy/cmd/lockproxy/kind"
	"lockproxy/cmd/lockproxy/tool/client"
)

const (
	// lease is how long a lock outlives this program.
	lease = 10 * time.Second
	// tags is how many slots the names lie in at most, so that few fences stay behind.
	tags = 48
	// keys is how many keys a client reads and writes in turn.
	keys = 20
	// grace is how long answers may take once a phase is over.
	grace = 10 * time.Second
	// patience is the WAIT of those who want one lock: less than grace.
	patience = 4 * time.Second
	// longest is the longest time that is told apart from longer ones.
	longest = 10 * time.Minute
)

// value is what is SET.
var value = string(make([]byte, 100))

var errSilent = fmt.Errorf("no answer within %v", grace)

// phase is a part of a run in which all clients do the same.
type phase struct {
	name  string
	about string
	kinds []string // what is measured
	once  func(w *benchClient, n int) error
}

// phases are run in this order. once is called with n = 0, 1, 2 ... by each client until the phase is over;
// its times go to the kinds by their index.
var phases = []phase{
	{"lock", "each client takes and frees locks of its own", []string{"LOCK", "UNLOCK"},
		(*benchClient).takeAndFree},
	{"contend", "all clients want one lock", []string{"wait", "hand-over"}, (*benchClient).contendForLock},
	{"get", "GET", []string{"GET"}, (*benchClient).getKey},
	{"set", "SET of 100 bytes", []string{"SET"}, (*benchClient).setKey},
}

// benchRun is one run: its flags, and what comes of it.
type benchRun struct {
	locks   int
	clients int
	time    time.Duration
	only    string // a phase; "": all
	json    bool
	at      *client.Options

	runReport
	prefix   string // of all names
	began    time.Time
	timeouts atomic.Int64 // LOCKs whose WAIT was used up
	// in ns. Whoever frees the lock writes it, and whoever gets it next reads it.
	released atomic.Int64 // when the contended lock was, since began
}

// benchClient is one client. It is used by one goroutine at a time: measurePhases between the phases, its own
// during them.
type benchClient struct {
	*benchRun
	id    int
	token string
	conn  *client.Conn // nil: not yet
	ctx   context.Context
	times []*hdrhistogram.Histogram // of its phase, by kind
	wrote bool                      // it has keys
}

// measurePhases runs the phases. It blocks until they are over, ctx ends, or something is wrong.
func (r *benchRun) measurePhases(ctx context.Context, news io.Writer) error {
	// No two runs have names in common, nor tokens.
	id := rand.Text()
	r.prefix, r.began = "lockproxy-bench:"+id[:8], time.Now()
	var all []*benchClient
	for i := range r.clients {
		all = append(all, &benchClient{benchRun: r, id: i, token: fmt.Sprint(id, "-", i)})
	}
	defer func() {
		for _, w := range all {
			w.conn.Close()
		}
	}()
	// Whether a lockproxy is there is seen before a thousand connections are made.
	first, cancel := context.WithTimeout(ctx, r.at.Timeout)
	defer cancel()
	all[0].ctx = first
	// A Redis without lockproxy does not know LOCKCTL.
	if _, err := all[0].doCommand("LOCKCTL", "INFO", r.lockName(0)); err != nil {
		return r.at.Explain(err)
	}
	wanted := slices.DeleteFunc(slices.Clone(phases), func(f phase) bool {
		return r.only != "" && r.only != f.name
	})
	for i := range wanted {
		if ctx.Err() != nil {
			break
		}
		if err := r.playPhase(ctx, &wanted[i], r.time/time.Duration(len(wanted)), all, news); err != nil {
			return err
		}
	}
	return deleteKeys(all)
}

// playPhase runs one phase.
func (r *benchRun) playPhase(
	ctx context.Context, f *phase, length time.Duration, all []*benchClient, news io.Writer,
) error {
	over, end := context.WithTimeout(ctx, length)
	defer end()
	// What is under way when the phase is over is waited for, so that nothing is left in doubt.
	answers, cut := context.WithTimeoutCause(context.WithoutCancel(ctx), length+grace, errSilent)
	defer cut()
	began := time.Now()
	// room for an error of each, so that nobody waits for it to be read
	failed := make(chan error, len(all)+1)
	var working sync.WaitGroup
	for _, w := range all {
		w.ctx, w.times = answers, nil
		for range f.kinds {
			w.times = append(w.times, newTimes())
		}
		working.Go(func() { // ends soon after over
			for n := 0; n == 0 && ctx.Err() == nil || over.Err() == nil; n++ { // once at least
				if err := f.once(w, n); err != nil {
					failed <- err
					end()
					return
				}
			}
		})
	}
	fmt.Fprintf(news, "%s: %s, for %s\n", f.name, f.about, kind.Short(length))
	working.Wait()
	took := time.Since(began)
	for i, name := range f.kinds {
		// one histogram for all clients: a quantile of quantiles would say nothing
		sum := newTimes()
		for _, w := range all {
			sum.Merge(w.times[i])
		}
		r.Measured = append(r.Measured, resultOf(name, sum, took))
	}
	r.Timeouts = r.timeouts.Load()
	// Behind the errors, if there are any: so the first of them is returned, or nil.
	failed <- nil
	return <-failed
}

// newTimes is times of one kind, in µs and to two digits. It is used by one goroutine at a time.
func newTimes() *hdrhistogram.Histogram { return hdrhistogram.New(1, longest.Microseconds(), 2) }

// noteTime adds a time of a kind.
func (w *benchClient) noteTime(kind int, took time.Duration) {
	// The bounds are kept, so there is no error.
	w.times[kind].RecordValue(min(max(took, time.Microsecond), longest).Microseconds())
}

// doCommand sends a command, over a new connection if there is none yet. An error of the connection names the
// address; an error reply comes back as it is, for client.Code.
func (w *benchClient) doCommand(args ...any) (v any, err error) {
	if w.conn == nil {
		if w.conn, err = w.at.Connect(w.ctx); err != nil {
			return nil, err
		}
	}
	v, err = w.conn.Do(w.ctx, args...)
	if _, answered := client.Reply(err); err != nil && !answered {
		err = fmt.Errorf("%s: %w", w.at.Addr, err)
	}
	return v, err
}

// lockName is the name of the n-th lock. The hash tag has n modulo tags in it, so the names lie in that many
// slots, all over a cluster.
func (r *benchRun) lockName(n int) string {
	return fmt.Sprintf("%s:{lockproxy-bench-%02d}:%d", r.prefix, n%tags, n)
}

// keyName is the n-th key of a client.
func (w *benchClient) keyName(n int) string {
	i := w.id*keys + n%keys
	return fmt.Sprintf("%s:key:{lockproxy-bench-%02d}:%d", w.prefix, i%tags, i)
}

// takeAndFree is a LOCK and an UNLOCK of a lock that no other client wants.
func (w *benchClient) takeAndFree(n int) error {
	// Lock 0 is the one that all want. The others are dealt out in turn, so no two clients have one in
	// common.
	own := max(w.locks/w.clients, 1)
	name := w.lockName(1 + w.id + (n%own)*w.clients)
	began := time.Now()
	v, err := w.doCommand("LOCK", name, "TOKEN", w.token, "PX", lease.Milliseconds())
	switch {
	case err != nil:
		return err
	case v == nil:
		return fmt.Errorf("%w: %s is taken, which nobody else knows", client.ErrProtocol, name)
	}
	granted := time.Now()
	w.noteTime(0, granted.Sub(began))
	_, err = w.doCommand("UNLOCK", name, w.token)
	w.noteTime(1, time.Since(granted))
	return err
}

// contendForLock is one turn with the lock that all clients want. A WAIT that is used up counts as a timeout,
// and its time as none.
func (w *benchClient) contendForLock(int) error {
	began := time.Now()
	v, err := w.doCommand("LOCK", w.lockName(0), "TOKEN", w.token, "PX", lease.Milliseconds(),
		"WAIT", patience.Milliseconds())
	switch {
	case err != nil:
		return err
	case v == nil:
		w.timeouts.Add(1)
		return nil
	}
	granted := time.Now()
	w.noteTime(0, granted.Sub(began))
	// Nobody but the holder before has written it since this client asked, if it has waited. If it was
	// released before, the lock was free, and nobody has handed it on.
	if released := w.began.Add(time.Duration(w.released.Load())); released.After(began) {
		w.noteTime(1, granted.Sub(released))
	}
	// Before UNLOCK is sent: the next holder may have the lock before its reply comes here.
	w.released.Store(int64(time.Since(w.began)))
	_, err = w.doCommand("UNLOCK", w.lockName(0), w.token)
	return err
}

// getKey is a GET of a key that there is.
func (w *benchClient) getKey(n int) error {
	// The first round through the keys writes them.
	if n < keys {
		if err := w.writeKey(n); err != nil {
			return err
		}
	}
	began := time.Now()
	_, err := w.doCommand("GET", w.keyName(n))
	w.noteTime(0, time.Since(began))
	return err
}

// setKey is a SET whose time counts.
func (w *benchClient) setKey(n int) error {
	began := time.Now()
	err := w.writeKey(n)
	w.noteTime(0, time.Since(began))
	return err
}

// writeKey is a SET.
func (w *benchClient) writeKey(n int) error {
	w.wrote = true
	// They end by themselves, should this program be killed.
	lasts := w.time + time.Minute
	_, err := w.doCommand("SET", w.keyName(n), value, "PX", lasts.Milliseconds())
	return err
}

// deleteKeys deletes the keys. Locks are free: each client has had its answer to UNLOCK.
func deleteKeys(all []*benchClient) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), grace, errSilent)
	defer cancel()
	for _, w := range all {
		if !w.wrote {
			continue
		}
		del := []any{"DEL"}
		for n := range keys {
			del = append(del, w.keyName(n))
		}
		w.ctx = ctx
		if _, err := w.doCommand(del...); err != nil {
			return fmt.Errorf("not all could be cleaned up; it ends by itself soon: %w", err)
		}
	}
	return nil
}
