package lock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"lockproxy/cmd/lockproxy/tool"
	"lockproxy/cmd/lockproxy/tool/client"
)

// What becomes of a hold, for errors.Is.
var (
	errHeld   = errors.New("somebody else holds the lock")
	errLost   = errors.New("the lock is lost")
	errSilent = errors.New("no proxy has confirmed the lock, and its lease may end")
)

const (
	// longestWait is the WAIT of one request: lock-max-wait, unless it was changed.
	longestWait = 10 * time.Minute
	// againAfter is the pause before the proxy is asked again when something was in the way.
	againAfter = 200 * time.Millisecond
	// sureEach is how often the hold is made sure of; a short lease asks for more.
	sureEach = time.Second
)

// hold is a lock that this process holds. One goroutine uses it at a time.
type hold struct {
	*options
	token string
	fence int64
	conn  *client.Conn // nil: there is none
	// counted from when a request was sent, and not from its answer, so it is never too late
	until time.Time // nobody else has the lock before
}

// acquireLock takes the lock. The error is errHeld, that of ctx, or what client.Code knows.
func acquireLock(ctx context.Context, o *options) (*hold, error) {
	// One token for all attempts, so that what was granted without this process hearing of it can be given
	// back.
	h := &hold{options: o, token: rand.Text()}
	end := time.Now().Add(o.wait)
	err := h.connectProxy(ctx)
	if err != nil && client.Code(err) == tool.ExitUnavailable {
		return nil, err // most likely the address is wrong, and waiting would not help
	}
	for {
		if err == nil {
			err = h.askForLock(ctx, max(0, time.Until(end)))
		}
		switch {
		case err == nil:
			return h, nil
		// Out of time, or nothing that waiting would mend.
		case ctx.Err() != nil, time.Now().After(end), !errors.Is(err, errHeld) && !passes(err):
			h.abandonGrant(err)
			return nil, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(againAfter):
		}
		err = nil
		if h.conn.Broken() {
			err = h.connectProxy(ctx)
		}
	}
}

// connectProxy makes a new connection in place of the one there was.
func (h *hold) connectProxy(ctx context.Context) (err error) {
	h.conn.Close()
	h.conn, err = h.proxy.Connect(ctx)
	return err
}

// abandonGrant gives back what may have been granted after all: the answer was on its way, or what came
// behind it went wrong.
func (h *hold) abandonGrant(why error) {
	defer h.closeConn()
	// An error or Null is an answer by which nothing is held.
	if _, answered := client.Reply(why); h.fence == 0 && (answered || errors.Is(why, errHeld)) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), h.proxy.Timeout)
	defer cancel()
	if h.conn.Broken() && h.connectProxy(ctx) != nil {
		return
	}
	h.conn.Do(ctx, "UNLOCK", h.name, "TOKEN", h.token)
}

// passes says that what went wrong may be over soon: a proxy that starts, a fail-over, a connection that
// broke.
func passes(err error) bool {
	code := client.Code(err)
	return code == tool.ExitTemporary || code == tool.ExitUnavailable
}

// askForLock asks for the lock once, and waits for so long in the queue.
func (h *hold) askForLock(ctx context.Context, wait time.Duration) error {
	// acquireLock asks again as long as there is time; its place in the queue is then a new one.
	wait = min(wait, longestWait)
	ctx, cancel := context.WithTimeout(ctx, wait+h.proxy.Timeout)
	defer cancel()
	v, err := h.conn.Do(ctx, h.lockRequest(wait)...)
	if err != nil {
		return err
	}
	if v == nil {
		return errHeld
	}
	grant, ok := v.([]any)
	if !ok || len(grant) < 3 {
		return fmt.Errorf("%w: LOCK answers %v", client.ErrProtocol, v)
	}
	h.fence, _ = grant[1].(int64)
	// The ttl of a LOCK that waited is what was left when the proxy answered, and nobody knows when that was.
	// And whoever may not ask for the hold later must know before the command runs.
	return h.confirmHold(ctx)
}

// lockRequest is the command that asks for the lock.
func (h *hold) lockRequest(wait time.Duration) []any {
	args := []any{"LOCK", h.name}
	switch {
	case h.permits > 0:
		args = []any{"SEMLOCK", h.name, "PERMITS", h.permits}
	case h.shared:
		args[0] = "RLOCK"
	}
	args = append(args, "TOKEN", h.token, "META", h.meta)
	args = append(args, h.keepOptions()...)
	if wait > 0 {
		args = append(args, "WAIT", max(1, wait.Milliseconds()))
	}
	if h.atLeast > 0 {
		args = append(args, "ATLEAST", h.atLeast.Milliseconds())
	}
	return args
}

// keepOptions are the options of LOCK and RENEW that keep the hold alive. LINGER: when the connection breaks
// the hold stays for a lease, in which it is taken over.
func (h *hold) keepOptions() []any {
	ms := h.lease.Milliseconds()
	return []any{"PX", ms, "KEEPALIVE", "LINGER", ms}
}

// watchHold makes sure of the hold, again and again, and returns why it is lost, or nil when ctx ends. What
// comes on now makes it look at once; sure is told each time that the hold is there.
func (h *hold) watchHold(ctx context.Context, now <-chan struct{}, sure chan<- struct{}) error {
	var err error // of the last attempt
	for {
		pause := min(sureEach, h.lease/6)
		if err != nil {
			pause = min(pause, againAfter)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-now:
		case <-time.After(min(pause, max(0, time.Until(h.lastMoment())))):
		}
		// Only after an attempt has failed: a process that was stopped for long looks first.
		if err != nil && !time.Now().Before(h.lastMoment()) {
			return fmt.Errorf("%w (%w)", errSilent, err)
		}
		err = h.confirmInTime(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errLost):
			return err
		case err == nil:
			poke(sure) // whoever has not taken the last one gets that
		}
	}
}

// lastMoment is when the command must be told to end if nobody confirms the hold before.
func (h *hold) lastMoment() time.Time { return h.until.Add(-h.grace) }

// confirmInTime is confirmHold with the time that is left for it. A process that was stopped comes too late,
// and looks all the same: the proxy has kept the hold.
func (h *hold) confirmInTime(ctx context.Context) error {
	end := h.lastMoment()
	if !time.Now().Before(end) {
		end = time.Now().Add(h.grace)
	}
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	return h.confirmHold(ctx)
}

// confirmHold asks the proxy for the hold, on another connection if this one is broken. The error is errLost,
// or says why nobody knows.
func (h *hold) confirmHold(ctx context.Context) error {
	if !h.conn.Broken() {
		sent := time.Now()
		v, err := h.doCommand(ctx, "LOCKCTL", "CHECK", h.name, h.token)
		// the first element is the ttl in ms
		if check, ok := v.([]any); ok && err == nil && len(check) > 0 {
			return h.extended(sent, check[0])
		}
		if _, answered := client.Reply(err); answered || err == nil {
			return lost(err)
		}
	}
	return h.takeOverHold(ctx)
}

// takeOverHold goes on with the hold on a new connection.
func (h *hold) takeOverHold(ctx context.Context) error {
	if err := h.connectProxy(ctx); err != nil {
		return err
	}
	sent := time.Now()
	v, err := h.doCommand(ctx, append([]any{"RENEW", h.name, "TOKEN", h.token, "FENCE", h.fence},
		h.keepOptions()...)...)
	if err == nil && v != int64(0) {
		return h.extended(sent, v)
	}
	h.closeConn() // it keeps nothing alive
	if _, answered := client.Reply(err); !answered && err != nil {
		return err
	}
	return lost(err)
}

// doCommand is Do within the time for commands that need not wait. An error that is no answer breaks the
// connection, as in client.Conn.Do.
func (h *hold) doCommand(ctx context.Context, args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, h.proxy.Timeout)
	defer cancel()
	return h.conn.Do(ctx, args...)
}

// extended notes that the hold lasts for so many ms since a request was sent.
func (h *hold) extended(sent time.Time, ttl any) error {
	ms, ok := ttl.(int64)
	if !ok {
		return fmt.Errorf("%w: %v in place of a ttl", client.ErrProtocol, ttl)
	}
	h.until = sent.Add(time.Duration(ms) * time.Millisecond)
	return nil
}

// lost is what an answer means by which this token does not hold the lock: errLost, unless it says that this
// is only not known now.
func lost(answer error) error {
	text, answered := client.Reply(answer)
	switch {
	// Null, 0 or something else that is no error: this token holds nothing.
	case !answered:
		return errLost
	case strings.HasPrefix(text, "LOCKLOST "):
		return fmt.Errorf("%w: %s", errLost, strings.TrimPrefix(text, "LOCKLOST "))
	}
	return answer
}

// releaseLock frees the lock. The error says that it was lost before, or that nobody knows.
func (h *hold) releaseLock() error {
	defer h.closeConn()
	ctx, cancel := context.WithTimeout(context.Background(), h.proxy.Timeout)
	defer cancel()
	if !h.conn.Broken() {
		err := h.sendUnlock(ctx)
		if _, answered := client.Reply(err); err == nil || answered || errors.Is(err, errLost) {
			return err
		}
	}
	// The connection broke: the hold lingers, and would for a lease.
	if err := h.connectProxy(ctx); err != nil {
		return err
	}
	return h.sendUnlock(ctx)
}

// sendUnlock asks for UNLOCK once, with the fence: a later grant to the same token is left alone.
func (h *hold) sendUnlock(ctx context.Context) error {
	v, err := h.conn.Do(ctx, "UNLOCK", h.name, "TOKEN", h.token, "FENCE", h.fence)
	if _, answered := client.Reply(err); err == nil && v != nil || err != nil && !answered {
		return err
	}
	return lost(err)
}

// closeConn ends the connection, if there is one.
func (h *hold) closeConn() {
	h.conn.Close()
	h.conn = nil
}

// poke wakes whoever reads c.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
