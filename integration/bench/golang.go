package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// goroutines is how many of a Go program take locks at a time.
const goroutines = 50

// golang measures a Go program with many goroutines, each of which takes and frees a lock of its own: by LOCK
// through a proxy, and by the libraries that do it straight at the same Redis.
func golang(ctx context.Context, y *yard, o options, rep *report) error {
	one, err := y.startOne(ctx)
	if err != nil {
		return err
	}
	ways, end, err := one.goWays()
	if err != nil {
		return err
	}
	defer end()
	const what = "own locks"
	r := results{}
	for round := range o.rounds {
		progress("round %d of %d: %d goroutines, each with its own lock", round+1, o.rounds, goroutines)
		for _, w := range rotated(ways, round) {
			s, err := w.alone(ctx, goroutines, o.requests/goroutines/5)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			r.add(what, w.name, s)
		}
	}
	t := table{{"", "pairs/s", "of redsync", "p50 µs", "p99 µs", "client's CPU µs a pair", "proxy's",
		"Redis's"}}
	for _, w := range ways {
		row := []string{
			w.name,
			fmt.Sprintf("%.0f", r.median(what, w.name, rate)),
			fmt.Sprintf("%.2f", r.ratio(what, w.name, redsyncName, rate)),
			fmt.Sprintf("%.0f", r.median(what, w.name, p50)),
			fmt.Sprintf("%.0f", r.median(what, w.name, p99)),
			fmt.Sprintf("%.1f", r.median(what, w.name, clientCPU)),
			"",
			fmt.Sprintf("%.1f", r.median(what, w.name, redisCPU)),
		}
		if w.proxyPIDs != nil {
			row[6] = fmt.Sprintf("%.1f", r.median(what, w.name, cpu))
		}
		t = append(t, row)
	}
	rep.printf("\n## Locks of a Go program\n\n%s\n%d goroutines, each with a lock of its own, before one\n"+
		"Redis. The latency is that of taking it. LOCK is sent by go-redis, which redsync uses, too;\n"+
		"rueidislock uses rueidis.\n",
		t, goroutines)
	if one.proxy.addr != "" {
		rep.hold(atLeast(1.3, "%.2f",
			fmt.Sprintf("LOCK + UNLOCK of a Go client, %d goroutines: pairs a second,"+
				" against redsync straight at one Redis", goroutines), r.versus(what, oneProxy, redsyncName,
				rate)))
	}
	return nil
}

// goWays are the ways of a Go program, each with one pool of connections for all goroutines.
func (n one) goWays() (ways []lockWay, end func(), err error) {
	through := redis.NewClient(&redis.Options{Addr: n.proxy.addr, Protocol: 2, PoolSize: goroutines})
	straight := redis.NewClient(&redis.Options{Addr: n.addr, Protocol: 2, PoolSize: goroutines})
	rueidis, err := newRueidisLocks(n.addr)
	if err != nil {
		return nil, nil, err
	}
	if n.proxy.addr != "" {
		ways = append(ways, lockWay{name: oneProxy, nodePIDs: []int{n.pid}, proxyPIDs: []int{n.proxy.pid},
			locker: func(_ context.Context, key string, _ int) (locker, error) {
				return &pooledLocker{client: through, key: key}, nil
			}})
	}
	r := redsync.New(goredis.NewPool(straight))
	ways = append(ways, lockWay{name: redsyncName, nodePIDs: []int{n.pid},
		locker: func(_ context.Context, key string, _ int) (locker, error) {
			return redsyncLocker{r.NewMutex(key, redsync.WithExpiry(lease))}, nil
		}}, lockWay{name: rueidisName, nodePIDs: []int{n.pid},
		locker: func(_ context.Context, key string, _ int) (locker, error) {
			return &rueidisLocker{all: rueidis, key: key}, nil
		}})
	return ways, func() {
		through.Close()
		straight.Close()
		rueidis.Close()
	}, nil
}

// pooledLocker takes a lock by LOCK, over a client that others use, too.
type pooledLocker struct {
	client *redis.Client
	key    string
	token  string
}

func (l *pooledLocker) lock(ctx context.Context) error {
	reply, err := l.client.Do(ctx, "LOCK", l.key, "PX", lease.Milliseconds()).Slice()
	if err != nil {
		return err
	}
	if len(reply) != 4 {
		return fmt.Errorf("unexpected reply %v", reply)
	}
	l.token = fmt.Sprint(reply[0])
	return nil
}

func (l *pooledLocker) unlock(ctx context.Context) error {
	n, err := l.client.Do(ctx, "UNLOCK", l.key, l.token).Int()
	if err == nil && n != 1 {
		err = errors.New("not the owner")
	}
	return err
}

func (*pooledLocker) close() {}
