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

var phases = []phase{
	{"lock", "each client takes and frees locks of its own", []string{"LOCK", "UNLOCK"}, (*benchClient).pair},
	{"contend", "all clients want one lock", []string{"wait", "hand-over"}, (*benchClient).contend},
	{"get", "GET", []string{"GET"}, (*benchClient).get},
	{"set", "SET of 100 bytes", []string{"SET"}, (*benchClient).set},
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
	released atomic.Int64 // when the contended lock was, since began
}

// benchClient is one client.
type benchClient struct {
	*benchRun
	id       int
	token    string
	conn     *client.Conn // nil: not yet
	ctx      context.Context
	times    []*hdrhistogram.Histogram // of its phase, by kind
	wrote    bool                      // it has keys
	timeouts int64                     // LOCKs whose WAIT was used up
}

// measure runs the phases. It blocks until they are over, ctx ends, or something is wrong.
func (r *benchRun) measure(ctx context.Context, news io.Writer) error {
	id := rand.Text()
	r.prefix, r.began = "lockproxy-bench:"+id[:8], time.Now()
	var all []*benchClient
	for i := range r.clients {
		all = append(all, &benchClient{benchRun: r, id: i, token: fmt.Sprint(id, "-", i)})
	}
	defer func() {
		for _, w := range all {
			if w.conn != nil {
				w.conn.Close()
			}
		}
	}()
	// Whether a lockproxy is there is seen before a thousand connections are made.
	first, cancel := context.WithTimeout(ctx, r.at.Timeout)
	defer cancel()
	all[0].ctx = first
	if _, err := all[0].do("LOCKCTL", "INFO", r.lock(0)); err != nil {
		return r.at.Explain(err)
	}
	wanted := slices.DeleteFunc(slices.Clone(phases), func(f phase) bool {
		return r.only != "" && r.only != f.name
	})
	for i := range wanted {
		if ctx.Err() != nil {
			break
		}
		if err := r.play(ctx, &wanted[i], r.time/time.Duration(len(wanted)), all, news); err != nil {
			return err
		}
	}
	return clean(all)
}

// play runs one phase.
func (r *benchRun) play(
	ctx context.Context, f *phase, length time.Duration, all []*benchClient, news io.Writer,
) error {
	over, end := context.WithTimeout(ctx, length)
	defer end()
	// What is under way when the phase is over is waited for, so that nothing is left in doubt.
	answers, cut := context.WithTimeoutCause(context.WithoutCancel(ctx), length+grace, errSilent)
	defer cut()
	began := time.Now()
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
		sum := newTimes()
		for _, w := range all {
			sum.Merge(w.times[i])
		}
		r.Measured = append(r.Measured, resultOf(name, sum, took))
	}
	for _, w := range all {
		r.Timeouts += w.timeouts
		w.timeouts = 0
	}
	failed <- nil
	return <-failed
}

// newTimes is times of one kind, in µs and to two digits. It is used by one goroutine at a time.
func newTimes() *hdrhistogram.Histogram { return hdrhistogram.New(1, longest.Microseconds(), 2) }

// note adds a time of a kind.
func (w *benchClient) note(kind int, took time.Duration) {
	// The bounds are kept, so there is no error.
	w.times[kind].RecordValue(min(max(took, time.Microsecond), longest).Microseconds())
}

// do sends a command, over a new connection if there is none yet.
func (w *benchClient) do(args ...any) (v any, err error) {
	if w.conn == nil {
		if w.conn, err = w.at.Connect(w.ctx); err != nil {
			w.conn = nil
			return nil, err
		}
	}
	v, err = w.conn.Do(w.ctx, args...)
	if _, answered := client.Reply(err); err != nil && !answered {
		err = fmt.Errorf("%s: %w", w.at.Addr, err)
	}
	return v, err
}

// lock is the name of the n-th lock.
func (r *benchRun) lock(n int) string {
	return fmt.Sprintf("%s:{lockproxy-bench-%02d}:%d", r.prefix, n%tags, n)
}

// key is the n-th key of a client.
func (w *benchClient) key(n int) string {
	i := w.id*keys + n%keys
	return fmt.Sprintf("%s:key:{lockproxy-bench-%02d}:%d", w.prefix, i%tags, i)
}

// pair is a LOCK and an UNLOCK of a lock that no other client wants.
func (w *benchClient) pair(n int) error {
	own := max(w.locks/w.clients, 1)
	name := w.lock(1 + w.id + (n%own)*w.clients)
	began := time.Now()
	v, err := w.do("LOCK", name, "TOKEN", w.token, "PX", lease.Milliseconds())
	switch {
	case err != nil:
		return err
	case v == nil:
		return fmt.Errorf("%w: %s is taken, which nobody else knows", client.ErrProtocol, name)
	}
	granted := time.Now()
	w.note(0, granted.Sub(began))
	_, err = w.do("UNLOCK", name, w.token)
	w.note(1, time.Since(granted))
	return err
}

// contend is one turn with the lock that all clients want.
func (w *benchClient) contend(int) error {
	began := time.Now()
	v, err := w.do("LOCK", w.lock(0), "TOKEN", w.token, "PX", lease.Milliseconds(),
		"WAIT", patience.Milliseconds())
	switch {
	case err != nil:
		return err
	case v == nil:
		w.timeouts++
		return nil
	}
	granted := time.Now()
	w.note(0, granted.Sub(began))
	// Nobody but the holder before has written it since this client asked, if it has waited.
	if released := w.began.Add(time.Duration(w.released.Load())); released.After(began) {
		w.note(1, granted.Sub(released))
	}
	w.released.Store(int64(time.Since(w.began)))
	_, err = w.do("UNLOCK", w.lock(0), w.token)
	return err
}

// get is a GET of a key that there is.
func (w *benchClient) get(n int) error {
	if n < keys {
		if err := w.write(n); err != nil {
			return err
		}
	}
	began := time.Now()
	_, err := w.do("GET", w.key(n))
	w.note(0, time.Since(began))
	return err
}

func (w *benchClient) set(n int) error {
	began := time.Now()
	err := w.write(n)
	w.note(0, time.Since(began))
	return err
}

// write is a SET.
func (w *benchClient) write(n int) error {
	w.wrote = true
	lasts := w.time + time.Minute
	_, err := w.do("SET", w.key(n), value, "PX", lasts.Milliseconds())
	return err
}

// clean deletes the keys. Locks are free: each client has had its answer to UNLOCK.
func clean(all []*benchClient) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), grace, errSilent)
	defer cancel()
	for _, w := range all {
		if !w.wrote {
			continue
		}
		del := []any{"DEL"}
		for n := range keys {
			del = append(del, w.key(n))
		}
		w.ctx = ctx
		if _, err := w.do(del...); err != nil {
			return fmt.Errorf("not all could be cleaned up; it ends by itself soon: %w", err)
		}
	}
	return nil
}
