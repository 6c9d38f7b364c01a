package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
)

// asker asks nodes the questions of the control plane, through one go-redis client for each node. The
// client's pool keeps the connections, logs in, checks idle ones and replaces broken ones.
//
// Retries of go-redis are off: they would ask a silent node again when nobody waits any more, and the next
// refresh asks anyway. The question itself goes on then: otherwise a node that is far away would never have a
// connection. A client is replaced once a dial has failed: its pool counts failed dials, and after a few
// answers with the last error for up to a second after the node is back.
//
// A client reads from a connection that lets no more through than honest nodes say: it would make room for
// whatever length a node announces. Answers are taken as bytes, because error replies are answers here, and
// COMMAND is passed on byte for byte. Safe for concurrent use.
type asker struct {
	dialer *cluster.Dialer

	life  context.Context // closes all clients when it ends
	tasks sync.WaitGroup  // goroutines that ask

	mu      sync.Mutex
	clients map[askKey]*nodeClient
}

type askKey struct {
	addr string
	as   *cluster.Logins
}

// ask sends the questions to addr in one pipeline and returns the answers, error replies among them. It fails
// when there is no connection, when the node refuses the login, or at the deadline of ctx.
func (a *asker) ask(ctx context.Context, addr string, as *cluster.Logins,
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
			return nil, cluster.Said(string(answers[i].Str))
		}
	}
	return answers, nil
}

// replies is ask with the answers as bytes.
func (a *asker) replies(ctx context.Context, addr string, as *cluster.Logins,
	questions ...[]any) ([][]byte, error) {
	client, err := a.client(askKey{addr, as})
	if err != nil {
		return nil, err
	}
	commands := make([]*redis.RawCmd, len(questions))
	over := make(chan error, 1)
	go func() { // ends with ConnectTimeout
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.dialer.ConnectTimeout)
		defer cancel()
		_, err := client.redis.Pipelined(asking, func(p redis.Pipeliner) error {
			for i, q := range questions {
				commands[i] = redis.NewRawCmd(asking, q...)
				p.Process(asking, commands[i])
			}
			return nil
		})
		over <- err
	}()
	select {
	case err = <-over:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	var said redis.Error
	switch {
	case err == nil:
	case cluster.RefusesLogin(err.Error()):
		as.Refuse(client.as)
		return nil, cluster.Said(err.Error())
	case errors.As(err, &said):
		return nil, cluster.Said(err.Error())
	case ctx.Err() != nil:
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

// client is the client of a node. It makes a new one if there is none, or the old one cannot be used.
func (a *asker) client(key askKey) (*nodeClient, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.life.Err() != nil {
		return nil, net.ErrClosed
	}
	c := a.clients[key]
	switch {
	case c == nil:
	case c.failed.Load():
		c.end()
		c = nil
	case c.as != key.as.Now():
		a.leave(c)
		c = nil
	}
	if c == nil {
		c = newClient(a.life, a.dialer, key.addr, key.as.Now())
		a.clients[key] = c
	}
	return c, nil
}

// redial has the next question to addr asked over a new connection.
func (a *asker) redial(addr string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, c := range a.clients {
		if key.addr == addr {
			delete(a.clients, key)
			a.leave(c)
		}
	}
}

// leave ends c when nobody waits for its answers any more.
func (a *asker) leave(c *nodeClient) { time.AfterFunc(a.dialer.ConnectTimeout, c.end) }

// keep closes all clients except those of the nodes for which wanted returns true.
func (a *asker) keep(wanted func(addr string) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, c := range a.clients {
		if !wanted(key.addr) {
			delete(a.clients, key)
			c.end()
		}
	}
}

// spawn runs f on a goroutine that wait waits for. It reports false when life has ended.
func (a *asker) spawn(f func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.life.Err() != nil {
		return false
	}
	a.tasks.Go(f)
	return true
}

// limit ends ctx when one question has taken as long as it may.
func (a *asker) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, min(lookTimeout, a.dialer.ConnectTimeout))
}

// wait waits for whoever asks, once life has ended.
func (a *asker) wait() {
	a.mu.Lock() // nobody is about to begin any more
	a.mu.Unlock()
	a.tasks.Wait()
}

// nodeClient is a go-redis client.
type nodeClient struct {
	redis  *redis.Client // not embedded: the linker would keep a copy of each of its methods
	as     *cluster.Login
	end    context.CancelFunc // ends all connections and dials, whatever is under way on them
	failed atomic.Bool        // a dial has
}

// newClient is a client that lives until life ends, or by its end.
func newClient(life context.Context, dialer *cluster.Dialer, addr string, as *cluster.Login) *nodeClient {
	life, end := context.WithCancel(life)
	c := &nodeClient{as: as, end: end}
	c.redis = redis.NewClient(&redis.Options{
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
				return nil, err
			}
			return heeding(resp.Answer.Conn(conn)), nil
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
	context.AfterFunc(life, func() { c.redis.Close() })
	return c
}

// redisLog passes the log lines of go-redis on to slog, for developers only: the errors themselves are
// returned by the calls.
type redisLog struct{ log *slog.Logger }

func (l redisLog) Printf(ctx context.Context, format string, args ...any) {
	l.log.DebugContext(ctx, "go-redis", "text", fmt.Sprintf(format, args...))
}
