package proxy

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe"
	"lockproxy/internal/resp"
)

// inLargeBubble runs test before two nodes that tell what they get by length. For each connection seen has
// the kinds of commands that came over it: "own" after CLIENT ID, which none that is shared is asked.
func inLargeBubble(t *testing.T, o Options, test func(r *rig, seen func() string)) {
	inBubble(t, 2, o, echo, func(r *rig) {
		var mu sync.Mutex
		var all []string
		r.converse = func(node int) (func(string) string, func()) {
			kind := "shared"
			return func(command string) string {
				if command == "CLIENT ID" {
					kind = "own"
					return ":7\r\n"
				}
				word, rest, _ := strings.Cut(command, " ")
				key, value, _ := strings.Cut(rest, " ")
				mu.Lock()
				all = append(all, fmt.Sprintf("%s %s %s", kind, word, key[:min(len(key), 9)]))
				mu.Unlock()
				return fmt.Sprintf("+%s %d\r\n", word, len(value))
			}, func() {}
		}
		test(r, func() string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			defer func() { all = nil }()
			return strings.Join(all, ", ")
		})
	})
}

var largeValue = strings.Repeat("v", cluster.MaxShared)

// A large command goes over a connection that no other client uses, keeps its place among the commands of its
// client, and the connection is closed when it is not needed any more.
func TestLargeCommandsApart(t *testing.T) {
	inLargeBubble(t, Options{}, func(r *rig, seen func() string) {
		c, other := r.connect(), r.connect()
		other.send("SET a 1")
		other.expect("+SET 1\r\n")
		c.post("SET a 1", "SET a "+largeValue, "SET {a}2 "+largeValue, "GET a", "MULTI", "SET a "+largeValue,
			"DISCARD", "SET a 2")
		c.expect("+SET 1\r\n+SET 1048576\r\n+SET 1048576\r\n+GET 0\r\n+OK\r\n")
		c.expect("+SET 1048576\r\n")
		time.Sleep(3 * largeIdle)
		want := "shared SET a, shared SET a, own SETRANGE a, own SET a, own SETRANGE {a}2, own SET {a}2, " +
			"own GET a, own MULTI , own SET a"
		if got := seen(); !strings.HasPrefix(got, want) {
			t.Errorf("the nodes saw %s, want %s", got, want)
		}
		c.Close()
		synctest.Wait()
		time.Sleep(time.Minute)
		if got := r.server.Stats().Own; got.Used+got.Idle+got.Waiting > 0 {
			t.Errorf("connections are left: %+v", got)
		}
	})
}

// What the masters take of one client is known, and kept to for each client in the words of Redis.
func TestLimitsAreLearnt(t *testing.T) {
	inLargeBubble(t, Options{}, func(r *rig, seen func() string) {
		for _, learnt := range []cluster.Limits{{Bulk: 2 << 20}, {Buffer: 2 << 20},
			{Bulk: 2 << 20, Buffer: 3 << 20}} {
			r.limits = learnt
			r.server.shared.Limits.Learn(r.limits, r.server.o.Log)
			c := r.connect()
			c.post("SET a " + largeValue)
			c.expect("+SET 1048576\r\n")
			fmt.Fprintf(c, "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$%d\r\n", 2<<20+1)
			c.expect("-ERR Protocol error: invalid bulk length\r\n")
			c.expectClosed()
		}
		r.limits = cluster.Limits{}
		r.server.shared.Limits.Learn(r.limits, r.server.o.Log)
		c := r.connect()
		c.post("SET a " + strings.Repeat("v", 3<<20))
		c.expect("+SET 3145728\r\n")
	})
}

// Where no connection is to be had, the client is told so in time, and the connection that clients share is
// not taken.
func TestNoPlaceForLargeCommands(t *testing.T) {
	inLargeBubble(t, Options{MaxOwn: 1, Pipes: pipe.Options{Budget: time.Second}},
		func(r *rig, seen func() string) {
			blocked := r.connect()
			r.converse = func(int) (func(string) string, func()) {
				return func(command string) string {
					if command == "CLIENT ID" {
						return ":7\r\n"
					}
					return "-"
				}, func() {}
			}
			blocked.send("BLPOP a 0")
			synctest.Wait()
			c := r.connect()
			began := time.Now()
			c.post("SET a " + largeValue)
			c.expect("-TRYAGAIN no node took it in time: the command was not run: " +
				"all connections that are not shared are in use (upstream-own-connections)")
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("it took %v", took)
			}
		})
}

// A node that finds a command too large, and closes, is not sent it for as long as the budget lasts.
func TestNodeClosesInsideALargeCommand(t *testing.T) {
	inBubble(t, 1, Options{}, echo, func(r *rig) {
		dials := 0
		r.node = func(_ int, _ cluster.Mode, own bool, here, there net.Conn) (net.Conn, error) {
			if !own {
				go r.serve(1, there)
				return here, nil
			}
			dials++
			go func() {
				defer there.Close()
				buf := make([]byte, 64<<10)
				for range 4 {
					if _, err := there.Read(buf); err != nil {
						return
					}
				}
			}()
			return here, nil
		}
		c := r.connect()
		c.post("MSET a "+strings.Repeat("v", 3<<20), "GET a")
		c.expect("-ERR the command was not run: the node closed the connection inside of it, as it does " +
			"above its client-query-buffer-limit\r\n+1 GET a\r\n")
		if dials != 3 {
			t.Errorf("it was sent %d times", dials)
		}
	})
}

// post is send without waiting for the server to read it all.
func (c *testClient) post(lines ...string) {
	var b []byte
	for _, line := range lines {
		b = resp.AppendCommandStrings(b, strings.Fields(line)...)
	}
	go c.Write(b) // ends with the connection
}
