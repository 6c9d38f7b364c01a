package masters

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/scripted"
)

// oneMaster is an upstream of one scripted node.
type oneMaster struct {
	Upstream // of which nothing else is asked
	scripted.Node
}

func (m *oneMaster) Topology() *cluster.Topology {
	return &cluster.Topology{Kind: cluster.Single, Masters: []*cluster.Node{{Addr: "a:1", Master: true}}}
}

func (m *oneMaster) Dial(context.Context, string, cluster.Mode, *cluster.Identity) (net.Conn, error) {
	return m.Node.Dial(), nil
}

// A master that is too slow at the start is asked later what it forbids. It is logged once.
func TestSlowMasterTellsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var answer atomic.Value
		answer.Store(scripted.Silence)
		m := &oneMaster{Node: scripted.Node{Answer: func(command string) string {
			if strings.HasPrefix(command, "TIME") && answer.Load() != scripted.Silence {
				return "-NOPERM this user has no permissions to run the 'time' command\r\n"
			}
			return answer.Load().(string)
		}}}
		f := Forbidden{Upstream: m, Locks: true, Log: slog.New(slog.NewTextHandler(&log, nil))}
		f.Tell(t.Context(), time.Second)
		if err := f.Refusal(); err != nil || log.Len() > 0 {
			t.Fatalf("%v, %s", err, &log)
		}
		answer.Store("+OK\r\n")
		for range 3 {
			f.Tell(t.Context(), time.Second)
			if err := f.Refusal(); err == nil || strings.Count(log.String(), "command=time") != 1 {
				t.Fatalf("%v, %s", err, &log)
			}
		}
	})
}
