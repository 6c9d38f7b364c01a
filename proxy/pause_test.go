package proxy

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// quiet says that nothing comes to a client.
func (c *testClient) quiet() {
	c.Helper()
	synctest.Wait()
	c.SetReadDeadline(time.Now().Add(time.Millisecond))
	if b, err := c.r.ReadByte(); err == nil {
		c.Fatalf("got %q", b)
	}
	c.SetReadDeadline(time.Time{})
}

func TestPauseWrites(t *testing.T) {
	inBubble(t, 1, Options{Loops: 2}, echo, func(r *rig) {
		r.likeRedis7()
		a := r.connect()
		a.send("CLIENT PAUSE 5000 WRITE", "GET k")
		a.expect("+OK\r\n+1 GET k\r\n")
		for _, line := range []string{"GET k", "PING", "INFO nosuch", "EVAL_RO x 0", "EVALSHA_RO x 0",
			"FCALL_RO f 0", "SUBSTR k 0 1", "NOSUCH x", "SET k", "DBSIZE", "CLIENT ID", "HELLO 4"} {
			b := r.connect()
			b.send(line)
			b.SetReadDeadline(time.Now().Add(time.Second))
			if _, err := b.r.ReadByte(); err != nil {
				t.Errorf("%s is held", line)
			}
		}
		for _, line := range []string{"SET k v", "PFCOUNT k", "PUBLISH c m", "SPUBLISH c m", "EVAL x 0",
			"EVALSHA x 0", "FCALL f 0", "FLUSHALL", "MSET a 1", "LOCK l", "UNLOCK l t", "SORT k STORE x",
			"GETDEL k", "FUNCTION DELETE l", "RESTORE k 0 x"} {
			b := r.connect()
			b.send(line)
			b.quiet()
		}
		if got := (commandsServer{r.server}).Facts(); got.Held != 15 || got.Pause != 1 ||
			got.PauseLeft <= 4*time.Second {
			t.Errorf("%d clients are held, pause %d, %v left", got.Held, got.Pause, got.PauseLeft)
		}
		if strings.Contains(r.commands(), "SET k v") {
			t.Errorf("the node got %s", r.commands())
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if got := (commandsServer{r.server}).Facts(); got.Held != 0 || got.Pause != 0 {
			t.Errorf("%d clients are held, pause %d", got.Held, got.Pause)
		}
		for _, want := range []string{"SET k v", "PFCOUNT k", "PUBLISH c m", "EVAL x 0",
			"FCALL f 0", "MSET a 1"} {
			if !strings.Contains(r.commands(), want) {
				t.Errorf("%s was not run", want)
			}
		}
	})
}

// A longer pause is not shortened, a wider one not narrowed; what is held goes on in order.
func TestPausesAdd(t *testing.T) {
	inBubble(t, 1, Options{}, echo, func(r *rig) {
		a := r.connect()
		a.send("CLIENT PAUSE 10000 WRITE", "CLIENT PAUSE 1000 WRITE", "CLIENT PAUSE 0 WRITE")
		a.expect("+OK\r\n+OK\r\n+OK\r\n")
		b, c, d, m := r.connect(), r.connect(), r.connect(), r.connect()
		m.send("MONITOR")
		defer m.Close()
		for _, x := range []*testClient{c, b} {
			x.send("GET before", "SET held 1", "SET held 2", "GET behind")
			x.expect("+1 GET before\r\n")
			x.quiet()
		}
		time.Sleep(9 * time.Second)
		a.send("CLIENT PAUSE 500 ALL")
		a.expect("+OK\r\n")
		m.send("CLIENT PAUSE 1 WRITE") // only who is in MONITOR is not held
		d.send("GET d")
		d.quiet()
		a.send("CLIENT UNPAUSE")
		a.expect("+OK\r\n")
		d.expect("+1 GET d\r\n")
		for _, x := range []*testClient{b, c} {
			x.expect("+1 SET held 1\r\n+1 SET held 2\r\n+1 GET behind\r\n")
		}
		const each = "1: SET held 1, 1: SET held 2, 1: GET behind"
		want := "1: GET before, 1: GET before, " + each + ", " + each + ", 1: GET d"
		if got := strings.Replace(r.commands(), "1: MONITOR, ", "", 1); got != want {
			t.Errorf("the node got %s", got)
		}
		// the latter is over at once in Redis
		a.send("CLIENT PAUSE 0", "CLIENT PAUSE 9223372036854775807", "PING")
		a.expect("+OK\r\n+OK\r\n+PONG\r\n")
	})
}

// Clients that leave, are killed, or are there when the proxy ends, leave nothing behind.
func TestHeldClientsLeave(t *testing.T) {
	inBubble(t, 1, Options{Loops: 2}, echo, func(r *rig) {
		a, b, c, d, e := r.connect(), r.connect(), r.connect(), r.connectHalves(), r.connect()
		a.send("CLIENT PAUSE 60000")
		a.expect("+OK\r\n")
		for _, x := range []*testClient{a, b, c, d, e} {
			x.send("SET k v", strings.Repeat("x", 100))
		}
		synctest.Wait()
		if n := r.server.shared.Clients.Held.Load(); n != 5 {
			t.Errorf("%d are held", n)
		}
		b.Close()
		d.closeWrite()
		d.expectClosed()
		synctest.Wait()
		if n := r.server.shared.Clients.Held.Load(); n != 3 {
			t.Errorf("%d are held", n)
		}
		drained := make(chan error)
		go func() { drained <- r.server.Drain(r.Context()) }()
		for _, x := range []*testClient{a, c, e} {
			x.expect("-TRYAGAIN lockproxy is shutting down: ask another one, or later\r\n")
			x.expectClosed()
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
		if r.server.shared.Clients.Held.Load() != 0 || r.commands() != "" {
			t.Errorf("%d are held, the node got %s", r.server.shared.Clients.Held.Load(), r.commands())
		}
	})
}

// Without the password nothing is held, and nothing is run. With it a pause of all commands can be ended,
// also by somebody who connects while it lasts.
func TestPauseAndPassword(t *testing.T) {
	inBubble(t, 1, Options{Settings: Settings{Password: "x"}}, echo, func(r *rig) {
		a, b := r.connect(), r.connect()
		a.send("AUTH x", "CLIENT PAUSE 60000 ALL")
		a.expect("+OK\r\n+OK\r\n")
		b.send("SET k v")
		b.expect("-NOAUTH Authentication required.\r\n")
		b.send("AUTH x", "PING")
		b.expect("+OK\r\n")
		b.quiet()
		c := r.connect()
		c.send("AUTH x", "CLIENT UNPAUSE")
		c.expect("+OK\r\n+OK\r\n")
		b.expect("+PONG\r\n")
	})
}

// Which functions write is asked of a node, once a pause.
func TestPauseAndFunctions(t *testing.T) {
	var release chan struct{} // made in the bubble
	answer := func(node int, command string) string {
		if command == "FUNCTION LIST" {
			<-release
			return "*1\r\n*6\r\n$12\r\nlibrary_name\r\n$1\r\nl\r\n$6\r\nengine\r\n$3\r\nLUA\r\n$9\r\n" +
				"functions\r\n*2\r\n" +
				"*6\r\n$4\r\nname\r\n$1\r\nr\r\n$11\r\ndescription\r\n$-1\r\n$5\r\nflags\r\n*1\r\n" +
				"+no-writes\r\n" +
				"*6\r\n$4\r\nname\r\n$1\r\nw\r\n$11\r\ndescription\r\n$-1\r\n$5\r\nflags\r\n*0\r\n"
		}
		return echo(node, command)
	}
	inBubble(t, 1, Options{}, answer, func(r *rig) {
		r.likeRedis7()
		release = make(chan struct{})
		a, b, c, gone := r.connect(), r.connect(), r.connect(), r.connect()
		a.send("CLIENT PAUSE 60000 WRITE")
		a.expect("+OK\r\n")
		gone.send("FCALL r 0")
		b.send("FCALL r 0", "FCALL w 0")
		c.send("FCALL r 0", "FCALL r 0")
		b.quiet()
		gone.Close()
		close(release)
		b.expect("+1 FCALL r 0\r\n")
		c.expect("+1 FCALL r 0\r\n+1 FCALL r 0\r\n")
		b.quiet()
		a.send("CLIENT UNPAUSE")
		a.expect("+OK\r\n")
		b.expect("+1 FCALL w 0\r\n")
		if n := strings.Count(r.commands(), "FUNCTION LIST"); n != 1 {
			t.Errorf("functions were asked for %d times", n)
		}
	})
}

// What is still unread when the proxy drains, or when the client has ended its side, does not wait either.
func TestPausedLate(t *testing.T) {
	hold, answer := holding("", echo)
	inBubble(t, 1, Options{Settings: Settings{MaxPipeline: 1}}, answer, func(r *rig) {
		hold.begin()
		a, b, c := r.connect(), r.connectHalves(), r.connect()
		for _, x := range []*testClient{b, c} {
			x.send("GET k", "SET k v", "GET k")
		}
		b.closeWrite()
		synctest.Wait()
		a.send("CLIENT PAUSE 60000 WRITE")
		a.expect("+OK\r\n")
		drained := make(chan error)
		hold.release()
		b.expect("+1 GET k\r\n")
		b.expectClosed()
		c.expect("+1 GET k\r\n")
		c.quiet()
		go func() { drained <- r.server.Drain(r.Context()) }()
		c.expect(string(refusedByDrain))
		c.expectClosed()
		if err := <-drained; err != nil {
			t.Error(err)
		}
	})
}

// A session that gets to a command that writes while it drains answers it and goes on.
func TestPausedWhileDraining(t *testing.T) {
	hold, answer := holding("", echo)
	inBubble(t, 1, Options{Settings: Settings{MaxPipeline: 1}}, answer, func(r *rig) {
		hold.begin()
		a, c := r.connect(), r.connect()
		c.send("GET k", "SET k v", "GET k")
		synctest.Wait()
		a.send("CLIENT PAUSE 60000 WRITE")
		a.expect("+OK\r\n")
		drained := make(chan error)
		go func() { drained <- r.server.Drain(r.Context()) }()
		synctest.Wait()
		hold.release()
		c.expect("+1 GET k\r\n" + string(refusedByDrain) + "+1 GET k\r\n")
		c.expectClosed()
		if err := <-drained; err != nil {
			t.Error(err)
		}
	})
}
