package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"lockproxy/internal/resp"
)

// Redis returns a client of go-redis for many connections, with the options of o. It never sends a command
// again by itself. The deadline of a command is that of its context, or else o.Timeout.
func Redis(o *Options) (*redis.Client, error) {
	config, err := redisOptions(o)
	if err != nil {
		return nil, err
	}
	return redis.NewClient(config), nil
}

// quiet drops the log lines of go-redis: the errors themselves are returned by the calls.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

var silence = sync.OnceFunc(func() { redis.SetLogger(quiet{}) })

func redisOptions(o *Options) (*redis.Options, error) {
	silence()
	secure, err := o.tlsConfig()
	if err != nil {
		return nil, err
	}
	return &redis.Options{
		Network:  o.network(),
		Addr:     o.Addr,
		Username: o.User,
		Password: o.Password,
		Protocol: 2,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return dial(ctx, network, addr, secure)
		},
		DialTimeout:              o.Timeout,
		DialerRetries:            1,
		ReadTimeout:              o.Timeout,
		ContextTimeoutEnabled:    true,
		MaxRetries:               -1,
		PipelinePoolSize:         -1,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}, nil
}

func dial(ctx context.Context, network, addr string, secure *tls.Config) (net.Conn, error) {
	plain, err := new(net.Dialer).DialContext(ctx, network, addr)
	switch {
	case err != nil:
		return nil, err
	case secure == nil:
		return bounds.Conn(plain), nil
	}
	conn := tls.Client(plain, secure)
	if err := conn.HandshakeContext(ctx); err != nil {
		plain.Close()
		return nil, err
	}
	return bounds.Conn(conn), nil
}

// bounds are those of what a proxy may answer: whoever is there may announce anything.
var bounds = resp.Bounds{Bytes: 256 << 20, Values: 1 << 22, Depth: 32}

// Conn is one connection to the proxy: what it takes with KEEPALIVE is kept for as long as it is open. It is
// used by one goroutine at a time; Close may come from any.
type Conn struct {
	ask func(ctx context.Context, args ...any) (any, error)
	end func()

	broken bool // no answer can come any more

	mu   sync.Mutex
	sock net.Conn
}

// Connect connects, logs in, and sees whether the proxy answers. The error is one that Code knows.
func (o *Options) Connect(ctx context.Context) (*Conn, error) {
	config, err := redisOptions(o)
	if err != nil {
		return nil, err
	}
	c := new(Conn)
	dial := config.Dialer
	config.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		sock, err := dial(ctx, network, addr)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sock = sock
		return sock, err
	}
	config.PoolSize = 1
	config.ReadTimeout = -1 // each Do has the deadline of its context
	pool := redis.NewClient(config)
	conn := pool.Conn()
	c.ask = func(ctx context.Context, args ...any) (any, error) { return conn.Do(ctx, args...).Result() }
	c.end = func() {
		conn.Close()
		pool.Close()
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if _, err := c.Do(ctx, "PING"); err != nil {
		c.Close()
		return nil, fmt.Errorf("%s: %w", o.Addr, o.Explain(err))
	}
	return c, nil
}

// Do sends a command and returns the answer: nil for Null, int64, string, []any. It blocks until the answer
// comes, or ctx ends, which also breaks the connection: a late answer would be taken for that of the next
// command.
func (c *Conn) Do(ctx context.Context, args ...any) (any, error) {
	defer context.AfterFunc(ctx, c.cut)()
	v, err := c.ask(ctx, args...)
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if _, answered := Reply(err); err != nil && !answered {
		c.broken = true
		c.cut()
	}
	return v, err
}

// Broken says that a command has had no answer, and none will have one.
func (c *Conn) Broken() bool { return c.broken }

// cut breaks the connection, under whatever is reading from it.
func (c *Conn) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sock != nil {
		c.sock.Close()
	}
}

// Close ends the connection, and with it what waits and what is kept alive there.
func (c *Conn) Close() {
	c.cut()
	c.end()
}
