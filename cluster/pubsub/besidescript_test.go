//go:build !quick

package pubsub

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster/discovery"
	"lockproxy/cluster/internal/servers"
)

// besideScript runs test in a bubble, over a Redis at addr.
func besideScript(t *testing.T, addr string, test func(t *testing.T, p *pipeRedis, u *hub)) {
	synctest.Test(t, func(t *testing.T) {
		p := new(pipeRedis)
		found, err := discovery.Find(t.Context(),
			discovery.Options{Addrs: []string{addr}, Dial: p.dial, Log: servers.Log(t)})
		if err != nil {
			t.Fatal(err)
		}
		u := withSubscriptions(t, found)
		test(t, p, u)
		found.Close()
		u.Subscriptions.Close()
	})
}

// While a script runs, Redis answers UNSUBSCRIBE with BUSY, and the PING behind it too. Then the topic is
// left later, over the same connection, and nobody else's replies get out of step.
func TestUnsubscribeBesideScript(t *testing.T) {
	besideScript(t, "10.0.0.1:6379", func(t *testing.T, p *pipeRedis, u *hub) {
		a := newInbox()
		a.join(t, u, Classic, "one")
		topics := a.join(t, u, Classic, "two")
		p.busy.Store(true)
		left := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() { u.Leave(ctx, topics, a); left <- ctx.Err() }()
		time.Sleep(300 * time.Millisecond)
		p.busy.Store(false)
		if err := <-left; err != nil {
			t.Error("UNSUBSCRIBE was not answered:", err)
		}
		if n := p.ends.Load(); n != 1 {
			t.Errorf("the node has ended %d subscriptions, want 1", n)
		}
		a.join(t, u, Classic, "three")
		time.Sleep(20 * time.Second)
		if n := p.ones.Load(); n != 1 {
			t.Errorf("another topic was subscribed %d times: its connection was lost", n)
		}
	})
}

// A script may begin, or end, between an UNSUBSCRIBE and the PING behind it. Then one of the two is refused,
// and nobody else's replies get out of step: the node ends the subscription once.
func TestUnsubscribeAtEdgeOfScript(t *testing.T) {
	for name, runs := range map[string]bool{"begins": false, "ends": true} {
		t.Run(name, func(t *testing.T) {
			besideScript(t, "10.0.0.1:6379", func(t *testing.T, p *pipeRedis, u *hub) {
				a := newInbox()
				a.join(t, u, Classic, "one")
				topics := a.join(t, u, Classic, "two")
				p.busy.Store(runs)
				p.turn.Store(true)
				left := make(chan error, 1)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				go func() { u.Leave(ctx, topics, a); left <- ctx.Err() }()
				time.Sleep(300 * time.Millisecond)
				p.busy.Store(false)
				if err := <-left; err != nil {
					t.Error("UNSUBSCRIBE was not answered:", err)
				}
				a.join(t, u, Classic, "three")
				time.Sleep(20 * time.Second)
				if n := p.ends.Load(); n != 1 {
					t.Errorf("the node has ended %d subscriptions, want 1", n)
				}
				if n := p.ones.Load(); n != 1 {
					t.Errorf("another topic was subscribed %d times", n)
				}
			})
		})
	}
}

// One more client that subscribes to a channel while a script runs waits for its end. The others stay
// subscribed.
func TestJoinAgainBesideScript(t *testing.T) {
	besideScript(t, "10.0.0.1:6379", func(t *testing.T, p *pipeRedis, u *hub) {
		a, b := newInbox(), newInbox()
		a.join(t, u, Classic, "one", "two")
		member := listenAt(t, u, -1, "one")
		p.busy.Store(true)
		joined := make(chan error, 1)
		go func() {
			_, err := u.Join(t.Context(), Classic, []string{"one"}, b)
			joined <- err
		}()
		time.Sleep(300 * time.Millisecond)
		p.busy.Store(false)
		if err := <-joined; err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Second)
		if n := p.ends.Load(); n > 0 {
			t.Errorf("a channel with listeners was unsubscribed %d times", n)
		}
		if len(member.events) > 0 {
			t.Errorf("a lock's channel heard %q", <-member.events)
		}
	})
}

// A SUBSCRIBE that is refused because of a script says nothing of where the name of the node leads: the other
// topics of the connection stay subscribed.
func TestSubscribeBesideScriptAtNamed(t *testing.T) {
	besideScript(t, "redis.example:6379", func(t *testing.T, p *pipeRedis, u *hub) {
		member := listenAt(t, u, -1, "one")
		p.busy.Store(true)
		a, joined := newInbox(), make(chan error, 1)
		go func() {
			_, err := u.Join(t.Context(), Classic, []string{"two"}, a)
			joined <- err
		}()
		time.Sleep(300 * time.Millisecond)
		p.busy.Store(false)
		if err := <-joined; err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Second)
		if n := p.ones.Load(); n != 1 {
			t.Errorf("another topic was subscribed %d times: its connection was given up", n)
		}
		if len(member.events) > 0 {
			t.Errorf("a lock's channel heard %q", <-member.events)
		}
	})
}
