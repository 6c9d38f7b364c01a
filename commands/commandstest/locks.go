package commandstest

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

	"github.com/alicebob/miniredis/v2"

	"lockproxy/commands/holds"
	"lockproxy/commands/lock"
	"lockproxy/internal/resp"
	"lockproxy/internal/subscription"
	"lockproxy/redlock/index"
	"lockproxy/redlock/locks"
	"lockproxy/redlock/scripts"
)

// LockRedis is a connection to a Redis that keeps locks: a single.Upstream, and
// a master of Session.
type LockRedis struct {
	t *testing.T
	net.Conn
	r    *bufio.Reader
	turn chan struct{} // capacity 1: one request at a time; no mutex, so that time goes on
}

func DialLockRedis(t *testing.T, m *miniredis.Miniredis, hello string) *LockRedis {
	conn, err := m.Dial()
	if err != nil {
		t.Fatal(err)
	}
	n := &LockRedis{t, conn, bufio.NewReader(conn), make(chan struct{}, 1)}
	n.Answer(strings.Fields(hello))
	return n
}

// Do implements single.Upstream.
func (n *LockRedis) Do(_ context.Context, _ int, req []byte, _ bool) ([]byte, error) {
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

// DoWhole implements single.Upstream.
func (n *LockRedis) DoWhole(ctx context.Context, slot int, req []byte, resend bool) ([]byte, error) {
	return n.Do(ctx, slot, req, resend)
}

// background is the upstream of what nobody waits for, such as renewals, which fail while it is away.
type background struct {
	*LockRedis
	away *atomic.Bool
}

func (b background) Do(ctx context.Context, slot int, req []byte, resend bool) ([]byte, error) {
	if b.away.Load() {
		return nil, errors.New("the upstream is away")
	}
	return b.LockRedis.Do(ctx, slot, req, resend)
}

func (b background) DoWhole(ctx context.Context, slot int, req []byte, resend bool) ([]byte, error) {
	return b.Do(ctx, slot, req, resend)
}

// Synced implements single.Upstream: there are no replicas.
func (n *LockRedis) Synced(ctx context.Context, slot int, req []byte, _ int, _ time.Duration) ([]byte, int,
	error) {
	reply, err := n.Do(ctx, slot, req, true)
	return reply, 0, err
}

// Subscribe implements single.Upstream: no message ever comes.
func (n *LockRedis) Subscribe(context.Context, int, string, func(subscription.Event)) (func(), error) {
	return func() {}, nil
}

// Masters implements single.Upstream.
func (*LockRedis) Parted(int) time.Time { return time.Time{} }

func (*LockRedis) Evicting() bool { return false }

func (*LockRedis) Evicts(int) error { return nil }

func (n *LockRedis) Masters() int { return 1 }

func (n *LockRedis) Master(slot int) string { return "" }

// DoMaster implements single.Upstream.
func (n *LockRedis) DoMaster(ctx context.Context, i int, req []byte, resend bool) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return n.Do(ctx, i, req, resend)
}

// Sharded implements single.Upstream.
func (n *LockRedis) Sharded() bool { return false }

// DeleteIf implements single.Upstream.
func (n *LockRedis) DeleteIf() string { return "" }

// Master is the node as Session has it.
func (n *LockRedis) Answer(args []string) string {
	reply, err := n.Do(n.t.Context(), 0, resp.AppendCommandStrings(nil, args...), true)
	if err != nil {
		n.t.Fatal(err)
	}
	return string(reply)
}

// WithLocks runs test with sessions that have the verbs, in fake time.
func WithLocks(t *testing.T, o locks.Options, test func(t *testing.T, session func() *Session)) {
	WithLedger(t, o, func(*index.Index) *lock.Ledger { return nil },
		func(t *testing.T, _ *lock.Ledger, session func() *Session) { test(t, session) })
}

// WithLedger is WithLocks for verbs that tell a Ledger what becomes of the locks.
func WithLedger(t *testing.T, o locks.Options, make func(*index.Index) *lock.Ledger,
	test func(t *testing.T, ledger *lock.Ledger, session func() *Session),
) {
	synctest.Test(t, func(t *testing.T) {
		m := miniredis.NewMiniRedis()
		m.ClockTTL(true)
		defer m.Close()
		n, n3 := DialLockRedis(t, m, "PING"), DialLockRedis(t, m, "HELLO 3")
		defer n.Close()
		defer n3.Close()
		for _, s := range scripts.All() {
			n.Answer([]string{"SCRIPT", "LOAD", s.Source})
		}
		away := new(atomic.Bool)
		o.Index = index.New(nil, index.Options{})
		l := locks.New(background{n, away}, o)
		defer l.Close(context.Background())
		ledger, board := make(o.Index), new(Board)
		table := Redis7(t, lock.Verbs(lock.Lockers{
			Plain: l, Ledger: ledger, Announce: board, Waits: &holds.Room{Most: MostWaits},
			Busiest: lock.NewBusiest(100),
		})...)
		test(t, ledger, func() *Session {
			s := NewWith(t, table)
			s.Board, s.Away = board, away
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

// Readable shows a reply in one line: fences as F, the digits of times as they are.
func Readable(reply string) string {
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
