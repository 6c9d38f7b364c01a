package integration

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"
)

// SIGTERM: waiters are answered, batches end, nobody new gets in, exit 0.
func TestDrain(t *testing.T) {
	t.Parallel()
	p := startProxy(t, "--upstream", sharedCluster().addrs(), "--drain-timeout", "5s")
	holder := connect(t, p.addr)
	holder.must(t, "LOCK", "drain", "TOKEN", "h", "PX", "60000")
	waiter := connect(t, p.addr)
	waiter.send("LOCK", "drain", "WAIT", "60000")
	waitersOf(t, p.addr, "drain", 1)

	busy := connect(t, p.addr)
	const batch = 5000
	var pipeline []byte
	for range batch {
		pipeline = append(pipeline, encode("INCR", "drain:count")...)
	}
	sent := make(chan error, 1)
	go func() {
		_, err := busy.Write(pipeline)
		sent <- err
	}()
	// the batch is on its way once its first reply is here
	if v, err := busy.receive(patience); err != nil || v.text != "1" {
		t.Fatalf("%s %v", v, err)
	}
	started := time.Now()
	p.signal(syscall.SIGTERM)
	if v, err := waiter.receive(4 * time.Second); err != nil || !v.isError() && !v.null {
		t.Errorf("the waiter was not answered: %s %v", v, err)
	} else {
		t.Logf("the waiter was told %s", v)
	}
	replies := 1
	for ; replies < batch; replies++ {
		v, err := busy.receive(4 * time.Second)
		if err != nil {
			break
		}
		if v.text != fmt.Sprint(replies+1) {
			t.Fatalf("reply %d of the batch: %s", replies+1, v)
		}
	}
	<-sent
	// what was not read of it has not run
	if v, err := ask(sharedOverCluster().addr, "GET", "drain:count"); err != nil || v.text != fmt.Sprint(replies) {
		t.Errorf("%d replies, and %s have run, %v", replies, v, err)
	}
	eventually(t, 4*time.Second, "new connections are refused", func() bool {
		c, err := net.DialTimeout("tcp", p.addr, time.Second)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	if code := p.wait(patience); code != 0 {
		t.Errorf("exit code %d after %v\n%s", code, time.Since(started), p.log.tail())
	}
	if took := time.Since(started); took > 10*time.Second {
		t.Errorf("it took %v, drain-timeout is 5 s", took)
	}
	// the waiter left no entry; the hold is the client's, and stays
	if state, waiters := lockInfo(t, sharedOverCluster().addr, "drain"); state != "write" || waiters != 0 {
		t.Errorf("afterwards the lock is %s with %d waiters", state, waiters)
	}
}

// Idle clients do not hold the end up; one that never reads does no longer than
// drain-timeout; a second signal ends at once.
func TestDrainOfIdleAndStuckClients(t *testing.T) {
	t.Parallel()
	idle := startProxy(t, "--dev", "--drain-timeout", "10s")
	connect(t, idle.addr).must(t, "PING")
	start := time.Now()
	idle.signal(syscall.SIGTERM)
	if code := idle.wait(patience); code != 0 || time.Since(start) > 9*time.Second {
		t.Errorf("with an idle client: exit code %d after %v", code, time.Since(start))
	}

	stuck := startProxy(t, "--upstream", sharedRedis().addr, "--drain-timeout", "1s")
	c := connect(t, stuck.addr)
	c.must(t, "SETRANGE", "stuck", "8000000", "x")
	for range 10 {
		c.send("GET", "stuck")
	}
	time.Sleep(100 * time.Millisecond)
	start = time.Now()
	stuck.signal(syscall.SIGTERM)
	code := stuck.wait(patience)
	if took := time.Since(start); code == -1 || took > 10*time.Second {
		t.Errorf("with a client that never reads: exit code %d after %v, drain-timeout is 1 s", code, took)
	}

	twice := startProxy(t, "--upstream", sharedRedis().addr, "--drain-timeout", "60s")
	c = connect(t, twice.addr)
	for range 10 {
		c.send("GET", "stuck")
	}
	time.Sleep(100 * time.Millisecond)
	start = time.Now()
	twice.signal(syscall.SIGTERM)
	twice.logged(t, `msg=(draining)`) // or the system makes one signal of both
	twice.signal(syscall.SIGTERM)
	if code := twice.wait(patience); code == -1 || time.Since(start) > 10*time.Second {
		t.Errorf("after a second signal: exit code %d after %v", code, time.Since(start))
	}
}

// Clients that write without reading get an answer to each command that has run, if they read in time, and no
// client keeps the process beyond drain-timeout.
func TestDrainOfClientsThatOnlyWrite(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			drainOfClientsThatOnlyWrite(t, way)
		})
	}
}

func drainOfClientsThatOnlyWrite(t *testing.T, way string) {
	const clients, limit = 3, 2 * time.Minute // they read slowly, and a busy machine more slowly still
	// Answers that do not all fit into the buffers of the kernel.
	const script = "redis.call('INCR', KEYS[1]) return string.rep('x', 10000)"
	redis := startRedis(t)
	p, dial := startFor(t, way, "--upstream", redis.addr, "--drain-timeout", limit.String())
	var group sync.WaitGroup
	reading := make(chan struct{})
	answered := make([]int, clients)
	for i := range clients {
		c := dial()
		redis.do(t, "SET", fmt.Sprint("open:", i), "0")
		batch := bytes.Repeat(encode("EVAL", script, "1", fmt.Sprint("open:", i)), 50)
		go func() { // ends when the connection does
			for {
				if _, err := c.Write(batch); err != nil {
					return
				}
			}
		}()
		group.Go(func() {
			<-reading
			c.SetReadDeadline(time.Now().Add(limit + patience))
			text, err := io.ReadAll(slowly{c})
			if err != nil {
				t.Logf("client %d: %v", i, err) // after all that was answered
			}
			answered[i] = bytes.Count(text, []byte("x\r\n"))
			if bytes.Contains(text, []byte("-")) {
				t.Errorf("client %d was told %.200s", i, text[bytes.IndexByte(text, '-'):])
			}
		})
	}
	time.Sleep(500 * time.Millisecond)
	started := time.Now()
	p.signal(syscall.SIGTERM)
	time.Sleep(200 * time.Millisecond)
	close(reading)
	if code := p.wait(limit + patience); code != 0 {
		t.Errorf("exit code %d\n%s", code, p.log.tail())
	}
	if took := time.Since(started); took > limit+5*time.Second { // as above: the process has to end as well
		t.Errorf("it took %v, drain-timeout is %v", took, limit)
	}
	group.Wait()
	total := 0
	for i, n := range answered {
		if ran := redis.do(t, "GET", fmt.Sprint("open:", i)).text; ran != fmt.Sprint(n) {
			t.Errorf("client %d: %s have run, %d were answered", i, ran, n)
		}
		total += n
	}
	t.Logf("%d answers, %v", total, time.Since(started))
}

// slowly leaves most of what comes in the kernel for a while.
type slowly struct{ io.Reader }

func (s slowly) Read(b []byte) (int, error) {
	time.Sleep(5 * time.Millisecond)
	return s.Reader.Read(b[:min(len(b), 64<<10)])
}
