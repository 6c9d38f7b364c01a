//go:build !quick

package redlock

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/internal/slot"
	"lockproxy/internal/subscription"
)

// mainland is a Node that is a real Redis.
type mainland struct {
	*server
	mu   sync.Mutex
	conn *conn
}

func (m *mainland) Addr() string { return "redis" }

func (m *mainland) Vote() error { return nil }

// Heard implements Node: the clock of the node is this machine's.
func (m *mainland) Heard(clock, asked time.Time) error {
	if clock.Before(asked.Add(-time.Second)) || clock.After(time.Now().Add(time.Second)) {
		return fmt.Errorf("the node's clock shows %v to a request of %v", clock, asked)
	}
	return nil
}

// Ask implements Node.
func (m *mainland) Ask(req []byte, _ time.Duration, tag int, to Answerer) {
	reply, err := m.do(req)
	to.Answer(tag, reply, err)
}

func (m *mainland) do(req []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn == nil {
		m.conn = m.connect()
	}
	if _, err := m.conn.Write(req); err != nil {
		return nil, err
	}
	return m.conn.reply()
}

func (m *mainland) Subscribe(ctx context.Context, channel string, notify func(subscription.Event)) (func(), error) {
	return (&upstream{s: m.server}).Subscribe(ctx, -1, channel, notify)
}

// On three real Redis, whose scripts are lost at first, and whose fences and counts differ: they are settled
// on. R27
func TestQuorumOnRedis(t *testing.T) {
	var all []*mainland
	var nodes []Node
	for range 3 {
		all = append(all, &mainland{server: startRedis(t)})
		nodes = append(nodes, all[len(all)-1])
	}
	l := NewRedlock(nodes, QuorumOptions{NodeTimeout: time.Second}, Options{})
	defer l.Close(context.Background())
	lease, fenceKey := 30*time.Second, "lock:fence:{"+slot.Tag(slot.Of([]byte(l.Key("job"))))+"}"
	var last int64
	rises := func(g result) {
		t.Helper()
		if g.Fence <= last {
			t.Errorf("the fence %d is not above %d", g.Fence, last)
		}
		last = g.Fence
		high := 0
		for _, m := range all {
			if n, _, _ := strings.Cut(m.ask("GET", fenceKey).Text(), " "); number(n) >= g.Fence {
				high++
			}
		}
		if high < 2 {
			t.Errorf("%d of 3 have a fence of %d or more", high, g.Fence)
		}
	}
	differ := func() {
		for i, m := range all {
			m.ask("SET", fenceKey, fmt.Sprint(max(last, time.Now().UnixMicro())+int64(i)*10_000_000))
		}
	}
	for _, mode := range []Mode{Write, Read} {
		for _, meta := range []string{"", "what for"} {
			differ()
			token := fmt.Sprint("t", mode, len(meta))
			rises(mustLock(t, l, Acquire{Token: token, Lease: lease, Mode: mode, Meta: meta}))
			mustUnlock(t, l, token, last, 1)
		}
	}
	for _, mode := range []Mode{Write, Read} { // one has missed a re-entry
		mustLock(t, l, Acquire{Token: "a", Lease: lease, Mode: mode})
		g := mustLock(t, l, Acquire{Token: "a", Lease: lease, Mode: mode, Reentrant: true})
		release := notedRelease(New(nothing{}, Options{}), &Release{Name: "job", Token: "a"})
		if reply, err := all[0].do(release.req); string(reply) != ":0\r\n" {
			t.Fatalf("%q %v", reply, err)
		}
		if again := mustLock(t, l, Acquire{Token: "a", Lease: lease, Mode: mode, Reentrant: true}); again.Count != 3 || again.Fence < g.Fence {
			t.Errorf("re-entered: %+v, want the count 3 and at least the fence %d", again, g.Fence)
		}
		for _, want := range []int{0, 0, 1, -1} {
			mustUnlock(t, l, "a", 0, want)
		}
	}
	// Two readers at the same time have fences of their own, though counters differ.
	differ()
	rises(mustLock(t, l, Acquire{Token: "r1", Lease: lease, Mode: Read}))
	differ()
	rises(mustLock(t, l, Acquire{Token: "r2", Lease: lease, Mode: Read}))
	rises(func() result {
		mustUnlock(t, l, "r1", 0, 1)
		return mustLock(t, l, Acquire{Token: "r2", Lease: lease})
	}())
	// A waiter is told by a release.
	done := make(chan result, 1)
	go func() { done <- lockAt(t.Context(), l, Acquire{Token: "w", Lease: lease, Wait: 20 * time.Second}) }()
	for l.Stats().Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond)
	mustUnlock(t, l, "r2", 0, 1)
	granted(t, done)
	mustUnlock(t, l, "w", 0, 1)
	for _, m := range all {
		m.empty(t)
		if v := m.ask("INFO", "errorstats"); strings.Contains(v.Text(), "errorstat_ERR") {
			t.Errorf("errors: %s", v.Text())
		}
	}
}

// Requests overtake one another on their way to a node, and all the same a release leaves nothing: or a few
// nodes would soon refuse everybody. R27
func TestQuorumReleasesWhatCameLate(t *testing.T) {
	var all []*mainland
	var nodes []Node
	for range 3 {
		all = append(all, &mainland{server: startRedis(t)})
		nodes = append(nodes, all[len(all)-1])
	}
	l := NewRedlock(nodes, QuorumOptions{NodeTimeout: time.Second}, Options{})
	defer l.Close(context.Background())
	for i := range 2000 {
		token := fmt.Sprint(i)
		mustLock(t, l, Acquire{Token: token})
		mustUnlock(t, l, token, 0, 1)
	}
	for _, m := range all {
		m.empty(t)
	}
}
