//go:build !quick

package quorum_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/internal/slot"
	"lockproxy/internal/subscription"
	"lockproxy/redlock"
	"lockproxy/redlock/internal/proxies"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/locks"
	"lockproxy/redlock/quorum"
)

// mainland is a Node that is a real Redis.
type mainland struct {
	*rig.Server
	mu   sync.Mutex
	conn *rig.Conn
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

// Distrust implements Node.
func (m *mainland) Distrust(why string) { m.T.Error(why) }

// Ask implements Node.
func (m *mainland) Ask(req []byte, _ time.Duration, tag int, to quorum.NodeAnswerer) {
	reply, err := m.do(req)
	to.Answer(tag, reply, err)
}

func (m *mainland) do(req []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn == nil {
		m.conn = m.Connect()
	}
	if _, err := m.conn.Write(req); err != nil {
		return nil, err
	}
	return m.conn.Reply()
}

func (m *mainland) Subscribe(channel string, notify func(subscription.Change)) (cancel func()) {
	return (&rig.Upstream{S: m.Server}).Subscribe(-1, channel, notify)
}

// On three real Redis, whose scripts are lost at first, and whose fences and counts differ: they are settled
// on. R27
func TestQuorumOnRedis(t *testing.T) {
	var all []*mainland
	var nodes []quorum.Node
	for range 3 {
		all = append(all, &mainland{Server: rig.StartRedis(t)})
		nodes = append(nodes, all[len(all)-1])
	}
	l := locks.NewRedlock(nodes, quorum.Options{NodeTimeout: time.Second}, locks.Options{})
	defer l.Close(context.Background())
	lease, fenceKey := 30*time.Second, "lock:fence:{"+slot.Tag(slot.Of([]byte(l.Key("job"))))+"}"
	var last int64
	rises := func(g proxies.Result) {
		t.Helper()
		if g.Fence <= last {
			t.Errorf("the fence %d is not above %d", g.Fence, last)
		}
		last = g.Fence
		high := 0
		for _, m := range all {
			if n, _, _ := strings.Cut(m.Server.Ask("GET", fenceKey).Text(), " "); rig.Integer(n) >= g.Fence {
				high++
			}
		}
		if high < 2 {
			t.Errorf("%d of 3 have a fence of %d or more", high, g.Fence)
		}
	}
	differ := func() {
		for i, m := range all {
			m.Server.Ask("SET", fenceKey, fmt.Sprint(max(last, time.Now().UnixMicro())+int64(i)*10_000_000))
		}
	}
	for _, mode := range []redlock.Mode{redlock.Write, redlock.Read} {
		for _, meta := range []string{"", "what for"} {
			differ()
			token := fmt.Sprint("t", mode, len(meta))
			rises(mustLock(t, l, redlock.Acquire{Token: token, Lease: lease, Mode: mode, Meta: meta}))
			mustUnlock(t, l, token, last, 1)
		}
	}
	for _, mode := range []redlock.Mode{redlock.Write, redlock.Read} { // one has missed a re-entry
		mustLock(t, l, redlock.Acquire{Token: "a", Lease: lease, Mode: mode})
		g := mustLock(t, l, redlock.Acquire{Token: "a", Lease: lease, Mode: mode, Reentrant: true})
		release := rig.NotedRelease(locks.New(rig.Nothing{}, locks.Options{}), &redlock.Release{
			Name: "job", Token: "a",
		})
		if reply, err := all[0].do(release.Req); string(reply) != ":0\r\n" {
			t.Fatalf("%q %v", reply, err)
		}
		again := mustLock(t, l, redlock.Acquire{Token: "a", Lease: lease, Mode: mode, Reentrant: true})
		if again.Count != 3 || again.Fence < g.Fence {
			t.Errorf("re-entered: %+v, want the count 3 and at least the fence %d", again, g.Fence)
		}
		for _, want := range []int{0, 0, 1, -1} {
			mustUnlock(t, l, "a", 0, want)
		}
	}
	// Two readers at the same time have fences of their own, though counters differ.
	differ()
	rises(mustLock(t, l, redlock.Acquire{Token: "r1", Lease: lease, Mode: redlock.Read}))
	differ()
	rises(mustLock(t, l, redlock.Acquire{Token: "r2", Lease: lease, Mode: redlock.Read}))
	rises(func() proxies.Result {
		mustUnlock(t, l, "r1", 0, 1)
		return mustLock(t, l, redlock.Acquire{Token: "r2", Lease: lease})
	}())
	// A waiter is told by a release.
	done := make(chan proxies.Result, 1)
	go func() {
		done <- lockAt(t.Context(), l, redlock.Acquire{Token: "w", Lease: lease, Wait: 20 * time.Second})
	}()
	for l.Stats()[locks.Waiters] == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond)
	mustUnlock(t, l, "r2", 0, 1)
	proxies.Granted(t, done)
	mustUnlock(t, l, "w", 0, 1)
	for _, m := range all {
		m.Empty(t)
		if v := m.Server.Ask("INFO", "errorstats"); strings.Contains(v.Text(), "errorstat_ERR") {
			t.Errorf("errors: %s", v.Text())
		}
	}
}

// Requests overtake one another on their way to a node, and all the same a release leaves nothing: or a few
// nodes would soon refuse everybody. R27
func TestQuorumReleasesWhatCameLate(t *testing.T) {
	var all []*mainland
	var nodes []quorum.Node
	for range 3 {
		all = append(all, &mainland{Server: rig.StartRedis(t)})
		nodes = append(nodes, all[len(all)-1])
	}
	l := locks.NewRedlock(nodes, quorum.Options{NodeTimeout: time.Second}, locks.Options{})
	defer l.Close(context.Background())
	for i := range 2000 {
		token := fmt.Sprint(i)
		mustLock(t, l, redlock.Acquire{Token: token})
		mustUnlock(t, l, token, 0, 1)
	}
	for _, m := range all {
		m.Empty(t)
	}
}
