package clients

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"lockproxy/integration/rig"
)

// addScript is a script that no server has yet: run makes it one of its own.
func addScript(run string) string {
	return "return redis.call('INCRBY', KEYS[1], ARGV[1]) -- " + run
}

// tagOf is a prefix of keys of one slot, for one run of one client.
func tagOf(name string) string { return fmt.Sprintf("{%s-%d}:", name, time.Now().UnixNano()) }

// eachFrontend runs a test against a proxy that looks like one Redis and against one that looks like a
// cluster, both in front of a cluster.
func eachFrontend(t *testing.T, test func(t *testing.T, p *rig.Proxy, clustered bool)) {
	t.Run("default", func(t *testing.T) { test(t, rig.SharedOverCluster(), false) })
	t.Run("cluster", func(t *testing.T) {
		test(t, rig.StartProxy(t, "--upstream", rig.SharedCluster().Addrs(), "--cluster-mode", "yes"), true)
	})
}

// same fails unless a call gave what was wanted.
func same(t *testing.T, what string, got any, err error, want any) {
	t.Helper()
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, %v; want %v", what, got, err, want)
	}
}

func TestGoRedisStateful(t *testing.T) {
	t.Parallel()
	eachFrontend(t, func(t *testing.T, p *rig.Proxy, clustered bool) {
		for _, protocol := range []int{2, 3} {
			t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
				c := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{p.Addr},
					Protocol: protocol, IsClusterMode: clustered, DialTimeout: rig.Patience,
					ReadTimeout: rig.Patience})
				defer c.Close()
				goRedisStateful(t, c, tagOf("gr"))
			})
		}
	})
}

func goRedisStateful(t *testing.T, c redis.UniversalClient, k string) {
	ctx, cancel := context.WithTimeout(t.Context(), rig.Patience)
	defer cancel()
	cmds, err := c.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, k+"n", 1, 0)
		pipe.Incr(ctx, k+"n")
		return nil
	})
	same(t, "EXEC", len(cmds), err, 2)
	add := func(conflict bool) error {
		return c.Watch(ctx, func(tx *redis.Tx) error {
			if conflict {
				same(t, "INCR", c.Incr(ctx, k+"n").Val(), nil, 3)
			}
			_, err := tx.TxPipelined(ctx,
				func(pipe redis.Pipeliner) error { return pipe.Incr(ctx, k+"n").Err() })
			return err
		}, k+"n")
	}
	if err := add(true); !errors.Is(err, redis.TxFailedErr) {
		t.Errorf("EXEC after a change of what was watched: %v", err)
	}
	same(t, "EXEC", nil, add(false), nil)

	popped := make(chan []string, 1)
	go func() { popped <- c.BLPop(ctx, rig.Patience, k+"none", k+"l").Val() }()
	time.Sleep(20 * time.Millisecond)
	same(t, "RPUSH", c.RPush(ctx, k+"l", "x").Val(), nil, 1)
	same(t, "BLPOP", <-popped, nil, []string{k + "l", "x"})

	for _, kind := range []struct {
		subscribe func(context.Context, ...string) *redis.PubSub
		publish   func(context.Context, string, any) *redis.IntCmd
	}{{c.Subscribe, c.Publish}, {c.SSubscribe, c.SPublish}} {
		s := kind.subscribe(ctx, k+"c")
		_, err = s.Receive(ctx)
		same(t, "SUBSCRIBE", nil, err, nil)
		same(t, "PUBLISH", kind.publish(ctx, k+"c", "one").Val(), nil, 1)
		m, err := s.ReceiveMessage(ctx)
		same(t, "message", m, err, fmt.Sprintf("Message<%sc: one>", k))
		s.Close()
	}

	script := redis.NewScript(addScript(k))
	n, err := script.Run(ctx, c, []string{k + "n"}, 10).Int()
	same(t, "EVALSHA, then EVAL", n, err, 14)
	n, err = script.EvalSha(ctx, c, []string{k + "n"}, 10).Int()
	same(t, "EVALSHA", n, err, 24)
}

// TestRueidis has it as it comes: it finds out by itself whether there is a cluster, speaks RESP3 and keeps
// what it has read with DoCache until the proxy says that it has changed.
func TestRueidis(t *testing.T) {
	t.Parallel()
	eachFrontend(t, func(t *testing.T, p *rig.Proxy, clustered bool) {
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{p.Addr},
			Dialer: net.Dialer{Timeout: rig.Patience}, ConnWriteTimeout: rig.Patience})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if want := map[bool]rueidis.ClientMode{true: rueidis.ClientModeCluster,
			false: rueidis.ClientModeStandalone}[clustered]; c.Mode() != want {
			t.Errorf("it takes the proxy for %v, want %v", c.Mode(), want)
		}
		ctx, cancel := context.WithTimeout(t.Context(), rig.Patience)
		defer cancel()
		rueidisEveryday(ctx, t, c, tagOf("ru"))
		rueidisStateful(ctx, t, c, tagOf("ru"))
		rueidisCached(ctx, t, c, rig.SharedCluster(), tagOf("ru"))
		rueidisNotify(ctx, t, c, tagOf("ru"))
	})
}

func rueidisEveryday(ctx context.Context, t *testing.T, c rueidis.Client, k string) {
	many := map[string]string{}
	var cmds rueidis.Commands
	for i := range 300 {
		key := fmt.Sprintf("%d%s", i, k[1:len(k)-2]) // keys of all slots
		many[key] = fmt.Sprint(i)
		cmds = append(cmds, c.B().Set().Key(key).Value(many[key]).Build(), c.B().Get().Key(key).Build())
	}
	for i, r := range c.DoMulti(ctx, cmds...) {
		got, err := r.ToString()
		same(t, "pipeline", got, err, map[int]any{0: "OK", 1: i / 2}[i%2])
	}
	keys := make([]string, 0, len(many))
	for key := range many {
		keys = append(keys, key)
	}
	values, err := rueidis.MGet(c, ctx, keys)
	same(t, "MGET", len(values), err, len(many))
	for key, m := range values {
		got, err := m.ToString()
		same(t, "MGET", got, err, many[key])
	}
	hash := k + "h"
	n, err := c.Do(ctx, c.B().Hset().Key(hash).FieldValue().FieldValue("f", "v").Build()).AsInt64()
	same(t, "HSET", n, err, 1)
	all, err := c.Do(ctx, c.B().Hgetall().Key(hash).Build()).AsStrMap()
	same(t, "HGETALL", all, err, map[string]string{"f": "v"})
	grant, err := c.Do(ctx, c.B().Arbitrary("LOCK").Keys(k+"job").Args("TOKEN", "t", "PX",
		"100000").Build()).ToArray()
	same(t, "LOCK", len(grant), err, 4)
	n, err = c.Do(ctx, c.B().Arbitrary("UNLOCK").Keys(k+"job").Args("t").Build()).AsInt64()
	same(t, "UNLOCK", n, err, 1)
}

func rueidisStateful(ctx context.Context, t *testing.T, c rueidis.Client, k string) {
	add := func(conflict bool) (executed []rueidis.RedisMessage, err error) {
		err = c.Dedicated(func(d rueidis.DedicatedClient) error {
			d.Do(ctx, d.B().Watch().Key(k+"n").Build())
			if conflict {
				c.Do(ctx, c.B().Incr().Key(k+"n").Build())
			}
			replies := d.DoMulti(ctx, d.B().Multi().Build(), d.B().Incr().Key(k+"n").Build(),
				d.B().Exec().Build())
			executed, err = replies[2].ToArray()
			return err
		})
		return executed, err
	}
	executed, err := add(false)
	same(t, "EXEC", len(executed), err, 1)
	if _, err := add(true); !rueidis.IsRedisNil(err) {
		t.Errorf("EXEC after a change of what was watched: %v", err)
	}

	popped := make(chan []string, 1)
	go func() {
		got, _ := c.Do(ctx, c.B().Blpop().Key(k+"none", k+"l").Timeout(120).Build()).AsStrSlice()
		popped <- got
	}()
	time.Sleep(20 * time.Millisecond)
	n, err := c.Do(ctx, c.B().Rpush().Key(k+"l").Element("x").Build()).AsInt64()
	same(t, "RPUSH", n, err, 1)
	same(t, "BLPOP", <-popped, nil, []string{k + "l", "x"})

	rueidisHears(ctx, t, c, c.B().Subscribe().Channel(k+"c").Build(),
		c.B().Publish().Channel(k+"c").Message("one").Build())
	if rig.Since(t, rig.SharedCluster().Nodes[0].Addr, "redis 7.0") {
		rueidisHears(ctx, t, c, c.B().Ssubscribe().Channel(k+"c").Build(),
			c.B().Spublish().Channel(k+"c").Message("one").Build())
	}

	script := rueidis.NewLuaScript(addScript(k))
	for _, want := range []int{12, 22} {
		n, err = script.Exec(ctx, c, []string{k + "n"}, []string{"10"}).AsInt64()
		same(t, "EVALSHA, then EVAL", n, err, want)
	}
}

// rueidisNotify has goroutines that share one connection take turns with NOTIFY, over one more for messages.
// With WAIT they would stop each other: the library does not know that LOCK may block.
func rueidisNotify(ctx context.Context, t *testing.T, c rueidis.Client, k string) {
	const tasks, rounds = 10, 5
	news := make([]chan string, tasks)
	subscribed := make(chan struct{}, tasks)
	listener, end := c.Dedicate()
	defer end()
	listener.SetPubSubHooks(rueidis.PubSubHooks{
		OnSubscription: func(rueidis.PubSubSubscription) { subscribed <- struct{}{} },
		OnMessage: func(m rueidis.PubSubMessage) {
			n, _ := strconv.Atoi(strings.TrimPrefix(m.Channel, k+"news"))
			news[n] <- m.Message
		},
	})
	for n := range news {
		news[n] = make(chan string, 1)
		channel := k + "news" + strconv.Itoa(n)
		if err := listener.Do(ctx, listener.B().Subscribe().Channel(channel).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		<-subscribed
	}
	counter := 0 // which the lock alone guards
	var all sync.WaitGroup
	for n := range tasks {
		all.Go(func() {
			token := "task" + strconv.Itoa(n)
			for range rounds {
				r := c.Do(ctx, c.B().Arbitrary("LOCK").Keys(k+"lock").Args("TOKEN", token, "PX", "30000",
					"WAIT", "60000", "NOTIFY", k+"news"+strconv.Itoa(n)).Build())
				if s, err := r.ToString(); err == nil && s == "QUEUED" {
					select {
					case s = <-news[n]:
					case <-ctx.Done():
					}
					if !strings.HasPrefix(s, "granted "+k+"lock ") {
						t.Errorf("%s: %s", token, s)
						return
					}
				} else if grant, err := r.ToArray(); err != nil || len(grant) != 4 {
					t.Errorf("LOCK: %v %v", grant, err)
					return
				}
				counter++
				n, err := c.Do(ctx, c.B().Arbitrary("UNLOCK").Keys(k+"lock").Args(token).Build()).AsInt64()
				same(t, "UNLOCK", n, err, 1)
			}
		})
	}
	all.Wait()
	same(t, "counter", counter, nil, tasks*rounds)
}

// rueidisHears publishes until the message has come: the library does not say when it is subscribed.
func rueidisHears(ctx context.Context, t *testing.T, c rueidis.Client, subscribe, publish rueidis.Completed) {
	t.Helper()
	publish = publish.Pin()
	ctx, end := context.WithCancel(ctx)
	defer end()
	heard := make(chan string, 1)
	go c.Receive(ctx, subscribe, func(m rueidis.PubSubMessage) {
		select {
		case heard <- m.Message:
		default:
		}
	})
	for {
		select {
		case got := <-heard:
			same(t, "message", got, nil, "one")
			return
		case <-ctx.Done():
			t.Error("no message")
			return
		case <-time.After(20 * time.Millisecond):
			c.Do(ctx, publish)
		}
	}
}

// rueidisCached changes what the client has in its cache behind its back, at the node itself.
func rueidisCached(ctx context.Context, t *testing.T, c rueidis.Client, behind *rig.Cluster, k string) {
	read := func(key string) (value string, hit bool) {
		r := c.DoCache(ctx, c.B().Get().Key(key).Cache(), time.Minute)
		value, err := r.ToString()
		if err != nil && !rueidis.IsRedisNil(err) {
			t.Errorf("GET: %v", err)
		}
		return value, r.IsCacheHit()
	}
	for i := range 10 {
		key := fmt.Sprintf("%d%s", i, k[1:len(k)-2]) // of all slots
		node := behind.MasterOf(t, key)
		for j := range 3 {
			want := fmt.Sprint(j)
			node.Do(t, "SET", key, want)
			rig.Eventually(t, rig.Patience, "the new value is read",
				func() bool { got, _ := read(key); return got == want })
			if got, hit := read(key); !hit || got != want {
				t.Errorf("%s of %s: from the cache: %v", got, want, hit)
			}
		}
	}
}

// TestRedigo has the library at work in its one mode; it has none for clusters.
func TestRedigo(t *testing.T) {
	t.Parallel()
	eachFrontend(t, func(t *testing.T, p *rig.Proxy, _ bool) {
		pool := &redigo.Pool{Dial: func() (redigo.Conn,
			error) {
			return redigo.Dial("tcp", p.Addr, redigo.DialReadTimeout(rig.Patience))
		}}
		defer pool.Close()
		redigoEveryday(t, pool, tagOf("rg"))
		redigoStateful(t, pool, tagOf("rg"))
	})
}

func redigoEveryday(t *testing.T, pool *redigo.Pool, k string) {
	c := pool.Get()
	defer c.Close()
	ok, err := redigo.String(c.Do("MSET", "a"+k, 1, "b"+k, 2))
	same(t, "MSET", ok, err, "OK")
	values, err := redigo.Ints(c.Do("MGET", "a"+k, "b"+k))
	same(t, "MGET", values, err, []int{1, 2})
	if _, err := redigo.String(c.Do("GET", k+"none")); err != redigo.ErrNil {
		t.Errorf("GET of nothing: %v", err)
	}
	ok, err = redigo.String(c.Do("HMSET", redigo.Args{}.Add(k+"h").AddFlat(map[string]string{"f": "v"})...))
	same(t, "HMSET", ok, err, "OK")
	hash, err := redigo.StringMap(c.Do("HGETALL", k+"h"))
	same(t, "HGETALL", hash, err, map[string]string{"f": "v"})
	for i := range 300 {
		c.Send("SET", fmt.Sprint(i, k), i)
		c.Send("GET", fmt.Sprint(i, k))
	}
	c.Flush()
	for i := range 300 {
		c.Receive()
		n, err := redigo.Int(c.Receive())
		same(t, "pipeline", n, err, i)
	}
	grant, err := redigo.Values(c.Do("LOCK", k+"job", "TOKEN", "t"))
	same(t, "LOCK", len(grant), err, 4)
	one, err := redigo.Int(c.Do("UNLOCK", k+"job", "t"))
	same(t, "UNLOCK", one, err, 1)
}

func redigoStateful(t *testing.T, pool *redigo.Pool, k string) {
	c, other := pool.Get(), pool.Get()
	defer c.Close()
	defer other.Close()
	exec := func() (any, error) {
		c.Send("MULTI")
		c.Send("INCR", k+"n")
		return c.Do("EXEC")
	}
	executed, err := exec()
	same(t, "EXEC", executed, err, []int{1})
	c.Do("WATCH", k+"n")
	other.Do("INCR", k+"n")
	executed, err = exec()
	same(t, "EXEC after a change of what was watched", executed, err, nil)
	c.Do("WATCH", k+"n")
	executed, err = exec()
	same(t, "EXEC", executed, err, []int{3})

	popped := make(chan []string, 1)
	go func() {
		waiter := pool.Get()
		defer waiter.Close()
		got, _ := redigo.Strings(waiter.Do("BLPOP", k+"none", k+"l", 120))
		popped <- got
	}()
	time.Sleep(20 * time.Millisecond)
	n, err := redigo.Int(c.Do("RPUSH", k+"l", "x"))
	same(t, "RPUSH", n, err, 1)
	same(t, "BLPOP", <-popped, nil, []string{k + "l", "x"})

	listener := redigo.PubSubConn{Conn: pool.Get()}
	defer listener.Close()
	same(t, "SUBSCRIBE", nil, listener.Subscribe(k+"c"), nil)
	same(t, "subscribed", listener.Receive(), nil,
		redigo.Subscription{Kind: "subscribe", Channel: k + "c", Count: 1})
	n, err = redigo.Int(c.Do("PUBLISH", k+"c", "one"))
	same(t, "PUBLISH", n, err, 1)
	same(t, "message", listener.Receive(), nil, redigo.Message{Channel: k + "c", Data: []byte("one")})
	same(t, "UNSUBSCRIBE", nil, listener.Unsubscribe(), nil)
	same(t, "unsubscribed", listener.Receive(), nil,
		redigo.Subscription{Kind: "unsubscribe", Channel: k + "c", Count: 0})

	script := redigo.NewScript(1, addScript(k))
	for _, want := range []int{13, 23} {
		n, err = redigo.Int(script.Do(c, k+"n", 10))
		same(t, "EVALSHA, then EVAL", n, err, want)
	}
}
