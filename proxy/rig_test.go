package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
	"lockproxy/internal/scripted"
	"lockproxy/internal/slot"
	"lockproxy/internal/subscription"
	"lockproxy/proxy/door"
)

// rig is a Server in fake time before scripted nodes: node i of n serves the
// slots from i*16384/n on, and answers a command, given as a line of its words, with
// what answer returns; "" cuts the connection, "-" keeps silent.
type rig struct {
	*testing.T
	noPubSub
	server *Server
	answer func(node int, command string) string
	// instead of answer, for nodes that know their connections
	converse func(node int) (answer func(command string) string, end func())
	topology *cluster.Topology
	// the number of the node that serves connections of mode m; nil: node
	as     func(node int, m cluster.Mode, own bool) (int, error)
	limits cluster.Limits
	// what the masters say of their memory, guarded by mu
	memories map[string]cluster.Memory
	// the reply to COMMAND; nil: commandReply
	command []byte
	// in place of serve
	node func(node int, m cluster.Mode, own bool, here, there net.Conn) (net.Conn, error)

	mu      sync.Mutex
	seen    []string // "node: command"
	clients []net.Conn
}

// readOn has all clients read what they have not read yet: a drain waits until they have got it.
func (r *rig) readOn() {
	for _, nc := range r.clients {
		nc.SetReadDeadline(time.Time{})
		go io.Copy(io.Discard, nc)
	}
}

// inBubble runs test in fake time.
func inBubble(t *testing.T, nodes int, o Options, answer func(node int, command string) string,
	test func(r *rig)) {
	commandReply() // from a real socket, so before time stops
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, answer: answer, topology: &cluster.Topology{Version: 1, Kind: cluster.Cluster,
			Server: cluster.Server{Version: "7.0.15"}}}
		for i := range nodes {
			r.topology.Masters = append(r.topology.Masters,
				&cluster.Node{Addr: fmt.Sprintf("node:%d", i+1), Master: true})
		}
		for s := range r.topology.Slots {
			r.topology.Slots[s] = r.topology.Masters[s*nodes/slot.Count]
		}
		o.Upstream, o.PubSub, o.Portable, o.Loops = r, r, true, max(o.Loops, 1)
		r.run(o, test)
	})
}

// run runs test with a server, in the bubble.
func (r *rig) run(o Options, test func(r *rig)) {
	var err error
	if o.Config == nil {
		o.Config = noSettings{}
	}
	if r.server, err = New(r.Context(), o); err != nil {
		r.Fatal(err)
	}
	synctest.Wait()
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		r.readOn()
		if err := r.server.Drain(ctx); err != nil {
			r.Error(err)
		}
	}()
	test(r)
}

// held are answers that nodes give later.
type held struct{ until chan struct{} }

// begin is called in the bubble, before the first command.
func (h *held) begin() { h.until = make(chan struct{}) }

// release lets the answers go.
func (h *held) release() { close(h.until) }

// holding is answer, which gives the reply to slow, or if that is "" all replies, only after hold.release.
func holding(slow string, answer func(node int, command string) string) (
	hold *held, late func(node int, command string) string,
) {
	hold = &held{}
	return hold, func(node int, command string) string {
		if slow == "" || command == slow {
			<-hold.until
		}
		return answer(node, command)
	}
}

func (r *rig) Topology() *cluster.Topology      { return r.topology }
func (r *rig) Refresh()                         {}
func (r *rig) Suspect()                         {}
func (r *rig) Outages() *cluster.Outages        { return nil }
func (r *rig) Member(string) string             { return "" }
func (r *rig) Login() *cluster.Login            { return nil }
func (r *rig) OnChange(func(*cluster.Topology)) {}
func (r *rig) Ready() error                     { return nil }
func (r *rig) Serves() bool                     { return true }
func (r *rig) Command(context.Context) ([]byte, error) {
	if r.command != nil {
		return r.command, nil
	}
	return commandReply(), nil
}
func (r *rig) Limits(context.Context) cluster.Limits { return r.limits }
func (r *rig) Memories(context.Context) map[string]cluster.Memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.memories)
}
func (r *rig) WatchReplicas()                                          {}
func (r *rig) Subscribe(int, string, func(subscription.Change)) func() { return func() {} }

// commandReply is the COMMAND reply of miniredis.
var commandReply = sync.OnceValue(func() []byte {
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		panic(err)
	}
	defer m.Close()
	nc, err := net.Dial("tcp", m.Addr())
	if err != nil {
		panic(err)
	}
	defer nc.Close()
	io.WriteString(nc, "*1\r\n$7\r\nCOMMAND\r\n*1\r\n$4\r\nPING\r\n")
	var all []byte
	for buf := make([]byte, 64<<10); !strings.HasSuffix(string(all), "+PONG\r\n"); {
		n, err := nc.Read(buf)
		if err != nil {
			panic(err)
		}
		all = append(all, buf[:n]...)
	}
	return all[:len(all)-len("+PONG\r\n")]
})

// Dial implements pipe.Control.
func (r *rig) Dial(_ context.Context, addr string, m cluster.Mode, before *cluster.Identity) (net.Conn,
	error) {
	var node int
	fmt.Sscanf(addr, "node:%d", &node)
	if r.as != nil {
		var err error
		if node, err = r.as(node, m, before == nil); err != nil {
			return nil, err
		}
	}
	here, there := net.Pipe()
	if r.node != nil {
		return r.node(node, m, before == nil, here, there)
	}
	go r.serve(node, there)
	return here, nil
}

func (r *rig) serve(node int, nc net.Conn) {
	defer nc.Close()
	answer := func(command string) string { return r.answer(node, command) }
	if r.converse != nil {
		var end func()
		answer, end = r.converse(node)
		defer end()
	}
	scripted.Each(nc, func(words []string) bool {
		if reply := scripted.Prove(words); reply != "" {
			return scripted.Write(nc, reply)
		}
		line := strings.Join(words, " ")
		if !strings.HasPrefix(line, "SCRIPT LOAD local ") { // a script of locks, which goes ahead of its call
			r.mu.Lock()
			r.seen = append(r.seen, fmt.Sprintf("%d: %s", node, line))
			r.mu.Unlock()
		}
		return scripted.Write(nc, answer(line))
	}, nil)
}

// commands is what the nodes were sent, in the order in which they got it.
func (r *rig) commands() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.seen, ", ")
}

// testClient is one connection to the server under test.
type testClient struct {
	*rig
	net.Conn
	r *bufio.Reader
}

func (r *rig) connect() *testClient {
	here, there := net.Pipe()
	go r.server.Admit(there, nil)
	r.clients = append(r.clients, here)
	r.Cleanup(func() { here.Close() })
	return &testClient{r, here, bufio.NewReader(here)}
}

// send writes commands, a line of words each, in one piece.
func (c *testClient) send(lines ...string) {
	c.Helper()
	var b []byte
	for _, line := range lines {
		b = resp.AppendCommandStrings(b, strings.Fields(line)...)
	}
	if _, err := c.Write(b); err != nil {
		c.Fatal(err)
	}
}

// expect reads until it has read what is wanted.
func (c *testClient) expect(want string) {
	c.Helper()
	got := make([]byte, len(want))
	c.SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := io.ReadFull(c.r, got); err != nil || string(got) != want {
		c.Fatalf("got %q (%v), want %q", got[:n], err, want)
	}
}

// expectClosed reads the end of the connection.
func (c *testClient) expectClosed() {
	c.Helper()
	c.SetReadDeadline(time.Now().Add(time.Minute))
	if b, err := c.r.ReadByte(); err == nil {
		c.Fatalf("got %q, want the end of the connection", b)
	} else if errors.Is(err, context.DeadlineExceeded) {
		c.Fatal("the connection stays open")
	}
}

// change has the server follow changed options.
func (r *rig) change(f func(*Options)) {
	o := r.server.o
	o.Settings = *r.server.shared.Now.Load()
	f(&o)
	r.server.Change(o)
}

// serveClients has s serve clients on a free port, and returns its address.
func serveClients(tb testing.TB, s *Server) net.Addr {
	tb.Helper()
	ln, err := door.Listen("127.0.0.1:0")
	if err == nil {
		err = s.Serve(ln)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return ln.Addr()
}

// noSettings is commands.Config without settings: CONFIG GET and SET are about the parameters of the upstream
// alone.
type noSettings struct{}

func (noSettings) Get(string) [][2]string { return nil }

func (noSettings) Has(string) bool { return false }

func (noSettings) Check(pairs [][2]string) error {
	for _, pair := range pairs {
		return fmt.Errorf("ERR Unknown option or number of arguments for CONFIG SET - '%.128s'", pair[0])
	}
	return nil
}

func (c noSettings) SetAll(pairs [][2]string) error { return c.Check(pairs) }
