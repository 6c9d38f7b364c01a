package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// pacedConns is over how many connections paced requests go in turn.
	pacedConns = 50
	// pacedFor is for how long one rate is kept, at -requests 100000.
	pacedFor = 3 * time.Second
)

// paces are requests a second.
var paces = []int{2000, 5000, 10000, 20000}

func pace(n int) string { return fmt.Sprintf("%d requests a second", n) }

// paced measures GETs that come at a fixed rate, whether or not the one before is answered. A latency
// counts from when the request was due, so that a proxy that hangs for a moment is late for all that
// were due meanwhile.
func paced(ctx context.Context, y *yard, o options, rep *report) error {
	if err := y.fillKeyed(ctx); err != nil {
		return err
	}
	all := y.contenders()
	r := results{}
	for round := range o.rounds {
		for _, n := range paces {
			progress("round %d of %d: %s", round+1, o.rounds, pace(n))
			for _, c := range rotated(all, round) {
				took := pacedFor * time.Duration(o.requests) / 100000
				s, err := y.pacedAt(ctx, c, n, max(pacedConns, int(took.Seconds()*float64(n))))
				if err != nil {
					return fmt.Errorf("%s, %s: %w", c.name, pace(n), err)
				}
				r.add(pace(n), c.name, s)
			}
		}
	}
	y.printPaced(rep, r, all)
	if len(y.lockproxy) > 0 {
		other := y.yardstick(likePredixy)
		rep.hold(atMost(1, "%.2f", "open loop, "+pace(paces[0])+": CPU, against "+other.told,
			r.versus(pace(paces[0]), oneProxy, other.name, cpu)))
	}
	return nil
}

// pacedAt is one measurement of one contender.
func (y *yard) pacedAt(ctx context.Context, c contender, perSecond, n int) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(n)*time.Second/time.Duration(perSecond)+patience)
	defer cancel()
	l := load{pipeline: 1}
	defer l.close()
	if err := y.dialKeyed(&l, c, pacedConns); err != nil {
		return sample{}, err
	}
	if _, err := l.run(ctx, pacedConns); err != nil { // each is accepted, and known
		return sample{}, err
	}
	before, err := c.burnt()
	if err != nil {
		return sample{}, err
	}
	t := timetable{begun: time.Now().Add(10 * time.Millisecond), each: time.Second / time.Duration(perSecond)}
	sent := make(chan error, 1)
	go func() { sent <- t.send(ctx, l.conns, n) }()
	took, err := t.receive(ctx, l.conns, n)
	if err != nil {
		cancel()
	}
	if late := <-sent; err == nil {
		err = late
	}
	if err != nil {
		return sample{}, err
	}
	elapsed := time.Since(t.begun)
	after, err := c.burnt()
	return timesOf(took, float64(n)/elapsed.Seconds()).withBurnt(before, after, n), err
}

// timetable says when each request is due. They go over all connections in turn, so that a reply is known by
// its connection, and by how many came there before.
type timetable struct {
	begun time.Time
	each  time.Duration
}

func (t timetable) due(i int) time.Time { return t.begun.Add(time.Duration(i) * t.each) }

// send sends each request when it is due, or at once when that is past.
func (t timetable) send(ctx context.Context, conns []*conn, n int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var request []byte // of this goroutine, while the other one reads
	for i := range n {
		if wait := time.Until(t.due(i)); wait > 0 {
			nap(wait)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		c := conns[i%len(conns)]
		request = c.next(request[:0])
		sent, err := unix.Write(c.fd, request)
		if err == nil && sent < len(request) {
			err = io.ErrShortWrite
		}
		if err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
	}
	return nil
}

// receive reads all replies, and says how long after it was due each came.
func (t timetable) receive(ctx context.Context, conns []*conn, n int) ([]time.Duration, error) {
	p, err := newPoller()
	if err != nil {
		return nil, err
	}
	defer p.close()
	for i, c := range conns {
		if err := p.add(c.fd, i); err != nil {
			return nil, err
		}
	}
	took := make([]time.Duration, 0, n)
	came := make([]int, len(conns))
	buf := make([]byte, 64<<10)
	for len(took) < n {
		ready, err := p.wait(100)
		if err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("%d of %d replies came: %w", len(took), n, err)
		}
		for _, i := range ready {
			c := conns[i]
			c.owed = n // step counts whole replies down
			if _, err := c.step(buf); err != nil {
				return nil, err
			}
			now := time.Now()
			for range n - c.owed {
				took = append(took, now.Sub(t.due(came[i]*len(conns)+i)))
				came[i]++
			}
		}
	}
	return took, nil
}

func p999(s sample) float64 { return micro(s.p999) }

func (y *yard) printPaced(rep *report, r results, all []contender) {
	t := table{{"", "sent a second", "p50 µs", "p99 µs", "p99.9 µs", "CPU µs a request"}}
	for _, c := range y.yardsticks() {
		t[0] = append(t[0], "of "+c.name)
	}
	p := plot{File: "paced-p99", Title: "GETs at a fixed rate: p99", X: "requests a second", Y: "µs",
		LogX: true}
	q := plot{File: "paced-cpu", Title: "GETs at a fixed rate: CPU of the proxy", X: "requests a second",
		Y: "µs a request", LogX: true}
	for _, c := range all {
		late, used := line{Name: c.name}, line{Name: c.name}
		for _, n := range paces {
			late.Add(float64(n), r.median(pace(n), c.name, p99))
			used.Add(float64(n), r.median(pace(n), c.name, cpu))
		}
		p.Lines = append(p.Lines, late)
		if c.pid != 0 {
			q.Lines = append(q.Lines, used)
		}
	}
	for _, n := range paces {
		what := pace(n)
		for _, c := range all {
			row := []string{
				what + ", " + c.name,
				fmt.Sprintf("%.0f", r.median(what, c.name, rate)),
				fmt.Sprintf("%.0f", r.median(what, c.name, p50)),
				fmt.Sprintf("%.0f", r.median(what, c.name, p99)),
				fmt.Sprintf("%.0f", r.median(what, c.name, p999)),
				"",
			}
			if c.pid != 0 {
				row[5] = fmt.Sprintf("%.2f", r.median(what, c.name, cpu))
			}
			t = append(t, append(row, r.against(what, c, y.yardsticks(), cpu)...))
		}
	}
	rep.printf("\n## GETs at a fixed rate\n\n%s\nAn open loop over %d connections: a request is sent\n"+
		"when it is due, and its latency counts from then, also if it could only be sent later.\n", t,
		pacedConns)
	rep.draw(p)
	rep.draw(q)
}
