package clients

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"lockproxy/integration/rig"
)

// taker takes a lock, however long that takes, and returns what frees it.
type taker func(ctx context.Context, name string) (free func() error, err error)

// throughProxy takes locks with the verbs.
func throughProxy(c redis.UniversalClient) taker {
	return func(ctx context.Context, name string) (func() error, error) {
		held, err := c.Do(ctx, "LOCK", name, "PX", 30_000, "WAIT", rig.Patience.Milliseconds()).Slice()
		if err != nil {
			return nil, err
		}
		return func() error {
			n, err := c.Do(ctx, "UNLOCK", name, "TOKEN", held[0]).Int()
			if err == nil && n != 1 {
				err = fmt.Errorf("UNLOCK answers %d", n)
			}
			return err
		}, nil
	}
}

// The libraries, straight at Redis.
var libraries = map[string]func(straight redis.UniversalClient) taker{
	"redsync": func(straight redis.UniversalClient) taker {
		all := redsync.New(goredis.NewPool(straight))
		return func(ctx context.Context, name string) (func() error, error) {
			m := all.NewMutex(name, redsync.WithExpiry(30*time.Second), redsync.WithTries(100_000),
				redsync.WithRetryDelay(5*time.Millisecond))
			return func() error {
				if ok, err := m.UnlockContext(ctx); !ok || err != nil {
					return fmt.Errorf("Unlock: %v, %w", ok, err)
				}
				return nil
			}, m.LockContext(ctx)
		}
	},
	"redislock": func(straight redis.UniversalClient) taker {
		all := redislock.New(straight)
		return func(ctx context.Context, name string) (func() error, error) {
			l, err := all.Obtain(ctx, name, 30*time.Second, &redislock.Options{
				RetryStrategy: redislock.LinearBackoff(5 * time.Millisecond)})
			if err != nil {
				return nil, err
			}
			return func() error { return l.Release(ctx) }, nil
		}
	},
}

// Clients of lockproxy and programs with another library take one lock in turn: what they read and write back
// under it adds up, over one Redis and over a cluster. R5 R30
func TestLocksOfLibraries(t *testing.T) {
	t.Parallel()
	server := rig.StartRedis(t)
	targets := map[string]string{"redis": server.Addr, "cluster": rig.SharedCluster().Addrs()}
	for target, addrs := range targets {
		p := rig.StartProxy(t, "--lock-compat", "app:", "--upstream", addrs)
		straight := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: strings.Split(addrs, ","),
			IsClusterMode: target == "cluster", DialTimeout: rig.Patience, ReadTimeout: rig.Patience})
		t.Cleanup(func() { straight.Close() })
		through := redis.NewClient(&redis.Options{Addr: p.Addr, DialTimeout: rig.Patience,
			ReadTimeout: 2 * rig.Patience})
		t.Cleanup(func() { through.Close() })
		for library, make := range libraries {
			t.Run(target+"/"+library, func(t *testing.T) {
				name := fmt.Sprintf("app:%s-%d", library, time.Now().UnixNano())
				takeTurns(t, straight, name, throughProxy(through), make(straight))
			})
		}
	}
}

// takeTurns has several clients of each kind count under one lock.
func takeTurns(t *testing.T, c redis.UniversalClient, name string, kinds ...taker) {
	const clients, rounds = 3, 20
	ctx, cancel := context.WithTimeout(t.Context(), rig.Patience)
	defer cancel()
	counter := "counter-of-" + name
	var all sync.WaitGroup
	for _, take := range kinds {
		for range clients {
			all.Go(func() {
				for range rounds {
					free, err := take(ctx, name)
					if err != nil {
						t.Error(err)
						return
					}
					n, _ := c.Get(ctx, counter).Int()
					if err := c.Set(ctx, counter, n+1, time.Minute).Err(); err != nil {
						t.Error(err)
					}
					if err := free(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	same(t, "counted", c.Get(ctx, counter).Val(), nil, strconv.Itoa(clients*rounds*len(kinds)))
	same(t, "left", c.Exists(ctx, name).Val(), nil, 0)
}

// redis-py's Lock and the verbs exclude each other, each waits for the other, and neither frees what the
// other holds.
func TestLocksOfRedisPy(t *testing.T) {
	t.Parallel()
	server := rig.StartRedis(t)
	p := rig.StartProxy(t, "--upstream", server.Addr, "--lock-compat", "app:")
	host, port, _ := net.SplitHostPort(server.Addr)
	script(t, p, nil, "python3", "compat.py", host, port)
}

// node-redlock and the verbs exclude each other, over one Redis and over a cluster: each waits for the other,
// and neither extends nor frees what the other holds.
func TestLocksOfNodeRedlock(t *testing.T) {
	t.Parallel()
	env, ok := nodeModules(t)
	if !ok {
		return
	}
	targets := map[string]string{"single": rig.StartRedis(t).Addr, "cluster": rig.SharedCluster().Addrs()}
	for target, addrs := range targets {
		p := rig.StartProxy(t, "--upstream", addrs, "--lock-compat", "app:")
		first, _, _ := strings.Cut(addrs, ",")
		script(t, p, env, "node", "redlock.js", first, target)
	}
}
