package pipe

import (
	"context"
	"fmt"
	"net"
	"time"

	"lockproxy/cluster"
)

// Client is a blocking way to the upstream, over the pools of the loops, for goroutines outside the loops.
// Safe for concurrent use.
type Client struct{ pools []*Pool }

// NewClient returns a client over the pools of all loops.
func NewClient(pools []*Pool) *Client { return &Client{pools} }

// DoWhole sends req, one whole command, to the master of slot n (AnySlot: to any)
// and returns the node's whole RESP2 reply, error replies included. Requests
// for one slot are run in the order in which they were asked for. resend says that
// req may be sent again when its reply was lost. It blocks until there is a
// reply, the budget of the pool is used up (ErrUnavailable), the reply was lost (ErrUnknownOutcome), or ctx
// ends; in the last case req may run all the same.
func (c *Client) DoWhole(ctx context.Context, n int, req []byte, resend bool) ([]byte, error) {
	return c.send(ctx, n, Request{Target: ToSlot(n), Bytes: req, Resend: resend})
}

// Do is DoWhole for a caller that asks for one key at a time after TRYAGAIN: it gets TRYAGAIN at once.
func (c *Client) Do(ctx context.Context, n int, req []byte, resend bool) ([]byte, error) {
	return c.send(ctx, n, Request{Target: ToSlot(n), Bytes: req, Resend: resend, Splits: true})
}

// DoMaster is DoWhole for the i-th master, in the order of their lowest slots.
func (c *Client) DoMaster(ctx context.Context, i int, req []byte, resend bool) ([]byte, error) {
	return c.send(ctx, 0, Request{Target: ToMaster(i), Bytes: req, Resend: resend})
}

// DoNode is DoWhole for the node at addr and no other.
func (c *Client) DoNode(ctx context.Context, addr string, req []byte, resend bool) ([]byte, error) {
	return c.send(ctx, 0, Request{Target: ToNode(addr), Bytes: req, Resend: resend})
}

// send sends r from the loop that all requests of slot n go over, so that they keep their order, and waits
// for the reply. When ctx ends first, the reply is dropped when it comes: nobody reads it.
func (c *Client) send(ctx context.Context, n int, r Request) ([]byte, error) {
	pool := c.pools[max(n, 0)%len(c.pools)]
	var reply []byte
	var err error
	done := make(chan struct{})
	r.Mode = Mode{Proto: 2}
	r.To = &Collector{Then: func(got []byte, failed error) {
		reply, err = got, failed
		close(done)
	}}
	if !pool.loop.Post(func() {
		if r.Target.kind == toMaster && int(r.Target.n) >= len(pool.Topology().Masters) {
			r.To.Fail(0, fmt.Errorf("%w: there is no such master any more", cluster.ErrUnavailable))
			return
		}
		pool.Send(&r)
	}) {
		return nil, fmt.Errorf("%w: %w", cluster.ErrUnavailable, net.ErrClosed)
	}
	select {
	case <-done:
		return reply, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Masters is how many masters the upstream has now.
func (c *Client) Masters() int { return len(c.pools[0].control.Topology().Masters) }

// Master is the address of the master of slot n, "" if there is none.
func (c *Client) Master(n int) string {
	if m := c.pools[0].control.Topology().Slots[n]; m != nil {
		return m.Addr
	}
	return ""
}

// Parted is when a node last said that some keys of slot n are at another node, because it moves there. The
// zero time: never.
func (c *Client) Parted(n int) time.Time { return c.pools[0].stats.moving.at(n) }

// Ask sends req, which may run twice, over p. It is called on p's loop, which calls then with the whole
// reply, or with why there is none.
func Ask(p *Pool, to Target, m Mode, req []byte, then func(reply []byte, err error)) {
	p.Send(&Request{Target: to, Mode: m, Bytes: req, To: &Collector{Then: then}, Resend: true})
}
