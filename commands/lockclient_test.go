package commands_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/commands/holds"
	"lockproxy/commands/lock"
	"lockproxy/internal/resp"
	"lockproxy/internal/subscription"
	"lockproxy/redlock/index"
	"lockproxy/redlock/locks"
	"lockproxy/redlock/scripts"

	"github.com/alicebob/miniredis/v2"
)

// lockRedis is a connection to a Redis that keeps locks: a redlock.Upstream, and
// a master of a client.
type lockRedis struct {
	t *testing.T
	net.Conn
	r    *bufio.Reader
	turn chan struct{} // capacity 1: one request at a time; no mutex, so that time goes on
}

func dialLockRedis(t *testing.T, m *miniredis.Miniredis, hello string) *lockRedis {
	conn, err := m.Dial()
	if err != nil {
		t.Fatal(err)
	}
	n := &lockRedis{t, conn, bufio.NewReader(conn), make(chan struct{}, 1)}
	n.Answer(strings.Fields(hello))
	return n
}

// Do implements redlock.Upstream.
func (n *lockRedis) Do(_ context.Context, _ int, req []byte, _ bool) ([]byte, error) {
	n.turn <- struct{}{}
	defer func() { <-n.turn }()
	if _, err := n.Write(req); err != nil {
		return nil, err
	}
	var reply []byte
	for {
		b, err := n.r.ReadByte()
		if err != nil {
			return nil, err
		}
		reply = append(reply, b)
		var f resp.Framer
		if _, done, err := f.Next(reply); done || err != nil {
			return reply, err
		}
	}
}

// DoWhole implements redlock.Upstream.
func (n *lockRedis) DoWhole(ctx context.Context, slot int, req []byte, resend bool) ([]byte, error) {
	return n.Do(ctx, slot, req, resend)
}

// background is the upstream of what nobody waits for, such as renewals, which fail while it is away.
type background struct {
	*lockRedis
	away *atomic.Bool
}

func (b background) Do(ctx context.Context, slot int, req []byte, resend bool) ([]byte, error) {
	if b.away.Load() {
		return nil, errors.New("the upstream is away")
	}
	return b.lockRedis.Do(ctx, slot, req, resend)
}

func (b background) DoWhole(ctx context.Context, slot int, req []byte, resend bool) ([]byte, error) {
	return b.Do(ctx, slot, req, resend)
}

// Synced implements redlock.Upstream: there are no replicas.
func (n *lockRedis) Synced(ctx context.Context, slot int, req []byte, _ int, _ time.Duration) ([]byte, int,
	error) {
	reply, err := n.Do(ctx, slot, req, true)
	return reply, 0, err
}

// Subscribe implements redlock.Upstream: no message ever comes.
func (n *lockRedis) Subscribe(int, string, func(subscription.Change)) func() { return func() {} }

// Masters implements redlock.Upstream.
func (*lockRedis) Parted(int) time.Time { return time.Time{} }

func (*lockRedis) Evicting() bool { return false }

func (*lockRedis) Evicts(int) error { return nil }

func (n *lockRedis) Masters() int { return 1 }

func (n *lockRedis) Master(slot int) string { return "" }

// DoMaster implements redlock.Upstream.
func (n *lockRedis) DoMaster(ctx context.Context, i int, req []byte, resend bool) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return n.Do(ctx, i, req, resend)
}

// Sharded implements redlock.Upstream.
func (n *lockRedis) Sharded() bool { return false }

// DeleteIf implements redlock.Upstream.
func (n *lockRedis) DeleteIf() string { return "" }

// Answer is the node as a Session has it.
func (n *lockRedis) Answer(args []string) string {
	reply, err := n.Do(n.t.Context(), 0, resp.AppendCommandStrings(nil, args...), true)
	if err != nil {
		n.t.Fatal(err)
	}
	return string(reply)
}

// client is a session that has the verbs.
type client struct {
	*session
	Board *board       // what was announced
	Away  *atomic.Bool // what the proxy does in the background fails
}

// Lose has the answer to the last command not reach the client.
func (c *client) Lose() {
	if c.Undelivered != nil {
		c.Undelivered.Lost()
	}
}

// withLocks runs test with clients, in fake time.
func withLocks(t *testing.T, o locks.Options, test func(t *testing.T, session func() *client)) {
	withLedger(t, o, func(x *index.Index) *lock.Ledger { return lock.NewLedger(x, nil, nil) },
		func(t *testing.T, _ *lock.Ledger, session func() *client) { test(t, session) })
}

// withLedger is withLocks for verbs that tell a Ledger what becomes of the locks.
func withLedger(t *testing.T, o locks.Options, make func(*index.Index) *lock.Ledger,
	test func(t *testing.T, ledger *lock.Ledger, session func() *client),
) {
	synctest.Test(t, func(t *testing.T) {
		m := miniredis.NewMiniRedis()
		m.ClockTTL(true)
		defer m.Close()
		n, n3 := dialLockRedis(t, m, "PING"), dialLockRedis(t, m, "HELLO 3")
		defer n.Close()
		defer n3.Close()
		for _, s := range scripts.All() {
			n.Answer([]string{"SCRIPT", "LOAD", s.Source})
		}
		away := new(atomic.Bool)
		o.Index = index.New(nil, index.Options{})
		l := locks.New(background{n, away}, o)
		defer l.Close(context.Background())
		ledger, board := make(o.Index), new(board)
		table := redis7(t, lock.Verbs(lock.Lockers{
			Plain: l, Ledger: ledger, Announce: board, Waits: &holds.Room{Most: mostWaits},
			Busiest: lock.NewBusiest(100),
		})...)
		test(t, ledger, func() *client {
			s := &client{session: sessionOver(t, table), Board: board, Away: away}
			s.Masters = []func([]string) string{func(args []string) string {
				if s.User.Proto == 3 {
					return n3.Answer(args)
				}
				return n.Answer(args)
			}}
			return s
		})
	})
}

// readable shows a reply in one line: fences as F, the digits of times as they are.
func readable(reply string) string {
	v, rest, err := resp.Parse([]byte(reply))
	if err != nil || len(rest) > 0 {
		return fmt.Sprintf("%q", reply)
	}
	return fences.ReplaceAllString(readValue(v), "F")
}

var fences = regexp.MustCompile(`\b\d{15,16}\b`)

func readValue(v resp.Value) string {
	switch {
	case v.Null():
		return string(v.Kind) + "nil"
	case v.Err() != "":
		return "-" + v.Err()
	case strings.IndexByte("*%~>", v.Kind) >= 0:
		var all []string
		for _, e := range v.Elems {
			all = append(all, readValue(e))
		}
		return string(v.Kind) + "[" + strings.Join(all, " ") + "]"
	}
	return v.Text()
}
