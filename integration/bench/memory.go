package main

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"time"

	"lockproxy/integration/page"
	"lockproxy/integration/rig"
)

const (
	valueSize = 16 << 20
	valueKeys = 4 // so that Redis need not keep one for each client
	// valueBuffers is what a client may cost while a large value is on its way, in MiB: a few buffers.
	valueBuffers = 0.25
)

// valueClients are how many send and get large values at a time.
var valueClients = []int{1, 50}

func valued(n int) string { return fmt.Sprintf("SET + GET of %d MiB, clients: %d", valueSize>>20, n) }

// mibClient is how many MiB the memory of the proxy has grown by, a client.
const mibClient figure = "MiB a client"

// memory measures what proxies need for clients that are idle, and for those with large values. Each
// measurement has proxies that have just been started.
func memory(y *yard, rep *report) {
	clients := slices.DeleteFunc(slices.Clone(valueClients), func(n int) bool { return n > y.o.most/10 })
	idle, whats := []string{"idle clients"}, named(clients, valued)
	r := results{}
	all := y.contenders()[1:]
	y.rounds(r, all, append(idle, whats...), func(i int, w way) sample {
		if w.name == oneProxy {
			w = y.startLockproxy(w.name, y.masters)
		} else {
			w = y.yardstick(w.name)
		}
		defer func() { w.proxies[0].Kill() }()
		if i == 0 {
			return y.idle(w)
		}
		return y.values(w, clients[i-1], y.o.requests/2000)
	})
	rep.printf("\n## Idle clients\n\n%s\nWhat the resident memory of the proxy has grown by, a second\n"+
		"after each client has sent one GET.\n", r.table(idle, all,
		whole("clients"),
		hundredths("KiB a client", "KiB"),
		column{head: "lowest", format: "%.2f", of: "KiB", pick: slices.Min[[]float64]},
		column{head: "highest", format: "%.2f", of: "KiB", pick: slices.Max[[]float64]}))
	rep.draw(page.Plot{File: "memory-idle", Title: "Resident memory of an idle client", Y: "KiB",
		Bars: []string{"KiB a client"}}, r, idle, nil, all, "KiB")
	rep.printf("\n## Large values\n\n%s\nEach client sends a value and gets it back. Memory is what the\n"+
		"resident memory of the proxy has grown by at most meanwhile.\n", r.table(whats, all, y.beside(
		whole("MiB/s", rate), whole("p50 µs", p50), whole("CPU µs a MiB", cpu),
		hundredths("memory MiB a client", mibClient))...))
	for _, what := range whats {
		y.holdCPU(rep, r, what, what+": CPU", 0.69)
		rep.hold(page.AtMost(valueBuffers, "%.1f", what+": MiB of memory a client",
			r.spread(what, oneProxy, mibClient)))
	}
}

// idle connects clients, each of which sends one GET and then nothing.
func (y *yard) idle(w way) sample {
	const together = 100 // or the proxy would need more for all of them at once
	clients := y.o.most
	for !y.holds(w, clients) {
		clients -= together
	}
	before := w.proxies[0].RSS(y)
	n := 0
	for ; n+together <= clients || n == 0; n += together {
		l := y.keyedLoad(w, together, 1, "GET")
		defer l.close()
	}
	time.Sleep(time.Second) // what is freed at leisure is freed
	return sample{"clients": float64(n), "KiB": float64(w.proxies[0].RSS(y)-before) / float64(n) / 1024}
}

// values has clients send a value and get it back: MiB a second, the proxy's CPU a MiB, and what its memory
// has grown by at most.
func (y *yard) values(w way, clients, pairs int) sample {
	payload := bytes.Repeat([]byte("0123456789abcdef"), valueSize/16)
	rss := w.proxies[0].RSS(y)
	most := rss
	return y.costed(w, func() (sample, int) {
		var took []time.Duration
		done, begun := make(chan error, 1), time.Now()
		go func() { // ends with its clients, each of which waits no longer than for a hung program
			var err error
			took, err = together(func() {}, clients, func(i int) ([]time.Duration, error) {
				key := fmt.Sprint("bench:value:", i%valueKeys)
				return exchange(w.doors[0], key, payload, max(1, pairs/clients))
			})
			done <- err
		}()
		for {
			select {
			case err := <-done:
				y.check(err)
				moved := len(took) * 2 * valueSize >> 20
				s := timesOf(took, float64(moved)/time.Since(begun).Seconds())
				s[mibClient] = float64(most-rss) / (1 << 20) / float64(clients)
				return s, moved
			case <-time.After(5 * time.Millisecond):
				most = max(most, w.proxies[0].RSS(y))
			}
		}
	})
}

// exchange is a client that sends a value, and gets it back, n times.
func exchange(addr, key string, payload []byte, n int) (took []time.Duration, err error) {
	c, err := rig.Dial(addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	c.Reader = bufio.NewReaderSize(c, 64<<10)
	set, get := command("SET", key, string(payload)), command("GET", key)
	for range n {
		begun := time.Now()
		c.SetDeadline(begun.Add(rig.Patience))
		for _, request := range [][]byte{set, get} {
			if _, err := c.Write(request); err != nil {
				return took, err
			}
			line, err := c.Reader.ReadString('\n')
			if err == nil && line == fmt.Sprintf("$%d\r\n", valueSize) {
				_, err = c.Reader.Discard(valueSize + len("\r\n"))
			} else if err == nil && line != "+OK\r\n" {
				err = fmt.Errorf("unexpected reply %.100q", line)
			}
			if err != nil {
				return took, err
			}
		}
		took = append(took, time.Since(begun))
	}
	return took, nil
}
