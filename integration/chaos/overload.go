package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"lockproxy/integration/page"
	"lockproxy/integration/rig"
)

// overloadName is what -only calls the overload.
const overloadName = "overload"

// overload is what became of commands when one Redis was asked for twice what it can do.
type overload struct {
	When     time.Time `json:"when"`
	Command  string    `json:"command"`
	Machine  []string  `json:"machine"`
	Busy     string    `json:"busy"`
	Capacity float64   `json:"capacity"` // commands a second that it can do
	Lasted   float64   `json:"lasted"`   // seconds
	Ways     []flooded `json:"ways"`
	Wrong    []string  `json:"wrong,omitempty"`
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
	v := &overload{When: time.Now().Truncate(time.Second), Command: o.command,
		Machine: append(page.Machine(), page.First("redis-server", "--version"))}
	calm, lasts := 5*time.Second, time.Minute
	if o.quick {
		calm, lasts = time.Second, 3*time.Second
	}
	l, before := &life{}, page.UsageNow(0)
	err := l.attempt(func() {
		redis := rig.StartRedis(l, "--maxclients", fmt.Sprint(floodConns+100))
		c, err := rig.Dial(redis.Addr)
		if err != nil {
			l.Fatalf("%v", err)
		}
		defer c.Close()
		for range 20 {
			elements := strings.Fields(strings.Repeat("element ", 1000))
			c.Must(l, append([]string{"RPUSH", "long"}, elements...)...)
		}
		v.Capacity = capacity(l, redis.Addr, calm)
		v.Lasted = lasts.Seconds()
		for _, way := range []struct {
			name string
			args []string // nil: straight
		}{
			{"straight", nil},
			{"lockproxy", []string{"--upstream", redis.Addr}},
			{"lockproxy, shed-after 100ms", []string{"--upstream", redis.Addr, "--shed-after", "100ms"}},
		} {
			if ctx.Err() != nil {
				break
			}
			f := flooded{Name: way.name}
			of := &life{}
			err := of.attempt(func() {
				addr, memory := redis.Addr, func() float64 { return 0 }
				if way.args != nil {
					p := rig.StartBinary(of, o.binary(of), append(way.args, o.lockproxyArgs...)...)
					addr, memory = p.Addr, func() float64 {
						u, err := use(p)
						if err != nil {
							of.Fatalf("%v", err)
						}
						return u.Memory
					}
				}
				f.flood(of, addr, memory, v.Capacity, calm, lasts)
			})
			if err != nil {
				v.Wrong = append(v.Wrong, fmt.Sprintf("%s: %v", f.Name, err))
			}
			v.Wrong = append(v.Wrong, of.end()...)
			v.Ways = append(v.Ways, f)
			fmt.Printf("%s: %+v\n", overloadName, f)
		}
	})
	if err != nil {
		v.Wrong = append(v.Wrong, "it did not get to its end: "+err.Error())
	}
	v.Wrong = append(v.Wrong, l.end()...)
	v.Busy = before.Until(page.UsageNow(0))
	return v
}

// slowCommand takes Redis about half a millisecond.
var slowCommand = []string{"LPOS", "long", "absent"}

// capacity is how many of the commands a few clients, who wait for each reply, get out of Redis in a second.
func capacity(l *life, addr string, lasts time.Duration) float64 {
	var clients sync.WaitGroup
	done := make([]int, 8)
	end := time.Now().Add(lasts)
	for i := range done {
		c, err := rig.Dial(addr)
		if err != nil {
			l.Fatalf("%v", err)
		}
		clients.Go(func() {
			defer c.Close()
			for time.Now().Before(end) {
				if _, err := c.Do(slowCommand...); err != nil {
					l.Errorf("%v", err)
					return
				}
				done[i]++
			}
		})
	}
	clients.Wait()
	sum := 0
	for _, n := range done {
		sum += n
	}
	return float64(sum) / lasts.Seconds()
}

// flood offers half of the capacity, then twice as much as there is, then half of it again.
func (f *flooded) flood(l *life, addr string, memory func() float64, capacity float64,
	calm, lasts time.Duration) {
	idle := make(chan *rig.Conn, floodConns)
	for range floodConns {
		c, err := rig.Dial(addr)
		if err != nil {
			l.Fatalf("%v", err)
		}
		l.Cleanup(func() { c.Close() })
		idle <- c
	}
	before := offer(l, idle, capacity/2, calm)
	f.Memory[0] = memory()
	stop, most := make(chan struct{}), make(chan float64)
	go func() { // ends with stop
		highest := 0.0
		for {
			select {
			case <-stop:
				most <- highest
				return
			case <-time.After(time.Second):
			}
			l.attempt(func() { highest = max(highest, memory()) })
		}
	}()
	during := offer(l, idle, 2*capacity, lasts)
	close(stop)
	f.Memory[1] = <-most
	afterwards := offer(l, idle, capacity/2, calm)
	f.Memory[2] = memory()
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
func offer(l *life, idle chan *rig.Conn, rate float64, lasts time.Duration) *offered {
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

func (all *offered) ask(l *life, c *rig.Conn, due time.Time) {
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

func (v *overload) text() string {
	if v == nil {
		return ""
	}
	t := page.Table{{"way", "served a second", "of what it can do", "refused", "not sent", "p50", "p99",
		"p99 before -> afterwards", "MiB before, most, afterwards"}}
	for _, f := range v.Ways {
		memory := ""
		if f.Memory[1] > 0 {
			memory = fmt.Sprintf("%.0f, %.0f, %.0f", f.Memory[0], f.Memory[1], f.Memory[2])
		}
		t = append(t, []string{f.Name, fmt.Sprintf("%.0f", f.Rates.Served),
			fmt.Sprintf("%.2f", f.Rates.Served/v.Capacity), fmt.Sprintf("%.0f", f.Rates.Shed),
			fmt.Sprintf("%.0f", f.Rates.Unsent), number(f.Median), number(f.P99), f.Calm.String(), memory})
	}
	var b strings.Builder
	fmt.Fprintf(&b, overloadHead, v.Capacity, strings.Join(slowCommand, " "), 2*v.Capacity, v.Lasted,
		floodConns, t)
	for _, wrong := range v.Wrong {
		fmt.Fprintf(&b, "- **wrong**: %s\n", wrong)
	}
	fmt.Fprintf(&b, "\n%s, `%s`; %s; %s\n", v.When.UTC().Format("2006-01-02 15:04 UTC"), v.Command,
		strings.Join(v.Machine, "; "), v.Busy)
	return b.String()
}

const overloadHead = `
## Overload

One Redis can do %.0f of a slow command (%s) a second. %.0f a second are offered for %.0f s, whatever
becomes of those before, over %d connections; one that finds none of them idle is not sent. Before and afterwards it
is half of what Redis can do. Times are in ms, from when a command was due; those of refused commands do not count.

%s`
