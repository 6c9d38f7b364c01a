package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"lockproxy/internal/resp"
)

// asker puts the questions of the control plane to nodes, through one small
// go-redis client a node. A client is thrown away at the first error: its pool
// would go on answering with what it remembers of failed dials. Safe for
// concurrent use.
type asker struct {
	o *Options

	mu      sync.Mutex
	clients map[askKey]*nodeClient
	closed  bool
}

type askKey struct {
	addr string
	as   login
}

// ask sends the questions to addr in one pipeline and returns the answers, error
// replies among them. It fails when there is no connection, when the node refuses
// the login, or when ctx ends.
func (a *asker) ask(ctx context.Context, addr string, as login, questions ...[]any) ([]resp.Value, error) {
	key := askKey{addr, as}
	client, err := a.client(key)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { a.drop(key, client) })
	defer stop()
	answers, err := ask(ctx, client, questions...)
	if err != nil {
		a.drop(key, client)
		if ctx.Err() != nil && !refusesLogin(err.Error()) {
			err = context.Cause(ctx)
		}
	}
	return answers, err
}

func ask(ctx context.Context, client *nodeClient, questions ...[]any) ([]resp.Value, error) {
	commands := make([]*redis.RawCmd, len(questions))
	_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, q := range questions {
			commands[i] = redis.NewRawCmd(ctx, q...)
			p.Process(ctx, commands[i])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	answers := make([]resp.Value, len(questions))
	for i, c := range commands {
		if answers[i], _, err = resp.Parse(c.Val()); err != nil {
			return nil, fmt.Errorf("its answer to %v is not Redis: %w", questions[i][0], err)
		}
		if isError(answers[i]) && refusesLogin(string(answers[i].Str)) {
			return nil, errors.New(string(answers[i].Str))
		}
	}
	return answers, nil
}

func (a *asker) client(key askKey) (*nodeClient, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, net.ErrClosed
	}
	c := a.clients[key]
	if c == nil {
		c = a.o.newClient(key.addr, key.as)
		a.clients[key] = c
	}
	return c, nil
}

// drop closes client, which breaks off what it is waiting for.
func (a *asker) drop(key askKey, client *nodeClient) {
	a.mu.Lock()
	if a.clients[key] == client {
		delete(a.clients, key)
	}
	a.mu.Unlock()
	client.Close()
}

// keep closes the clients to all nodes but those that wanted names.
func (a *asker) keep(wanted func(addr string) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, c := range a.clients {
		if !wanted(key.addr) {
			delete(a.clients, key)
			c.Close()
		}
	}
}

func (a *asker) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.keep(func(string) bool { return false })
}

// nodeClient is a go-redis client whose Close breaks off its dials too.
type nodeClient struct {
	*redis.Client
	end context.CancelFunc
}

// Close closes all connections, whatever goes on on them.
func (c *nodeClient) Close() {
	c.end()
	c.Client.Close()
}

func (o *Options) newClient(addr string, as login) *nodeClient {
	life, end := context.WithCancel(context.Background())
	client := redis.NewClient(&redis.Options{
		Addr:     addr,
		Username: as.user,
		Password: as.password,
		Protocol: 2,
		Dialer: func(ctx context.Context, _, addr string) (net.Conn, error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(life, cancel)()
			return o.connect(ctx, addr)
		},
		DialTimeout:              o.ConnectTimeout,
		DialerRetries:            1,
		ReadTimeout:              o.ConnectTimeout,
		ContextTimeoutEnabled:    true,
		MaxRetries:               -1,
		PoolSize:                 4, // after so many failed dials the pool starts a goroutine that outlives it
		PipelinePoolSize:         -1,
		ReadBufferSize:           4096,
		WriteBufferSize:          4096,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	return &nodeClient{client, end}
}

// redisLog hands what go-redis has to say to slog. All of it is of interest to
// developers alone: the errors themselves come back from the calls.
type redisLog struct{ log *slog.Logger }

func (l redisLog) Printf(ctx context.Context, format string, args ...any) {
	l.log.DebugContext(ctx, "go-redis", "text", fmt.Sprintf(format, args...))
}
