package clients

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"lockproxy/integration/rig"
)

// clusterFaces runs a test against proxies that look like a cluster: one in front of a cluster, one in front
// of one Redis, and two that share the slots.
func clusterFaces(t *testing.T, test func(t *testing.T, p *rig.Proxy)) {
	frontends := map[string]func(t *testing.T) *rig.Proxy{
		"cluster": func(t *testing.T) *rig.Proxy {
			return rig.StartProxy(t, "--upstream", rig.SharedCluster().Addrs(), "--cluster-mode")
		},
		"single": func(t *testing.T) *rig.Proxy {
			return rig.StartProxy(t, "--upstream", rig.SharedRedis().Addr, "--cluster-mode")
		},
		"two proxies": func(t *testing.T) *rig.Proxy {
			a, b := fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t)), fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t))
			rig.StartProxy(t, "--upstream", rig.SharedCluster().Addrs(), "--cluster-mode", "--listen", a,
				"--cluster-announce", a+","+b)
			return rig.StartProxy(t, "--upstream", rig.SharedCluster().Addrs(),
				"--cluster-mode", "--listen", b,
				"--cluster-announce", b+","+a)
		},
	}
	for name, start := range frontends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
}

// TestClusterClients has the cluster clients of several languages at work. The library for Perl has none.
func TestClusterClients(t *testing.T) {
	t.Parallel()
	clusterFaces(t, func(t *testing.T, p *rig.Proxy) {
		for _, lib := range []struct{ name, suffix string }{{"python3", "py"}, {"ruby", "rb"},
			{"php", "php"}} {
			t.Run(lib.name, func(t *testing.T) {
				script(t, p, nil, lib.name, "clustered."+lib.suffix)
				script(t, p, nil, lib.name, "stateful."+lib.suffix, "cluster")
			})
		}
		for _, protocol := range []int{2, 3} {
			for _, replicas := range []bool{false, true} {
				t.Run(fmt.Sprintf("go-redis RESP%d, replicas %v", protocol, replicas),
					func(t *testing.T) { goRedisCluster(t, p, protocol, replicas) })
			}
		}
		if env, ok := nodeModules(t); ok {
			t.Run("node", func(t *testing.T) {
				script(t, p, env, "node", "clustered.js")
				script(t, p, env, "node", "stateful.js", "cluster")
			})
		}
	})
}

func goRedisCluster(t *testing.T, p *rig.Proxy, protocol int, replicas bool) {
	ctx := t.Context()
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{p.Addr}, Protocol: protocol,
		ReadOnly: replicas, DialTimeout: rig.Patience, ReadTimeout: rig.Patience})
	defer c.Close()
	k := func(i int) string { return fmt.Sprintf("goc%s%d%v:%d", p.Addr, protocol, replicas, i) }
	for i := range 100 {
		if err := c.Set(ctx, k(i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Get(ctx, k(i)).Int(); err != nil || got != i {
			t.Fatalf("got %d, %v; want %d", got, err, i)
		}
	}
	cmds, err := c.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range 500 {
			pipe.Set(ctx, k(i), i, 0)
			pipe.Get(ctx, k(i))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(cmds); i += 2 {
		if got, err := cmds[i].(*redis.StringCmd).Int(); err != nil || got != i/2 {
			t.Fatalf("got %d, %v; want %d", got, err, i/2)
		}
	}
	if got, err := c.Eval(ctx, "return ARGV[1]", []string{k(0)}, "x").Result(); err != nil || got != "x" {
		t.Errorf("EVAL: %v, %v", got, err)
	}
	nodes := 0
	if err := c.ForEachMaster(ctx, func(context.Context, *redis.Client) error { return nil }); err != nil {
		t.Error(err)
	}
	if shards, err := c.ClusterShards(ctx).Result(); err != nil {
		t.Error(err)
	} else {
		for _, s := range shards {
			nodes += len(s.Nodes)
		}
	}
	if nodes == 0 {
		t.Error("no node is told of")
	}
	grant, err := c.Do(ctx, "LOCK", k(-1), "PX", 100000).Slice()
	if err != nil || len(grant) != 4 {
		t.Fatalf("LOCK: %v %v", grant, err)
	}
	if one, err := c.Do(ctx, "UNLOCK", k(-1), grant[0]).Int(); err != nil || one != 1 {
		t.Errorf("UNLOCK: %v %v", one, err)
	}
}
