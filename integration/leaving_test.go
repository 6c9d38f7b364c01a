package integration

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// lockInfo is LOCKCTL INFO of a lock.
func lockInfo(l life, addr, name string) (state string, waiters int64) {
	l.Helper()
	v, err := ask(addr, "LOCKCTL", "INFO", name)
	if err != nil {
		l.Fatalf("%v", err)
	}
	return v.field("state").text, v.field("waiters").int()
}

// waitersOf waits until that many wait for a lock.
func waitersOf(l life, addr, name string, want int64) {
	l.Helper()
	eventually(l, patience, fmt.Sprintf("%d waiters of %s", want, name), func() bool {
		_, got := lockInfo(l, addr, name)
		return got == want
	})
}

// kill -9 of processes that wait for a lock: their entries leave the queue at
// once, who comes behind them gets the lock.
func TestKilledWaiters(t *testing.T) {
	everywhere(t, func(t *testing.T, p *lockproxy) {
		host, port, _ := net.SplitHostPort(p.addr)
		lock := "killed:" + t.Name()
		holder := connect(t, p.addr)
		holder.must(t, "LOCK", lock, "TOKEN", "h", "PX", "30000")
		before := p.usage(t)
		var waiters []*process
		for range 10 {
			waiters = append(waiters, startCommand(t, exec.Command("redis-cli", "-h", host, "-p", port, "LOCK", lock, "WAIT", "60000")))
		}
		waitersOf(t, p.addr, lock, 10)
		last := connect(t, p.addr)
		last.send("LOCK", lock, "TOKEN", "last", "WAIT", "60000")
		waitersOf(t, p.addr, lock, 11)
		for _, w := range waiters {
			w.kill()
		}
		waitersOf(t, p.addr, lock, 1)
		holder.want(t, "(integer) 1", "UNLOCK", lock, "h")
		released := time.Now()
		if v, err := last.receive(patience); err != nil || len(v.elems) != 4 {
			t.Fatalf("the waiter behind the killed ones: %s %v", v, err)
		}
		if took := time.Since(released); took > 8*time.Second {
			t.Errorf("the waiter behind the killed ones got the lock after %v", took)
		}
		last.want(t, "(integer) 1", "UNLOCK", lock, "last")
		if state, n := lockInfo(t, p.addr, lock); state != "free" || n != 0 {
			t.Errorf("afterwards the lock is %s with %d waiters", state, n)
		}
		last.Close()
		if now := p.usage(t); now.descriptors > before.descriptors+20 {
			t.Errorf("file descriptors %v -> %v", before.descriptors, now.descriptors)
		}
	})
}

// A grant that races with its client's going away is released, or lasts for one lease if its client may have
// read it: a reset does not say. Nobody holds the lock or waits in the end.
func TestGrantsNobodyReads(t *testing.T) {
	everywhere(t, func(t *testing.T, p *lockproxy) {
		lock := "unread:" + t.Name()
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for range dose(40, 400) {
					c, err := dial(p.addr)
					if err != nil {
						t.Error(err)
						return
					}
					c.send("LOCK", lock, "PX", "2000", "WAIT", "60000")
					time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
					if rand.IntN(2) == 0 {
						c.Conn.(*net.TCPConn).SetLinger(0) // a reset instead of an orderly end
					}
					c.Close()
				}
			})
		}
		group.Wait()
		eventually(t, 4*patience, "lock free and nobody waits", func() bool {
			v, err := ask(p.addr, "LOCKCTL", "INFO", lock) // which waits behind all that they left to do
			return err == nil && v.field("state").text == "free" && v.field("waiters").int() == 0
		})
	})
}

// A client that closes its connection before its grant comes does not get it, so the grant is taken back. The
// kernel says so: what came too late is not acknowledged, but answered with a reset.
func TestGrantForAClosedSocketIsTakenBack(t *testing.T) {
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			redis := startRedis(t)
			_, dial := startFor(t, way, "--upstream", redis.addr)
			node := connect(t, redis.addr)
			c, other := dial(), dial()
			other.must(t, "LOCK", "warm")
			ran := redis.info(t, "commandstats", "cmdstat_evalsha")
			node.want(t, "OK", "CLIENT", "PAUSE", "300")
			c.send("LOCK", "late", "TOKEN", "t", "PX", "60000")
			c.Close()
			eventually(t, patience, "a lock was taken", func() bool {
				return redis.info(t, "commandstats", "cmdstat_evalsha") != ran
			})
			eventually(t, patience, "the lock is free", func() bool {
				return other.must(t, "LOCKCTL", "INFO", "late").field("state").text == "free"
			})
		})
	}
}

// A client of a unix socket that closes it with a grant unread has surely not read it; one that has read
// it may be at work.
func TestGrantLeftInAUnixSocketIsTakenBack(t *testing.T) {
	t.Parallel()
	_, dial := startFor(t, "unix", "--upstream", sharedRedis().addr)
	c, other := dial(), dial()
	c.send("LOCK", "first:"+t.Name(), "TOKEN", "t", "PX", "60000")
	if v, err := c.receive(patience); err != nil || len(v.elems) != 4 {
		t.Fatal(v, err)
	}
	c.send("LOCK", "second:"+t.Name(), "TOKEN", "t", "PX", "60000")
	second := func() string { return other.must(t, "LOCKCTL", "INFO", "second:"+t.Name()).field("state").text }
	eventually(t, patience, "the second grant is made", func() bool { return second() == "write" })
	time.Sleep(100 * time.Millisecond) // it lies in the socket
	c.Close()
	eventually(t, patience, "the second is free", func() bool { return second() == "free" })
	other.want(t, "(nil)", "LOCK", "first:"+t.Name(), "TOKEN", "u")
	other.want(t, "(integer) 1", "UNLOCK", "first:"+t.Name(), "t")
}

// A client that has got its grant holds the lock for as long as it was told, whenever and however its
// connection is reset. A unix socket is closed in good order by its client whatever happens, which ends
// KEEPALIVE alone.
func TestResetLeavesWhatTheClientHasGot(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		_, dial := startFor(t, way, "--upstream", sharedRedis().addr)
		kinds := [][]string{{}, {"KEEPALIVE"}}
		if way == "unix" {
			kinds = kinds[:1]
		}
		for _, after := range []time.Duration{0, 20 * time.Millisecond, 300 * time.Millisecond, 1500 * time.Millisecond} {
			for _, verb := range []string{"LOCK", "RLOCK"} {
				t.Run(fmt.Sprint(way, " ", verb, " ", after), func(t *testing.T) {
					t.Parallel()
					c, lock := dial(), "got:"+t.Name()
					for _, options := range kinds {
						name := lock + strings.Join(options, "")
						c.must(t, append([]string{verb, name, "TOKEN", "t", "PX", "60000"}, options...)...)
					}
					time.Sleep(after)
					c.breakOff()
					time.Sleep(300 * time.Millisecond) // as long as what is not to happen took
					other := dial()
					for _, options := range kinds {
						name := lock + strings.Join(options, "")
						other.want(t, "(nil)", "WLOCK", name, "TOKEN", "u")
						other.want(t, "(integer) 1", "UNLOCK", name, "t")
					}
				})
			}
		}
	}
}

// Clients that go while replies are on their way: half-read values, half-written
// commands, pipelines nobody reads. The shared connections stay good.
func TestLeavingMidway(t *testing.T) {
	for name, upstream := range map[string]func() string{
		"single":  func() string { return sharedRedis().addr },
		"cluster": func() string { return sharedCluster().addrs() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startProxy(t, "--upstream", upstream())
			big := strings.Repeat("0123456789abcdef", 1<<16) // 1 MB
			setup := connect(t, p.addr)
			setup.must(t, "SET", "leave:big", big)
			for i := range 16 {
				setup.must(t, "SET", fmt.Sprintf("leave:%d", i), strings.Repeat(fmt.Sprint(i), 1000))
			}
			for i := range 4 { // a wait opens the subscription connection of its node, which stays for a while
				lock := fmt.Sprintf("leave:lock:%d", i)
				setup.must(t, "LOCK", lock, "PX", "100")
				setup.must(t, "LOCK", lock, "PX", "1000", "WAIT", "5000")
				setup.must(t, "UNLOCK", lock)
			}
			canary := watch(t, p, "")
			time.Sleep(100 * time.Millisecond)
			before := p.usage(t)
			var group sync.WaitGroup
			for worker := range 8 {
				group.Go(func() {
					for i := range dose(100, 3000) {
						if err := leave(p.addr, (worker+i)%6, i); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			canary()
			for i := range 16 {
				setup.want(t, quote(strings.Repeat(fmt.Sprint(i), 1000)), "GET", fmt.Sprintf("leave:%d", i))
			}
			if v := setup.must(t, "GET", "leave:big"); v.text != big {
				t.Errorf("the large value came back as %d bytes", len(v.text))
			}
			p.returnsTo(t, before)
		})
	}
}

// leave connects, asks for something and goes in the middle of it.
func leave(addr string, how, i int) error {
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	switch how {
	case 0: // a pipeline over several nodes nobody reads
		for j := range 50 {
			c.send("GET", fmt.Sprintf("leave:%d", j%16))
		}
	case 1: // a large value half read
		c.send("GET", "leave:big")
		c.SetReadDeadline(time.Now().Add(time.Second))
		c.r.Read(make([]byte, 1000))
	case 2: // several, none of it read
		c.send("GET", "leave:big")
		c.send("MGET", "leave:big", "leave:1", "leave:2")
	case 3: // a half-written command behind a whole one
		c.Write(append(encode("GET", "leave:1"), "*3\r\n$3\r\nSET\r\n$7\r\nleave:1\r\n$1000\r\nhal"...))
	case 4: // a half-written large value
		c.Write([]byte("*3\r\n$3\r\nSET\r\n$9\r\nleave:big\r\n$1048576\r\n"))
		c.Write(make([]byte, 200_000))
	case 5: // a lock, and gone before the answer
		c.send("LOCK", fmt.Sprintf("leave:lock:%d", i%4), "PX", "1000", "WAIT", "1000")
		c.send("UNLOCK", fmt.Sprintf("leave:lock:%d", i%4))
	}
	if i%2 == 0 {
		c.Conn.(*net.TCPConn).SetLinger(0)
	}
	return nil
}

// A client that asks and never reads is not read from: memory stays bounded,
// others are served.
func TestClientThatNeverReads(t *testing.T) {
	t.Parallel()
	for _, upstream := range []string{sharedRedis().addr, sharedCluster().addrs()} {
		p := startBinary(t, lean(t), "--upstream", upstream)
		setup := connect(t, p.addr)
		setup.must(t, "SET", "greedy", strings.Repeat("x", 100_000))
		canary := watch(t, p, "")
		var greedy []*conn
		for range 4 {
			c := connect(t, p.addr)
			greedy = append(greedy, c)
			go func() { // a million GETs of 100 KB would be 100 GB of replies
				batch := []byte(strings.Repeat(string(encode("GET", "greedy")), 1000))
				for range 1000 {
					if _, err := c.Write(batch); err != nil {
						return
					}
				}
			}()
		}
		var worst int64
		for end := time.Now().Add(dose(3*time.Second, 30*time.Second)); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			worst = max(worst, p.rss(t))
		}
		// 32 MiB of replies for each, what was on its way when the client was
		// read from no more, and as much again until the collector comes.
		if worst > 600<<20 {
			t.Errorf("4 clients that read nothing: %d MB of memory", worst>>20)
		}
		t.Logf("resident at most %d MB", worst>>20)
		canary()
		// the one that starts to read gets all of it, in order
		for range 100 {
			if v, err := greedy[0].receive(patience); err != nil || len(v.text) != 100_000 {
				t.Fatalf("%d bytes, %v", len(v.text), err)
			}
		}
		for _, c := range greedy {
			c.Close()
		}
	}
}
