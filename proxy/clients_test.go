package proxy

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// likeRedis7 has the server learn the commands of Redis 7.0.15.
func (r *rig) likeRedis7() {
	r.Helper()
	var err error
	if r.command, err = os.ReadFile("../commands/testdata/command-7.0.15.resp"); err != nil {
		r.Fatal(err)
	}
	if err := r.server.shared.Table.Learn(r.Context()); err != nil {
		r.Fatal(err)
	}
	synctest.Wait()
}

// connectAll connects n clients, whose IDs are in this order.
func (r *rig) connectAll(n int) (all []*testClient) {
	for range n {
		all = append(all, r.connect())
		synctest.Wait()
	}
	return all
}

// bulk reads a bulk string.
func (c *testClient) bulk() string {
	c.Helper()
	c.SetReadDeadline(time.Now().Add(time.Minute))
	head, err := c.r.ReadString('\n')
	var n int
	if _, scanErr := fmt.Sscanf(head, "$%d\r\n", &n); scanErr != nil {
		c.Fatalf("%q is no bulk string (%v)", head, err)
	}
	text := make([]byte, n+2)
	for i := range text {
		if text[i], err = c.r.ReadByte(); err != nil {
			c.Fatal(err)
		}
	}
	return string(text[:n])
}

var idField = regexp.MustCompile(`(?m)^id=(\d+) `)

// ids are the clients that a reply of CLIENT LIST names.
func ids(list string) string {
	var all []string
	for _, m := range idField.FindAllStringSubmatch(list, -1) {
		all = append(all, m[1])
	}
	return strings.Join(all, " ")
}

// CLIENT LIST sees the clients of all loops, more than are visited in one go, in order.
func TestClientListOfManyLoops(t *testing.T) {
	inBubble(t, 1, Options{Loops: 3}, echo, func(r *rig) {
		all := r.connectAll(1 + 4*256)
		a, others := all[0], all[1:]
		a.send("CLIENT SETNAME me", "GET k")
		a.expect("+OK\r\n+1 GET k\r\n")
		var want []string
		for i := range all {
			want = append(want, fmt.Sprint(i+1))
		}
		time.Sleep(3 * time.Second)
		a.send("CLIENT LIST", "PING")
		list := a.bulk()
		a.expect("+PONG\r\n")
		if got := ids(list); got != strings.Join(want, " ") {
			t.Errorf("clients %s", got)
		}
		own := "id=1 addr=pipe laddr=pipe fd=-1 name=me age=3 idle=0 flags=N db=0 sub=0 psub=0 ssub=0 " +
			"multi=-1 " +
			"qbuf=40 qbuf-free=65496 argv-mem=10 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem="
		if !strings.HasPrefix(list, own) || !strings.Contains(list,
			" events=r cmd=client|list user=default redir=-1 resp=2\n") {
			t.Errorf("its own line: %.400s", list)
		}
		if !strings.Contains(list, "id=7 addr=pipe laddr=pipe fd=-1 name= age=3 idle=3 flags=N ") ||
			!strings.Contains(list, "cmd=NULL") {
			t.Errorf("another one's line: %.800s", list)
		}
		a.send("CLIENT LIST ID 5 3 9999 5")
		if got := ids(a.bulk()); got != "5 3 5" {
			t.Errorf("by IDs: %s", got)
		}
		for _, c := range others[:256] {
			c.Close()
		}
		synctest.Wait()
		a.send("CLIENT LIST TYPE normal")
		if got := ids(a.bulk()); got != "1 "+strings.Join(want[256+1:], " ") {
			t.Errorf("after some left: %s", got)
		}
		a.send("CLIENT KILL TYPE normal")
		a.expect(fmt.Sprintf(":%d\r\n", 3*256))
		others[len(others)-1].expectClosed()
		a.send("CLIENT LIST")
		if got := ids(a.bulk()); got != "1" {
			t.Errorf("after all were killed: %s", got)
		}
	})
}

// A client that kills itself gets all its answers, and what it has sent behind is not run.
func TestClientKillsItself(t *testing.T) {
	inBubble(t, 1, Options{Loops: 2}, echo, func(r *rig) {
		all := r.connectAll(2)
		a, b := all[0], all[1]
		b.send("PING")
		b.expect("+PONG\r\n")
		a.send("GET k", "CLIENT KILL SKIPME no", "GET never")
		a.expect("+1 GET k\r\n:2\r\n")
		a.expectClosed()
		b.expectClosed()
		if got := r.commands(); got != "1: GET k" {
			t.Errorf("the node got %s", got)
		}
	})
}

// A client that leaves while its CLIENT LIST is under way leaves nothing behind.
func TestClientLeavesDuringList(t *testing.T) {
	inBubble(t, 1, Options{Loops: 2}, echo, func(r *rig) {
		for range 20 {
			c := r.connect()
			c.send("CLIENT LIST", "MONITOR", "CLIENT LIST")
			c.Close()
			synctest.Wait()
		}
		d := r.connect()
		d.send("CLIENT LIST")
		if got := ids(d.bulk()); got != "21" {
			t.Errorf("clients %s", got)
		}
		for _, w := range r.server.workers {
			if w.alert() {
				t.Errorf("loop %d goes on watching", w.index)
			}
		}
	})
}

// Commands that wait, replies that are not read and input that is not run are in the line.
func TestClientListShowsWhatWaits(t *testing.T) {
	answer := func(node int, command string) string {
		if command == "GET big" {
			return "$200000\r\n" + strings.Repeat("x", 200_000) + "\r\n"
		}
		return echo(node, command)
	}
	inBubble(t, 1, Options{Loops: 2}, answer, func(r *rig) {
		all := r.connectAll(3)
		a, b, c := all[0], all[1], all[2]
		b.send("GET big")
		synctest.Wait()
		b.Write([]byte("*2\r\n$3\r\nGET\r\n$5\r\nhalf"))
		synctest.Wait()
		a.send("CLIENT LIST ID 2")
		line := a.bulk()
		// At most 64 KiB of the reply are with the writer of the connection.
		if want := regexp.MustCompile(` qbuf=21 .* obl=16384 oll=\d+ omem=[1-9]\d{4,} tot-mem=\d{6} ` +
			`events=rw cmd=get `); !want.MatchString(line) {
			t.Errorf("a client that does not read: %s", line)
		}
		a.send("CLIENT PAUSE 100000 WRITE")
		a.expect("+OK\r\n")
		c.send("SET k v")
		synctest.Wait()
		a.send("CLIENT LIST ID 3", "CLIENT UNPAUSE")
		if line := a.bulk(); !strings.Contains(line, " flags=b ") || !strings.Contains(line, " cmd=set ") ||
			!strings.Contains(line, " qbuf=27 ") {
			t.Errorf("a client that is held: %s", line)
		}
		b.Close()
	})
}

// timeout is not for clients that wait, nor for those that only listen.
func TestIdleClients(t *testing.T) {
	inBubble(t, 1, Options{Settings: Settings{IdleTimeout: 10 * time.Second}}, echo, func(r *rig) {
		all := r.connectAll(4)
		idle, monitor, held, busy := all[0], all[1], all[2], all[3]
		monitor.send("MONITOR")
		monitor.expect("+OK\r\n")
		busy.send("CLIENT PAUSE 60000 WRITE")
		busy.expect("+OK\r\n")
		held.send("SET k v")
		for range 6 {
			time.Sleep(5 * time.Second)
			busy.send("PING")
			busy.expect("+PONG\r\n")
		}
		idle.expectClosed()
		busy.send("CLIENT UNPAUSE")
		busy.expect("+OK\r\n")
		held.expect("+1 SET k v\r\n")
		busy.send("CLIENT LIST")
		if got := ids(busy.bulk()); got != "2 3 4" {
			t.Errorf("clients %s", got)
		}
		monitor.Close()
	})
}
