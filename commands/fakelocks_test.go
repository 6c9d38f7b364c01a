package commands

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"lockproxy/internal/resp"
	"lockproxy/internal/subscription"
	"lockproxy/redlock"
)

// lockRedis is a connection to a Redis that keeps locks: a redlock.Upstream, and
// a master of fakeSession.
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
	n.master(strings.Fields(hello))
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

// Synced implements redlock.Upstream: there are no replicas.
func (n *lockRedis) Synced(ctx context.Context, slot int, req []byte, _ int, _ time.Duration) ([]byte, int, error) {
	reply, err := n.Do(ctx, slot, req, true)
	return reply, 0, err
}

// Subscribe implements redlock.Upstream: no message ever comes.
func (n *lockRedis) Subscribe(context.Context, int, string, func(subscription.Event)) (func(), error) {
	return func() {}, nil
}

// Masters implements redlock.Upstream.
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

// master is the node as fakeSession has it.
func (n *lockRedis) master(args []string) string {
	reply, err := n.Do(n.t.Context(), 0, resp.AppendCommandStrings(nil, args...), true)
	if err != nil {
		n.t.Fatal(err)
	}
	return string(reply)
}

// withLocks runs test with sessions that have the verbs, in fake time.
func withLocks(t *testing.T, o redlock.Options, test func(t *testing.T, session func() *fakeSession)) {
	synctest.Test(t, func(t *testing.T) {
		m := miniredis.NewMiniRedis()
		m.ClockTTL(true)
		defer m.Close()
		n, n3 := dialLockRedis(t, m, "PING"), dialLockRedis(t, m, "HELLO 3")
		defer n.Close()
		defer n3.Close()
		for _, s := range redlock.Scripts() {
			n.master([]string{"SCRIPT", "LOAD", s.Source})
		}
		l := redlock.New(n, o)
		defer l.Close(context.Background())
		table := redis7(t, LockVerbs(Lockers{Plain: l}, 100)...)
		test(t, func() *fakeSession {
			s := newFakeWith(t, table)
			s.masters = []func([]string) string{func(args []string) string {
				if s.client.Proto == 3 {
					return n3.master(args)
				}
				return n.master(args)
			}}
			return s
		})
	})
}

// read shows a reply in one line: fences as F, the digits of times as they are.
func read(reply string) string {
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
