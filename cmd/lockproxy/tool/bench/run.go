package bench

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/cmd/lockproxy/tool/client"

	"github.com/redis/go-redis/v9"
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
var value = make([]byte, 100)

// errTaken is the error of a lock of this run that somebody else has.
var errTaken = errors.New("a lock that nobody else knows is taken")

// errSilent is the error of a proxy that answers nothing any more.
var errSilent = fmt.Errorf("no answer within %v", grace)

// run is one run.
type run struct {
	asked  *asked
	prefix string // of all names
	phases []*phase
	all    []*worker

	released atomic.Int64 // when the contended lock was, since began
	began    time.Time
	timeouts atomic.Int64 // LOCKs whose WAIT was used up
	written  atomic.Bool  // there are keys
}

// phase is a part of the run in which all clients do the same.
type phase struct {
	name  string
	about string
	kinds []string // what is measured
	once  func(w *worker, n int) error

	took time.Duration
	done atomic.Int64 // rounds
	sums []*measure   // of all workers, by kind
}

// worker is one client.
type worker struct {
	*run
	id     int
	token  string
	client *redis.Client
	conn   *redis.Conn
	ctx    context.Context
	sums   []*measure // of its phase, by kind
	held   string     // the lock that it may hold; "": none
}

func newRun(a *asked) (*run, error) {
	var id [8]byte
	rand.Read(id[:])
	r := &run{asked: a, prefix: "lockproxy-bench:" + hex.EncodeToString(id[:4]), began: time.Now()}
	for _, f := range []*phase{
		{name: "lock", about: "each client takes and frees locks of its " +
			"own", kinds: []string{"LOCK", "UNLOCK"},
			once: (*worker).pair},
		{name: "contend", about: "all clients want one lock", kinds: []string{"wait", "hand-over"},
			once: (*worker).contend},
		{name: "get", about: "GET", kinds: []string{"GET"}, once: (*worker).get},
		{name: "set", about: "SET of 100 bytes", kinds: []string{"SET"}, once: (*worker).set},
	} {
		if a.only == "" || a.only == f.name {
			r.phases = append(r.phases, f)
		}
	}
	for i := range a.clients {
		one, err := client.Redis(a.at)
		if err != nil {
			r.close()
			return nil, err
		}
		r.all = append(r.all, &worker{run: r, id: i, token: fmt.Sprintf("%x-%d", id, i), client: one,
			conn: one.Conn()})
	}
	return r, nil
}

// close ends all connections.
func (r *run) close() {
	for _, w := range r.all {
		w.conn.Close()
		w.client.Close()
	}
}

// measure runs the phases. It blocks until they are over, ctx ends, or something is wrong.
func (r *run) measure(ctx context.Context, p *progress) error {
	// Whether a lockproxy is there is seen before a thousand connections are made.
	first, cancel := context.WithTimeout(ctx, r.asked.at.Timeout)
	defer cancel()
	if err := r.all[0].conn.Do(first, "LOCKCTL", "INFO", r.lock(0)).Err(); err != nil {
		return unlessOver(ctx, r.asked.at.Explain(err))
	}
	for _, f := range r.phases {
		if err := r.play(ctx, f, p); err != nil || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// unlessOver is err, or nil if ctx is over, which explains it.
func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// play runs one phase.
func (r *run) play(ctx context.Context, f *phase, p *progress) error {
	length := r.asked.time / time.Duration(len(r.phases))
	over, end := context.WithTimeout(ctx, length)
	defer end()
	// What is under way when the phase is over is waited for, so that nothing is left in doubt.
	answers, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	defer context.AfterFunc(over, func() { time.AfterFunc(grace, func() { cut(errSilent) }) })()

	began := time.Now()
	failed := make(chan error, len(r.all))
	var working sync.WaitGroup
	for _, w := range r.all {
		w.ctx, w.sums = answers, measures(f.kinds)
		working.Go(func() { // ends soon after over
			for n := 0; n == 0 && ctx.Err() == nil || over.Err() == nil; n++ { // once at least
				if err := f.once(w, n); err != nil {
					failed <- cmp.Or(context.Cause(answers), err)
					end()
					return
				}
				f.done.Add(1)
			}
		})
	}
	p.during(f, length, &working)
	f.took = time.Since(began)
	f.sums = measures(f.kinds)
	for _, w := range r.all {
		for i, m := range w.sums {
			f.sums[i].add(m)
		}
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// lock is the name of the n-th lock.
func (r *run) lock(n int) string {
	return fmt.Sprintf("%s:{lockproxy-bench-%02d}:%d", r.prefix, n%tags, n)
}

// key is the n-th key of a client.
func (r *run) key(id, n int) string {
	i := id*keys + n%keys
	return fmt.Sprintf("%s:key:{lockproxy-bench-%02d}:%d", r.prefix, i%tags, i)
}

// pair is a LOCK and an UNLOCK of a lock that no other client wants.
func (w *worker) pair(n int) error {
	own := max(w.asked.locks/w.asked.clients, 1)
	name := w.lock(1 + w.id + (n%own)*w.asked.clients)
	w.held = name
	began := time.Now()
	err := w.conn.Do(w.ctx, "LOCK", name, "TOKEN", w.token, "PX", lease.Milliseconds()).Err()
	switch {
	case errors.Is(err, redis.Nil):
		return fmt.Errorf("%w: %s", errTaken, name)
	case err != nil:
		return err
	}
	granted := time.Now()
	if err := w.unlock(); err != nil {
		return err
	}
	w.sums[0].note(granted.Sub(began))
	w.sums[1].note(time.Since(granted))
	return nil
}

// unlock frees the lock that w holds.
func (w *worker) unlock() error {
	if err := w.conn.Do(w.ctx, "UNLOCK", w.held, w.token).Err(); err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	w.held = ""
	return nil
}

// contend is one turn with the lock that all clients want.
func (w *worker) contend(int) error {
	name, wait := w.lock(0), max(w.asked.at.Timeout-time.Second, w.asked.at.Timeout/2)
	w.held = name
	began := time.Now()
	err := w.conn.Do(w.ctx, "LOCK", name, "TOKEN", w.token, "PX", lease.Milliseconds(), "WAIT",
		wait.Milliseconds()).Err()
	switch {
	case errors.Is(err, redis.Nil):
		w.held = ""
		w.timeouts.Add(1)
		return nil
	case err != nil:
		return err
	}
	granted := time.Now()
	// Nobody but the holder before has written it since this client asked, if it has waited.
	released := w.began.Add(time.Duration(w.released.Load()))
	w.sums[0].note(granted.Sub(began))
	if released.After(began) {
		w.sums[1].note(granted.Sub(released))
	}
	w.released.Store(int64(time.Since(w.began)))
	return w.unlock()
}

// get is a GET of a key that there is.
func (w *worker) get(n int) error {
	if n < keys {
		if err := w.write(n); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := w.conn.Do(w.ctx, "GET", w.key(w.id, n)).Err(); err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	w.sums[0].note(time.Since(began))
	return nil
}

func (w *worker) set(n int) error {
	began := time.Now()
	if err := w.write(n); err != nil {
		return err
	}
	w.sums[0].note(time.Since(began))
	return nil
}

// write is a SET.
func (w *worker) write(n int) error {
	w.written.Store(true)
	lasts := w.asked.time + time.Minute
	return w.conn.Do(w.ctx, "SET", w.key(w.id, n), value, "PX", lasts.Milliseconds()).Err()
}

// batch is how many keys are deleted at a time.
const batch = 500

// clean frees the locks that may still be held, and deletes the keys.
func (r *run) clean() error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	var held []*worker
	for _, w := range r.all {
		if w.held != "" {
			held = append(held, w)
		}
	}
	if len(held) == 0 && !r.written.Load() {
		return nil
	}
	conn, err := r.asked.at.Connect(ctx) // those before may be cut
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, w := range held {
		if _, err := conn.Do(ctx, "UNLOCK", w.held, w.token); err != nil {
			return err
		}
	}
	if !r.written.Load() {
		return nil
	}
	var names []any
	for i := range r.all {
		for n := range keys {
			names = append(names, r.key(i, n))
		}
	}
	for len(names) > 0 {
		some := names[:min(batch, len(names))]
		names = names[len(some):]
		if _, err := conn.Do(ctx, append([]any{"DEL"}, some...)...); err != nil {
			return err
		}
	}
	return nil
}
