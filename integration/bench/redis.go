package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	nodes = 3 // masters of the cluster, and plain servers
	slots = 16384
)

// openRedis starts the plain servers and the cluster.
func (y *yard) openRedis(ctx context.Context) (err error) {
	for range nodes {
		addr, _, err := y.startRedis(ctx)
		if err != nil {
			return err
		}
		y.plain = append(y.plain, addr)
	}
	y.masters, y.masterPIDs, err = y.startCluster(ctx)
	return err
}

// startCluster starts a cluster and waits until it is whole. Its masters come by slots.
func (y *yard) startCluster(ctx context.Context) (masters []string, pids []int, err error) {
	for i := range nodes {
		addr, pid, err := y.startRedis(ctx, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf")
		if err != nil {
			return nil, nil, err
		}
		masters, pids = append(masters, addr), append(pids, pid)
		for _, command := range [][]any{
			{"cluster", "set-config-epoch", i + 1},
			{"cluster", "addslotsrange", slots * i / nodes, slots*(i+1)/nodes - 1},
		} {
			if _, err := ask(ctx, addr, command...); err != nil {
				return nil, nil, err
			}
		}
	}
	host, port, _ := strings.Cut(masters[0], ":")
	for _, addr := range masters[1:] {
		if _, err := ask(ctx, addr, "cluster", "meet", host, port); err != nil {
			return nil, nil, err
		}
	}
	for _, addr := range masters {
		if err := whole(ctx, addr); err != nil {
			return nil, nil, err
		}
	}
	return masters, pids, nil
}

// startRedis starts one server that keeps nothing on disk.
func (y *yard) startRedis(ctx context.Context, args ...string) (addr string, pid int, err error) {
	port, err := freePort()
	if err != nil {
		return "", 0, err
	}
	dir := filepath.Join(y.dir, strconv.Itoa(port))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", 0, err
	}
	addr = fmt.Sprintf("127.0.0.1:%d", port)
	args = append([]string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir,
		"--save", "", "--appendonly", "no", "--maxclients", strconv.Itoa(mostClients)}, args...)
	p, err := y.serve(ctx, addr, "redis-server", args...)
	if err != nil {
		return "", 0, err
	}
	return addr, p.pid(), nil
}

// whole waits until a node sees all nodes and all slots served.
func whole(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	for {
		v, err := ask(ctx, addr, "cluster", "info")
		if err != nil {
			return fmt.Errorf("cluster not whole: %w", err)
		}
		text, _ := v.(string)
		if strings.Contains(text, "cluster_state:ok") &&
			strings.Contains(text, fmt.Sprintf("cluster_known_nodes:%d", nodes)) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cluster not whole as %s sees it: %w\n%s", addr, ctx.Err(), text)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ask runs one command on one Redis over a connection of its own.
func ask(ctx context.Context, addr string, args ...any) (any, error) {
	c := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1})
	defer c.Close()
	v, err := c.Do(ctx, args...).Result()
	if err != nil {
		return nil, fmt.Errorf("%v at %s: %w", args[:min(len(args), 2)], addr, err)
	}
	return v, nil
}
