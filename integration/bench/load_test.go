package main

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockproxy/integration/rig"
	"lockproxy/internal/slot"
)

// A load sends what its sources make, batch by batch, and refuses errors.
func TestLoad(t *testing.T) {
	for _, tt := range []struct {
		name, reply string
		fails       string
	}{
		{name: "good", reply: "+PONG\r\n$1\r\nx\r\n"},
		{name: "error", reply: "+PONG\r\n-ERR no\r\n", fails: `unexpected reply "-ERR no\r\n"`},
		{name: "null", reply: "$-1\r\n$1\r\nx\r\n", fails: `unexpected reply "$-1\r\n"`},
		{name: "too many", reply: "+PONG\r\n+1\r\n+2\r\n", fails: "after the last reply"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			addr, asked := answering(t, "PING\r\nGET\r\n", tt.reply)
			var l load
			defer l.close()
			l.pipeline = 2
			for range 3 {
				if err := l.dial(addr, func(dst []byte) []byte { return append(dst, "PING\r\nGET\r\n"...) },
					nil); err != nil {
					t.Fatal(err)
				}
			}
			s, err := l.run(10)
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Fatalf("got error %v, want %s", err, tt.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if s[rate] <= 0 || s[p50] <= 0 || s[p99] < s[p50] {
				t.Errorf("%+v", s)
			}
			l.close()
			n := 0
			for range 3 {
				n += <-asked
			}
			if n != 10 {
				t.Errorf("the server was asked %d times, want 10", n)
			}
		})
	}
}

// served is a server that has each connection served until it is to be closed.
func served(t *testing.T, serve func(net.Conn)) (addr string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() { // ends with the test
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { // ends with the connection
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return ln.Addr().String()
}

// answering is a server that answers each batch with reply, in two pieces. Each
// connection tells at its end how many it answered.
func answering(t *testing.T, batch, reply string) (addr string, asked chan int) {
	asked = make(chan int, 10)
	return served(t, func(conn net.Conn) {
		n, buf := 0, make([]byte, len(batch))
		for {
			if _, err := conn.Read(buf); err != nil {
				asked <- n
				return
			}
			n++
			conn.Write([]byte(reply[:3]))
			time.Sleep(time.Millisecond)
			conn.Write([]byte(reply[3:]))
		}
	}), asked
}

// Each connection of an even load sends as many batches as every other one, however slow it is.
func TestEvenLoad(t *testing.T) {
	quick, asked := answering(t, "PING", "+PONG\r\n")
	l := load{pipeline: 1, even: true}
	defer l.close()
	for i := range 3 {
		if err := l.dial(quick, func(dst []byte) []byte {
			if i == 0 {
				time.Sleep(20 * time.Millisecond) // the others have answers meanwhile
			}
			return append(dst, "PING"...)
		}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // a second run counts anew
		if _, err := l.run(12); err != nil {
			t.Fatal(err)
		}
	}
	l.close()
	for range 3 {
		if n := <-asked; n != 8 {
			t.Errorf("a connection sent %d batches, want 8", n)
		}
	}
}

// Each batch of a fresh load has a connection of its own.
func TestFreshLoad(t *testing.T) {
	addr, asked := answering(t, "PING", "+PONG\r\n")
	l := load{pipeline: 1, fresh: true}
	defer l.close()
	for range 2 {
		if err := l.dial(addr, cycle([][]byte{[]byte("PING")}, 0), nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.run(6); err != nil {
		t.Fatal(err)
	}
	l.close()
	answered := map[int]int{}
	for range 2 + 6 { // two were never used
		answered[<-asked]++
	}
	if answered[0] != 2 || answered[1] != 6 {
		t.Errorf("connections by requests: %v, want 2 without one and 6 with one", answered)
	}
}

// Requests are sent by the timetable although nothing is answered, and a latency counts from when its request
// was due: a load that waits for each reply would see one late request where a server hangs.
func TestFollowCountsFromWhenItWasDue(t *testing.T) {
	const n, since = 100, time.Hour
	addr := served(t, func(conn net.Conn) { // it hangs until it has all of them
		if _, err := io.ReadFull(conn, make([]byte, 4*n)); err == nil {
			conn.Write([]byte(strings.Repeat("+\r\n", n)))
		}
	})
	var l load
	defer l.close()
	if err := l.dial(addr, cycle([][]byte{[]byte("PING")}, 0), nil); err != nil {
		t.Fatal(err)
	}
	took, err := l.follow(timetable{time.Now().Add(-since), time.Millisecond}, n)
	if err != nil || len(took) != n {
		t.Fatalf("%d of %d replies: %v", len(took), n, err)
	}
	for i, d := range took {
		if d < since-n*time.Millisecond {
			t.Errorf("request %d was due an hour ago and is late by %v", i, d)
		}
	}
}

// A message that is lost, comes twice or is another one is an error, and so is one that somebody does not
// get.
func TestStepLoad(t *testing.T) {
	for _, tt := range []struct {
		name, messages, fails string
	}{
		{"all come", "+1\r\n+2\r\n", ""},
		{"another one", "+2\r\n+2\r\n", "unexpected reply"},
		{"one too many", "+1\r\n+2\r\n+3\r\n", "after the last reply"},
		{"one too few", "+1\r\n", "closed the connection"},
	} {
		l := load{pipeline: 2, step: true}
		for _, text := range []string{"+1\r\n+2\r\n", tt.messages} {
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err != nil {
				t.Fatal(err)
			}
			heard := 0
			l.conns = append(l.conns, &conn{fd: fds[0], next: func(dst []byte) []byte { return dst },
				good: func(reply []byte) bool {
					heard++
					return string(reply) == fmt.Sprintf("+%d\r\n", heard)
				}})
			unix.Write(fds[1], []byte(text))
			unix.Close(fds[1])
		}
		_, err := l.run(1)
		if tt.fails == "" && err != nil || tt.fails != "" &&
			(err == nil || !strings.Contains(err.Error(), tt.fails)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.fails)
		}
		l.close()
	}
}

// What goes to a node directly are only locks of that node, each request one
// command, and batches hold whole pairs.
func TestPairings(t *testing.T) {
	p := scriptPairing([]string{"a", "b", "c"})
	_, first := p.commands("a:", 0)
	addr, last := p.commands("a:", 2)
	_, locks := verbs(way{doors: []string{"d"}}).commands("a:", 2)
	for _, commands := range [][][]byte{first, last, locks} {
		if addr != "c" || len(commands) == 0 || len(commands)%(2*lockNames) != 0 {
			t.Fatalf("%d commands, want a multiple of %d; the last at %s", len(commands), 2*lockNames, addr)
		}
	}
	for _, c := range first {
		for _, d := range last {
			if lockKey(c) == lockKey(d) {
				t.Fatalf("%s is on two nodes", lockKey(c))
			}
		}
	}
	next := inTurn(first, 16)
	for range 3 {
		for i := 0; i < len(first); i += 16 {
			want := ""
			for _, c := range first[i : i+16] {
				want += string(c)
			}
			if got := string(next(nil)); got != want {
				t.Fatalf("batch at %d: %q, want %q", i, got, want)
			}
		}
	}
}

// lockKey is the first key of an EVALSHA: *n, $7, EVALSHA, $40, the hash, $1, 2, $n, the key.
func lockKey(request []byte) string {
	return strings.Split(string(request), "\r\n")[8]
}

// All connections together take each lock once.
func TestKeepingLocks(t *testing.T) {
	const holds = 4 * keepBatch
	next := keeping{lease: 9 * time.Second}.locks(holds)
	names := map[string]bool{}
	for range holds / keepBatch {
		for _, c := range strings.Split(string(next(nil)), "*5\r\n")[1:] {
			words := strings.Split(c, "\r\n")
			if words[1] != "LOCK" || words[5] != "PX" || words[7] != "9000" || words[9] != "KEEPALIVE" {
				t.Fatalf("%q", c)
			}
			names[words[3]] = true
		}
	}
	if len(names) != holds {
		t.Errorf("%d locks, want %d", len(names), holds)
	}
}

// The keys of a large command are of the size that its table tells, and of one slot or of all.
func TestSpreadings(t *testing.T) {
	for _, s := range spreadings {
		found := map[int]bool{}
		for i := range 200_000 {
			key := fmt.Sprintf(s.key, i)
			if len(key) != largeKeySize {
				t.Fatalf("%s: %q has %d bytes", s.name, key, len(key))
			}
			found[slot.Of([]byte(key))] = true
		}
		want := rig.Slots
		if strings.Contains(s.key, "{") {
			want = 1
		}
		if len(found) != want {
			t.Errorf("%s: %d slots, want %d", s.name, len(found), want)
		}
	}
}
