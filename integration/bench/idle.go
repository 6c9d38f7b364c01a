package main

import (
	"context"
	"fmt"
	"time"
)

// memories measures what proxies need for clients that are idle, and for those with large values. Each
// measurement has a proxy that has just been started.
func memories(ctx context.Context, y *yard, o options, rep *report) error {
	if err := y.fillKeyed(ctx); err != nil {
		return err
	}
	r := results{}
	var all []contender
	lasting := len(y.processes)
	for round := range o.rounds {
		y.end(lasting)
		fresh, err := y.fresh(ctx)
		if err != nil {
			return err
		}
		all = fresh
		progress("round %d of %d: memory of idle clients", round+1, o.rounds)
		for _, c := range rotated(fresh, round) {
			s, err := y.idle(ctx, c, y.mostIdle(c, o.most))
			if err != nil {
				return fmt.Errorf("%s, idle clients: %w", c.name, err)
			}
			r.add("idle", c.name, s)
		}
		for _, n := range valueClients {
			if n > o.most/10 {
				continue
			}
			progress("round %d of %d: %s", round+1, o.rounds, valued(n))
			y.end(lasting)
			if fresh, err = y.fresh(ctx); err != nil {
				return err
			}
			for _, c := range rotated(fresh, round) {
				s, err := y.values(ctx, c, n, o.requests/2000)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", c.name, valued(n), err)
				}
				r.add(valued(n), c.name, s)
			}
		}
	}
	y.printIdle(rep, r, all, o.most)
	y.printValues(rep, r, all)
	return nil
}

// fresh are the proxies, started anew.
func (y *yard) fresh(ctx context.Context) (all []contender, err error) {
	if y.binary != "" {
		c, _, err := y.startLockproxy(ctx, y.masters, false)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	for _, start := range []func(context.Context) (contender, error){
		y.startPredixy, y.startTwemproxy, y.startHaproxy,
	} {
		c, err := start(ctx)
		if err != nil {
			return nil, err
		}
		if c.addr != "" {
			all = append(all, c)
		}
	}
	return all, nil
}

// mostIdle is how many clients a proxy may have here.
func (y *yard) mostIdle(c contender, most int) int {
	for !y.holds(c, most) {
		most -= 100
	}
	return most
}

// idle connects clients, each of which sends one GET and then nothing.
func (y *yard) idle(ctx context.Context, c contender, clients int) (sample, error) {
	before, err := resident(c.pid)
	if err != nil {
		return sample{}, err
	}
	const together = 100 // or the proxy would need more for all of them at once
	for range clients / together {
		l := load{pipeline: 1, even: true}
		defer l.close()
		if err := y.dialKeyed(&l, c, together); err != nil {
			return sample{}, err
		}
		if _, err := l.run(ctx, together); err != nil {
			return sample{}, err
		}
	}
	if err := pause(ctx, time.Second); err != nil { // what is freed at leisure is freed
		return sample{}, err
	}
	after, err := resident(c.pid)
	return sample{bytes: float64(after-before) / float64(clients/together*together)}, err
}

func (y *yard) printIdle(rep *report, r results, all []contender, most int) {
	t := table{{"", "clients", "KiB a client", "lowest", "highest"}}
	p := plot{File: "memory-idle", Title: "Resident memory of an idle client", Y: "KiB",
		Lines: []line{{Name: "KiB a client"}}}
	for i, c := range all {
		s := r.spread("idle", c.name, allocatedBytes)
		t = append(t, []string{
			c.name,
			fmt.Sprint(y.mostIdle(c, most)),
			fmt.Sprintf("%.2f", s.Median/1024),
			fmt.Sprintf("%.2f", s.Low/1024),
			fmt.Sprintf("%.2f", s.High/1024),
		})
		p.Bars = append(p.Bars, c.name)
		p.Lines[0].Add(float64(i), s.Median/1024)
	}
	rep.printf("\n## Idle clients\n\n%s\nWhat the resident memory of the proxy has grown by, a second\n"+
		"after each client has sent one GET.\n", t)
	rep.draw(p)
}
