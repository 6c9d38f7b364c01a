package faults

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// relay is a TCP connection that keeps back what it has been given, as a sidecar, a NAT or a path that
// stalls may do, and delivers it much later, when the side that sent it has long given it up:
//
//	lockproxy --> relay --> redis-server
type relay struct {
	target string
	door   net.Listener
	tasks  sync.WaitGroup

	mu    sync.Mutex
	match []byte // the next connection that is given this keeps it back; nil: none does
	cut   bool   // and is closed towards lockproxy
	kept  chan *late
	open  []net.Conn
}

// late is what was kept back, and the connection that it was for.
type late struct {
	node net.Conn
	data []byte
}

func startRelay(t *testing.T, target string) *relay {
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{target: target, door: door, kept: make(chan *late, 1)}
	r.tasks.Go(r.accept) // ends with the door
	t.Cleanup(func() {
		door.Close()
		r.mu.Lock()
		for _, c := range r.open {
			c.Close()
		}
		r.mu.Unlock()
		r.tasks.Wait()
	})
	return r
}

func (r *relay) accept() {
	for {
		client, err := r.door.Accept()
		if err != nil {
			return
		}
		node, err := net.Dial("tcp", r.target)
		if err != nil {
			client.Close()
			continue
		}
		r.mu.Lock()
		r.open = append(r.open, client, node)
		r.mu.Unlock()
		r.tasks.Go(func() { r.forth(client, node) }) // ends with one of them
		r.tasks.Go(func() {                          // the same
			io.Copy(client, node)
			client.Close()
		})
	}
}

// forth passes on what lockproxy sends.
func (r *relay) forth(client, node net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			node.Close()
			return
		}
		r.mu.Lock()
		keeps := r.match != nil && bytes.Contains(buf[:n], r.match)
		if keeps {
			r.match = nil
		}
		cut := r.cut
		r.mu.Unlock()
		if !keeps {
			if _, err := node.Write(buf[:n]); err != nil {
				client.Close()
				return
			}
			continue
		}
		r.kept <- &late{node, bytes.Clone(buf[:n])}
		if cut {
			client.Close()
		}
		io.Copy(io.Discard, client)
		return
	}
}

// keepBack keeps the next request about a lock back; cut says that its connection is lost at once.
func (r *relay) keepBack(lock string, cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.match, r.cut = []byte("{"+lock+"}"), cut
}

// deliver delivers what was kept back, and returns when the node has had it or has refused it.
func (r *relay) deliver(t *testing.T) {
	t.Helper()
	select {
	case l := <-r.kept:
		l.node.Write(l.data)
		l.node.(*net.TCPConn).CloseWrite() // Redis answers what came before
		l.node.SetReadDeadline(time.Now().Add(rig.Patience))
		io.Copy(io.Discard, l.node)
	case <-time.After(rig.Patience):
		t.Fatal("nothing was kept back")
	}
}

// A copy of a request that arrives after its answer does nothing any more: the connection that it lies on is
// ended before the request is sent again, and before its client hears that nobody knows what became of it.
// Where that is not allowed, it does nothing to a grant that this proxy has asked for since.
func TestLateCopies(t *testing.T) {
	t.Parallel()
	s, lenient := rig.StartRedis(t), rig.StartRedis(t)
	lenient.Do(t, "ACL", "SETUSER", "default", "-client|kill", "-client|info")
	for name, late := range map[string]struct {
		args []string
		cut  bool
		at   *rig.Server
	}{
		"the connection is lost": {nil, true, s},
		"the connection hangs":   {[]string{"--upstream-timeout", "2s", "--retry-budget", "1s"}, false, s},
		"it cannot be ended":     {nil, true, lenient},
	} {
		t.Run(name, func(t *testing.T) {
			r := startRelay(t, late.at.Addr)
			p := rig.StartProxy(t, append(late.args, "--upstream", r.door.Addr().String())...)
			alice, bob := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
			lock := func(c *rig.Conn, verb, name, token string) {
				t.Helper()
				if v := c.Must(t, verb, name, "TOKEN", token, "PX", "60000"); len(v.Elems) != 4 {
					t.Fatalf("%s: %s", verb, v)
				}
			}
			job := name + " unlock"
			lock(alice, "LOCK", job, "alice")
			r.keepBack(job, late.cut)
			alice.Want(t, "(integer) 1", "UNLOCK", job, "alice")
			lock(alice, "LOCK", job, "alice")
			alice.Want(t, "(integer) 1", "UNLOCK", job, "alice")
			for range 70 { // more than anything remembers by itself
				lock(alice, "LOCK", job, "alice")
				alice.Want(t, "(integer) 1", "UNLOCK", job, "alice")
			}
			lock(alice, "LOCK", job, "alice")
			r.deliver(t)
			bob.Want(t, "(nil)", "LOCK", job, "TOKEN", "bob")
			alice.Want(t, "(integer) 1", "UNLOCK", job, "alice")

			job = name + " unlock of a hash"
			lock(alice, "RLOCK", job, "alice")
			r.keepBack(job, late.cut)
			alice.Want(t, "(integer) 1", "UNLOCK", job, "alice", "ID", "named")
			for range 70 {
				lock(alice, "LOCK", job, "alice")
				alice.Want(t, "(integer) 1", "UNLOCK", job, "alice")
			}
			lock(alice, "RLOCK", job, "alice")
			r.deliver(t)
			bob.Want(t, "(nil)", "LOCK", job, "TOKEN", "bob")
			alice.Want(t, "(integer) 1", "UNLOCK", job, "alice")

			job = name + " renew"
			lock(alice, "LOCK", job, "alice")
			r.keepBack(job, late.cut)
			if left := alice.Must(t, "RENEW", job, "alice", "PX", "600000").Int(); left < 500_000 {
				t.Errorf("renewed: %d ms", left)
			}
			alice.Want(t, "(integer) 1", "UNLOCK", job, "alice")
			lock(alice, "LOCK", job, "alice")
			r.deliver(t)
			if left := alice.Must(t, "LOCKCTL", "CHECK", job, "alice").Elems[0].Int(); left > 60_000 {
				t.Errorf("a late RENEW made it last for %d ms", left)
			}
			alice.Want(t, "(integer) 1", "UNLOCK", job, "alice")

			job = name + " downgrade"
			lock(alice, "WLOCK", job, "alice")
			r.keepBack(job, late.cut)
			lock(alice, "RLOCK", job, "alice")
			alice.Want(t, "(integer) 1", "UNLOCK", job, "alice")
			lock(alice, "WLOCK", job, "alice")
			r.deliver(t)
			bob.Want(t, "(nil)", "RLOCK", job, "TOKEN", "bob")
			alice.Want(t, "(integer) 1", "UNLOCK", job, "alice")

			job = name + " re-entry"
			lock(alice, "LOCK", job, "alice")
			r.keepBack(job, late.cut)
			v := alice.Must(t, "LOCK", job, "TOKEN", "alice", "PX", "60000", "REENTRANT")
			if v.Elems[3].Int() != 2 {
				t.Errorf("%s", v)
			}
			alice.Want(t, "(integer) 0", "UNLOCK", job, "alice")
			alice.Want(t, "(integer) 1", "UNLOCK", job, "alice")
			lock(alice, "LOCK", job, "alice")
			r.deliver(t)
			alice.Want(t, "(integer) 1", "UNLOCK", job, "alice")
			bob.Must(t, "LOCKCTL", "INFO", job)

			job = name + " break"
			lock(alice, "LOCK", job, "alice")
			bob.Want(t, "(integer) 1", "LOCKCTL", "BREAK", job) // from now on the node knows the script
			lock(alice, "LOCK", job, "alice")
			r.keepBack(job, late.cut)
			if v := bob.Call(t, "LOCKCTL", "BREAK", job); !v.IsError() {
				t.Errorf("a BREAK of unknown outcome: %s", v)
			}
			alice.Want(t, "(integer) 1", "UNLOCK", job, "alice")
			lock(alice, "LOCK", job, "alice")
			r.deliver(t)
			alice.Want(t, "(integer) 1", "UNLOCK", job, "alice")
		})
	}
}
