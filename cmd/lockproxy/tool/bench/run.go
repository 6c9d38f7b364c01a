package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/cmd/lockproxy/kind"
	"lockproxy/cmd/lockproxy/tool"
	"lockproxy/cmd/lockproxy/tool/client"
)

const (
	// lease is how long a lock outlives this program.
	lease = 10 * time.Second
	// tags is how many slots the names lie in at most, so that few fences stay behind.
	tags = 48
	// keys is how many keys a client reads and writes in turn.
	keys = 20
	// grace is how long an answer may take once a phase is over.
	grace = 10 * time.Second
)

// value is what is SET.
var value = string(make([]byte, 100))

var (
	errTaken  = errors.New("a lock that nobody else knows is taken")
	errSilent = fmt.Errorf("no answer within %v", grace)
)

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

// benchRun is one run.
type benchRun struct {
	*benchFlags
	call     *tool.Invocation
	prefix   string // of all names
	workers  []*benchClient
	measured []*timings

	began    time.Time
	released atomic.Int64 // when the contended lock was, since began
	timeouts atomic.Int64 // LOCKs whose WAIT was used up
	written  atomic.Bool  // there are keys
}

// benchClient is one client.
type benchClient struct {
	*benchRun
	id    int
	token string
	conn  *client.Conn // nil: not yet
	ctx   context.Context
	times []*timings // of its phase, by kind
	held  string     // the lock that it may hold; "": none
}

func newRun(a *benchFlags, c *tool.Invocation) *benchRun {
	var id [8]byte
	rand.Read(id[:])
	r := &benchRun{benchFlags: a, call: c, prefix: "lockproxy-bench:" + hex.EncodeToString(id[:4]),
		began: time.Now()}
	for i := range a.clients {
		r.workers = append(r.workers, &benchClient{benchRun: r, id: i, token: fmt.Sprintf("%x-%d", id, i)})
	}
	return r
}

// close ends all connections.
func (r *benchRun) close() {
	for _, w := range r.workers {
		if w.conn != nil {
			w.conn.Close()
		}
	}
}

// measure runs the phases. It blocks until they are over, ctx ends, or something is wrong.
func (r *benchRun) measure(ctx context.Context) error {
	// Whether a lockproxy is there is seen before a thousand connections are made.
	first, cancel := context.WithTimeout(ctx, r.at.Timeout)
	defer cancel()
	w := r.workers[0]
	w.ctx = first
	if _, err := w.do("LOCKCTL", "INFO", r.lock(0)); err != nil {
		return r.at.Explain(err)
	}
	all := slices.DeleteFunc(slices.Clone(phases), func(f phase) bool {
		return r.only != "" && r.only != f.name
	})
	for i := range all {
		err := r.play(ctx, &all[i], r.time/time.Duration(len(all)))
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// play runs one phase.
func (r *benchRun) play(ctx context.Context, f *phase, length time.Duration) error {
	over, end := context.WithTimeout(ctx, length)
	defer end()
	// What is under way when the phase is over is waited for, so that nothing is left in doubt.
	answers, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	defer context.AfterFunc(over, func() { time.AfterFunc(grace, func() { cut(errSilent) }) })()
	began := time.Now()
	failed := make(chan error, len(r.workers)+1)
	var working sync.WaitGroup
	for _, w := range r.workers {
		w.ctx, w.times = answers, measures(f.kinds)
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
	fmt.Fprintf(r.call.Stderr, "%s: %s, for %s\n", f.name, f.about, kind.Short(length))
	working.Wait()
	for i, sum := range measures(f.kinds) {
		for _, w := range r.workers {
			sum.times.Merge(w.times[i].times)
		}
		sum.took = time.Since(began)
		r.measured = append(r.measured, sum)
	}
	failed <- nil
	return <-failed
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
func (r *benchRun) key(id, n int) string {
	i := id*keys + n%keys
	return fmt.Sprintf("%s:key:{lockproxy-bench-%02d}:%d", r.prefix, i%tags, i)
}

// pair is a LOCK and an UNLOCK of a lock that no other client wants.
func (w *benchClient) pair(n int) error {
	own := max(w.locks/w.clients, 1)
	w.held = w.lock(1 + w.id + (n%own)*w.clients)
	began := time.Now()
	v, err := w.do("LOCK", w.held, "TOKEN", w.token, "PX", lease.Milliseconds())
	switch {
	case err != nil:
		return err
	case v == nil:
		return fmt.Errorf("%w: %s", errTaken, w.held)
	}
	granted := time.Now()
	if err := w.unlock(); err != nil {
		return err
	}
	w.times[0].note(granted.Sub(began))
	w.times[1].note(time.Since(granted))
	return nil
}

// unlock frees the lock that w holds.
func (w *benchClient) unlock() error {
	_, err := w.do("UNLOCK", w.held, w.token)
	if err == nil {
		w.held = ""
	}
	return err
}

// contend is one turn with the lock that all clients want.
func (w *benchClient) contend(int) error {
	wait := max(w.at.Timeout-time.Second, w.at.Timeout/2)
	w.held = w.lock(0)
	began := time.Now()
	v, err := w.do("LOCK", w.held, "TOKEN", w.token, "PX", lease.Milliseconds(), "WAIT", wait.Milliseconds())
	switch {
	case err != nil:
		return err
	case v == nil:
		w.held = ""
		w.timeouts.Add(1)
		return nil
	}
	granted := time.Now()
	w.times[0].note(granted.Sub(began))
	// Nobody but the holder before has written it since this client asked, if it has waited.
	if released := w.began.Add(time.Duration(w.released.Load())); released.After(began) {
		w.times[1].note(granted.Sub(released))
	}
	w.released.Store(int64(time.Since(w.began)))
	return w.unlock()
}

// get is a GET of a key that there is.
func (w *benchClient) get(n int) error {
	if n < keys {
		if err := w.write(n); err != nil {
			return err
		}
	}
	began := time.Now()
	if _, err := w.do("GET", w.key(w.id, n)); err != nil {
		return err
	}
	w.times[0].note(time.Since(began))
	return nil
}

func (w *benchClient) set(n int) error {
	began := time.Now()
	if err := w.write(n); err != nil {
		return err
	}
	w.times[0].note(time.Since(began))
	return nil
}

// write is a SET.
func (w *benchClient) write(n int) error {
	w.written.Store(true)
	lasts := w.time + time.Minute
	_, err := w.do("SET", w.key(w.id, n), value, "PX", lasts.Milliseconds())
	return err
}

// clean frees the locks that may still be held, and deletes the keys, over a connection of its own: those
// before may be cut.
func (r *benchRun) clean() error {
	var wanted [][]any
	for _, w := range r.workers {
		if w.held != "" {
			wanted = append(wanted, []any{"UNLOCK", w.held, w.token})
		}
	}
	if r.written.Load() {
		for i := range r.workers {
			del := []any{"DEL"}
			for n := range keys {
				del = append(del, r.key(i, n))
			}
			wanted = append(wanted, del)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	conn, err := r.at.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, command := range wanted {
		if _, err := conn.Do(ctx, command...); err != nil {
			return err
		}
	}
	return nil
}
