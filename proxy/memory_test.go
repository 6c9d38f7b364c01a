package proxy

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// used is what all loops have counted.
func (r *rig) used() (n int) {
	synctest.Wait()
	for _, w := range r.server.workers {
		done := make(chan int)
		w.loop.Post(func() { done <- w.memory.Used() })
		n += <-done
	}
	return n
}

// half sends the beginning of a command, mib MiB of the announced.
func (c *testClient) half(announced, mib int) {
	fmt.Fprintf(c, "*2\r\n$3\r\nGET\r\n$%d\r\n%s", announced<<20, strings.Repeat("x", mib<<20))
}

// textLog is a log that may be read while it is written.
type textLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *textLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *textLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Whatever a client leaves in the proxy is counted, and nothing is when it has gone.
func TestMemoryIsCounted(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	answer := func(node int, command string) string {
		switch {
		case command == "CLIENT ID":
			return ":7\r\n"
		case strings.HasPrefix(command, "GET big"):
			return fmt.Sprintf("$%d\r\n%s\r\n", len(long), long)
		case strings.HasPrefix(command, "GET never"), strings.HasPrefix(command, "BLPOP"),
			strings.HasPrefix(command, "DEL"):
			return "-"
		}
		return "+QUEUED\r\n"
	}
	for name, tt := range map[string]struct {
		least int
		leave func(c *testClient)
	}{
		"half a command":  {1 << 20, func(c *testClient) { c.half(4, 1) }},
		"an unread reply": {1 << 20, func(c *testClient) { c.send("GET big") }},
		"an early reply":  {1 << 20, func(c *testClient) { c.send("GET never", "GET big{a}") }},
		"a long command":  {1 << 20, func(c *testClient) { c.send("DEL" + manyKeys(10_000)) }},
		"one of one slot": {1 << 20, func(c *testClient) {
			c.send("DEL" +
				strings.ReplaceAll(manyKeys(10_000), " ", " {a}"))
		}},
		"MULTI": {1 << 20, func(c *testClient) { c.tell("+OK\r\n+QUEUED\r\n", "MULTI", "SET a "+long) }},
		"BLPOP": {1 << 20, func(c *testClient) { c.send("BLPOP b" + long + " 0") }},
		"CLIENT PAUSE": {1 << 20, func(c *testClient) {
			c.tell("+OK\r\n", "CLIENT PAUSE 100000")
			c.send("SET a " + long)
		}},
		"replies to come": {100 * answerSize, func(c *testClient) {
			c.send(strings.Split(strings.Repeat("GET never,", 101)+"PING", ",")...)
		}},
	} {
		inBubble(t, 3, Options{}, answer, func(r *rig) {
			other := r.connect()
			other.tell("$1\r\na\r\n", "ECHO a")
			before := r.used()
			c := r.connect()
			tt.leave(c)
			if n := r.used() - before; n < tt.least || n > 5*tt.least+64<<10 {
				r.Errorf("%s: %d bytes are counted", name, n)
			}
			c.Close()
			time.Sleep(10 * time.Minute) // a node may have to end a command first
			if n := r.used(); n != before {
				r.Errorf("%s: %d bytes are counted when the client has gone, %d before", name, n, before)
			}
			other.send("CLIENT UNPAUSE")
			other.Close()
			if n := r.used(); n != 0 {
				r.Errorf("%s: %d bytes are counted without a client", name, n)
			}
		})
	}
}

// What a command had that its client waited for is not counted any more once that is answered.
func TestMemoryIsLetGo(t *testing.T) {
	long := strings.Repeat("x", 16<<10) // which is too short for a buffer of its own
	for _, tt := range []struct {
		want     string
		commands []string
	}{
		{"+OK\r\n+OK\r\n+OK\r\n", []string{"MULTI", "SET a " + long, "EXEC"}},
		{"+OK\r\n+OK\r\n+OK\r\n", []string{"MULTI", "SET a " + long, "DISCARD"}},
		{"+OK\r\n+OK\r\n+RESET\r\n", []string{"MULTI", "SET a " + long, "RESET"}},
		{"+OK\r\n", []string{"BLPOP " + long + " 0"}},
	} {
		inBubble(t, 1, Options{}, func(_ int, command string) string {
			if command == "CLIENT ID" {
				return ":7\r\n"
			}
			return "+OK\r\n"
		}, func(r *rig) {
			c := r.connect()
			c.tell("$1\r\na\r\n", "ECHO a")
			before := r.used()
			c.tell(tt.want, tt.commands...)
			if n := r.used() - before; n != 0 {
				r.Errorf("%d bytes are left of %.20q", n, tt.commands)
			}
		})
	}
}

// Who takes most is closed first, with a line in the log, until it is enough; others go on.
func TestEviction(t *testing.T) {
	var text textLog
	o := Options{Loops: 2, Log: slog.New(slog.NewTextHandler(&text, nil))}
	o.MaxMemory = 32 << 20
	inBubble(t, 1, o, echo, func(r *rig) {
		half := func(mib int) *testClient {
			c := r.connect()
			c.tell("+OK\r\n", fmt.Sprintf("CLIENT SETNAME c%d", mib))
			c.half(64, mib)
			synctest.Wait()
			return c
		}
		idle, one, two := r.connect(), half(1), half(2)
		if n := r.server.Stats().Evicted; n != 0 {
			r.Fatalf("%d clients were closed below the limit", n)
		}
		// more than what there is memory for with the others, up to four times as much as came
		most := half(30)
		synctest.Wait()
		most.expectClosed()
		if n := r.server.Stats().Evicted; n != 1 {
			r.Errorf("%d clients were closed", n)
		}
		line := text.String()
		for _, want := range []string{"level=WARN", "maxmemory-clients", "name=c30",
			"user=default", " input="} {
			if !strings.Contains(line, want) {
				r.Errorf("the log lacks %s: %s", want, line)
			}
		}
		idle.tell("$1\r\na\r\n", "ECHO a")
		r.change(func(o *Options) { o.MaxMemory = 1 << 20 })
		synctest.Wait()
		two.expectClosed()
		one.expectClosed()
		idle.tell("$1\r\na\r\n", "ECHO a")
	})
}

// A thousand small clients are closed as well as one large one, and the fewest that will do.
func TestEvictionOfMany(t *testing.T) {
	inBubble(t, 1, Options{Loops: 2}, echo, func(r *rig) {
		for range 500 {
			c := r.connect()
			fmt.Fprintf(c, "*2\r\n$3\r\nGET\r\n$%d\r\n%s", 1<<20, strings.Repeat("x", 10<<10))
		}
		before := r.used()
		r.change(func(o *Options) { o.MaxMemory = int64(before / 2) })
		if n := r.used(); n > before/2+(128<<10) || n < before/2-(256<<10) {
			r.Errorf("%d bytes of %d are left", n, before)
		}
		if n := r.server.Stats().Evicted; n < 200 || n > 300 {
			r.Errorf("%d clients of 500 were closed", n)
		}
	})
}

// CLIENT NO-EVICT ON saves a client as long as those that have said so take no more than half.
func TestNoEvict(t *testing.T) {
	inBubble(t, 1, Options{Settings: Settings{MaxMemory: 8 << 20}}, echo, func(r *rig) {
		half := func(mib int, first string) {
			c := r.connect()
			c.tell("+OK\r\n", first)
			c.half(64, mib)
			synctest.Wait()
		}
		protected := func() (n int) {
			synctest.Wait()
			for s := range r.server.workers[0].sessions {
				if s.NoEvict {
					n++
				}
			}
			return n
		}
		half(1, "CLIENT NO-EVICT ON")
		for range 8 {
			half(1, "CLIENT NO-EVICT OFF")
		}
		if n := r.server.Stats().Evicted; n == 0 || protected() != 1 {
			r.Errorf("%d clients were closed, %d of those that may not be are left", n, protected())
		}
		for range 8 {
			half(1, "CLIENT NO-EVICT ON")
		}
		if n := r.used(); n > 8<<20 || protected() == 9 || protected() == 0 {
			r.Errorf("%d bytes are taken, %d of the protected are left", n, protected())
		}
	})
}
