package proxy

import (
	"context"
	"io"
	"net"
	"testing"

	"lockproxy/cluster"
)

const (
	oneGet   = "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
	oneValue = "$5\r\nvalue\r\n"
	pipeline = 16
)

// loopback is an upstream of two nodes, as cheap as can be: for each oneGet they
// send oneValue.
type loopback struct {
	noPubSub
	ln       net.Listener
	topology *cluster.Topology
}

func newLoopback(tb testing.TB) *loopback {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { ln.Close() })
	u := &loopback{noPubSub{}, ln, &cluster.Topology{Version: 1, Kind: cluster.Cluster,
		Server: cluster.Server{Version: "7.0.15"}}}
	for _, addr := range []string{"a:1", "b:1"} {
		u.topology.Masters = append(u.topology.Masters, &cluster.Node{Addr: addr, Master: true})
	}
	for i := range u.topology.Slots {
		u.topology.Slots[i] = u.topology.Masters[i%2]
	}
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			go answerGets(nc)
		}
	}()
	return u
}

func answerGets(nc net.Conn) {
	defer nc.Close()
	var values []byte
	for range 1000 {
		values = append(values, oneValue...)
	}
	asked, buf := 0, make([]byte, 1000*len(oneGet)-len(oneGet))
	for {
		n, err := nc.Read(buf)
		if err != nil {
			return
		}
		asked += n
		whole := asked / len(oneGet)
		asked %= len(oneGet)
		if _, err := nc.Write(values[:whole*len(oneValue)]); err != nil {
			return
		}
	}
}

func (u *loopback) Topology() *cluster.Topology                        { return u.topology }
func (u *loopback) Refresh()                                           {}
func (u *loopback) Suspect()                                           {}
func (u *loopback) Outages() *cluster.Outages                          { return nil }
func (u *loopback) Member(string) string                               { return "" }
func (u *loopback) Login() *cluster.Login                              { return nil }
func (u *loopback) OnChange(func(*cluster.Topology))                   {}
func (u *loopback) Limits(context.Context) cluster.Limits              { return cluster.Limits{} }
func (u *loopback) Memories(context.Context) map[string]cluster.Memory { return nil }
func (u *loopback) WatchReplicas()                                     {}
func (*loopback) Ready() error                                         { return nil }
func (*loopback) Serves() bool                                         { return true }
func (u *loopback) Command(context.Context) ([]byte, error)            { return commandReply(), nil }
func (u *loopback) Dial(context.Context, string, cluster.Mode, *cluster.Identity) (net.Conn, error) {
	return net.Dial("tcp", u.ln.Addr().String())
}

// forwarder returns a function that has a pipeline of GETs answered by a
// server over loopback.
func forwarder(tb testing.TB) (round func()) {
	s, err := New(tb.Context(), Options{Upstream: newLoopback(tb), PubSub: noPubSub{}, Loops: 1})
	if err != nil {
		tb.Fatal(err)
	}
	addr := serveClients(tb, s)
	nc, err := net.Dial("tcp", addr.String())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		nc.Close()
		if err := s.Drain(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	var gets []byte
	for range pipeline {
		gets = append(gets, oneGet...)
	}
	values := make([]byte, pipeline*len(oneValue))
	return func() {
		if _, err := nc.Write(gets); err != nil {
			tb.Fatal(err)
		}
		if _, err := io.ReadFull(nc, values); err != nil {
			tb.Fatal(err)
		}
	}
}

// No request on the forwarding path allocates.
func TestForwardingAllocatesNothing(t *testing.T) {
	round := forwarder(t)
	for range 100 {
		round()
	}
	if n := testing.AllocsPerRun(1000, round); n > 0 {
		t.Errorf("%v allocations for %d requests", n, pipeline)
	}
}

func BenchmarkForward(b *testing.B) {
	round := forwarder(b)
	round()
	b.ReportAllocs()
	b.SetBytes(pipeline * int64(len(oneGet)+len(oneValue)))
	for b.Loop() {
		round()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/pipeline, "ns/request")
}
