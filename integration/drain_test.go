package integration

import (
	"fmt"
	"net"
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
	for i := range batch {
		pipeline = append(pipeline, encode("SET", fmt.Sprint("drain:", i%100), fmt.Sprint(i))...)
	}
	sent := make(chan error, 1)
	go func() {
		_, err := busy.Write(pipeline)
		sent <- err
	}()
	// the batch is on its way once its first reply is here
	if v, err := busy.receive(patience); err != nil || v.text != "OK" {
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
		if v.text != "OK" {
			t.Fatalf("reply %d of the batch: %s", replies, v)
		}
	}
	if err := <-sent; err == nil && replies < batch {
		t.Errorf("the batch ended after %d of %d replies", replies, batch)
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
