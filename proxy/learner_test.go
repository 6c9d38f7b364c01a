package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
)

// namelessUpstream is an upstream whose nodes are known, but cannot be reached at first.
type namelessUpstream struct {
	*rig
	until time.Time // when they can
	final error     // what a node says then
}

func (u *namelessUpstream) Command(ctx context.Context) ([]byte, error) {
	if time.Now().Before(u.until) {
		return nil, cluster.NodeError{Addr: "redis.test:6379", Err: &net.DNSError{Err: "no such host"}}
	}
	if u.final != nil {
		return nil, u.final
	}
	return u.rig.Command(ctx)
}

// A start waits for a master whose name does not resolve for a while: it ends with a refusal only. The log
// has a line each ten seconds meanwhile, and clients can be told why.
func TestStartWaitsForTheCommands(t *testing.T) {
	commandReply() // from a real socket, so before time stops
	refusal := cluster.NodeError{Addr: "redis.test:6379", Err: cluster.Refusal("NOPERM: +command")}
	for name, want := range map[string]error{"served in the end": nil, "refused in the end": refusal} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lines strings.Builder
				told := 0
				u := &namelessUpstream{rig: &rig{T: t, topology: &cluster.Topology{}},
					until: time.Now().Add(45 * time.Second), final: want}
				began := time.Now()
				s, err := New(t.Context(), Options{Upstream: u, PubSub: u, Portable: true, Loops: 1,
					Log: slog.New(slog.NewTextHandler(&lines, nil)), Failed: func(error) { told++ }})
				if took := time.Since(began); !errors.Is(err, want) || took < 45*time.Second {
					t.Errorf("after %v: %v", took, err)
				}
				if n := strings.Count(lines.String(), "could not be learned yet"); n != 5 || told < 40 {
					t.Errorf("%d lines, told %d times:\n%s", n, told, lines.String())
				}
				if err == nil {
					s.Drain(t.Context())
				}
			})
		})
	}
}
