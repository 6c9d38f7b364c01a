package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
)

// asker puts the questions of the control plane to nodes, through one go-redis client a node: its pool keeps
// the connections, logs in, checks those that idled and replaces those that broke. Its retries are off: they
// would ask a silent node again when nobody waits any more, and the next refresh asks anyway. A client of
// which a dial has failed is replaced: its pool counts failed dials, and after a few of them answers with the
// error of the last one, up to a second longer than the node is away. Answers are taken as bytes, for error
// replies are answers here, and COMMAND is passed on byte for byte. Safe for concurrent use.
type asker struct {
	dialer *cluster.Dialer

	mu      sync.Mutex
	clients map[askKey]*nodeClient
	closed  bool
}

type askKey struct {
	addr string
	as   cluster.Login
}

// ask sends the questions to addr in one pipeline and returns the answers, error replies among them. It fails
// when there is no connection, when the node refuses the login, or at the deadline of ctx.
func (a *asker) ask(ctx context.Context, addr string, as cluster.Login,
	questions ...[]any) ([]resp.Value, error) {
	replies, err := a.replies(ctx, addr, as, questions...)
	if err != nil {
		return nil, err
	}
	answers := make([]resp.Value, len(replies))
	for i, reply := range replies {
		if answers[i], _, err = resp.Parse(reply); err != nil {
			return nil, fmt.Errorf("its answer to %v is not Redis: %w", questions[i][0], err)
		}
		if answers[i].IsError() && cluster.RefusesLogin(string(answers[i].Str)) {
			return nil, errors.New(string(answers[i].Str))
		}
	}
	return answers, nil
}

// replies is ask, for the answers as they came.
func (a *asker) replies(ctx context.Context, addr string, as cluster.Login,
	questions ...[]any) ([][]byte, error) {
	client, err := a.client(askKey{addr, as})
	if err != nil {
		return nil, err
	}
	commands := make([]*redis.RawCmd, len(questions))
	_, err = client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, q := range questions {
			commands[i] = redis.NewRawCmd(ctx, q...)
			p.Process(ctx, commands[i])
		}
		return nil
	})
	switch {
	case err == nil:
	case ctx.Err() != nil && !cluster.RefusesLogin(err.Error()):
		return nil, context.Cause(ctx)
	default:
		return nil, err
	}
	replies := make([][]byte, len(commands))
	for i, c := range commands {
		replies[i] = c.Val()
	}
	return replies, nil
}

// client is the client of a node, a new one if there is none that can be used.
func (a *asker) client(key askKey) (*nodeClient, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, net.ErrClosed
	}
	c := a.clients[key]
	if c != nil && c.failed.Load() {
		c.Close()
		c = nil
	}
	if c == nil {
		c = newClient(a.dialer, key.addr, key.as)
		a.clients[key] = c
	}
	return c, nil
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
	end    context.CancelFunc
	failed atomic.Bool // a dial has
}

// Close closes all connections, whatever goes on on them.
func (c *nodeClient) Close() {
	c.end()
	c.Client.Close()
}

func newClient(dialer *cluster.Dialer, addr string, as cluster.Login) *nodeClient {
	life, end := context.WithCancel(context.Background())
	c := &nodeClient{end: end}
	c.Client = redis.NewClient(&redis.Options{
		Addr:     addr,
		Username: as.User,
		Password: as.Password,
		Protocol: 2,
		Dialer: func(ctx context.Context, _, addr string) (net.Conn, error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(life, cancel)()
			conn, err := dialer.Connect(ctx, addr)
			if err != nil {
				c.failed.Store(true)
			}
			return conn, err
		},
		DialTimeout:              dialer.ConnectTimeout,
		DialerRetries:            1,
		ReadTimeout:              dialer.ConnectTimeout,
		ContextTimeoutEnabled:    true,
		MaxRetries:               -1,
		PoolSize:                 4,
		PipelinePoolSize:         -1,
		ReadBufferSize:           4096,
		WriteBufferSize:          4096,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	return c
}

// redisLog hands what go-redis has to say to slog. All of it is of interest to
// developers alone: the errors themselves come back from the calls.
type redisLog struct{ log *slog.Logger }

func (l redisLog) Printf(ctx context.Context, format string, args ...any) {
	l.log.DebugContext(ctx, "go-redis", "text", fmt.Sprintf(format, args...))
}
