package pipe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/scripted"
)

// replicated is a rig of a master, "a:1", and its replicas.
type replicated struct {
	*rig
	nodes  map[string]*scripted.Node
	refuse func(addr string, m cluster.Mode) error // to dial; nil: nothing
	modes  []string                                // of the connections, as they came
}

func (d *replicated) Dial(_ context.Context, addr string, m cluster.Mode, _ *cluster.Identity) (net.Conn,
	error) {
	if d.refuse != nil {
		if err := d.refuse(addr, m); err != nil {
			return nil, err
		}
	}
	d.mu.Lock()
	d.modes = append(d.modes, fmt.Sprintf("%s %d %d %v", addr, m.Proto, m.DB, m.Replica))
	d.mu.Unlock()
	return d.nodes[addr].Dial(), nil
}

// readFrom makes these replicas the ones to be read from.
func (d *replicated) readFrom(addrs ...string) {
	d.mu.Lock()
	t := *d.topology
	t.Replicas, t.Readers = nil, make(map[*cluster.Node][]*cluster.Node)
	for _, addr := range []string{"b:1", "c:1"} {
		n := &cluster.Node{Addr: addr, Follows: "a:1"}
		t.Replicas = append(t.Replicas, n)
		if slices.Contains(addrs, addr) {
			t.Readers[t.Masters[0]] = append(t.Readers[t.Masters[0]], n)
		}
	}
	d.topology = &t
	d.mu.Unlock()
	d.on(d.pool.Update)
}

// inReplicaBubble starts with the replicas b:1 and c:1; answer is given the name of the node.
func inReplicaBubble(t *testing.T, o Options, answer func(node, command string) string,
	test func(d *replicated)) {
	synctest.Test(t, func(t *testing.T) {
		d := &replicated{rig: newRig(t, Options{}, nil), nodes: make(map[string]*scripted.Node)}
		for _, name := range []string{"a", "b", "c"} {
			d.nodes[name+":1"] = &scripted.Node{
				Answer: func(command string) string { return answer(name, command) },
			}
		}
		d.on(func() {
			d.pool.Close()
			d.pool = New(d.loop, d, o, &d.stats)
		})
		d.readFrom("b:1", "c:1")
		test(d)
	})
}

// read sends a read and returns its reply.
func (d *replicated) read(seed int64, share bool, m Mode, words ...string) string {
	got := make(chan string, 1)
	to := &Collector{Then: func(reply []byte, err error) { got <- string(reply) + errorText(err) }}
	readers := ReplicasFirst
	if share {
		readers = AllReaders
	}
	d.on(func() {
		d.pool.Send(&Request{
			Target: ToSlot(7), Mode: m, Bytes: command(words...), To: to, Readers: readers, Seed: seed,
		})
	})
	return <-got
}

func named(node, command string) string { return fmt.Sprintf("+%s %s\r\n", node, command) }

var resp2 = Mode{Proto: 2}

// Reads with the same seed go to one replica, those with several seeds to all; writes go to the master.
func TestReadsAtReplicas(t *testing.T) {
	inReplicaBubble(t, Options{}, named, func(d *replicated) {
		for range 3 {
			for seed, want := range []string{"+b GET k\r\n", "+c GET k\r\n", "+b GET k\r\n"} {
				if got := d.read(int64(seed), false, resp2, "GET", "k"); got != want {
					d.t.Errorf("seed %d: %q", seed, got)
				}
			}
			for seed, want := range []string{"+b GET k\r\n", "+c GET k\r\n", "+a GET k\r\n", "+c GET k\r\n"} {
				if got := d.read(int64(seed), true, resp2, "GET", "k"); got != want {
					d.t.Errorf("seed %d, shared: %q", seed, got)
				}
			}
		}
		if got := d.read(1, false, Mode{Proto: 3, DB: 4}, "GET", "k"); got != "+c GET k\r\n" {
			d.t.Errorf("in database 4: %q", got)
		}
		if got, _ := d.do("SET k v", false); got != "+a SET k v\r\n" {
			d.t.Errorf("a write: %q", got)
		}
		slices.Sort(d.modes)
		want := "a:1 2 0 false, b:1 2 0 true, c:1 2 0 true, c:1 3 4 true"
		if got := strings.Join(d.modes, ", "); got != want {
			d.t.Errorf("connections %s", got)
		}
		d.readFrom()
		if got := d.read(0, false, resp2, "GET", "k"); got != "+a GET k\r\n" {
			d.t.Errorf("with no replica that is fit: %q", got)
		}
	})
}

// Whatever a replica answers in place of the value, the master is asked, and soon.
func TestReadsFallBack(t *testing.T) {
	for name, trouble := range map[string]struct {
		reply  string
		refuse error
		within time.Duration
	}{
		"loading": {reply: "-LOADING Redis is loading the dataset in memory\r\n"},
		"without its master": {
			reply: "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n",
		},
		"cut off":           {reply: "-CLUSTERDOWN The cluster is down\r\n"},
		"of another master": {reply: "-MOVED 7 x:1\r\n"},
		"gone":              {reply: "", within: 50 * time.Millisecond},
		"in half a reply":   {reply: "$5\r\nab", within: 50 * time.Millisecond},
		"out of reach":      {refuse: errors.New("connection refused"), within: 50 * time.Millisecond},
		"without database": {refuse: &cluster.ModeError{Text: "ERR DB index is out of range"},
			within: 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			answer := func(node, command string) string {
				if node == "b" {
					return trouble.reply
				}
				return named(node, command)
			}
			inReplicaBubble(t, Options{Timeout: time.Minute}, answer, func(d *replicated) {
				d.refuse = func(addr string, _ cluster.Mode) error {
					if addr == "b:1" {
						return trouble.refuse
					}
					return nil
				}
				if strings.HasPrefix(trouble.reply, "$") {
					// its silence was noticed
					time.AfterFunc(10*time.Millisecond, func() { d.readFrom("c:1") })
				}
				began := time.Now()
				if got := d.read(0, false, resp2, "GET", "k"); got != "+a GET k\r\n" {
					t.Errorf("got %q", got)
				}
				if took := time.Since(began); took > trouble.within {
					t.Errorf("it took %v", took)
				}
				// The other replica serves on; the troubled one is left alone for a while.
				if got := d.read(1, false, resp2, "GET", "k"); got != "+c GET k\r\n" {
					t.Errorf("the other replica: %q", got)
				}
				asked := d.nodes["b:1"].Commands()
				if strings.HasPrefix(trouble.reply, "-") {
					if got := d.read(0, false, resp2, "GET", "k2"); got != "+c GET k2\r\n" ||
						d.nodes["b:1"].Commands() != asked {
						t.Errorf("the next read: %q", got)
					}
					time.Sleep(shunFor)
					d.read(0, false, resp2, "GET", "k3")
					if d.nodes["b:1"].Commands() == asked {
						t.Error("it is never asked again")
					}
				}
			})
		})
	}
}

// A replica that hangs delays reads only until it is known to hang; then they go elsewhere. The same is true
// of one that cannot be reached.
func TestReadsLeaveASilentReplica(t *testing.T) {
	for name, dials := range map[string]bool{"connected": true, "connecting": false} {
		t.Run(name, func(t *testing.T) {
			answer := func(node, command string) string {
				if node == "b" {
					return "-"
				}
				return named(node, command)
			}
			inReplicaBubble(t, Options{Timeout: time.Hour, ConnectTimeout: time.Hour}, answer,
				func(d *replicated) {
					time.AfterFunc(time.Second, func() { d.readFrom("c:1") })
					began := time.Now()
					if !dials {
						d.on(func() { d.pool.control = hanging{d} })
					}
					if got := d.read(0, false, resp2, "GET", "k"); got != "+a GET k\r\n" ||
						time.Since(began) > 2*time.Second {
						t.Errorf("%q after %v", got, time.Since(began))
					}
				})
		})
	}
}

// hanging is a replicated whose b:1 lets nobody connect.
type hanging struct{ *replicated }

func (h hanging) Dial(ctx context.Context, addr string, m cluster.Mode, before *cluster.Identity) (net.Conn,
	error) {
	if addr == "b:1" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return h.replicated.Dial(ctx, addr, m, before)
}

// An error of the command is the client's, a lost script is healed where it was missed, and connections that
// nobody uses are closed.
func TestReadsAtReplicasAreReplies(t *testing.T) {
	loaded := false
	answer := func(node, command string) string {
		switch {
		case command == "GET list":
			return "-WRONGTYPE no string\r\n"
		case strings.HasPrefix(command, "SCRIPT LOAD"):
			loaded = node == "b"
		case strings.HasPrefix(command, "EVALSHA_RO") && !loaded:
			return "-NOSCRIPT No matching script. Please use EVAL.\r\n"
		}
		return named(node, command)
	}
	source := func([]byte) ([]byte, bool) { return []byte("return"), true }
	inReplicaBubble(t, Options{Source: source}, answer, func(d *replicated) {
		if got := d.read(0, false, resp2, "GET", "list"); got != "-WRONGTYPE no string\r\n" {
			d.t.Errorf("%q", got)
		}
		if got := d.read(0, false, resp2, "EVALSHA_RO", "abc", "0"); got != "+b EVALSHA_RO abc 0\r\n" {
			d.t.Errorf("%q", got)
		}
		before := d.stats.node("b:1").up.Load()
		time.Sleep(sideIdle + 2*patrol)
		if after := d.stats.node("b:1").up.Load(); before != 1 || after != 0 {
			d.t.Errorf("%d connections, then %d", before, after)
		}
		if got := d.read(0, false, resp2, "GET", "k"); got != "+b GET k\r\n" {
			d.t.Errorf("again: %q", got)
		}
	})
}
