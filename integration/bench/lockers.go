package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"lockproxy/integration/rig"
)

// locker is one who wants a certain lock.
type locker struct {
	lock   func(context.Context) error // waits for as long as it takes
	unlock func(context.Context) error
	close  func()
}

// The names of the ways.
const (
	oneProxy    = "lockproxy"
	twoProxies  = "two lockproxies"
	redsyncName = "redsync"
	rueidisName = "rueidislock"
)

// lease is long enough that no lock expires in a contest.
const lease = time.Minute

var errNotOwner = errors.New("not the owner")

// through has a way take locks over connections of its own that go to these proxies in turn. Such a client
// costs as little as can be.
func (w way) through(proxies ...way) way {
	w.locker = func(ctx context.Context, key string, i int) (l locker, err error) {
		c, err := rig.Dial(proxies[i%len(proxies)].doors[0])
		if err != nil {
			return l, err
		}
		do := func(_ context.Context, args ...string) ([]string, error) {
			v, err := c.Do(args...)
			if v.Kind != '*' {
				return []string{v.Text}, err
			}
			return v.Strings(), err
		}
		return verbLocker(ctx, key, lease, do, c.Close), nil
	}
	w.queued = func(key string) (int, error) {
		v, err := rig.Ask(proxies[0].doors[0], "LOCKCTL", "INFO", key)
		return int(v.Field("waiters").Int()), err
	}
	return w
}

// withLibrary has a way take locks over go-redis, each client over a connection of its own.
func (w way) withLibrary(lease time.Duration) way {
	w.locker = func(ctx context.Context, key string, _ int) (locker, error) {
		// A wait is as long as it takes; no request is sent again.
		client := redis.NewClient(&redis.Options{Addr: w.doors[0], Protocol: 2, PoolSize: 1, ReadTimeout: -1,
			DialTimeout: rig.Patience, MaxRetries: -1})
		do := func(ctx context.Context, args ...string) (reply []string, err error) {
			words := make([]any, len(args))
			for i, word := range args {
				words[i] = word
			}
			v, err := client.Do(ctx, words...).Result()
			all, ok := v.([]any)
			if !ok {
				all = []any{v}
			}
			for _, v := range all {
				reply = append(reply, fmt.Sprint(v))
			}
			return reply, err
		}
		return verbLocker(ctx, key, lease, do, client.Close), nil
	}
	return w
}

// sends sends a command, and says the words of the reply.
type sends func(ctx context.Context, args ...string) (reply []string, err error)

// verbLocker is who wants a lock of lockproxy, over a connection of its own.
func verbLocker(ctx context.Context, key string, lease time.Duration, do sends, closed func() error) locker {
	end, token := context.AfterFunc(ctx, func() { closed() }), "" // or a wait would not end
	return locker{lock: func(ctx context.Context) error {
		reply, err := do(ctx, "LOCK", key, "WAIT", "0", "PX", fmt.Sprint(lease.Milliseconds()))
		if err == nil && len(reply) != 4 {
			err = fmt.Errorf("unexpected reply %q", reply)
		} else if err == nil {
			token = reply[0]
		}
		return err
	}, unlock: func(ctx context.Context) error {
		reply, err := do(ctx, "UNLOCK", key, token)
		if err == nil && !slices.Equal(reply, []string{"1"}) {
			err = fmt.Errorf("%w: %q", errNotOwner, reply)
		}
		return err
	}, close: func() {
		end()
		closed()
	}}
}

// redsync is that library with its defaults, over one Redis or over several masters.
func (y *yard) redsync(servers []*rig.Server, lease time.Duration) way {
	var pools []redsyncredis.Pool
	for _, addr := range addrs(servers) {
		c := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, PoolSize: crowd,
			DialTimeout: rig.Patience, ReadTimeout: rig.Patience})
		y.Cleanup(func() { c.Close() })
		pools = append(pools, goredis.NewPool(c))
	}
	r := redsync.New(pools...)
	return way{name: redsyncName, servers: servers,
		locker: func(_ context.Context, key string, _ int) (locker, error) {
			m := r.NewMutex(key, redsync.WithExpiry(lease), redsync.WithTries(1<<30))
			return locker{lock: m.LockContext, close: func() {}, unlock: func(ctx context.Context) error {
				ok, err := m.UnlockContext(ctx)
				if err == nil && !ok {
					err = errNotOwner
				}
				return err
			}}, nil
		}}
}

// rueidislock is that library over one Redis, as cheap as it can keep locks. It waits by client-side caching,
// for which a process has one connection: each client is a process of its own, or all are one.
func (y *yard) rueidislock(server *rig.Server, shared bool) way {
	start := func() (rueidislock.Locker, error) {
		return rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: rueidis.ClientOption{InitAddress: []string{server.Addr}, ForceSingleClient: true,
				Dialer: net.Dialer{Timeout: rig.Patience}, ConnWriteTimeout: rig.Patience},
			KeyMajority:    1,
			KeyValidity:    lease,
			NoLoopTracking: true,
			TryNextAfter:   time.Second, // its 20 ms are over before a busy machine has answered
		})
	}
	own := !shared
	if shared {
		start = sync.OnceValues(start)
	}
	return way{name: rueidisName, servers: []*rig.Server{server},
		locker: func(_ context.Context, key string, _ int) (locker, error) {
			all, err := start()
			release := context.CancelFunc(nil)
			return locker{
				lock: func(ctx context.Context) (err error) {
					_, release, err = all.WithContext(ctx, key)
					return err
				},
				unlock: func(context.Context) error { release(); return nil }, // when Redis has answered
				close: func() {
					if own {
						all.Close()
					}
				},
			}, err
		}}
}

// watchScripts names the commands that scripts called on the servers while do
// ran, as MONITOR shows them.
func (y *yard) watchScripts(servers []*rig.Server, do func()) map[string]bool {
	var conns []*rig.Conn
	for _, s := range servers {
		c := rig.Connect(y, s.Addr)
		c.Must(y, "MONITOR")
		conns = append(conns, c)
	}
	do()
	names := map[string]bool{}
	for _, c := range conns {
		c.Write([]byte("QUIT\r\n")) // its end comes behind all that was seen
		c.SetDeadline(time.Now().Add(rig.Patience))
		lines := bufio.NewScanner(c.Reader)
		for lines.Scan() {
			if name := calledByScript(lines.Text()); name != "" {
				names[name] = true
			}
		}
	}
	if len(names) == 0 {
		y.Fatalf("MONITOR showed no script")
	}
	return names
}

// calledByScript is the command in a line of MONITOR, in lower case, if a script
// called it: 1700000000.000000 [0 lua] "GET" "key".
func calledByScript(line string) string {
	_, rest, _ := strings.Cut(line, ` lua] "`)
	name, _, _ := strings.Cut(rest, `"`)
	return strings.ToLower(name)
}
