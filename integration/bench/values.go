package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const (
	valueSize = 16 << 20
	valueKeys = 4 // so that Redis need not keep one for each client
	// valueBuffers is what a client may cost while a large value is on its way: a few buffers.
	valueBuffers = 256 << 10
)

// valueClients are how many send and get large values at a time.
var valueClients = []int{1, 50}

func valued(n int) string { return fmt.Sprintf("SET + GET of %d MiB, clients: %d", valueSize>>20, n) }

// values is one measurement: the proxy's CPU a MiB, and what its memory has grown by at most.
func (y *yard) values(ctx context.Context, c contender, clients, pairs int) (sample, error) {
	payload := bytes.Repeat([]byte("0123456789abcdef"), valueSize/16)
	before, err := resident(c.pid)
	if err != nil {
		return sample{}, err
	}
	used, err := c.cpu()
	if err != nil {
		return sample{}, err
	}
	watched, stop := context.WithCancel(ctx)
	peak := make(chan int, 1)
	go func() { peak <- highest(watched, c.pid) }()
	var (
		mu     sync.Mutex
		took   []time.Duration
		failed error
		all    sync.WaitGroup
	)
	begun := time.Now()
	for i := range clients {
		all.Go(func() {
			mine, err := exchange(ctx, c.addr, i, max(1, pairs/clients), payload)
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
			if failed == nil {
				failed = err
			}
		})
	}
	all.Wait()
	elapsed := time.Since(begun)
	stop()
	most := <-peak
	if failed != nil {
		return sample{}, failed
	}
	after, err := c.cpu()
	moved := len(took) * 2 * valueSize >> 20 // in MiB
	s := timesOf(took, float64(moved)/elapsed.Seconds())
	s.bytes = float64(max(0, most-before))
	return s.withCPU(after-used, moved), err
}

// highest is the most memory that a process has until the end of ctx.
func highest(ctx context.Context, pid int) (most int) {
	for {
		if n, err := resident(pid); err == nil {
			most = max(most, n)
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return most
		}
	}
}

// exchange is a client that sends a value, and gets it back, n times.
func exchange(ctx context.Context, addr string, i, n int, payload []byte) (took []time.Duration, err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	conn.SetDeadline(time.Now().Add(largeWait))
	in := bufio.NewReaderSize(conn, 64<<10)
	key := fmt.Sprintf("bench:value:%d", i%valueKeys)
	set := fmt.Appendf(nil, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n", len(key), key, len(payload))
	get := command(nil, "GET", key)
	expect := func(what string) error {
		if line, err := in.ReadString('\n'); err != nil || line != what {
			return fmt.Errorf("%q instead of %q: %w", line[:min(len(line), 100)], what, orUnexpected(err))
		}
		return nil
	}
	for range n {
		begun := time.Now()
		request := net.Buffers{set, payload, []byte("\r\n")}
		if _, err := request.WriteTo(conn); err != nil {
			return took, err
		}
		if err := expect("+OK\r\n"); err != nil {
			return took, err
		}
		if _, err := conn.Write(get); err != nil {
			return took, err
		}
		if err := expect(fmt.Sprintf("$%d\r\n", len(payload))); err != nil {
			return took, err
		}
		if _, err := in.Discard(len(payload)); err != nil {
			return took, err
		}
		if err := expect("\r\n"); err != nil {
			return took, err
		}
		took = append(took, time.Since(begun))
	}
	return took, nil
}

// orUnexpected is err, or that something else came than was wanted.
func orUnexpected(err error) error {
	if err == nil {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (y *yard) printValues(rep *report, r results, all []contender) {
	t := table{{"", "MiB/s", "p50 ms", "CPU µs a MiB", "memory MiB"}}
	for _, c := range y.yardsticks() {
		t[0] = append(t[0], "CPU of "+c.name)
	}
	for _, n := range valueClients {
		for _, c := range all {
			what := valued(n)
			if len(r[what][c.name]) == 0 {
				continue
			}
			t = append(t, append([]string{
				what + ", " + c.name,
				fmt.Sprintf("%.0f", r.median(what, c.name, rate)),
				fmt.Sprintf("%.0f", r.median(what, c.name, p50)/1000),
				fmt.Sprintf("%.0f", r.median(what, c.name, cpu)),
				fmt.Sprintf("%.1f", r.median(what, c.name, allocatedBytes)/(1<<20)),
			}, r.against(what, c, y.yardsticks(), cpu)...))
		}
		if y.binary == "" || len(r[valued(n)]) == 0 {
			continue
		}
		other := y.yardstick(valuesOfPredixy)
		rep.hold(
			atMost(other.limit(1.1), "%.2f", valued(n)+": CPU, against "+other.told,
				r.versus(valued(n), oneProxy, other.name, cpu)),
			atMost(float64(valueBuffers)/(1<<20), "%.1f", valued(n)+": MiB of memory a client",
				r.spread(valued(n), oneProxy,
					func(s sample) float64 { return s.bytes / (1 << 20) / float64(n) })))
	}
	rep.printf("\n## Large values\n\n%s\nEach client sends a value and gets it back. Memory is what the\n"+
		"resident memory of the proxy has grown by at most meanwhile.\n", t)
}
