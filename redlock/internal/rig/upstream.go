package rig

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/internal/sleep"
	"lockproxy/internal/subscription"
	"lockproxy/redlock/scripts"
)

// Upstream reaches a server the way that a proxy does, with faults. It has one connection for requests, which
// go one after the other, and one for each subscription. It implements redlock.Upstream for a server that has
// all slots, moves none and evicts nothing.
type Upstream struct {
	S *Server

	line       sync.Mutex // of conn, while a request is under way: messages may come meanwhile
	mu         sync.Mutex
	conn       *Conn
	Faults     func(req string) (before, after error) // of Do; after: the reply is lost
	Mute       bool                                   // messages are lost, and no subscription stands
	frozen     chan struct{}                          // nil: it is not
	late       []func()                               // messages that came meanwhile
	notify     map[int]func(subscription.Change)
	Channels   []string // subscribed to so far
	Subs, asks int
	Others     int // masters beside this one, which has all slots that are asked for
	// Replicas says how many of them have everything at the end of a timeout; nil: none.
	// It is called once the request has run.
	Replicas func(need int) int
}

// Asked is how many commands it was asked to run.
func (u *Upstream) Asked() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.asks
}

func (u *Upstream) Sharded() bool { return u.S.Sent }

func (u *Upstream) DeleteIf() string { return u.S.DeleteIf }

func (*Upstream) Parted(int) time.Time { return time.Time{} }

func (*Upstream) Evicting() bool { return false }

func (*Upstream) Evicts(int) error { return nil }

func (u *Upstream) Masters() int { return 1 + u.Others }

func (u *Upstream) Master(slot int) string { return "" }

func (u *Upstream) DoMaster(ctx context.Context, _ int, req []byte, resend bool) ([]byte, error) {
	return u.Do(ctx, 0, req, resend)
}

// Freeze has nothing pass until thaw is called, which lets everything pass.
func (u *Upstream) Freeze() (thaw func()) {
	frozen := make(chan struct{})
	u.Set(func(u *Upstream) { u.frozen = frozen })
	return func() {
		var late []func()
		u.Set(func(u *Upstream) { u.frozen, u.late, late = nil, nil, u.late })
		close(frozen)
		for _, tell := range late {
			tell()
		}
	}
}

// Do implements redlock.Upstream. ctx is looked at before the request is sent, not while it runs.
func (u *Upstream) Do(ctx context.Context, _ int, req []byte, _ bool) ([]byte, error) {
	u.mu.Lock()
	frozen := u.frozen
	u.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
	u.line.Lock()
	defer u.line.Unlock()
	conn, after, err := u.beginRequest(ctx, req)
	if err != nil {
		return nil, err
	}
	reply, err := conn.Do(req)
	if after != nil {
		return nil, after
	}
	return reply, err
}

// DoWhole is Do: no slot moves.
func (u *Upstream) DoWhole(ctx context.Context, slot int, req []byte, resend bool) ([]byte, error) {
	return u.Do(ctx, slot, req, resend)
}

// beginRequest returns the connection that req is to be sent over, and the error that takes the place of its
// reply. err is why it is not sent.
func (u *Upstream) beginRequest(ctx context.Context, req []byte) (conn *Conn, after, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	u.asks++
	if u.Faults != nil {
		err, after = u.Faults(ScriptOf(req))
	}
	if u.conn == nil && err == nil {
		u.conn = u.S.Connect()
	}
	return u.conn, after, err
}

// Synced runs req and waits for replicas, until timeout when they are too few.
func (u *Upstream) Synced(
	ctx context.Context, slot int, req []byte, replicas int, timeout time.Duration,
) ([]byte, int, error) {
	reply, err := u.Do(ctx, slot, req, true)
	if err != nil {
		return nil, 0, err
	}
	u.mu.Lock()
	have := u.Replicas
	u.mu.Unlock()
	acked := 0
	if have != nil {
		acked = have(replicas)
	}
	if acked < replicas && !sleep.For(ctx, timeout) {
		return nil, 0, context.Cause(ctx)
	}
	return reply, acked, nil
}

// scriptIn is the script that req runs, or nil.
func scriptIn(req []byte) *scripts.Script {
	for _, s := range scripts.All() {
		if bytes.Contains(req, []byte(s.SHA)) {
			return &s
		}
	}
	return nil
}

// ScriptOf is the name of the script that req runs.
func ScriptOf(req []byte) string {
	if s := scriptIn(req); s != nil {
		return s.Name
	}
	return ""
}

// Subscribe implements redlock.Upstream. It returns when the server has answered, so nothing is missed from
// then on.
func (u *Upstream) Subscribe(
	slot int, channel string, notify func(subscription.Change),
) (cancel func()) {
	c := u.S.Connect()
	word := "SUBSCRIBE"
	if u.Sharded() && slot >= 0 {
		word = "SSUBSCRIBE"
	}
	_, err := c.Do(resp.AppendCommandStrings(nil, word, channel))
	u.mu.Lock()
	if u.notify == nil {
		u.notify = map[int]func(subscription.Change){}
	}
	u.Subs++
	n := u.Subs
	u.notify[n] = notify
	u.Channels = append(u.Channels, channel)
	stands := err == nil && !u.Mute
	u.mu.Unlock()
	if stands {
		notify(subscription.Change{Kind: subscription.Live})
	}
	done := make(chan struct{})
	go func() { // ends with the connection
		defer close(done)
		for {
			message, err := c.Reply()
			if err != nil {
				return
			}
			v, _, _ := resp.Parse(message)
			u.mu.Lock()
			mute := u.Mute || !strings.HasSuffix(v.Elems[0].Text(), "message")
			tell := func() {
				notify(subscription.Change{Kind: subscription.Message,
					Payload: v.Elems[2].Str})
			}
			if u.frozen != nil && !mute {
				u.late, mute = append(u.late, tell), true
			}
			u.mu.Unlock()
			if !mute {
				tell()
			}
		}
	}()
	return func() {
		u.mu.Lock()
		delete(u.notify, n)
		u.mu.Unlock()
		c.Close()
		<-done
	}
}

// Tell has all subscriptions hear e. The server has nothing to do with it.
func (u *Upstream) Tell(kind subscription.EventKind) {
	u.mu.Lock()
	var all []func(subscription.Change)
	for _, n := range u.notify {
		all = append(all, n)
	}
	u.mu.Unlock()
	for _, n := range all {
		n(subscription.Change{Kind: kind})
	}
}

// Set lets f change what tests may change, while nothing reads it.
func (u *Upstream) Set(f func(u *Upstream)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f(u)
}

// Close ends the connection for requests. Subscriptions end by their cancel functions.
func (u *Upstream) Close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.conn != nil {
		u.conn.Close()
	}
}

// Nothing is an upstream that is never asked.
type Nothing struct{ *Upstream }

func (Nothing) Sharded() bool { return true }

func (Nothing) DeleteIf() string { return "" }
