package faults

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// kill -9 of processes that wait for a lock: their entries leave the queue at
// once, who comes behind them gets the lock.
func TestKilledWaiters(t *testing.T) {
	rig.Everywhere(t, func(t *testing.T, p *rig.Proxy) {
		host, port, _ := net.SplitHostPort(p.Addr)
		lock := "killed:" + t.Name()
		holder := rig.Connect(t, p.Addr)
		holder.Must(t, "LOCK", lock, "TOKEN", "h", "PX", "600000")
		before := p.Usage(t)
		var waiters []*rig.Process
		for range 10 {
			waiters = append(waiters, rig.StartCommand(t,
				exec.Command("redis-cli", "-h", host, "-p", port, "LOCK", lock, "WAIT", "600000")))
		}
		rig.WaitersOf(t, p.Addr, lock, 10)
		last := rig.Connect(t, p.Addr)
		last.Send("LOCK", lock, "TOKEN", "last", "WAIT", "600000")
		rig.WaitersOf(t, p.Addr, lock, 11)
		for _, w := range waiters {
			w.Kill()
		}
		rig.WaitersOf(t, p.Addr, lock, 1)
		holder.Want(t, "(integer) 1", "UNLOCK", lock, "h")
		if v, err := last.Receive(rig.Patience); err != nil || len(v.Elems) != 4 {
			t.Fatalf("the waiter behind the killed ones: %s %v", v, err)
		}
		last.Want(t, "(integer) 1", "UNLOCK", lock, "last")
		if state, n := rig.LockInfo(t, p.Addr, lock); state != "free" || n != 0 {
			t.Errorf("afterwards the lock is %s with %d waiters", state, n)
		}
		last.Close()
		if now := p.Usage(t); now.Descriptors > before.Descriptors+20 {
			t.Errorf("file descriptors %v -> %v", before.Descriptors, now.Descriptors)
		}
	})
}

// A grant that races with its client's going away is released, or lasts for one lease if its client may have
// read it: a reset does not say. Nobody holds the lock or waits in the end.
func TestGrantsNobodyReads(t *testing.T) {
	rig.Everywhere(t, func(t *testing.T, p *rig.Proxy) {
		lock := "unread:" + t.Name()
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for range rig.Dose(20, 400) {
					c, err := rig.Dial(p.Addr)
					if err != nil {
						t.Error(err)
						return
					}
					c.Send("LOCK", lock, "PX", "2000", "WAIT", "60000")
					time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
					if rand.IntN(2) == 0 {
						c.Conn.(*net.TCPConn).SetLinger(0) // a reset instead of an orderly end
					}
					c.Close()
				}
			})
		}
		group.Wait()
		rig.Eventually(t, 4*rig.Patience, "lock free and nobody waits", func() bool {
			v, err := rig.Ask(p.Addr, "LOCKCTL", "INFO", lock) // which waits behind all that they left to do
			return err == nil && v.Field("state").Text == "free" && v.Field("waiters").Int() == 0
		})
	})
}

// A client that closes its connection before its grant comes does not get it, so the grant is taken back. The
// kernel says so: what came too late is not acknowledged, but answered with a reset.
func TestGrantForAClosedSocketIsTakenBack(t *testing.T) {
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			redis := rig.StartRedis(t)
			_, dial := startFor(t, way, "--upstream", redis.Addr)
			node := rig.Connect(t, redis.Addr)
			c, other := dial(), dial()
			other.Must(t, "LOCK", "warm")
			ran := redis.Info(t, "commandstats", "cmdstat_evalsha")
			node.Want(t, "OK", "CLIENT", "PAUSE", "600000", "WRITE")
			c.Send("LOCK", "late", "TOKEN", "t", "PX", "600000")
			rig.Eventually(t, rig.Patience, "Redis has the request", func() bool {
				return redis.Info(t, "clients", "blocked_clients") == "1"
			})
			c.Close()
			node.Want(t, "OK", "CLIENT", "UNPAUSE")
			rig.Eventually(t, rig.Patience, "a lock was taken", func() bool {
				return redis.Info(t, "commandstats", "cmdstat_evalsha") != ran
			})
			rig.Eventually(t, rig.Patience, "the lock is free", func() bool {
				return other.Must(t, "LOCKCTL", "INFO", "late").Field("state").Text == "free"
			})
		})
	}
}

// A client of a unix socket that closes it with a grant unread has surely not read it; one that has read
// it may be at work.
func TestGrantLeftInAUnixSocketIsTakenBack(t *testing.T) {
	t.Parallel()
	_, dial := startFor(t, "unix", "--upstream", rig.SharedRedis().Addr)
	c, other := dial(), dial()
	c.Send("LOCK", "first:"+t.Name(), "TOKEN", "t", "PX", "600000")
	if v, err := c.Receive(rig.Patience); err != nil || len(v.Elems) != 4 {
		t.Fatal(v, err)
	}
	c.Send("LOCK", "second:"+t.Name(), "TOKEN", "t", "PX", "600000")
	second := func() string {
		return other.Must(t, "LOCKCTL", "INFO", "second:"+t.Name()).Field("state").Text
	}
	rig.Eventually(t, rig.Patience, "the second grant is made", func() bool { return second() == "write" })
	time.Sleep(100 * time.Millisecond) // it lies in the socket
	c.Close()
	rig.Eventually(t, rig.Patience, "the second is free", func() bool { return second() == "free" })
	other.Want(t, "(nil)", "LOCK", "first:"+t.Name(), "TOKEN", "u")
	other.Want(t, "(integer) 1", "UNLOCK", "first:"+t.Name(), "t")
}

// A client that has got its grant holds the lock for as long as it was told, whenever and however its
// connection is reset. A unix socket is closed in good order by its client whatever happens, which ends
// KEEPALIVE alone.
func TestResetLeavesWhatTheClientHasGot(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		_, dial := startFor(t, way, "--upstream", rig.SharedRedis().Addr)
		kinds := [][]string{{}, {"KEEPALIVE"}}
		if way == "unix" {
			kinds = kinds[:1]
		}
		for _, after := range []time.Duration{0, 20 * time.Millisecond, 300 * time.Millisecond,
			1500 * time.Millisecond} {
			for _, verb := range []string{"LOCK", "RLOCK"} {
				t.Run(fmt.Sprint(way, " ", verb, " ", after), func(t *testing.T) {
					t.Parallel()
					c, lock := dial(), "got:"+t.Name()
					for _, options := range kinds {
						name := lock + strings.Join(options, "")
						c.Must(t, append([]string{verb, name, "TOKEN", "t", "PX", "60000"}, options...)...)
					}
					time.Sleep(after)
					breakOff(c)
					time.Sleep(300 * time.Millisecond) // as long as what is not to happen took
					other := dial()
					for _, options := range kinds {
						name := lock + strings.Join(options, "")
						other.Want(t, "(nil)", "WLOCK", name, "TOKEN", "u")
						other.Want(t, "(integer) 1", "UNLOCK", name, "t")
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
		"single":  func() string { return rig.SharedRedis().Addr },
		"cluster": func() string { return rig.SharedCluster().Addrs() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := rig.StartProxy(t, "--upstream", upstream())
			big := strings.Repeat("0123456789abcdef", 1<<16) // 1 MB
			setup := rig.Connect(t, p.Addr)
			setup.Must(t, "SET", "leave:big", big)
			for i := range 16 {
				setup.Must(t, "SET", fmt.Sprintf("leave:%d", i), strings.Repeat(fmt.Sprint(i), 1000))
			}
			// a wait opens the subscription connection of its node, which stays for a while
			for i := range 4 {
				lock := fmt.Sprintf("leave:lock:%d", i)
				setup.Must(t, "LOCK", lock, "TOKEN", "holder")
				setup.Want(t, "(nil)", "LOCK", lock, "TOKEN", "waiter", "WAIT", "100")
				setup.Must(t, "UNLOCK", lock, "holder")
			}
			canary := rig.Watch(t, p, "")
			time.Sleep(100 * time.Millisecond)
			before := p.Usage(t)
			var group sync.WaitGroup
			for worker := range 8 {
				group.Go(func() {
					for i := range rig.Dose(30, 3000) {
						if err := leave(p.Addr, (worker+i)%6, i); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			canary()
			for i := range 16 {
				setup.Want(t, rig.Quote(strings.Repeat(fmt.Sprint(i), 1000)), "GET",
					fmt.Sprintf("leave:%d", i))
			}
			if v := setup.Must(t, "GET", "leave:big"); v.Text != big {
				t.Errorf("the large value came back as %d bytes", len(v.Text))
			}
			p.ReturnsTo(t, before)
		})
	}
}

// leave connects, asks for something and goes in the middle of it.
func leave(addr string, how, i int) error {
	c, err := rig.Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	switch how {
	case 0: // a pipeline over several nodes nobody reads
		for j := range 50 {
			c.Send("GET", fmt.Sprintf("leave:%d", j%16))
		}
	case 1: // a large value half read
		c.Send("GET", "leave:big")
		c.SetReadDeadline(time.Now().Add(time.Second)) //house:brief as much as comes
		c.Reader.Read(make([]byte, 1000))
	case 2: // several, none of it read
		c.Send("GET", "leave:big")
		c.Send("MGET", "leave:big", "leave:1", "leave:2")
	case 3: // a half-written command behind a whole one
		c.Write(append(rig.Encode("GET", "leave:1"), "*3\r\n$3\r\nSET\r\n$7\r\nleave:1\r\n$1000\r\nhal"...))
	case 4: // a half-written large value
		c.Write([]byte("*3\r\n$3\r\nSET\r\n$9\r\nleave:big\r\n$1048576\r\n"))
		c.Write(make([]byte, 200_000))
	case 5: // a lock, and gone before the answer
		c.Send("LOCK", fmt.Sprintf("leave:lock:%d", i%4), "PX", "1000", "WAIT", "1000")
		c.Send("UNLOCK", fmt.Sprintf("leave:lock:%d", i%4))
	}
	if i%2 == 0 {
		c.Conn.(*net.TCPConn).SetLinger(0)
	}
	return nil
}

// A client that asks and never reads is not read from: of what it asks for Redis is asked for little, and
// others are served. Once it reads it gets all of that, in order.
func TestClientThatNeverReads(t *testing.T) {
	t.Parallel()
	upstreams := map[string]func() []*rig.Server{
		"single":  func() []*rig.Server { return []*rig.Server{rig.StartRedis(t)} },
		"cluster": func() []*rig.Server { return rig.StartCluster(t, 3, 0).Nodes },
	}
	for name, start := range upstreams {
		nodes := start()
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := rig.StartProxy(t, "--upstream", nodes[0].Addr)
			greedy, end := clientsThatNeverRead(t, p)
			defer end()
			// 32 MiB of replies for each, and what was on its way when the client was read from no more.
			const most = 600 << 20
			sent, rests := int64(0), 0
			rig.Eventually(t, rig.Patience, "Redis is asked for nothing more", func() bool {
				before := sent
				sent = 0
				for _, n := range nodes {
					bytes, _ := strconv.ParseInt(n.Info(t, "stats", "total_net_output_bytes"), 10, 64)
					sent += bytes
				}
				if rests++; sent-before > 1<<20 {
					rests = 0
				}
				return rests == 10 || sent > most
			})
			if sent > most {
				t.Errorf("4 clients that read nothing: Redis has sent %d MB and more", sent>>20)
			}
			t.Logf("Redis has sent %d MB", sent>>20)
			for range 100 {
				if v, err := greedy.Receive(rig.Patience); err != nil || len(v.Text) != 100_000 {
					t.Fatalf("%d bytes, %v", len(v.Text), err)
				}
			}
		})
	}
}

// clientsThatNeverRead has four clients ask for 100 GB of replies, beside one that reads. It returns one of
// the four; end ends them all.
func clientsThatNeverRead(t *testing.T, p *rig.Proxy) (greedy *rig.Conn, end func()) {
	t.Helper()
	rig.Connect(t, p.Addr).Must(t, "SET", "greedy", strings.Repeat("x", 100_000))
	canary := rig.Watch(t, p, "")
	var all []*rig.Conn
	for range 4 {
		c := rig.Connect(t, p.Addr)
		all = append(all, c)
		go func() { // ends with the connection
			batch := []byte(strings.Repeat(string(rig.Encode("GET", "greedy")), 1000))
			for range 1000 {
				if _, err := c.Write(batch); err != nil {
					return
				}
			}
		}()
	}
	return all[0], func() {
		canary()
		for _, c := range all {
			c.Close()
		}
	}
}
