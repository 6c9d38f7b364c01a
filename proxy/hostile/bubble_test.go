// Package hostile has no code but tests: of a proxy whose clients and nodes say whatever they like.
//
//	fuzzer --> bubble --> house: client (wire) --> Server --> node (wire) --> answer
//
// All is in memory and in fake time. A proxy takes milliseconds to make, so it serves many inputs.
package hostile

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
	"lockproxy/proxy"
)

// wire is the proxy's end of a connection. The test is the other end.
type wire struct {
	name net.TCPAddr
	hear func(p []byte) // gets what the proxy writes

	mu     sync.Mutex
	more   sync.Cond
	pieces [][]byte // what the proxy is to read, a piece a time
	ended  bool     // nothing comes behind them
	closed bool     // by the proxy
}

func newWire(hear func(p []byte)) *wire {
	w := &wire{hear: hear}
	w.more.L = &w.mu
	return w
}

// say has the proxy read p, which must not be changed any more.
func (w *wire) say(p []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pieces = append(w.pieces, p)
	w.more.Signal()
}

// end has the proxy read the end behind what was said.
func (w *wire) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.more.Signal()
}

func (w *wire) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

func (w *wire) Read(p []byte) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.pieces) == 0 && !w.ended && !w.closed {
		w.more.Wait()
	}
	switch {
	case w.closed:
		return 0, net.ErrClosed
	case len(w.pieces) == 0:
		return 0, io.EOF
	}
	n = copy(p, w.pieces[0])
	if w.pieces[0] = w.pieces[0][n:]; len(w.pieces[0]) == 0 {
		w.pieces = w.pieces[1:]
	}
	return n, nil
}

func (w *wire) Write(p []byte) (n int, err error) {
	if w.isClosed() {
		return 0, net.ErrClosed
	}
	w.hear(p)
	return len(p), nil
}

func (w *wire) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.more.Broadcast()
	return nil
}

func (w *wire) LocalAddr() net.Addr              { return &w.name }
func (w *wire) RemoteAddr() net.Addr             { return &w.name }
func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// house is a proxy in front of a cluster of three nodes. It is the proxy's control plane, too.
type house struct {
	*proxy.Server
	topology cluster.Topology
	login    cluster.Login
	answer   func(node int, command []resp.Value) []byte // nil: the connection ends
	clients  int

	mu    sync.Mutex
	held  bool    // what nodes answer waits for let
	nodes []*node // by number
	late  []*node // those that have something to say
}

// node is a connection to a node.
type node struct {
	*wire
	number int
	kept   []byte // the beginning of a command
	late   []byte // answers that are held
}

// nodes is how many nodes a house has.
const nodes = 3

// noSettings is commands.Config without any: CONFIG is about the parameters of the upstream alone.
type noSettings struct{}

func (noSettings) Get(string) [][2]string   { return nil }
func (noSettings) Has(string) bool          { return false }
func (noSettings) Check([][2]string) error  { return nil }
func (noSettings) SetAll([][2]string) error { return nil }

// newHouse makes a proxy, in a bubble.
func newHouse(o proxy.Options) *house {
	h := &house{topology: cluster.Topology{Version: 1, Kind: cluster.Cluster,
		Server: cluster.Server{Version: "7.0.15"}}}
	for i := range nodes {
		h.topology.Masters = append(h.topology.Masters,
			&cluster.Node{Addr: fmt.Sprintf("10.0.0.%d:6379", i), Master: true})
	}
	for s := range h.topology.Slots {
		h.topology.Slots[s] = h.topology.Masters[s*nodes/slot.Count]
	}
	o.Upstream, o.Portable, o.Loops, o.Config = h, true, 1, noSettings{}
	var err error
	if h.Server, err = proxy.New(context.Background(), o); err != nil {
		panic(err)
	}
	synctest.Wait()
	return h
}

// end stops the proxy, which must have nothing left to do.
func (h *house) end() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := h.Drain(ctx); err != nil {
		panic(err)
	}
	h.hangUp()
}

func (h *house) Topology() *cluster.Topology                        { return &h.topology }
func (h *house) Refresh()                                           {}
func (h *house) Suspect()                                           {}
func (h *house) Outages() *cluster.Outages                          { return nil }
func (h *house) Member(string) string                               { return "" }
func (h *house) Login() *cluster.Login                              { return &h.login }
func (h *house) OnChange(func(*cluster.Topology))                   {}
func (h *house) Ready() error                                       { return nil }
func (h *house) Serves() bool                                       { return true }
func (h *house) WatchReplicas()                                     {}
func (h *house) Command(context.Context) ([]byte, error)            { return commandReply() }
func (h *house) Limits(context.Context) cluster.Limits              { return cluster.Limits{} }
func (h *house) Memories(context.Context) map[string]cluster.Memory { return nil }

// commandReply is what Redis 7.0.15 says to COMMAND.
var commandReply = sync.OnceValues(func() ([]byte, error) {
	return os.ReadFile("../../commands/testdata/command-7.0.15.resp")
})

// Dial implements proxy.Upstream.
func (h *house) Dial(_ context.Context, addr string, _ cluster.Mode, _ *cluster.Identity) (net.Conn, error) {
	n := &node{number: slices.IndexFunc(h.topology.Masters,
		func(m *cluster.Node) bool { return m.Addr == addr })}
	if n.number < 0 {
		panic("the proxy dials " + addr)
	}
	n.wire = newWire(func(p []byte) { h.hear(n, p) })
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.nodes, func(other *node) bool { return other.number > n.number })
	if i < 0 {
		i = len(h.nodes)
	}
	h.nodes = slices.Insert(h.nodes, i, n)
	return n, nil
}

// hear answers the commands that p completes.
func (h *house) hear(n *node, p []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(n.kept) > 0 {
		p = append(n.kept, p...)
		n.kept = nil
	}
	for len(p) > 0 {
		command, rest, err := resp.Parse(p)
		if err == resp.ErrIncomplete {
			n.kept = bytes.Clone(p)
			return
		} else if err != nil {
			panic(fmt.Sprintf("the proxy sends %q: %v", p, err))
		}
		p = rest
		switch reply := h.answer(n.number, command.Elems); {
		case reply == nil:
			n.end()
		case h.held:
			n.late = append(n.late, reply...)
		default:
			n.say(reply)
		}
	}
}

// hold has answers of nodes wait, or no longer.
func (h *house) hold(held bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = held
	h.nodes = slices.DeleteFunc(h.nodes, func(n *node) bool { return n.isClosed() })
	for _, n := range h.nodes {
		n.let()
	}
}

// letOne has a node, which is chosen by choice of those that have, say what it has to say. false: none has.
func (h *house) letOne(choice byte) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.late = h.late[:0]
	for _, n := range h.nodes {
		if len(n.late) > 0 {
			h.late = append(h.late, n)
		}
	}
	if len(h.late) == 0 {
		return false
	}
	h.late[int(choice)%len(h.late)].let()
	return true
}

func (n *node) let() {
	if len(n.late) > 0 {
		n.say(n.late)
		n.late = nil
	}
}

// hangUp ends all connections to nodes.
func (h *house) hangUp() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.nodes {
		n.end()
	}
	h.nodes = nil
}

// client is a client, and what it has got.
type client struct {
	*wire
	got []byte // to be looked at when the proxy rests
}

// connect has a client send input in pieces, whose lengths are cuts, again and again.
func (h *house) connect(input, cuts []byte) *client {
	c := &client{}
	c.wire = newWire(func(p []byte) { c.got = append(c.got, p...) })
	h.clients++ // each is somebody else, so that wrong passwords do not make the next one wait
	c.name.IP, c.name.Port = net.IPv4(10, 1, byte(h.clients>>8), byte(h.clients)), 1000
	for i := 0; len(input) > 0; i++ {
		n := len(input)
		if len(cuts) > 0 && i < 100 {
			n = min(n, 1+int(cuts[i%len(cuts)]))
		}
		c.pieces = append(c.pieces, input[:n])
		input = input[n:]
	}
	h.Admit(c, nil)
	synctest.Wait()
	return c
}

// frames are the replies that b consists of, of which the last may be cut off.
func frames(b []byte) (all [][]byte, whole bool, err error) {
	var framer resp.Framer
	for len(b) > 0 {
		n, done, err := framer.Next(b)
		if err != nil || !done {
			return all, false, err
		}
		all, b = append(all, b[:n]), b[n:]
	}
	return all, true, nil
}

// renewAfter is how many inputs a proxy serves.
const renewAfter = 1000

// bubble returns a function that has test run with a proxy in fake time. All calls share one bubble, and a
// proxy serves many of them. test returns what is wrong, or "".
func bubble(f *testing.F, o proxy.Options) (run func(t *testing.T, test func(h *house) string)) {
	debug.SetGCPercent(400) // there is little to keep
	if flag.Lookup("test.fuzzworker").Value.String() == "true" {
		runtime.GOMAXPROCS(1) // goroutines that take turns would only wake another processor for each
	}
	// What is interesting is made shorter by trying as many inputs as are tried in ten minutes otherwise.
	if least := flag.Lookup("test.fuzzminimizetime"); least.Value.String() == least.DefValue {
		least.Value.Set("200x")
	}
	// Who waits for something from outside of its bubble keeps the time in it from passing.
	tests, ended := make(chan func(h *house)), make(chan struct{})
	live := func(*testing.T) {
		var h *house
		for test := range tests {
			if h == nil {
				h = newHouse(o)
			}
			if test(h); h.clients >= renewAfter {
				h.end()
				h = nil
			}
		}
		if h != nil {
			h.end()
		}
	}
	var begun bool
	f.Cleanup(func() {
		if close(tests); begun {
			<-ended
		}
	})
	return func(t *testing.T, test func(h *house) string) {
		if !begun {
			begun = true
			go func() { // ends when tests is closed
				defer close(ended)
				synctest.Test(t, live)
			}()
		}
		outcome := make(chan string, 1)
		tests <- func(h *house) { outcome <- test(h) }
		if wrong := <-outcome; wrong != "" {
			t.Fatal(wrong)
		}
	}
}
