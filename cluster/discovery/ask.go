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
// connection. A client is replaced once a dial has failed, if it has no connection: its pool counts failed
// dials, and after a few answers with the last error for up to a second after the node is back. But what it
// has is used for as long as it lasts: perhaps only the name of the node cannot be resolved now.
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

// askKey is whose connections a client has: those to a node, made with one of the logins. An address may be
// asked as the upstream and as a Sentinel until it is known what is there.
type askKey struct {
	addr string
	as   *cluster.Logins
}

// askNode sends the questions to addr in one pipeline and returns the answers, error replies among them. It
// fails when there is no connection, when the node refuses the login, or at the deadline of ctx. An error
// says nothing of the questions: they may have been answered, or never sent. One reply that refuses the login
// counts for all.
func (a *asker) askNode(ctx context.Context, addr string, as *cluster.Logins,
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

// replies is askNode with the answers as bytes, as the node framed them, for those who pass them on.
func (a *asker) replies(ctx context.Context, addr string, as *cluster.Logins,
	questions ...[]any) ([][]byte, error) {
	client, err := a.client(askKey{addr, as})
	if err != nil {
		return nil, err
	}
	commands := make([]*redis.RawCmd, len(questions))
	over := make(chan error, 1)
	// The pipeline outlives ctx: whoever gives up on a slow node must not close the connection that the next
	// question needs.
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
	// go-redis logs in with the first use of a connection, so its error comes here.
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

// client is the client of a node. It makes a new one if there is none, or the old one cannot be used. So a
// caller does not keep it for later: its next question may need another one.
func (a *asker) client(key askKey) (*nodeClient, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.life.Err() != nil {
		return nil, net.ErrClosed
	}
	c := a.clients[key]
	// Its pool would answer with the error of that dial, or the password was renewed. What is under way goes
	// on.
	if c != nil && (c.failed.Load() && c.redis.PoolStats().TotalConns == 0 || c.as != key.as.Now()) {
		a.endClientLater(c)
		c = nil
	}
	if c == nil {
		c = newClient(a.life, a.dialer, key.addr, key.as.Now())
		a.clients[key] = c
	}
	return c, nil
}

// redialNode has the next question to addr asked over a new connection. Questions under way are still
// answered over the old one.
func (a *asker) redialNode(addr string) {
	a.dropClients(func(at string) bool { return at == addr }, a.endClientLater)
}

// endClientLater ends c when nobody waits for its answers any more: by then each question over it has been
// answered, or has timed out.
func (a *asker) endClientLater(c *nodeClient) { time.AfterFunc(a.dialer.ConnectTimeout, c.end) }

// keepClients closes all clients except those of the nodes for which wanted returns true. What is under way
// to the others fails.
func (a *asker) keepClients(wanted func(addr string) bool) {
	a.dropClients(func(addr string) bool { return !wanted(addr) }, func(c *nodeClient) { c.end() })
}

// dropClients forgets the clients of the nodes for which unwanted returns true, and calls end with each.
func (a *asker) dropClients(unwanted func(addr string) bool, end func(c *nodeClient)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, c := range a.clients {
		if unwanted(key.addr) {
			delete(a.clients, key)
			end(c)
		}
	}
}

// spawn runs f on a goroutine that waitForTasks waits for. It reports false when life has ended. The mutex
// orders it before waitForTasks, so that none begins behind that.
func (a *asker) spawn(f func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.life.Err() != nil {
		return false
	}
	a.tasks.Go(f)
	return true
}

// limit ends ctx when one question has taken as long as it may. A whole look has no more time either.
func (a *asker) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, min(lookTimeout, a.dialer.ConnectTimeout))
}

// waitForTasks waits for whoever asks, once life has ended. Pipelines that nobody waits for any more are not
// among them: they end with their clients.
func (a *asker) waitForTasks() {
	a.mu.Lock() // nobody is about to begin any more
	a.mu.Unlock()
	a.tasks.Wait()
}

// nodeClient is a go-redis client. as never changes: another login makes another client.
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
			return resp.Answer.Conn(conn), nil
		},
		// One dial, and no retry: see asker. ConnectTimeout bounds each step, and the context of the pipeline
		// all of them together.
		DialTimeout:           dialer.ConnectTimeout,
		DialerRetries:         1,
		ReadTimeout:           dialer.ConnectTimeout,
		ContextTimeoutEnabled: true,
		MaxRetries:            -1,
		PoolSize:              4,
		// The same pool serves pipelines: a node sees few connections of the control plane.
		PipelinePoolSize: -1,
		ReadBufferSize:   4096,
		WriteBufferSize:  4096,
		// Neither CLIENT SETINFO nor CLIENT MAINT_NOTIFICATIONS is sent: an ACL may forbid them.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	c.redis.AddHook(heeding{})
	context.AfterFunc(life, func() { c.redis.Close() })
	return c
}

// heeding has the login of a client fail with the words of a node that turns it away. go-redis takes them for
// the answer to its HELLO, goes on without, and sees only the end of the connection.
type heeding struct{}

// ProcessHook implements redis.Hook. All but the login goes through pipelines.
func (heeding) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err != nil && cluster.TurnsAway(err.Error()) {
			return errors.New(err.Error()) // no redis.Error, which would be an answer
		}
		return err
	}
}

// DialHook implements redis.Hook.
func (heeding) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (heeding) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// redisLog passes the log lines of go-redis on to slog, for developers only: the errors themselves are
// returned by the calls.
type redisLog struct{ log *slog.Logger }

func (l redisLog) Printf(ctx context.Context, format string, args ...any) {
	l.log.DebugContext(ctx, "go-redis", "text", fmt.Sprintf(format, args...))
}
