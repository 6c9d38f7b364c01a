package rig

import (
	"fmt"
	"time"
)

// Masters are redis-servers that know nothing of each other.
type Masters []*Server

// StartMasters starts n of them that may restart at any time, since they have everything on disk
// before they answer.
func StartMasters(l Life, n int) Masters {
	l.Helper()
	var all Masters
	for range n {
		all = append(all, StartRedis(l, "--appendonly", "yes", "--appendfsync", "always"))
	}
	return all
}

// StartRedlock is a proxy whose locks these masters keep, with leases of least or more. So its node timeout
// is a twentieth of that, which is long enough for a slow machine. It returns when all masters are old enough
// to vote.
func (m Masters) StartRedlock(l Life, least time.Duration, args ...string) *Proxy {
	l.Helper()
	own := []string{"--redlock", Addrs(m), "--redlock-node-timeout", (least / 20).String(),
		"--lock-fleet", Addrs(m)} // for the upstream may be for all
	p := StartProxy(l, append(own, args...)...)
	p.Vote(l, len(m))
	return p
}

// Vote waits until so many masters vote, as the proxy sees it.
func (p *Proxy) Vote(l Life, masters int) {
	l.Helper()
	Eventually(l, Patience, fmt.Sprintf("%d masters vote", masters), func() bool {
		return p.Metric(l, "lockproxy_redlock_node_votes") == float64(masters)
	})
}
