package faults

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// SIGTERM: waiters are answered, batches end, nobody new gets in, exit 0.
func TestDrain(t *testing.T) {
	t.Parallel()
	p := rig.StartProxy(t, "--upstream", rig.SharedCluster().Addrs(), "--drain-timeout", "2m")
	holder := rig.Connect(t, p.Addr)
	holder.Must(t, "LOCK", "drain", "TOKEN", "h", "PX", "60000")
	waiter := rig.Connect(t, p.Addr)
	waiter.Send("LOCK", "drain", "WAIT", "60000")
	rig.WaitersOf(t, p.Addr, "drain", 1)

	busy := rig.Connect(t, p.Addr)
	const batch = 5000
	var pipeline []byte
	for range batch {
		pipeline = append(pipeline, rig.Encode("INCR", "drain:count")...)
	}
	sent := make(chan error, 1)
	go func() {
		_, err := busy.Write(pipeline)
		sent <- err
	}()
	// the batch is on its way once its first reply is here
	if v, err := busy.Receive(rig.Patience); err != nil || v.Text != "1" {
		t.Fatalf("%s %v", v, err)
	}
	p.Signal(syscall.SIGTERM)
	if v, err := waiter.Receive(rig.Patience); err != nil || !v.IsError() && !v.Null {
		t.Errorf("the waiter was not answered: %s %v", v, err)
	} else {
		t.Logf("the waiter was told %s", v)
	}
	replies := 1
	for ; replies < batch; replies++ {
		v, err := busy.Receive(rig.Patience)
		if err != nil {
			break
		}
		if v.Text != fmt.Sprint(replies+1) {
			t.Fatalf("reply %d of the batch: %s", replies+1, v)
		}
	}
	<-sent
	// what was not read of it has not run
	if v, err := rig.Ask(rig.SharedOverCluster().Addr, "GET", "drain:count"); err != nil ||
		v.Text != fmt.Sprint(replies) {
		t.Errorf("%d replies, and %s have run, %v", replies, v, err)
	}
	rig.Eventually(t, rig.Patience, "new connections are refused", func() bool {
		c, err := net.DialTimeout("tcp", p.Addr, time.Second)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	if code := p.Wait(rig.Patience); code != 0 {
		t.Errorf("exit code %d\n%s", code, p.Log.Tail())
	}
	// the waiter left no entry; the hold is the client's, and stays
	if state, waiters := rig.LockInfo(t, rig.SharedOverCluster().Addr, "drain"); state != "write" ||
		waiters != 0 {
		t.Errorf("afterwards the lock is %s with %d waiters", state, waiters)
	}
}

// For drain-delay a proxy is not ready, and serves clients, new ones too. The next signal has it drain.
func TestDrainDelay(t *testing.T) {
	t.Parallel()
	p := rig.StartProxy(t, "--dev", "--drain-delay", "10m", "--drain-timeout", "10m")
	c := rig.Connect(t, p.Addr)
	c.Must(t, "PING")
	p.Signal(syscall.SIGTERM)
	p.Logged(t, `msg="(not ready any more)`)
	status, body, err := p.Get("/readyz")
	if status != 503 || !strings.Contains(body, "draining begins soon") {
		t.Errorf("/readyz: %d %s %v", status, body, err)
	}
	c.Must(t, "SET", "late", "1")
	rig.Connect(t, p.Addr).Want(t, `"1"`, "GET", "late")
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(rig.Patience); code != 0 {
		t.Errorf("behind the delay: exit code %d (-1: not within %v)", code, rig.Patience)
	}
}

// Idle clients do not hold the end up; one that never reads does no longer than
// drain-timeout; a second signal ends at once.
func TestDrainOfIdleAndStuckClients(t *testing.T) {
	t.Parallel()
	idle := rig.StartProxy(t, "--dev", "--drain-timeout", "10m")
	rig.Connect(t, idle.Addr).Must(t, "PING")
	idle.Signal(syscall.SIGTERM)
	if code := idle.Wait(rig.Patience); code != 0 {
		t.Errorf("with an idle client: exit code %d (-1: not within %v)", code, rig.Patience)
	}

	stuck := rig.StartProxy(t, "--upstream", rig.SharedRedis().Addr, "--drain-timeout", "1s")
	c := rig.Connect(t, stuck.Addr)
	c.Must(t, "SETRANGE", "stuck", "8000000", "x")
	for range 10 {
		c.Send("GET", "stuck")
	}
	time.Sleep(100 * time.Millisecond)
	stuck.Signal(syscall.SIGTERM)
	if stuck.Wait(rig.Patience) == -1 {
		t.Errorf("with a client that never reads: not within %v, drain-timeout is 1 s", rig.Patience)
	}

	twice := rig.StartProxy(t, "--upstream", rig.SharedRedis().Addr, "--drain-timeout", "10m")
	c = rig.Connect(t, twice.Addr)
	for range 10 {
		c.Send("GET", "stuck")
	}
	time.Sleep(100 * time.Millisecond)
	twice.Signal(syscall.SIGTERM)
	twice.Logged(t, `msg=(draining)`) // or the system makes one signal of both
	twice.Signal(syscall.SIGTERM)
	if twice.Wait(rig.Patience) == -1 {
		t.Errorf("after a second signal: not within %v", rig.Patience)
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
	redis := rig.StartRedis(t)
	p, dial := startFor(t, way, "--upstream", redis.Addr, "--drain-timeout", limit.String())
	var group sync.WaitGroup
	reading := make(chan struct{})
	answered := make([]int, clients)
	for i := range clients {
		c := dial()
		redis.Do(t, "SET", fmt.Sprint("open:", i), "0")
		batch := bytes.Repeat(rig.Encode("EVAL", script, "1", fmt.Sprint("open:", i)), 50)
		go func() { // ends when the connection does
			for {
				if _, err := c.Write(batch); err != nil {
					return
				}
			}
		}()
		group.Go(func() {
			<-reading
			c.SetReadDeadline(time.Now().Add(limit + rig.Patience))
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
	p.Signal(syscall.SIGTERM)
	time.Sleep(200 * time.Millisecond)
	close(reading)
	if code := p.Wait(limit + rig.Patience); code != 0 {
		t.Errorf("exit code %d\n%s", code, p.Log.Tail())
	}
	group.Wait()
	total := 0
	for i, n := range answered {
		if ran := redis.Do(t, "GET", fmt.Sprint("open:", i)).Text; ran != fmt.Sprint(n) {
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
