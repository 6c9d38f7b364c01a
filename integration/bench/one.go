package main

import (
	"context"
	"fmt"

	"lockproxy/redlock"
)

// one is one Redis, and a lockproxy before it.
type one struct {
	addr    string
	pid     int
	proxy   contender // no address: there is none
	compare string    // the script that compares and deletes
}

func (y *yard) startOne(ctx context.Context) (n one, err error) {
	if n.addr, n.pid, err = y.startRedis(ctx); err != nil {
		return n, err
	}
	sha, err := ask(ctx, n.addr, "script", "load", compareScript)
	if err != nil || y.binary == "" {
		return n, err
	}
	n.compare = fmt.Sprint(sha)
	n.proxy, _, err = y.startLockproxy(ctx, []string{n.addr}, false)
	n.proxy.name = beforeOne
	return n, err
}

// setPairs is what most libraries do, straight at the Redis.
func (n one) setPairs() pairing {
	px := fmt.Sprint(lease.Milliseconds())
	return pairing{contender{name: setName}, []int{n.pid}, func(prefix string, _ int) (string, [][]byte) {
		token := redlock.NewToken()
		var commands [][]byte
		for k := range lockNames {
			name := lockName(prefix, k)
			commands = append(commands, command(nil, "SET", name, token, "NX", "PX", px),
				command(nil, "EVALSHA", n.compare, "1", name, token))
		}
		return n.addr, commands
	}}
}
