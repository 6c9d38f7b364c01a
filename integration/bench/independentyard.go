package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// independentLease is the lease of locks over independent masters. It is short, since a master
// that has just started does not vote for so long.
const independentLease = 10 * time.Second

// plainName is a lock that is not over independent masters, at a lockproxy.
const plainName = "lockproxy, plain lock"

// quorum are masters that know nothing of each other, and a proxy whose locks they keep.
type quorum struct {
	masters []string
	pids    []int // of the masters
	proxy   contender
	admin   string // of the proxy
}

// openIndependent starts as many masters as the largest quorum has, and a proxy for each
// quorum; smaller ones are of the first masters.
func (y *yard) openIndependent(ctx context.Context) error {
	var masters []string
	var pids []int
	for range quorums[len(quorums)-1] {
		addr, pid, err := y.startRedis(ctx)
		if err != nil {
			return err
		}
		masters, pids = append(masters, addr), append(pids, pid)
	}
	y.quorums = map[int]quorum{}
	for _, n := range quorums {
		q := quorum{masters: masters[:n], pids: pids[:n]}
		if y.binary != "" {
			var err error
			if q.proxy, q.admin, err = y.startLockproxy(ctx, y.plain[:1], true,
				independentSettings(q.masters)...); err != nil {
				return err
			}
		}
		y.quorums[n] = q
	}
	if y.binary != "" {
		progress("waiting until masters that have just started vote, %v", independentLease)
	}
	return y.voting(ctx)
}

func independentSettings(masters []string) []string {
	lease := independentLease.String()
	return []string{"--redlock", strings.Join(masters, ","), "--redlock-node-timeout",
		(independentLease / 20).String(),
		"--lock-lease", lease, "--lock-max-lease", lease}
}

// voting waits until all masters vote, as all proxies see it: a proxy that measures with fewer
// does less.
func (y *yard) voting(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, independentLease+patience)
	defer cancel()
	for n, q := range y.quorums {
		for q.admin != "" {
			text, err := fetch(ctx, "http://"+q.admin+"/metrics")
			if err != nil {
				return err
			}
			votes := parseMetrics(string(text))["lockproxy_redlock_node_votes"]
			if int(votes) == n {
				break
			}
			if err := pause(ctx, 50*time.Millisecond); err != nil {
				return fmt.Errorf("%.0f of %d masters vote: %w", votes, n, err)
			}
		}
	}
	return nil
}

// independentWays are the ways to a lock over n masters: through a proxy, and redsync with its
// defaults. end closes what they share.
func (y *yard) independentWays(n int) (ways []lockWay, end func()) {
	q := y.quorums[n]
	if y.binary != "" {
		ways = append(ways, lockWay{
			name: oneProxy, nodes: q.masters, nodePIDs: q.pids, proxyPIDs: []int{q.proxy.pid},
			locker: func(ctx context.Context, key string, _ int) (locker, error) {
				return newLibraryLocker(ctx, q.proxy.addr, key), nil
			},
		}, lockWay{
			name: plainName, nodes: y.masters, nodePIDs: y.masterPIDs, proxyPIDs: []int{y.lockproxy[0].pid},
			locker: func(ctx context.Context, key string, _ int) (locker, error) {
				return newLibraryLocker(ctx, y.lockproxy[0].addr, key), nil
			},
		})
	}
	var clients []*redis.Client
	var pools []redsyncredis.Pool
	for _, addr := range q.masters {
		c := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, PoolSize: crowd})
		clients, pools = append(clients, c), append(pools, goredis.NewPool(c))
	}
	r := redsync.New(pools...)
	ways = append(ways, lockWay{
		name: redsyncName, nodes: q.masters, nodePIDs: q.pids,
		locker: func(_ context.Context, key string, _ int) (locker, error) {
			return redsyncLocker{r.NewMutex(key, redsync.WithExpiry(independentLease),
				redsync.WithTries(1<<30))}, nil
		},
	})
	return ways, func() {
		for _, c := range clients {
			c.Close()
		}
	}
}

// libraryLocker is a client of a lockproxy that uses go-redis, over a connection of its own.
type libraryLocker struct {
	client *redis.Client
	key    string
	token  string
	stop   func() bool
}

func newLibraryLocker(ctx context.Context, addr, key string) *libraryLocker {
	// A wait is as long as it takes; no request is sent again.
	client := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, PoolSize: 1, ReadTimeout: -1,
		MaxRetries: -1})
	return &libraryLocker{
		client: client, key: key,
		stop: context.AfterFunc(ctx, func() { client.Close() }), // or a wait would not end
	}
}

func (l *libraryLocker) close() {
	l.stop()
	l.client.Close()
}

func (l *libraryLocker) lock(ctx context.Context) error {
	reply, err := l.client.Do(ctx, "LOCK", l.key, "WAIT", 0, "PX", independentLease.Milliseconds()).Slice()
	if err != nil {
		return err
	}
	ok := len(reply) == 4
	if ok {
		l.token, ok = reply[0].(string)
	}
	if !ok {
		return fmt.Errorf("unexpected reply %v", reply)
	}
	return nil
}

func (l *libraryLocker) unlock(ctx context.Context) error {
	n, err := l.client.Do(ctx, "UNLOCK", l.key, l.token).Int()
	if err == nil && n != 1 {
		err = errors.New("not the owner")
	}
	return err
}
