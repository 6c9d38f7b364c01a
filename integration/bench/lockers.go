package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// locker is one who wants a certain lock.
type locker interface {
	lock(ctx context.Context) error // waits for as long as it takes
	unlock(ctx context.Context) error
	close()
}

// lockWay is one way to a contended lock.
type lockWay struct {
	name  string
	nodes []string // whose commands count
	// whose CPU counts, if any
	nodePIDs, proxyPIDs []int
	locker              func(ctx context.Context, key string, i int) (locker, error) // the i-th who wants key
	queued              func(ctx context.Context, key string) (int, error)           // nil: nobody can tell
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

// lockWays are all ways: through one proxy, through two that share a cluster,
// redsync with its defaults over one Redis and one pool of go-redis, and rueidislock there, each
// of whose clients is a process of its own. end closes what they share.
func (y *yard) lockWays() (ways []lockWay, end func()) {
	for i, name := range []string{oneProxy, twoProxies}[:len(y.lockproxy)] {
		proxies := y.lockproxy[:i+1]
		ways = append(ways, lockWay{name: name, nodes: y.masters, queued: queuedAt(proxies[0].addr),
			locker: func(ctx context.Context, key string, i int) (locker, error) {
				return dialProxy(ctx, proxies[i%len(proxies)].addr, key)
			}})
	}
	pool := redis.NewClient(&redis.Options{Addr: y.plain[0]})
	r := redsync.New(goredis.NewPool(pool))
	ways = append(ways, lockWay{name: redsyncName, nodes: y.plain[:1],
		locker: func(_ context.Context, key string, _ int) (locker, error) {
			return redsyncLocker{r.NewMutex(key, redsync.WithExpiry(lease), redsync.WithTries(1<<30))}, nil
		}})
	ways = append(ways, lockWay{name: rueidisName, nodes: y.plain[:1],
		locker: func(_ context.Context, key string, _ int) (locker, error) {
			all, err := newRueidisLocks(y.plain[0])
			return &rueidisLocker{all: all, own: true, key: key}, err
		}})
	return ways, func() { pool.Close() }
}

// redsyncLocker is a redsync mutex.
type redsyncLocker struct{ m *redsync.Mutex }

func (l redsyncLocker) lock(ctx context.Context) error { return l.m.LockContext(ctx) }

func (l redsyncLocker) unlock(ctx context.Context) error {
	ok, err := l.m.UnlockContext(ctx)
	if err == nil && !ok {
		err = errors.New("not the owner")
	}
	return err
}

func (redsyncLocker) close() {}

// proxyLocker is a connection to a lockproxy.
type proxyLocker struct {
	conn  net.Conn
	in    *bufio.Reader
	key   string
	token []byte
	stop  func() bool
}

func dialProxy(ctx context.Context, addr, key string) (locker, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &proxyLocker{
		conn: conn, in: bufio.NewReader(conn), key: key,
		stop: context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) }),
	}, nil
}

func (l *proxyLocker) close() {
	l.stop()
	l.conn.Close()
}

func (l *proxyLocker) lock(context.Context) error {
	reply, err := l.do("LOCK", l.key, "WAIT", "0", "PX", fmt.Sprint(lease.Milliseconds()))
	if err != nil {
		return err
	}
	// *4, the length of the token, the token ...
	lines := bytes.Split(reply, []byte("\r\n"))
	if reply[0] != '*' || len(lines) < 6 {
		return fmt.Errorf("unexpected reply %q", reply)
	}
	l.token = append(l.token[:0], lines[2]...)
	return nil
}

func (l *proxyLocker) unlock(context.Context) error {
	reply, err := l.do("UNLOCK", l.key, string(l.token))
	if err == nil && string(reply) != ":1\r\n" {
		err = fmt.Errorf("unexpected reply %q", reply)
	}
	return err
}

// do sends a command and reads its reply.
func (l *proxyLocker) do(args ...string) ([]byte, error) {
	if _, err := l.conn.Write(command(nil, args...)); err != nil {
		return nil, err
	}
	var reply []byte
	for replySize(reply) == 0 {
		line, err := l.in.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		reply = append(reply, line...)
	}
	return reply, nil
}

// command appends a command as RESP.
func command(dst []byte, args ...string) []byte {
	dst = fmt.Appendf(dst, "*%d\r\n", len(args))
	for _, a := range args {
		dst = fmt.Appendf(dst, "$%d\r\n%s\r\n", len(a), a)
	}
	return dst
}
