package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// keepers are a cluster and a proxy that keeps holds alive there; nobody else uses them.
type keepers struct {
	masters []string
	pids    []int // of the masters
	counter *counter
	proxy   contender
	admin   string   // of the proxy
	process *process // the proxy
}

func (y *yard) startKeepers(ctx context.Context) (*keepers, error) {
	masters, pids, err := y.startCluster(ctx)
	if err != nil {
		return nil, err
	}
	return &keepers{masters: masters, pids: pids, counter: newCounter(masters)}, nil
}

// startProxy starts a proxy that has not kept anything yet.
func (c *keepers) startProxy(ctx context.Context, y *yard) (err error) {
	if c.proxy, c.admin, err = y.startLockproxy(ctx, c.masters, true); err == nil {
		c.process = y.processes[len(y.processes)-1]
	}
	return err
}

// reading is what proxy and Redis say at one moment of all that was so far.
type reading struct {
	at             time.Time
	proxy, redis   time.Duration // CPU
	renewals, lost float64
	scripts        spending // EVALSHA
	keys           int
	resident       int // bytes of the proxy
	redisMemory    int // bytes in use
}

func (c *keepers) read(ctx context.Context) (r reading, err error) {
	r.at = time.Now()
	if r.proxy, err = c.proxy.cpu(); err != nil {
		return r, err
	}
	if r.redis, err = cpuOf(c.pids); err != nil {
		return r, err
	}
	if r.resident, err = resident(c.proxy.pid); err != nil {
		return r, err
	}
	spent, err := c.counter.spent(ctx)
	if err != nil {
		return r, err
	}
	r.scripts = spent["evalsha"]
	if r.keys, err = c.counter.keys(ctx); err != nil {
		return r, err
	}
	if r.redisMemory, err = c.counter.memory(ctx); err != nil {
		return r, err
	}
	text, err := fetch(ctx, "http://"+c.admin+"/metrics")
	if err != nil {
		return r, err
	}
	metrics := parseMetrics(string(text))
	const renewals = "lockproxy_lock_renewals_total"
	if _, ok := metrics[renewals]; !ok {
		return r, errors.New("the proxy has no metric " + renewals)
	}
	r.renewals, r.lost = metrics[renewals], metrics["lockproxy_lock_lost_total"]
	return r, nil
}

// until is what happened from r to a later reading, for each renewal; all zero if there was none.
func (r reading) until(later reading) sample {
	n := later.renewals - r.renewals
	if n <= 0 {
		return sample{}
	}
	each := func(d time.Duration) time.Duration { return time.Duration(float64(d) / n) }
	return sample{
		rate:     n / later.at.Sub(r.at).Seconds(),
		cpu:      each(later.proxy - r.proxy),
		redis:    each(later.redis - r.redis),
		account:  each(time.Duration(later.scripts.usec-r.scripts.usec) * time.Microsecond),
		commands: map[string]float64{"evalsha": float64(later.scripts.calls-r.scripts.calls) / n},
	}
}

// until waits until Redis has no more keys than that.
func (c *keepers) until(ctx context.Context, keys int, most time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		n, err := c.counter.keys(ctx)
		if err == nil && n > keys {
			err = pause(ctx, 5*time.Millisecond)
		} else if err == nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%d keys, not %d: %w", n, keys, err)
		}
	}
}

// keys is how many keys all servers together have.
func (c *counter) keys(ctx context.Context) (all int, err error) {
	for _, s := range c.servers {
		n, err := s.DBSize(ctx).Result()
		if err != nil {
			return 0, fmt.Errorf("DBSIZE: %w", err)
		}
		all += int(n)
	}
	return all, nil
}

// memory is how many bytes all servers together use.
func (c *counter) memory(ctx context.Context) (all int, err error) {
	for _, s := range c.servers {
		text, err := s.Info(ctx, "memory").Result()
		if err != nil {
			return 0, fmt.Errorf("INFO memory: %w", err)
		}
		_, rest, _ := strings.Cut(text, "used_memory:")
		number, _, _ := strings.Cut(rest, "\r\n")
		n, err := strconv.Atoi(number)
		if err != nil {
			return 0, fmt.Errorf("INFO memory: %w", err)
		}
		all += n
	}
	return all, nil
}

// parseMetrics reads the text of /metrics: the sum of each metric over its labels.
func parseMetrics(text string) map[string]float64 {
	all := map[string]float64{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		end := strings.LastIndexByte(line, ' ')
		if end < 0 || line[0] == '#' {
			continue
		}
		name, _, _ := strings.Cut(line[:end], "{")
		if n, err := strconv.ParseFloat(line[end+1:], 64); err == nil {
			all[name] += n
		}
	}
	return all
}

// pause waits, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
