package main

import (
	"maps"
	"regexp"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"lockproxy/integration/page"
	"lockproxy/integration/rig"
)

// reading is what was used up to a moment, or between two.
type reading struct {
	client, proxy, redis time.Duration       // CPU of this program, of the proxies, of the servers
	ran                  map[string]spending // by the servers' account, of clients and scripts, by command
}

// spending is what servers spent on one command.
type spending struct {
	calls int
	usec  int // from its begin to its end; of a script, what it calls included
}

// read reads what a way has used so far.
func (w way) read(l rig.Life) (r reading) {
	l.Helper()
	r.ran = map[string]spending{}
	for _, s := range w.servers {
		for name, n := range parseCommandStats(s.Do(l, "INFO", "commandstats").Text) {
			r.ran[name] = spending{r.ran[name].calls + n.calls, r.ran[name].usec + n.usec}
		}
		r.redis += s.CPU(l)
	}
	delete(r.ran, "info") // which asks
	for _, p := range w.proxies {
		r.proxy += p.CPU(l)
	}
	r.client = page.CPU(unix.RUSAGE_SELF)
	return r
}

// plus is r and so many times another reading; -1 times what was before leaves what came since.
func (r reading) plus(times int, other reading) reading {
	each := time.Duration(times)
	sum := reading{r.client + each*other.client, r.proxy + each*other.proxy, r.redis + each*other.redis,
		maps.Clone(r.ran)}
	for name, n := range other.ran {
		sum.ran[name] = spending{sum.ran[name].calls + times*n.calls, sum.ran[name].usec + times*n.usec}
	}
	return sum
}

var commandStat = regexp.MustCompile(`cmdstat_(\S+):calls=(\d+),usec=(\d+)`)

// parseCommandStats reads lines "cmdstat_get:calls=2,usec=2,...".
func parseCommandStats(text string) map[string]spending {
	all := map[string]spending{}
	for _, m := range commandStat.FindAllStringSubmatch(text, -1) {
		calls, _ := strconv.Atoi(m[2])
		usec, _ := strconv.Atoi(m[3])
		all[m[1]] = spending{calls, usec}
	}
	return all
}

// spent shares out among n requests what was used for them. Of a script there is also what it took.
func (w way) spent(s sample, used reading, n int) sample {
	each := func(d time.Duration) float64 { return micro(d) / float64(n) }
	s[clientCPU] = each(used.client)
	s[perCPU] = 1e6 / each(used.client+used.proxy)
	if w.proxies != nil {
		s[cpu] = each(used.proxy)
	}
	if w.servers != nil {
		s[redisCPU] = each(used.redis)
	}
	for name, all := range used.ran {
		if all.calls > 0 {
			s[ran(name)] = float64(all.calls) / float64(n)
			s[usecOf(name)] = float64(all.usec) / float64(all.calls)
		}
	}
	return s
}

// costed does something, and shares out what that costs among the n things that it was.
func (y *yard) costed(w way, do func() (s sample, n int)) sample {
	before := w.read(y)
	s, n := do()
	return w.spent(s, w.read(y).plus(-1, before), n)
}

// metered runs a load.
func (y *yard) metered(w way, l *load, batches int) sample {
	return y.costed(w, func() (sample, int) {
		s, err := l.run(batches)
		y.check(err)
		return s, batches * l.pipeline
	})
}

// together has so many do something side by side, each of which says how long what it did took. The first
// error ends all of them by cancel.
func together(cancel func(), n int, do func(i int) ([]time.Duration, error)) (
	took []time.Duration, err error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			mine, failed := do(i)
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
			if failed != nil && err == nil {
				err = failed
				cancel()
			}
		})
	}
	all.Wait()
	return took, err
}
