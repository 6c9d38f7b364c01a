package checkup

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"lockproxy/cluster"
	"lockproxy/cmd/lockproxy/settings"
	"lockproxy/internal/subscription"
	"lockproxy/redlock/peers"
)

// tellPeers asks the proxies that run whether they have the settings that all must have alike. It blocks for
// as long as peers.Compare. With no master that can be reached there is nobody to ask.
func (w *wholeUpstream) tellPeers(ctx context.Context, v *settings.Values, tell func(Fact)) {
	// Proxies talk through channels of the upstream, so whoever can reach it can ask them.
	b := &bus{dialer: dialerOf(v, v.Upstream.Logins)}
	for _, m := range w.topology.Masters {
		if conn, err := b.dialer.Dial(ctx, m.Addr, cluster.Mode{Proto: 2}, nil); err == nil {
			defer conn.Close() // when all is told
			b.nodes = append(b.nodes, newConversation(conn))
			b.addrs = append(b.addrs, m.Addr)
		}
	}
	if len(b.nodes) == 0 {
		return
	}
	// Quiet: it answers nobody, since it grants no locks, and would be counted as a proxy.
	p := peers.New(b, peers.Options{ID: strings.ToLower(rand.Text()[:16]), Fleet: v.Proxy.Fleet,
		Settings: v.Same(), Quiet: true})
	heard, silent := p.Compare(ctx)
	differing := p.Differing()
	p.Close()
	for _, d := range differing {
		tell(Fact{Fail, "proxies", d.Proxy, "runs with other settings: " + strings.Join(d.Settings, ", ") +
			"; both would grant one lock", "give all proxies the same (docs/changing-over.md)"})
	}
	for _, id := range silent {
		tell(Fact{Warn, "proxies", id, "does not say which settings it has", "look at its log, and whether " +
			"it lives"})
	}
	if heard > 0 && len(differing) == 0 {
		tell(Fact{OK, "proxies", "", fmt.Sprintf("%d that run keep locks in the same way", heard), ""})
	}
}

// bus implements peers.Bus for one question: over a connection to each master that can be reached.
type bus struct {
	dialer *cluster.Dialer
	addrs  []string
	nodes  []*conversation
}

// Masters implements peers.Bus.
func (b *bus) Masters() int { return len(b.addrs) }

// Do implements peers.Bus. What one node publishes, all tell.
func (b *bus) Do(ctx context.Context, _ int, req []byte, resend bool) ([]byte, error) {
	return b.DoMaster(ctx, 0, req, resend)
}

// DoMaster implements peers.Bus.
func (b *bus) DoMaster(ctx context.Context, i int, req []byte, _ bool) ([]byte, error) {
	c := b.nodes[i]
	// The connection is used for this one question, so it may break.
	defer context.AfterFunc(ctx, func() { c.conn.Close() })()
	if _, err := c.conn.Write(req); err != nil {
		return nil, err
	}
	_, raw, err := c.replies.Next()
	return raw, err
}

// Subscribe implements peers.Bus.
func (b *bus) Subscribe(_ int, channel string, notify func(subscription.Change)) (cancel func()) {
	ctx, cancel := context.WithCancel(context.Background())
	go b.listenChannel(ctx, channel, notify) // ends with ctx
	return cancel
}

// listenChannel subscribes once, and passes on messages until ctx ends.
func (b *bus) listenChannel(ctx context.Context, channel string, notify func(subscription.Change)) {
	conn, err := b.dialer.Dial(ctx, b.addrs[0], cluster.Mode{Proto: 2}, nil)
	if err != nil {
		return
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	defer conn.Close()
	c := newConversation(conn)
	if all := c.askAll([]string{"SUBSCRIBE", channel}); c.err != nil || all[0].IsError() {
		return
	}
	notify(subscription.Change{Kind: subscription.Live})
	for {
		v, _, err := c.replies.Next()
		if err != nil {
			return
		}
		if len(v.Elems) == 3 && v.Elems[0].Text() == "message" {
			notify(subscription.Change{Kind: subscription.Message, Payload: v.Elems[2].Str})
		}
	}
}
