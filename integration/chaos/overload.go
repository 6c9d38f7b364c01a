package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"lockproxy/integration/rig"
)

// overloadName is what -only calls the overload.
const overloadName = "overload"

// overload is what became of commands when one Redis was asked for twice what it can do.
type overload struct {
	seen
	Capacity float64   `json:"capacity"` // commands a second that it can do
	Lasted   float64   `json:"lasted"`   // seconds
	Ways     []flooded `json:"ways"`
}

// flooded is what one way to that Redis made of it. Times are in ms.
type flooded struct {
	Name   string  `json:"name"`
	Rates  rates   `json:"rates"`
	Median float64 `json:"median"` // of commands that were served
	P99    float64 `json:"p99"`
	Calm   pair    `json:"calm"` // p99 at half of the capacity, before and afterwards
	// Memory is resident before, the most, and afterwards, in MiB. That of Redis is not measured.
	Memory [3]float64 `json:"memory,omitempty"`
}

// rates are what became of the commands that were offered, a second.
type rates struct {
	Served float64 `json:"served"`
	Shed   float64 `json:"shed"`   // -BUSY
	Unsent float64 `json:"unsent"` // all connections waited for a reply
}

// floodConns is how many connections there are, of which each has one command under way at most.
const floodConns = 4000

// overloading asks one Redis for twice what it can do: straight, and through proxies without and with
// shed-after.
func overloading(ctx context.Context, o options) *overload {
	v := &overload{seen: o.see()}
	calm, lasts := 5*time.Second, time.Minute
	if o.quick {
		calm, lasts = time.Second, 3*time.Second
	}
	v.Lasted = lasts.Seconds()
	l := newLife()
	v.attempt(l, func() {
		redis := rig.StartRedis(l, "--maxclients", fmt.Sprint(floodConns+100))
		for range 20 {
			redis.Do(l, strings.Fields("RPUSH long "+strings.Repeat("element ", 1000))...)
		}
		v.Capacity = capacity(l, redis.Addr, calm)
		for _, name := range []string{"straight", "lockproxy", "lockproxy, shed-after 100ms"} {
			if ctx.Err() != nil {
				break
			}
			f, of := flooded{Name: name}, newLife()
			v.attempt(of, func() {
				if name == "straight" {
					f.flood(of, redis.Addr, nil, v.Capacity, calm, lasts)
					return
				}
				args := append([]string{"--upstream", redis.Addr}, o.lockproxyArgs...)
				if _, after, ok := strings.Cut(name, "shed-after "); ok {
					args = append(args, "--shed-after", after)
				}
				p := rig.StartBinary(of, o.binary(of), args...)
				f.flood(of, p.Addr, p, v.Capacity, calm, lasts)
			})
			v.Ways = append(v.Ways, f)
			fmt.Printf("%s: %+v\n", overloadName, f)
		}
	})
	return v
}

// slowCommand takes Redis about half a millisecond.
var slowCommand = []string{"LPOS", "long", "absent"}

// capacity is how many of the commands a few clients, who wait for each reply, get out of Redis in a second.
func capacity(l rig.Life, addr string, lasts time.Duration) float64 {
	done, end := &offered{}, time.Now().Add(lasts)
	var clients sync.WaitGroup
	for range 8 {
		c := rig.Connect(l, addr)
		clients.Go(func() {
			for time.Now().Before(end) {
				done.ask(l, c, time.Now())
			}
		})
	}
	clients.Wait()
	return float64(len(done.times)) / lasts.Seconds()
}

// flood offers half of the capacity, then twice as much as there is, then half of it again.
func (f *flooded) flood(l *rig.OwnLife, addr string, p *rig.Proxy, capacity float64,
	calm, lasts time.Duration) {
	idle := make(chan *rig.Conn, floodConns)
	for range floodConns {
		idle <- rig.Connect(l, addr)
	}
	memory := func(at int) {
		if p != nil {
			f.Memory[at] = max(f.Memory[at], use(l, p).Memory)
		}
	}
	before := offer(l, idle, capacity/2, calm)
	memory(0)
	stop := every(1, time.Second, func(int, int) { l.Attempt(func() { memory(1) }) })
	during := offer(l, idle, 2*capacity, lasts)
	stop()
	afterwards := offer(l, idle, capacity/2, calm)
	memory(2)
	second := lasts.Seconds()
	f.Rates = rates{float64(len(during.times)) / second, float64(during.shed) / second,
		float64(during.unsent) / second}
	f.Median, f.P99 = percentile(during.times, 50), percentile(during.times, 99)
	f.Calm = pair{percentile(before.times, 99), percentile(afterwards.times, 99)}
	if afterwards.shed > 0 {
		l.Errorf("%s: %d commands were refused after the overload", f.Name, afterwards.shed)
	}
}

// offered is what became of commands that were offered at a rate.
type offered struct {
	mu           sync.Mutex
	times        []time.Duration // of those that were served, from when they were due
	shed, unsent int
}

// offer offers commands at a rate, whatever becomes of those before, and waits until all are answered.
func offer(l rig.Life, idle chan *rig.Conn, rate float64, lasts time.Duration) *offered {
	all := &offered{}
	var under sync.WaitGroup
	begun := time.Now()
	for n := 0; ; n++ {
		due := begun.Add(time.Duration(float64(n) / rate * float64(time.Second)))
		if due.Sub(begun) > lasts {
			break
		}
		if early := time.Until(due); early > time.Millisecond {
			time.Sleep(early)
		}
		select {
		case c := <-idle:
			under.Go(func() {
				all.ask(l, c, due)
				idle <- c
			})
		default:
			all.unsent++
		}
	}
	under.Wait()
	return all
}

func (all *offered) ask(l rig.Life, c *rig.Conn, due time.Time) {
	r, err := c.Do(slowCommand...)
	took := time.Since(due)
	all.mu.Lock()
	defer all.mu.Unlock()
	switch {
	case err == nil && r.Null:
		all.times = append(all.times, took)
	case err == nil && r.IsError("BUSY"):
		all.shed++
	default:
		l.Errorf("an answer: %s %v", r, err)
	}
}
