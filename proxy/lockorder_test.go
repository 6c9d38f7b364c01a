package proxy

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/tidwall/redcon"

	"lockproxy/cluster"
	"lockproxy/cluster/master"
	"lockproxy/internal/loop"
	"lockproxy/internal/resp"
	"lockproxy/internal/scripted"
	"lockproxy/redlock/scripts"
)

// farMaster is a master of RedLock in the process: each of its replies comes some time later.
type farMaster struct {
	name string
	mini *miniredis.Miniredis
	late time.Duration
}

func newFarMaster(name string, late time.Duration) *farMaster {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	return &farMaster{name, m, late}
}

func (f *farMaster) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	node, err := f.mini.Dial()
	if err != nil {
		return nil, err
	}
	type said struct {
		reply []byte
		at    time.Time
	}
	replies := make(chan said, 10_000)
	go func() { // ends with the connection
		defer close(replies)
		defer node.Close()
		scripted.Each(there, func(words []string) bool {
			reply, err := f.run(node, words)
			replies <- said{reply, time.Now().Add(f.late)}
			return err == nil
		}, nil)
	}()
	go func() { // ends when replies is closed
		for r := range replies {
			time.Sleep(time.Until(r.at))
			there.Write(r.reply)
		}
	}()
	return here, nil
}

// run answers one command: what a proxy wants to know of a master, and scripts.
func (f *farMaster) run(node net.Conn, words []string) ([]byte, error) {
	switch line := strings.Join(words, " "); {
	case line == "INFO server":
		return redcon.AppendBulkString(nil, "run_id:"+f.name+
			"\r\nredis_mode:standalone\r\nuptime_in_seconds:9999999\r\n"), nil
	case line == "INFO replication":
		return redcon.AppendBulkString(nil, "role:master\r\n"), nil
	case strings.HasPrefix(line, "CONFIG"):
		return []byte("*0\r\n"), nil
	case strings.HasPrefix(line, "CLIENT"):
		return []byte(":1\r\n"), nil
	}
	if _, err := node.Write(resp.AppendCommandStrings(nil, words...)); err != nil {
		return nil, err
	}
	var reply []byte
	for r := bufio.NewReader(node); ; {
		b, err := r.ReadByte()
		if err != nil {
			return nil, err
		}
		reply = append(reply, b)
		var frame resp.Framer
		if _, done, err := frame.Next(reply); done || err != nil {
			return reply, err
		}
	}
}

// inFarBubble runs test, in fake time, with a Server whose locks are on three masters that answer late.
func inFarBubble(t *testing.T, late time.Duration, test func(r *rig)) {
	commandReply() // from a real socket, so before time stops
	synctest.Test(t, func(t *testing.T) {
		var loaded [][]byte
		for _, s := range scripts.All() {
			loaded = append(loaded, []byte(s.Source))
		}
		far := map[string]*farMaster{}
		var addrs []string
		for i := range 3 {
			addr := fmt.Sprintf("far:%d", i)
			addrs = append(addrs, addr)
			far[addr] = newFarMaster(addr, late)
			defer far[addr].mini.Close()
		}
		connect := func(ctx context.Context, l *loop.Loop) ([]*master.Master, error) {
			return master.Connect(ctx, l, addrs, master.Options{
				Scripts: loaded,
				Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
					return far[addr].dial(ctx, network, addr)
				},
			})
		}
		defer synctest.Wait()
		r := &rig{T: t, topology: &cluster.Topology{Version: 1, Server: cluster.Server{Version: "7.0.15"}}}
		r.answer = func(int, string) string { return "*2\r\n$1\r\n0\r\n*0\r\n" } // to SCAN
		r.topology.Masters = []*cluster.Node{{Addr: "node:1", Master: true}}
		for s := range r.topology.Slots {
			r.topology.Slots[s] = r.topology.Masters[0]
		}
		o := Options{Upstream: r, PubSub: r, Portable: true, Loops: 1}
		o.Redlock.Connect = connect
		r.run(o, test)
	})
}

// took has a client send lines in one piece and read as many replies, and returns them and how long that
// took.
func (c *testClient) took(lines ...string) (replies []string, took time.Duration) {
	c.Helper()
	began := time.Now()
	go c.send(lines...)
	c.SetReadDeadline(time.Now().Add(time.Minute))
	var all []byte
	for range lines {
		for {
			b, err := c.r.ReadByte()
			if err != nil {
				c.Fatalf("%v after %q", err, replies)
			}
			all = append(all, b)
			var f resp.Framer
			if _, done, err := f.Next(all); err != nil {
				c.Fatal(err)
			} else if done {
				replies = append(replies, string(all))
				all = all[:0]
				break
			}
		}
	}
	return replies, time.Since(began)
}

// What a client asks of independent masters for different locks in one piece takes as long as one of them,
// and the answers come in order.
func TestPipelinedRedlock(t *testing.T) {
	inFarBubble(t, 2*time.Millisecond, func(r *rig) {
		c := r.connect()
		var locks, unlocks []string
		for i := range 50 {
			locks = append(locks, fmt.Sprintf("LOCK job%d TOKEN t%d", i, i))
			unlocks = append(unlocks, fmt.Sprintf("UNLOCK job%d t%d", i, i))
		}
		_, one := c.took("LOCK job TOKEN t")
		replies, fifty := c.took(locks...)
		for i, reply := range replies {
			if want := fmt.Sprintf("t%d\r\n", i); !strings.HasPrefix(reply, "*4\r\n$") ||
				!strings.Contains(reply, want) {
				t.Errorf("LOCK %d: %q", i, reply)
			}
		}
		if fifty > 5*one {
			t.Errorf("50 LOCKs in one piece took %v, one alone %v", fifty, one)
		}
		replies, fifty = c.took(unlocks...)
		for i, reply := range replies {
			if reply != ":1\r\n" {
				t.Errorf("UNLOCK %d: %q", i, reply)
			}
		}
		if fifty > 5*one {
			t.Errorf("50 UNLOCKs in one piece took %v, one LOCK %v", fifty, one)
		}
	})
}

// What a client asks for one lock in one piece is done in that order, by whatever name the lock goes, and
// what asks for no certain lock comes behind all of it.
func TestPipelinedRedlockInOrder(t *testing.T) {
	inFarBubble(t, 2*time.Millisecond, func(r *rig) {
		c := r.connect()
		var lines []string
		for range 10 {
			lines = append(lines, "LOCK job TOKEN z", "LOCK other", "UNLOCK {job} z", "LOCKCTL INFO job",
				"LOCK job TOKEN a WAIT 100", "RENEW job a",
				"LOCK job TOKEN b", "UNLOCK job a", "UNLOCK other", "LOCKCTL LIST")
		}
		replies, _ := c.took(lines...)
		for i, reply := range replies {
			var ok bool
			switch i % 10 {
			case 0, 1, 4:
				ok = strings.HasPrefix(reply, "*4\r\n$")
			case 3:
				ok = strings.Contains(reply, "state")
			case 5:
				ok = strings.HasPrefix(reply, ":") && reply != ":0\r\n"
			case 6:
				ok = reply == "$-1\r\n"
			case 2, 7, 8:
				ok = reply == ":1\r\n"
			case 9:
				ok = reply == "*0\r\n"
			}
			if !ok {
				t.Errorf("%s: %q", lines[i], reply)
			}
		}
	})
}
